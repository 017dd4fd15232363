//! The forward pass of a BERT encoder, in `f32`, for one text at a time: without padding, every product is exactly as
//! large as the text.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView1, Axis, Zip, s};

/// The sizes of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub dimensions: usize,
    pub layers: usize,
    pub heads: usize,
    pub inner: usize,
    pub pieces: usize,
    pub positions: usize,
}

/// How the vectors of a text's pieces become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooling {
    Mean,
    /// The vector of the piece that begins every text.
    First,
}

/// `weight`: inputs × outputs, the order in which a product reads it fastest.
pub(super) struct Linear {
    pub weight: Array2<f32>,
    pub bias: Array1<f32>,
}

pub(super) struct Norm {
    pub weight: Array1<f32>,
    pub bias: Array1<f32>,
}

pub(super) struct Layer {
    /// Query, key and value, one under the other: their products are one.
    pub attention: Linear,
    pub attention_out: Linear,
    pub attention_norm: Norm,
    pub widen: Linear,
    pub narrow: Linear,
    pub norm: Norm,
}

pub(super) struct Encoder {
    pub shape: Shape,
    pub pieces: Array2<f32>,
    /// With the type of a first sentence added.
    pub positions: Array2<f32>,
    pub norm: Norm,
    pub layers: Vec<Layer>,
    pub epsilon: f32,
    pub pooling: Pooling,
}

impl Encoder {
    /// The vector of a text of pieces, of length 1. Unknown numbers and those beyond the positions are left out.
    pub(super) fn encode(&self, ids: &[u32]) -> Vec<f32> {
        let known =
            ids.iter().filter_map(|id| usize::try_from(*id).ok()).filter(|id| *id < self.shape.pieces);
        let ids: Vec<usize> = known.take(self.shape.positions).collect();
        let mut state = Array2::zeros((ids.len(), self.shape.dimensions));
        for ((mut row, id), position) in state.rows_mut().into_iter().zip(&ids).zip(self.positions.rows()) {
            row += &self.pieces.row(*id);
            row += &position;
        }
        self.norm.apply(&mut state, self.epsilon);
        for layer in &self.layers {
            self.apply(layer, &mut state);
        }
        let pooled = match self.pooling {
            Pooling::Mean => state.mean_axis(Axis(0)),
            Pooling::First => state.rows().into_iter().next().map(|row| row.to_owned()),
        };
        let pooled = pooled.unwrap_or_else(|| Array1::zeros(self.shape.dimensions));
        let length = pooled.dot(&pooled).sqrt();
        pooled.iter().map(|value| if length > 0.0 { value / length } else { 0.0 }).collect()
    }

    fn apply(&self, layer: &Layer, state: &mut Array2<f32>) {
        let attended = layer.attention_out.apply(&self.attend(layer, state));
        *state += &attended;
        layer.attention_norm.apply(state, self.epsilon);
        let mut wide = layer.widen.apply(state);
        wide.mapv_inplace(gelu);
        *state += &layer.narrow.apply(&wide);
        layer.norm.apply(state, self.epsilon);
    }

    fn attend(&self, layer: &Layer, state: &Array2<f32>) -> Array2<f32> {
        let Shape { dimensions, heads, .. } = self.shape;
        let width = dimensions / heads;
        let scale = 1.0 / (width as f32).sqrt();
        let all = layer.attention.apply(state);
        let mut attended = Array2::zeros(state.raw_dim());
        let mut weights = Array2::zeros((state.nrows(), state.nrows()));
        for head in 0..heads {
            let part = |which: usize| {
                let from = which * dimensions + head * width;
                all.slice(s![.., from..from + width])
            };
            let (query, key, value) = (part(0), part(1), part(2));
            general_mat_mul(scale, &query, &key.t(), 0.0, &mut weights);
            for mut row in weights.rows_mut() {
                let most = row.fold(f32::NEG_INFINITY, |most, value| most.max(*value));
                row.mapv_inplace(|value| exp(value - most));
                let sum = row.sum();
                row.mapv_inplace(|value| value / sum);
            }
            let mut place = attended.slice_mut(s![.., head * width..(head + 1) * width]);
            general_mat_mul(1.0, &weights, &value, 0.0, &mut place);
        }
        attended
    }
}

impl Linear {
    fn apply(&self, input: &Array2<f32>) -> Array2<f32> {
        let mut output = Array2::zeros((input.nrows(), self.bias.len()));
        output.rows_mut().into_iter().for_each(|mut row| row.assign(&self.bias));
        general_mat_mul(1.0, input, &self.weight, 1.0, &mut output);
        output
    }
}

impl Norm {
    fn apply(&self, state: &mut Array2<f32>, epsilon: f32) {
        for mut row in state.rows_mut() {
            let count = row.len() as f32;
            let mean = row.sum() / count;
            let variance = squares(row.view(), mean) / count;
            let scale = 1.0 / (variance + epsilon).sqrt();
            Zip::from(&mut row)
                .and(&self.weight)
                .and(&self.bias)
                .for_each(|value, weight, bias| *value = (*value - mean) * scale * weight + bias);
        }
    }
}

fn squares(row: ArrayView1<'_, f32>, mean: f32) -> f32 {
    row.fold(0.0, |sum, value| sum + (value - mean) * (value - mean))
}

/// `x` times the share of a normal distribution below it, by the error function of Abramowitz and Stegun (7.1.26).
/// It is within 2e-7, and without a branch, so that several are computed at once.
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series =
        ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_72) * t + 0.254_829_6) * t;
    let error = 1.0 - series * exp(-z * z);
    0.5 * x * (1.0 + error.copysign(x))
}

/// `e` to a power, within 3e-7 of its value. The library's function is exact and takes one number at a time.
fn exp(x: f32) -> f32 {
    /// Added and subtracted, it rounds to a whole number.
    const ROUNDS: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let whole = (x * std::f32::consts::LOG2_E + ROUNDS) - ROUNDS;
    // ln 2 in two parts, so that nothing is lost.
    let rest = (x - whole * 0.693_359_4) + whole * 2.121_944_4e-4;
    let series = 1.0
        + rest
            * (1.0
                + rest
                    * (0.5
                        + rest
                            * (0.166_666_67
                                + rest * (0.041_666_67 + rest * (0.008_333_334 + rest * 0.001_388_9)))));
    let power = f32::from_bits(((whole as i32 + 127) as u32) << 23);
    series * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_are_close() {
        for step in -8_000..8_000 {
            let x = step as f32 / 400.0;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) / exact - 1.0).abs() < 1e-6, "exp {x}");
        }
        for (x, expected) in
            [(0.0, 0.0), (1.0, 0.841_344_7), (-1.0, -0.158_655_26), (3.0, 2.995_950_3), (-9.0, 0.0)]
        {
            assert!((gelu(x) - expected).abs() < 1e-6, "gelu {x}: {}", gelu(x));
        }
        assert!(exp(-1e9) < 1e-30 && exp(f32::NEG_INFINITY) < 1e-30);
    }
}
