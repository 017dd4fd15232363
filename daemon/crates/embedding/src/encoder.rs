//! The forward pass of a BERT encoder, for several texts at once. The pieces of the texts are concatenated without
//! padding, so a product is no larger than the texts, and its weights are read once for all of them.
//!
//! A weight is a signed byte, with a scale for each output. An input is an unsigned byte, with a scale and a zero point
//! for each piece. So a product is computed in integers ([`super::product`]): it is the same on every processor, in any
//! order of summation. Everything else is `f32`, summed in a fixed order. A text's vector does not depend on the other
//! texts.

use fearless_simd::{Level, Simd, SimdBase, dispatch};
use serde::{Deserialize, Serialize};
use tantivy::directory::OwnedBytes;

use super::product::{Inputs, Kernel};

/// The dimensions of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shape {
    pub dimensions: usize,
    pub layers: usize,
    pub heads: usize,
    pub inner: usize,
    pub pieces: usize,
    pub positions: usize,
}

/// How the vectors of a text's pieces are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Pooling {
    Mean,
    /// The vector of a text's first piece.
    First,
}

/// Rows of signed bytes, each with a scale.
pub(super) struct Rows {
    pub width: usize,
    pub values: OwnedBytes,
    pub scales: Vec<f32>,
}

/// The weights of a product, and its biases.
pub(super) struct Linear {
    /// In the layout of `product::panels`.
    pub(crate) panels: OwnedBytes,
    pub inputs: usize,
    /// One scale per output.
    pub scales: Vec<f32>,
    pub(crate) biases: Vec<f32>,
    /// The sum of each output's integer weights.
    pub sums: Vec<i32>,
}

/// 32-bit numbers stored as bytes: each number is `scale * (byte - zero)`.
#[derive(Clone, Copy, Debug)]
struct Scaled {
    scale: f32,
    zero: i32,
}

pub(super) struct Norm {
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
}

pub(super) struct Layer {
    /// Query, key and value, one after the other, computed as one product.
    pub attention: Linear,
    pub(crate) attention_out: Linear,
    pub(crate) attention_norm: Norm,
    pub(crate) widen: Linear,
    pub narrow: Linear,
    pub norm: Norm,
}

pub(super) struct Encoder {
    pub shape: Shape,
    pub pieces: Rows,
    /// One row of numbers per position. Each row already contains the vector of token type 0.
    pub positions: Vec<f32>,
    pub norm: Norm,
    pub layers: Vec<Layer>,
    pub(crate) epsilon: f32,
    pub(crate) pooling: Pooling,
}

/// The maximum number of pieces computed at once. More would not be faster, and would need more memory.
const MOST_AT_ONCE: usize = 512;

impl Encoder {
    /// Returns one vector of length 1 for each text. The texts are given as pieces; unknown piece numbers and those
    /// after the last position are left out.
    pub(super) fn encode(&self, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
        self.encode_by(Kernel::widest(), texts)
    }

