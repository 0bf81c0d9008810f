//! Ways to multiply matrices that everybody writes.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kernels_agree() {
        let size = 37;
        let (left, right) = (matrix(size, 1), matrix(size, 2));
        let product =
            |kernel: Kernel| -> Matrix { left.iter().map(|row| kernel(row, &right)).collect() };
        let expected = product(ijk);
        assert_eq!(expected[1][2], (0..size).map(|k| left[1][k] * right[k][2]).sum::<f64>());
        assert_eq!(product(ikj), expected);
    }
}
