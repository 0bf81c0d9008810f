//! Ways to multiply matrices: two that everybody writes, and three that took years.

use gemm::Parallelism;

use super::{query, rayon_with};
use crate::row::Work;

/// Rows of columns, as the study has it, and as nobody should who is in a hurry.
pub(super) type Matrix = Vec<Vec<f64>>;

/// Computes one row of the product, from a row of the left factor and the right one.
pub(super) type Kernel = fn(&[f64], &Matrix) -> Vec<f64>;

/// Goes down a column of the right factor for each element: a cache miss at every step.
#[inline(never)]
pub(super) fn ijk(left: &[f64], right: &Matrix) -> Vec<f64> {
    let element =
        |column: usize| left.iter().zip(right).map(|(factor, row)| factor * row[column]).sum();
    (0..right[0].len()).map(element).collect()
}

/// Goes along the rows of the right factor, whose multiples it adds up.
#[inline(never)]
pub(super) fn ikj(left: &[f64], right: &Matrix) -> Vec<f64> {
    let mut product = vec![0.0; right[0].len()];
    for (factor, row) in left.iter().zip(right) {
        for (sum, element) in product.iter_mut().zip(row) {
            *sum += factor * element;
        }
    }
    product
}

/// Small whole numbers: their products are exact in any order of adding.
pub(super) fn matrix(size: usize, salt: usize) -> Matrix {
    let element = |row: usize, column: usize| ((row * 31 + column * 17 + salt) % 64) as f64;
    (0..size).map(|row| (0..size).map(|column| element(row, column)).collect()).collect()
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

pub(super) fn by_gemm(size: usize, threads: usize) -> Work {
    let [left, right] = factors(size);
    let parallelism = if threads > 1 { Parallelism::Rayon(threads) } else { Parallelism::None };
    query(move || rayon_with(threads).install(|| gemm_product(&left, &right, parallelism)))
}

pub(super) fn by_faer(size: usize, threads: usize) -> Work {
    let [left, right] = factors(size).map(|factor| faer_matrix(&factor));
    let parallelism = if threads > 1 { faer::Par::rayon(threads) } else { faer::Par::Seq };
    query(move || rayon_with(threads).install(|| faer_product(&left, &right, parallelism)))
}

/// Has threads too, but their number belongs to the process, not to the call.
pub(super) fn by_matrixmultiply(size: usize) -> Work {
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

    const SIZE: usize = 37;

    #[test]
    fn all_kernels_agree() {
        let (left, right) = (matrix(SIZE, 1), matrix(SIZE, 2));
        let product =
            |kernel: Kernel| -> Matrix { left.iter().map(|row| kernel(row, &right)).collect() };
        let expected = product(ijk);
        assert_eq!(expected[1][2], (0..SIZE).map(|k| left[1][k] * right[k][2]).sum::<f64>());
        assert_eq!(product(ikj), expected);

        let expected = Columns::of(&expected);
        let [left, right] = factors(SIZE);
        assert_eq!(gemm_product(&left, &right, Parallelism::None).elements, expected.elements);
        assert_eq!(matrixmultiply_product(&left, &right).elements, expected.elements);
        let [left, right] = [left, right].map(|factor| faer_matrix(&factor));
        assert_eq!(faer_product(&left, &right, faer::Par::rayon(2)), faer_matrix(&expected));
    }
}