    fn encode_by(&self, kernel: Kernel, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
        let mut vectors = Vec::with_capacity(texts.len());
        let mut state = Vec::new();
        let mut lengths: Vec<usize> = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let before = state.len();
            self.embed(text, &mut state);
            lengths.push((state.len() - before) / self.shape.dimensions);
            let next = texts.get(number + 1).map_or(usize::MAX, Vec::len);
            if (lengths.iter().sum::<usize>()).saturating_add(next) > MOST_AT_ONCE {
                dispatch!(Level::new(), simd => self.run(simd, kernel, &mut state, &lengths));
                let mut rest = state.as_slice();
                for length in lengths.drain(..) {
                    let (own, others) = rest.split_at(length * self.shape.dimensions);
                    vectors.push(self.pooled(own));
                    rest = others;
                }
                state.clear();
            }
        }
        vectors
    }

    /// Adds a row for each piece of a text.
    fn embed(&self, ids: &[u32], state: &mut Vec<f32>) {
        let known =
            ids.iter().filter_map(|id| usize::try_from(*id).ok()).filter(|id| *id < self.shape.pieces);
        for (id, position) in known.zip(self.positions.chunks_exact(self.shape.dimensions)) {
            let scale = self.pieces.scales.get(id).copied().unwrap_or_default();
            let values = self.pieces.values.get(id * self.pieces.width..).unwrap_or_default();
            let row = values.iter().zip(position);
            state.extend(row.map(|(value, position)| f32::from(value.cast_signed()) * scale + position));
        }
    }

    fn pooled(&self, state: &[f32]) -> Vec<f32> {
        let rows = state.chunks_exact(self.shape.dimensions);
        let rows = rows.take(match self.pooling {
            Pooling::Mean => usize::MAX,
            Pooling::First => 1,
        });
        // The vector is scaled to length 1 later, so the sum serves as the mean.
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
    fn run<S: Simd>(&self, simd: S, kernel: Kernel, state: &mut [f32], lengths: &[usize]) {
        self.norm.apply(simd, state, self.epsilon);
        for layer in &self.layers {
            let attended = self.attend(simd, &layer.attention.apply(simd, kernel, state), lengths);
            add(state, &layer.attention_out.apply(simd, kernel, &attended));
            layer.attention_norm.apply(simd, state, self.epsilon);
            let mut wide = layer.widen.apply(simd, kernel, state);
            simd.vectorize(
                #[inline(always)]
                || wide.iter_mut().for_each(|value| *value = gelu(*value)),
            );
            add(state, &layer.narrow.apply(simd, kernel, &wide));
            layer.norm.apply(simd, state, self.epsilon);
        }
    }

    /// `all` contains the query, key and value of each piece. A piece attends to the pieces of its own text.
    #[inline(always)]
    fn attend<S: Simd>(&self, simd: S, all: &[f32], lengths: &[usize]) -> Vec<f32> {
        let Shape { dimensions, heads, .. } = self.shape;
        let mut attended = vec![0.0; all.len() / 3];
        let (mut all, mut rest) = (all, attended.as_mut_slice());
        for length in lengths {
            let (own, others) = all.split_at(length * 3 * dimensions);
            let (to, later) = std::mem::take(&mut rest).split_at_mut(length * dimensions);
            for head in 0..heads {
                simd.vectorize(
                    #[inline(always)]
                    || attend_by(simd, own, (dimensions, dimensions / heads, head), to),
                );
            }
            (all, rest) = (others, later);
        }
        attended
    }
}

/// The number of queries computed at once.
const QUERIES: usize = 4;

/// Adds one head's result to the pieces of a text. `width` is the number of the head's dimensions.
#[inline(always)]
fn attend_by<S: Simd>(
    simd: S,
    all: &[f32],
    (dimensions, width, head): (usize, usize, usize),
    attended: &mut [f32],
) {
    let scale = 1.0 / (width as f32).sqrt();
    let count = all.len() / (3 * dimensions);
    let block = 2 * S::f32s::LEN;
    // Blocks of keys, with one row per dimension, and blocks of dimensions, with one row per piece's value. The last
    // blocks are padded with zeros.
    let mut keys = vec![0.0_f32; width * count.next_multiple_of(block)];
    let mut values = vec![0.0_f32; count * width.next_multiple_of(block)];
    for (piece, row) in all.chunks_exact(3 * dimensions).enumerate() {
        let key = row.iter().skip(dimensions + head * width).take(width);
        let first = (piece / block) * width * block + piece % block;
        for (place, value) in keys.iter_mut().skip(first).step_by(block).zip(key) {
            *place = value * scale;
        }
        let value = row.get(2 * dimensions + head * width..).and_then(|row| row.get(..width));
        let value = value.unwrap_or_default().chunks(block);
        for (place, value) in values.chunks_exact_mut(block).skip(piece).step_by(count).zip(value) {
            place.iter_mut().zip(value).for_each(|(place, value)| *place = *value);
        }
    }
    let wide_count = count.next_multiple_of(block);
    let mut queries = vec![[0.0_f32; QUERIES]; width];
    let mut weights = vec![0.0_f32; QUERIES * wide_count];
    let mut shares = vec![[0.0_f32; QUERIES]; count];
    for (first, rows) in (0..).step_by(QUERIES).zip(attended.chunks_mut(QUERIES * dimensions)) {
        for (at, row) in all.chunks_exact(3 * dimensions).skip(first).take(QUERIES).enumerate() {
            for (place, value) in queries.iter_mut().zip(row.iter().skip(head * width)) {
                place[at] = *value;
            }
        }
        products(simd, &keys, &queries, |number, at, sums| {
            let place = weights.get_mut(at * wide_count + number * block..).unwrap_or_default();
            place.iter_mut().zip(sums).for_each(|(place, sum)| *place = *sum);
        });
        for (at, weights) in weights.chunks_exact_mut(wide_count).enumerate() {
            let weights = weights.get_mut(..count).unwrap_or_default();
            soften(weights);
            for (place, weight) in shares.iter_mut().zip(weights) {
                place[at] = *weight;
            }
        }
        products(simd, &values, &shares, |number, at, sums| {
            let row = rows.get_mut(at * dimensions + head * width..).unwrap_or_default();
            let row = row.get_mut(number * block..width).unwrap_or_default();
            row.iter_mut().zip(sums).for_each(|(place, sum)| *place = *sum);
        });
    }
}

