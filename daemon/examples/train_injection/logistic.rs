//! Logistic regression with shrinkage, by Newton's method. Deterministic to the last bit.

use recall_domain::linear::{Features, Linear};

/// Examples for one model.
#[derive(Default)]
pub(crate) struct Examples {
    pub(crate) names: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<f64>>,
    pub(crate) is_so: Vec<bool>,
    /// How much each example counts.
    pub(crate) shares: Vec<f64>,
}

const STEPS: usize = 25;

impl Examples {
    pub(crate) fn add(&mut self, features: &Features, is_so: bool, share: f64) {
        self.names = features.names();
        self.rows.push(features.values());
        self.is_so.push(is_so);
        self.shares.push(share);
    }

    /// The weights for features as they are; the shrinkage counts features of equal spread.
    pub(crate) fn fit(&self, shrinkage: f64) -> Linear {
        let width = self.rows.first().map_or(0, Vec::len);
        let count = self.rows.len().max(1) as f64;
        let mean: Vec<f64> =
            (0..width).map(|place| self.rows.iter().map(|row| row[place]).sum::<f64>() / count).collect();
        let spread: Vec<f64> = (0..width)
            .map(|place| {
                let off: f64 = self.rows.iter().map(|row| (row[place] - mean[place]).powi(2)).sum();
                (off / count).sqrt() + 1e-6
            })
            .collect();
        // The last column is the bias.
        let scaled: Vec<Vec<f64>> = self
            .rows
            .iter()
            .map(|row| {
                (0..width).map(|place| (row[place] - mean[place]) / spread[place]).chain([1.0]).collect()
            })
            .collect();
        let mut weights = vec![0.0; width + 1];
        for _ in 0..STEPS {
            let step = self.step(&scaled, &weights, shrinkage);
            weights.iter_mut().zip(&step).for_each(|(weight, step)| *weight += step);
        }
        let own: Vec<f64> = weights.iter().zip(&spread).map(|(weight, spread)| weight / spread).collect();
        let moved: f64 = own.iter().zip(&mean).map(|(weight, mean)| weight * mean).sum();
        Linear { bias: weights[width] - moved, weights: own }
    }

    /// One step of Newton's method.
    fn step(&self, scaled: &[Vec<f64>], weights: &[f64], shrinkage: f64) -> Vec<f64> {
        let width = weights.len();
        let mut slope = vec![0.0; width];
        let mut curve = vec![vec![0.0; width]; width];
        for ((row, is_so), share) in scaled.iter().zip(&self.is_so).zip(&self.shares) {
            let odds: f64 = row.iter().zip(weights).map(|(value, weight)| value * weight).sum();
            let probability = 1.0 / (1.0 + (-odds).exp());
            let off = share * (f64::from(u8::from(*is_so)) - probability);
            let bend = share * probability * (1.0 - probability);
            for (line, left) in row.iter().enumerate() {
                slope[line] += off * left;
                for (cell, right) in curve[line].iter_mut().zip(row).take(line + 1) {
                    *cell += bend * left * right;
                }
            }
        }
        for place in 0..width {
            let shrinkage = if place + 1 == width { 1e-6 } else { shrinkage };
            slope[place] -= shrinkage * weights[place];
            curve[place][place] += shrinkage;
        }
        crate::ridge::decompose(&mut curve);
        crate::ridge::solve(&curve, slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logistic_regression_recovers_known_probabilities() {
        let mut examples = Examples::default();
        for number in 0..400 {
            // Three quarters of x = 1 are positive, and one quarter of x = 0.
            let x = f64::from(number % 2);
            examples.add(
                &Features(vec![("x", x), ("half", 0.5)]),
                (number / 2) % 4 < 1 + (number % 2) * 2,
                1.0,
            );
        }
        let model = examples.fit(1e-6);
        let probability = |x: f64| 1.0 / (1.0 + (-model.predict(&[x, 0.5])).exp());
        assert!(
            (probability(1.0) - 0.75).abs() < 1e-3 && (probability(0.0) - 0.25).abs() < 1e-3,
            "{model:?}"
        );
    }
}
