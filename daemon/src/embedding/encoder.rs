//! The forward pass of a BERT encoder, for one text at a time: without padding, every product is exactly as large as the
//! text.
//!
//! A weight is one signed byte, with a scale for each output. What it is multiplied with is a whole number of 14 bits at
//! most, with a scale for each piece of the text. So a product is one of whole numbers: the same on every processor, in
//! whatever order it adds up. The rest is `f32`, added up in an order that is written here.

use fearless_simd::{Level, Simd, dispatch};

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

/// Rows of signed bytes, each with a scale.
pub(super) struct Bytes {
    width: usize,
    values: Vec<i8>,
    scales: Vec<f32>,
}

/// A row of `weight` for each output.
pub(super) struct Linear {
    weight: Bytes,
    bias: Vec<f32>,
    /// The largest whole number of an input: no sum of products is beyond 32 bits.
    largest: f32,
}

pub(super) struct Norm {
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
}

pub(super) struct Layer {
    /// Query, key and value, one after the other: their products are one.
    pub attention: Linear,
    pub attention_out: Linear,
    pub attention_norm: Norm,
    pub widen: Linear,
    pub narrow: Linear,
    pub norm: Norm,
}

pub(super) struct Encoder {
    pub shape: Shape,
    pub pieces: Bytes,
    /// With the type of a first sentence added. One row after the other, as all numbers of a text are here.
    pub positions: Vec<f32>,
    pub norm: Norm,
    pub layers: Vec<Layer>,
    pub epsilon: f32,
    pub pooling: Pooling,
}

impl Encoder {
    /// The vector of a text of pieces, of length 1. Unknown numbers and those beyond the positions are left out.
    pub(super) fn encode(&self, ids: &[u32]) -> Vec<f32> {
        self.encode_by(Level::new(), ids)
    }

    fn encode_by(&self, level: Level, ids: &[u32]) -> Vec<f32> {
        let known =
            ids.iter().filter_map(|id| usize::try_from(*id).ok()).filter(|id| *id < self.shape.pieces);
        let ids: Vec<usize> = known.take(self.shape.positions).collect();
        let mut state = self.embedded(&ids);
        dispatch!(level, simd => self.run(simd, &mut state));
        self.pooled(&state)
    }

    fn embedded(&self, ids: &[usize]) -> Vec<f32> {
        let positions = self.positions.chunks_exact(self.shape.dimensions);
        let rows = ids.iter().zip(positions).flat_map(|(id, position)| {
            let (scale, values) = self.pieces.row(*id);
            values.iter().zip(position).map(move |(value, position)| f32::from(*value) * scale + position)
        });
        rows.collect()
    }

    fn pooled(&self, state: &[f32]) -> Vec<f32> {
        let rows = state.chunks_exact(self.shape.dimensions);
        let rows = rows.take(match self.pooling {
            Pooling::Mean => usize::MAX,
            Pooling::First => 1,
        });
        // The vector gets the length 1, so the sum is as good as the mean.
        let mut pooled = vec![0.0; self.shape.dimensions];
        for row in rows {
            add(&mut pooled, row);
        }
        let length = sum(&pooled, |value| value * value).sqrt();
        for value in &mut pooled {
            *value = if length > 0.0 { *value / length } else { 0.0 };
        }
        pooled
    }

    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, state: &mut [f32]) {
        self.norm.apply(state, self.epsilon);
        for layer in &self.layers {
            let attended = self.attend(simd, &layer.attention.apply(simd, state));
            add(state, &layer.attention_out.apply(simd, &attended));
            layer.attention_norm.apply(state, self.epsilon);
            let mut wide = layer.widen.apply(simd, state);
            for value in &mut wide {
                *value = gelu(*value);
            }
            add(state, &layer.narrow.apply(simd, &wide));
            layer.norm.apply(state, self.epsilon);
        }
    }

    /// `all`: query, key and value of each piece.
    #[inline(always)]
    fn attend<S: Simd>(&self, simd: S, all: &[f32]) -> Vec<f32> {
        simd.vectorize(
            #[inline(always)]
            || self.attended(all),
        )
    }

    #[inline(always)]
    fn attended(&self, all: &[f32]) -> Vec<f32> {
        let Shape { dimensions, heads, .. } = self.shape;
        let width = dimensions / heads;
        let scale = 1.0 / (width as f32).sqrt();
        let count = all.len() / (3 * dimensions);
        let mut attended = vec![0.0; count * dimensions];
        // A row for each dimension of the head, so that several pieces are computed at once.
        let mut keys = vec![0.0; width * count];
        let mut weights = vec![0.0; count];
        for head in 0..heads {
            let first = head * width;
            for (piece, row) in all.chunks_exact(3 * dimensions).enumerate() {
                let key = row.iter().skip(dimensions + first);
                for (place, value) in keys.iter_mut().skip(piece).step_by(count).zip(key) {
                    *place = value * scale;
                }
            }
            for (row, attended) in all.chunks_exact(3 * dimensions).zip(attended.chunks_exact_mut(dimensions))
            {
                weights.fill(0.0);
                for (query, keys) in row.iter().skip(first).zip(keys.chunks_exact(count)) {
                    for (weight, key) in weights.iter_mut().zip(keys) {
                        *weight += query * key;
                    }
                }
                let most = weights.iter().fold(f32::NEG_INFINITY, |most, value| most.max(*value));
                for weight in &mut weights {
                    *weight = exp(*weight - most);
                }
                let share = 1.0 / sum(&weights, |weight| weight);
                let Some(attended) = attended.get_mut(first..first + width) else { continue };
                for (weight, row) in weights.iter().zip(all.chunks_exact(3 * dimensions)) {
                    let weight = weight * share;
                    let value = row.get(2 * dimensions + first..).unwrap_or_default();
                    for (sum, value) in attended.iter_mut().zip(value) {
                        *sum += weight * value;
                    }
                }
            }
        }
        attended
    }
}