/// Sums each block's rows, multiplied by the factors of each query. A block has one row per factor, twice as wide as
/// the processor's vectors, so that enough independent sums are computed at the same time.
#[inline(always)]
fn products<S: Simd>(
    simd: S,
    blocks: &[f32],
    factors: &[[f32; QUERIES]],
    mut finish: impl FnMut(usize, usize, &[f32]),
) {
    let lanes = S::f32s::LEN;
    for (number, rows) in blocks.chunks_exact(factors.len() * 2 * lanes).enumerate() {
        let mut sums = [[S::f32s::splat(simd, 0.0); 2]; QUERIES];
        for (row, factors) in rows.chunks_exact(2 * lanes).zip(factors) {
            let (low, high) = row.split_at(lanes);
            let (low, high) = (S::f32s::from_slice(simd, low), S::f32s::from_slice(simd, high));
            for (sums, factor) in sums.iter_mut().zip(factors) {
                let factor = S::f32s::splat(simd, *factor);
                sums[0] += low * factor;
                sums[1] += high * factor;
            }
        }
        let mut place = [0.0; 2 * LANES];
        for (at, [low, high]) in sums.into_iter().enumerate() {
            low.store_slice(place.get_mut(..lanes).unwrap_or_default());
            high.store_slice(place.get_mut(lanes..2 * lanes).unwrap_or_default());
            finish(number, at, place.get(..2 * lanes).unwrap_or_default());
        }
    }
}

/// Turns numbers into shares that add up to 1 (softmax).
#[inline(always)]
fn soften(weights: &mut [f32]) {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = weights.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    let most = lanes.iter().chain(rest).fold(f32::NEG_INFINITY, |most, value| most.max(*value));
    for weight in weights.iter_mut() {
        *weight = exp(*weight - most);
    }
    let share = 1.0 / sum(weights, |weight| weight);
    for weight in weights {
        *weight *= share;
    }
}

impl Linear {
    /// Computes the outputs for each row of `input`.
    #[inline(always)]
    fn apply<S: Simd>(&self, simd: S, kernel: Kernel, input: &[f32]) -> Vec<f32> {
        simd.vectorize(
            #[inline(always)]
            || self.outputs_of(kernel, input),
        )
    }

