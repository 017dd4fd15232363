//! Ridge regression: the weights that predict best while they stay small. Deterministic to the last bit.

use recall_domain::linear::Linear;

/// Examples for one model.
#[derive(Default)]
pub(crate) struct Examples {
    pub(crate) rows: Vec<Vec<f64>>,
    pub(crate) targets: Vec<f64>,
    /// How much each example counts.
    pub(crate) shares: Vec<f64>,
}

impl Examples {
    pub(crate) fn add(&mut self, row: Vec<f64>, target: f64, share: f64) {
        self.rows.push(row);
        self.targets.push(target);
        self.shares.push(share);
    }
}

/// Several targets over the same rows, so that their matrix is made only once.
pub(crate) fn fit(rows: &[Vec<f64>], shares: &[f64], targets: &[Vec<f64>], shrinkage: f64) -> Vec<Linear> {
    let width = rows.first().map_or(0, Vec::len);
    let mean_share = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let shares: Vec<f64> = shares.iter().map(|share| share / mean_share).collect();
    let whole: f64 = shares.iter().sum();
    let mut mean = vec![0.0; width];
    for (row, share) in rows.iter().zip(&shares) {
        for (mean, value) in mean.iter_mut().zip(row) {
            *mean += share * value;
        }
    }
    mean.iter_mut().for_each(|mean| *mean /= whole);
    let mut spread = vec![0.0; width];
    for (row, share) in rows.iter().zip(&shares) {
        for ((spread, value), mean) in spread.iter_mut().zip(row).zip(&mean) {
            *spread += share * (value - mean) * (value - mean);
        }
    }
    spread.iter_mut().for_each(|spread| *spread = (*spread / whole).sqrt() + 1e-6);
    let target_means: Vec<f64> = targets
        .iter()
        .map(|targets| targets.iter().zip(&shares).map(|(target, share)| target * share).sum::<f64>() / whole)
        .collect();
    let mut matrix = vec![vec![0.0; width]; width];
    let mut sides = vec![vec![0.0; width]; targets.len()];
    let mut scaled = vec![0.0; width];
    for (number, (row, share)) in rows.iter().zip(&shares).enumerate() {
        for (((scaled, value), mean), spread) in scaled.iter_mut().zip(row).zip(&mean).zip(&spread) {
            *scaled = (value - mean) / spread;
        }
        for (line, left) in scaled.iter().enumerate() {
            let left = left * share;
            if left != 0.0 {
                for (cell, right) in matrix[line].iter_mut().zip(&scaled).take(line + 1) {
                    *cell += left * right;
                }
            }
        }
        for ((side, targets), mean) in sides.iter_mut().zip(targets).zip(&target_means) {
            let target = (targets[number] - mean) * share;
            for (side, value) in side.iter_mut().zip(&scaled) {
                *side += target * value;
            }
        }
    }
    for (line, row) in matrix.iter_mut().enumerate() {
        row[line] += shrinkage;
    }
    decompose(&mut matrix);
    sides
        .into_iter()
        .zip(target_means)
        .map(|(side, target_mean)| {
            let solved = solve(&matrix, side);
            let weights: Vec<f64> =
                solved.iter().zip(&spread).map(|(weight, spread)| weight / spread).collect();
            let bias =
                target_mean - weights.iter().zip(&mean).map(|(weight, mean)| weight * mean).sum::<f64>();
            Linear { bias, weights }
        })
        .collect()
}

/// One target.
pub(crate) fn fit_one(examples: &Examples, shrinkage: f64) -> Linear {
    let targets = [examples.targets.clone()];
    fit(&examples.rows, &examples.shares, &targets, shrinkage).pop().unwrap_or_default()
}

/// Cholesky: the lower half becomes the factor.
// Two rows of one matrix are read by the same index.
#[allow(clippy::needless_range_loop)]
pub(crate) fn decompose(matrix: &mut [Vec<f64>]) {
    for line in 0..matrix.len() {
        for column in 0..=line {
            let mut rest = matrix[line][column];
            for inner in 0..column {
                rest -= matrix[line][inner] * matrix[column][inner];
            }
            matrix[line][column] =
                if line == column { rest.max(1e-9).sqrt() } else { rest / matrix[column][column] };
        }
    }
}

pub(crate) fn solve(factor: &[Vec<f64>], mut side: Vec<f64>) -> Vec<f64> {
    for line in 0..side.len() {
        let known: f64 = (0..line).map(|column| factor[line][column] * side[column]).sum();
        side[line] = (side[line] - known) / factor[line][line];
    }
    for line in (0..side.len()).rev() {
        let known: f64 = (line + 1..side.len()).map(|below| factor[below][line] * side[below]).sum();
        side[line] = (side[line] - known) / factor[line][line];
    }
    side
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ridge_regression_recovers_a_linear_function() {
        let mut examples = Examples::default();
        for number in 0..200 {
            let (x, y) = (f64::from(number % 7), f64::from(number % 5));
            examples.add(vec![x, y], 2.0 * x - y + 3.0, 1.0);
        }
        let model = fit_one(&examples, 1e-6);
        assert!((model.bias - 3.0).abs() < 1e-3 && (model.weights[0] - 2.0).abs() < 1e-3, "{model:?}");
    }
}