impl Bytes {
    /// Rounds rows of `width` numbers.
    pub(super) fn new(values: &[f32], width: usize) -> Self {
        let mut bytes = Self {
            width,
            values: Vec::with_capacity(values.len()),
            scales: Vec::with_capacity(values.len() / width),
        };
        for row in values.chunks_exact(width) {
            let most = row.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
            let scale = most / 127.0;
            let whole = |value: &f32| if scale > 0.0 { rounded(*value / scale) as i8 } else { 0 };
            bytes.values.extend(row.iter().map(whole));
            // What is no number must not become one.
            bytes.scales.push(if row.iter().all(|value| value.is_finite()) { scale } else { f32::NAN });
        }
        bytes
    }

    fn row(&self, number: usize) -> (f32, &[i8]) {
        let first = number * self.width;
        let values = self.values.get(first..first + self.width).unwrap_or_default();
        (self.scales.get(number).copied().unwrap_or_default(), values)
    }

    /// Places the rows of other matrices below these.
    pub(super) fn append(&mut self, other: Self) {
        self.values.extend(other.values);
        self.scales.extend(other.scales);
    }
}

impl Linear {
    pub(super) fn new(weight: Bytes, bias: Vec<f32>) -> Self {
        let most = i32::MAX as usize / (127 * weight.width.max(1));
        Self { weight, bias, largest: most.min(16_383) as f32 }
    }

    /// The outputs for each row of `input`.
    #[inline(always)]
    fn apply<S: Simd>(&self, simd: S, input: &[f32]) -> Vec<f32> {
        let Bytes { width, values, scales } = &self.weight;
        let mut whole = vec![0_i16; input.len()];
        let mut input_scales = Vec::with_capacity(input.len() / width);
        for (row, whole) in input.chunks_exact(*width).zip(whole.chunks_exact_mut(*width)) {
            let most = most(row);
            let factor = if most > 0.0 { self.largest / most } else { 0.0 };
            for (whole, value) in whole.iter_mut().zip(row) {
                *whole = rounded(value * factor) as i16;
            }
            input_scales.push(most / self.largest);
        }
        let outputs = self.bias.len();
        let mut sums = vec![0; input_scales.len() * outputs];
        // Apart from the rest, so that the compiler has the registers for it.
        simd.vectorize(
            #[inline(always)]
            || products(values, &whole, *width, &mut sums),
        );
        let mut output = vec![0.0; sums.len()];
        let rows = output.chunks_exact_mut(outputs).zip(sums.chunks_exact(outputs)).zip(input_scales);
        for ((output, sums), input_scale) in rows {
            let of_outputs = scales.iter().zip(&self.bias);
            for ((output, sum), (scale, bias)) in output.iter_mut().zip(sums).zip(of_outputs) {
                *output = *sum as f32 * (input_scale * scale) + bias;
            }
        }
        output
    }
}

/// The product of each row of `inputs` and each of `weights`; both are `width` wide.
#[inline(always)]
fn products(weights: &[i8], inputs: &[i16], width: usize, sums: &mut [i32]) {
    let outputs = weights.len() / width;
    let mut wide = vec![0_i16; width];
    for (output, weights) in weights.chunks_exact(width).enumerate() {
        for (wide, weight) in wide.iter_mut().zip(weights) {
            *wide = i16::from(*weight);
        }
        let places = sums.iter_mut().skip(output).step_by(outputs);
        for (input, sum) in inputs.chunks_exact(width).zip(places) {
            *sum = input.iter().zip(&wide).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
        }
    }
}