    #[inline(always)]
    fn outputs_of(&self, kernel: Kernel, input: &[f32]) -> Vec<f32> {
        let (rows, outputs) = (input.len() / self.inputs, self.scales.len());
        let mut scaled = Vec::with_capacity(rows);
        let inputs = Inputs::new(
            kernel,
            rows,
            self.inputs,
            #[inline(always)]
            |row, place| scaled.push(to_bytes(input.get(row * self.inputs..).unwrap_or_default(), place)),
        );
        let mut output = vec![0.0; rows * outputs];
        kernel.multiply(
            &self.panels,
            &inputs,
            #[inline(always)]
            |row, first, sums| {
                let Some(Scaled { scale, zero }) = scaled.get(row).copied() else { return };
                let place = output.get_mut(row * outputs + first..(row + 1) * outputs).unwrap_or_default();
                let weights = self.sums.get(first..).unwrap_or_default();
                let scales = self.scales.get(first..).unwrap_or_default();
                let biases = self.biases.get(first..).unwrap_or_default();
                for ((((place, sum), weights), of_weights), bias) in
                    place.iter_mut().zip(sums).zip(weights).zip(scales).zip(biases)
                {
                    *place = (sum - zero * weights) as f32 * (scale * of_weights) + bias;
                }
            },
        );
        output
    }
}

/// Quantizes the first numbers of a row to bytes. Zero is represented exactly.
#[inline(always)]
fn to_bytes(row: &[f32], bytes: &mut [u8]) -> Scaled {
    let row = row.get(..bytes.len()).unwrap_or_default();
    let (least, most) = extremes(row);
    let scale = (most - least) / 255.0;
    // The product becomes NaN if any number is NaN or infinite, which a comparison does not detect.
    let strange = 0.0 * sum(row, |value| value);
    if scale <= 0.0 {
        bytes.fill(0);
        return Scaled { scale: strange, zero: 0 };
    }
    let factor = 1.0 / scale;
    let zero = rounded(-least * factor);
    for (byte, value) in bytes.iter_mut().zip(row) {
        *byte = (rounded(value * factor) + zero).clamp(0, 255) as u8;
    }
    Scaled { scale: scale + strange, zero }
}

/// Quantizes rows of `width` numbers to signed bytes, each row with a scale.
pub(super) fn to_signed_bytes(values: &[f32], width: usize) -> (Vec<i8>, Vec<f32>) {
    let (mut bytes, mut scales) = (Vec::with_capacity(values.len()), Vec::new());
    for row in values.chunks_exact(width) {
        let most = row.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
        let scale = most / 127.0;
        let whole = |value: &f32| if scale > 0.0 { rounded(*value / scale) as i8 } else { 0 };
        bytes.extend(row.iter().map(whole));
        // A row with NaN or infinity must not get a finite scale.
        scales.push(if row.iter().all(|value| value.is_finite()) { scale } else { f32::NAN });
    }
    (bytes, scales)
}

impl Norm {
    #[inline(always)]
    fn apply<S: Simd>(&self, simd: S, state: &mut [f32], epsilon: f32) {
        simd.vectorize(
            #[inline(always)]
            || self.normalize(state, epsilon),
        );
    }

    #[inline(always)]
    fn normalize(&self, state: &mut [f32], epsilon: f32) {
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

/// The number of sums or maxima computed at once.
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

/// The smallest and the largest value, including zero.
#[inline(always)]
fn extremes(values: &[f32]) -> (f32, f32) {
    let smaller = |a: f32, b: f32| if b < a { b } else { a };
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (mut least, mut most) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for ((least, most), value) in least.iter_mut().zip(&mut most).zip(chunk) {
            *least = smaller(*least, *value);
            *most = larger(*most, *value);
        }
    }
    let least = least.iter().chain(rest).fold(0.0, |least, value| smaller(least, *value));
    (least, most.iter().chain(rest).fold(0.0, |most, value| larger(most, *value)))
}

#[inline(always)]
fn add(to: &mut [f32], other: &[f32]) {
    for (value, other) in to.iter_mut().zip(other) {
        *value += other;
    }
}

/// Adding this to a number below 2^22 rounds it to an integer, which is then in the lowest bits.
const ROUNDS: f32 = 12_582_912.0;

/// The nearest integer, for values within 2^22.
#[inline(always)]
fn rounded(value: f32) -> i32 {
    (value + ROUNDS).to_bits().cast_signed() - ROUNDS.to_bits().cast_signed()
}

/// GELU: `x` times the standard normal cumulative distribution at `x`, using formula 7.1.26 of Abramowitz and Stegun
/// for the error function. The error is below 2e-7. It has no branch, so several values are computed at once.
#[inline(always)]
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let series =
        ((((1.061_405_4 * t - 1.453_152_1) * t + 1.421_413_8) * t - 0.284_496_72) * t + 0.254_829_6) * t;
    let error = 1.0 - series * exp(-z * z);
    0.5 * x * (1.0 + error.copysign(x))
}

