//! Kernels that took years, to be shown beside the naive ones. They take long to build, so tests do
//! without them (`--no-default-features`).

use gemm::Parallelism;

use super::kernels::{Matrix, matrix};
use super::{query, rayon_with};
use crate::row::{Contestant, Work};

const OTHER_KERNELS: &str =
    "gemm, faer and matrixmultiply show how far from a good kernel the naive ones are";

/// All of them, for matrices of this size.
pub(super) fn beside(size: usize, threads: usize) -> Vec<Contestant> {
    let mut kernels = vec![("gemm", by_gemm(size, threads)), ("faer", by_faer(size, threads))];
    if threads == 1 {
        kernels.push(("matrixmultiply", by_matrixmultiply(size)));
    }
    let beside = |(name, work)| Contestant::beside(name, work).caveat(OTHER_KERNELS);
    kernels.into_iter().map(beside).collect()
}

/// A square matrix column by column, as the crates prefer it.
struct Columns {
    size: usize,
    elements: Vec<f64>,
}

impl Columns {
    fn of(matrix: &Matrix) -> Columns {
        let size = matrix.len();
        let column = |column: usize| matrix.iter().map(move |row| row[column]);
        Columns { size, elements: (0..size).flat_map(column).collect() }
    }
}

fn by_gemm(size: usize, threads: usize) -> Work {
    let [left, right] = factors(size);
    let parallelism = if threads > 1 { Parallelism::Rayon(threads) } else { Parallelism::None };
    query(move || rayon_with(threads).install(|| gemm_product(&left, &right, parallelism)))
}

fn by_faer(size: usize, threads: usize) -> Work {
    let [left, right] = factors(size).map(|factor| faer_matrix(&factor));
    let parallelism = if threads > 1 { faer::Par::rayon(threads) } else { faer::Par::Seq };
    query(move || rayon_with(threads).install(|| faer_product(&left, &right, parallelism)))
}

/// Has threads too, but their number belongs to the process, not to the call.
fn by_matrixmultiply(size: usize) -> Work {
    let [left, right] = factors(size);
    query(move || matrixmultiply_product(&left, &right))
}

fn factors(size: usize) -> [Columns; 2] {
    [1, 2].map(|salt| Columns::of(&matrix(size, salt)))
}

fn gemm_product(left: &Columns, right: &Columns, parallelism: Parallelism) -> Columns {
    let size = left.size;
    let mut elements = vec![0.0; size * size];
    let (next_column, next_row) = (size as isize, 1);
    let (keep, conjugate) = (false, false);
    // SAFETY: all three are square, of the same size and in columns without gaps, which is what
    // the strides say; the product is nobody else's.
    unsafe {
        gemm::gemm(
            size,
            size,
            size,
            elements.as_mut_ptr(),
            next_column,
            next_row,
            keep,
            left.elements.as_ptr(),
            next_column,
            next_row,
            right.elements.as_ptr(),
            next_column,
            next_row,
            0.0,
            1.0,
            conjugate,
            conjugate,
            conjugate,
            parallelism,
        );
    }
    Columns { size, elements }
}

fn matrixmultiply_product(left: &Columns, right: &Columns) -> Columns {
    let size = left.size;
    let mut elements = vec![0.0; size * size];
    let (next_row, next_column) = (1, size as isize);
    // SAFETY: as above.
    unsafe {
        matrixmultiply::dgemm(
            size,
            size,
            size,
            1.0,
            left.elements.as_ptr(),
            next_row,
            next_column,
            right.elements.as_ptr(),
            next_row,
            next_column,
            0.0,
            elements.as_mut_ptr(),
            next_row,
            next_column,
        );
    }
    Columns { size, elements }
}

fn faer_matrix(columns: &Columns) -> faer::Mat<f64> {
    let Columns { size, elements } = columns;
    faer::Mat::from_fn(*size, *size, |row, column| elements[column * size + row])
}

fn faer_product(
    left: &faer::Mat<f64>,
    right: &faer::Mat<f64>,
    parallelism: faer::Par,
) -> faer::Mat<f64> {
    let mut product = faer::Mat::zeros(left.nrows(), right.ncols());
    let replace = faer::Accum::Replace;
    faer::linalg::matmul::matmul(&mut product, replace, left, right, 1.0, parallelism);
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::kernels::ijk;

    #[test]
    fn all_kernels_agree() {
        let size = 37;
        let (left, right) = (matrix(size, 1), matrix(size, 2));
        let expected: Matrix = left.iter().map(|row| ijk(row, &right)).collect();
        let expected = Columns::of(&expected);
        let [left, right] = factors(size);
        assert_eq!(gemm_product(&left, &right, Parallelism::None).elements, expected.elements);
        assert_eq!(matrixmultiply_product(&left, &right).elements, expected.elements);
        let [left, right] = [left, right].map(|factor| faer_matrix(&factor));
        assert_eq!(faer_product(&left, &right, faer::Par::rayon(2)), faer_matrix(&expected));
    }
}