impl Norm {
    #[inline(always)]
    fn apply(&self, state: &mut [f32], epsilon: f32) {
        let count = self.weight.len();
        for row in state.chunks_exact_mut(count) {
            let mean = sum(row, |value| value) / count as f32;
            let variance = sum(row, |value| (value - mean) * (value - mean)) / count as f32;
            let scale = 1.0 / (variance + epsilon).sqrt();
            for ((value, weight), bias) in row.iter_mut().zip(&self.weight).zip(&self.bias) {
                *value = (*value - mean) * scale * weight + bias;
            }
        }
    }
}

/// Sums and maxima of so many numbers are computed at once.
const LANES: usize = 16;

#[inline(always)]
fn sum(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += of(*value);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|value| of(*value)).sum::<f32>()
}

/// The largest absolute value; not a number if one of them is none.
#[inline(always)]
fn most(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, value.abs());
        }
    }
    let all = lanes.iter().chain(rest).fold(0.0, |most, value| larger(most, value.abs()));
    // Such a sum shows a number that is none, which no comparison does.
    all + 0.0 * sum(values, |value| value)
}

#[inline(always)]
fn add(to: &mut [f32], other: &[f32]) {
    for (value, other) in to.iter_mut().zip(other) {
        *value += other;
    }
}

/// Added to a number below 2^22, it rounds it to a whole one, which stands in the lowest bits.
const ROUNDS: f32 = 12_582_912.0;

/// The nearest whole number, for values within 2^22.
#[inline(always)]
fn rounded(value: f32) -> i32 {
    (value + ROUNDS).to_bits().cast_signed() - ROUNDS.to_bits().cast_signed()
}

/// `x` times the share of a normal distribution below it, by the error function of Abramowitz and Stegun (7.1.26).
/// It is within 2e-7, and without a branch, so that several are computed at once.
#[inline(always)]
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series =
        ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_72) * t + 0.254_829_6) * t;
    let error = 1.0 - series * exp(-z * z);
    0.5 * x * (1.0 + error.copysign(x))
}

/// `e` to a power, within 3e-7 of its value. The library's function is exact and takes one number at a time.
#[inline(always)]
fn exp(x: f32) -> f32 {
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
    let power = f32::from_bits(((rounded(whole) + 127) << 23).cast_unsigned());
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
        assert_eq!([0.4, 0.6, -0.6, -127.0, 16_383.0].map(rounded), [0, 1, -1, -127, 16_383]);
    }

    /// Numbers between -1 and 1, the same at each run.
    fn numbers(count: usize) -> Vec<f32> {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_product_of_whole_numbers_is_close_and_never_too_large() {
        for (width, outputs) in [(33, 5), (1_536, 3)] {
            let weights = numbers(width * outputs);
            let input: Vec<f32> = numbers(2 * width).into_iter().rev().collect();
            let linear = Linear::new(Bytes::new(&weights, width), vec![0.5; outputs]);
            let found = dispatch!(Level::new(), simd => linear.apply(simd, &input));
            for (row, found) in input.chunks(width).zip(found.chunks(outputs)) {
                for (weights, found) in weights.chunks(width).zip(found) {
                    let exact: f32 = weights.iter().zip(row).map(|(a, b)| a * b).sum::<f32>() + 0.5;
                    let size: f32 = row.iter().map(|value| value.abs()).sum();
                    assert!((exact - found).abs() < size * 0.004, "{exact} and {found}");
                }
            }
            let most = linear.largest as i64 * 127 * width as i64;
            assert!(most <= i64::from(i32::MAX) && linear.largest > 10_000.0, "{most}");
        }
    }

    #[test]
    fn what_is_no_number_stays_none() {
        let linear = |value| Linear::new(Bytes::new(&[value, 1.0], 2), vec![0.0]);
        let applied =
            |linear: &Linear, input: &[f32]| dispatch!(Level::new(), simd => linear.apply(simd, input));
        assert!(applied(&linear(f32::NAN), &[1.0, 1.0]).iter().all(|value| value.is_nan()));
        assert!(applied(&linear(1.0), &[f32::NAN, 1.0]).iter().all(|value| value.is_nan()));
        assert!((applied(&linear(1.0), &[1.0, 1.0])[0] - 2.0).abs() < 1e-3);
        assert_eq!(applied(&linear(0.0), &[0.0, 0.0]), [0.0]);
    }
}