/// `e` to the power of `x`, with an error below 3e-7. The library's function is exact but takes one number at a time.
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.0, 88.0);
    let whole = (x * std::f32::consts::LOG2_E + ROUNDS) - ROUNDS;
    // ln 2 in two parts, for precision.
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
    fn the_approximations_of_exp_and_gelu_are_accurate() {
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

    /// Numbers between -1 and 1, the same in each run.
    fn numbers(count: usize) -> Vec<f32> {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn linear(weights: &[f32], inputs: usize, bias: f32) -> Linear {
        let (bytes, scales) = to_signed_bytes(weights, inputs);
        let sums = bytes.chunks_exact(inputs).map(|row| row.iter().map(|byte| i32::from(*byte)).sum());
        let (sums, biases) = (sums.collect(), vec![bias; scales.len()]);
        let panels = OwnedBytes::new(super::super::product::panels(&bytes, inputs));
        Linear { panels, inputs, scales, biases, sums }
    }

    fn applied(linear: &Linear, kernel: Kernel, input: &[f32]) -> Vec<f32> {
        dispatch!(Level::new(), simd => linear.apply(simd, kernel, input))
    }

    #[test]
    fn an_integer_product_is_accurate_and_identical_on_all_kernels() {
        for (width, outputs) in [(33, 5), (1_536, 3)] {
            let weights = numbers(width * outputs);
            let input: Vec<f32> = numbers(2 * width).into_iter().rev().collect();
            let linear = linear(&weights, width, 0.5);
            let found = applied(&linear, Kernel::widest(), &input);
            assert!(Kernel::all().iter().all(|kernel| applied(&linear, *kernel, &input) == found));
            for (row, found) in input.chunks(width).zip(found.chunks(outputs)) {
                for (weights, found) in weights.chunks(width).zip(found) {
                    let exact: f32 = weights.iter().zip(row).map(|(a, b)| a * b).sum::<f32>() + 0.5;
                    let size: f32 = row.iter().map(|value| value.abs()).sum();
                    assert!((exact - found).abs() < size * 0.008, "{exact} and {found}");
                }
            }
        }
    }

    #[test]
    fn a_nan_in_weights_or_inputs_makes_the_output_nan() {
        let made = |value, input: &[f32]| applied(&linear(&[value, 1.0], 2, 0.0), Kernel::widest(), input);
        assert!(made(f32::NAN, &[1.0, 1.0]).iter().all(|value| value.is_nan()));
        assert!(made(1.0, &[f32::NAN, 1.0]).iter().all(|value| value.is_nan()));
        assert!(made(1.0, &[f32::NAN, f32::NAN]).iter().all(|value| value.is_nan()));
        assert!((made(1.0, &[1.0, 1.0])[0] - 2.0).abs() < 1e-3);
        assert_eq!(made(0.0, &[0.0, 0.0]), [0.0]);
    }

    #[test]
    fn a_row_quantized_to_bytes_is_accurate_and_zero_is_exact() {
        let row = [0.0, -0.17, 2.0, 1.25, -0.01];
        let mut bytes = [0; 5];
        let Scaled { scale, zero } = to_bytes(&row, &mut bytes);
        let back: Vec<f32> = bytes.iter().map(|byte| (i32::from(*byte) - zero) as f32 * scale).collect();
        assert!(row.iter().zip(&back).all(|(a, b)| (a - b).abs() <= scale), "{back:?}");
        assert_eq!(back[0], 0.0);
    }
}
