//! Matrix products of integers, which take nearly all of an encoder's time.
//!
//! A weight is a signed byte, an input is an unsigned byte, and a sum has 32 bits. So the result is exact, and the
//! same on every processor. [`Kernel::widest`] selects the instructions at run time.
//!
//! Weights are stored in panels of [`OUTPUTS`] outputs. A panel has one step for every four inputs; a step contains
//! four weights for each output, output by output. Inputs are arranged in the same way, in tiles of a few rows. So
//! every kind of processor reads both sequentially, and one file serves all of them.
//!
//! **Unsafe code:** the functions below use instructions that not every processor has, and load values through
//! pointers. [`Kernel`] has private variants that are created only after the processor's features were checked, and
//! every pointer comes from a reference to an array of the length that is loaded. No safe crate offers these
//! instructions.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use fearless_simd::{Level, dispatch};

/// The number of outputs in a panel.
pub(super) const OUTPUTS: usize = 64;
/// The number of inputs in a step.
pub(super) const STEP: usize = 4;
/// The bytes of one step of a panel.
const STEP_BYTES: usize = OUTPUTS * STEP;
/// The maximum number of rows in a tile.
const MOST_ROWS: usize = 6;
/// The sums of a tile, one row after another.
type Sums = [[i32; OUTPUTS]; MOST_ROWS];

/// The set of instructions in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernel(Instructions);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instructions {
    /// Plain loops, which the compiler translates.
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
}

impl Kernel {
    /// Returns the kernel with the widest instructions of this processor.
    pub(super) fn widest() -> Self {
        Self::all().last().copied().unwrap_or(Self(Instructions::Plain))
    }

    /// Returns all kernels for this processor, the widest last.
    pub(super) fn all() -> Vec<Self> {
        let mut all = vec![Self(Instructions::Plain)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                all.push(Self(Instructions::Avx2));
            }
            if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni") {
                all.push(Self(Instructions::Avx512Vnni));
            }
        }
        all
    }

    /// The number of rows per tile when there are this many rows in total. The tiles are as equal as possible, so that
    /// few rows are empty.
    fn tile_rows(self, rows: usize) -> usize {
        let most = match self.0 {
            Instructions::Plain => 1,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => 3,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512Vnni => MOST_ROWS,
        };
        rows.div_ceil(rows.div_ceil(most).max(1)).max(1)
    }

    /// The size of an input in bytes: 2 where it is multiplied as a 16-bit number (AVX2).
    fn input_bytes(self) -> usize {
        match self.0 {
            Instructions::Plain => 1,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx2 => 2,
            #[cfg(target_arch = "x86_64")]
            Instructions::Avx512Vnni => 1,
        }
    }

    /// Multiplies the inputs by all panels. Calls `finish` with the number of an input row, the number of the first
    /// output, and the sums of a panel's outputs. `weights` contains whole panels.
    #[inline(always)]
    pub(super) fn multiply(
        self,
        weights: &[u8],
        inputs: &Inputs,
        mut finish: impl FnMut(usize, usize, &[i32; OUTPUTS]),
    ) {
        let Inputs { rows, steps, tile_rows, values } = inputs;
        let mut sums: Sums = [[0; OUTPUTS]; MOST_ROWS];
        let mut unpacked = Vec::new();
        let tile_bytes = tile_rows * steps * STEP * self.input_bytes();
        for (number, panel) in weights.chunks_exact(steps * STEP_BYTES).enumerate() {
            let (panel, _) = panel.as_chunks::<STEP_BYTES>();
            if self.0 == Instructions::Plain {
                unpack(panel, &mut unpacked);
            }
            for (tile, values) in values.chunks_exact(tile_bytes).enumerate() {
                match self.0 {
                    Instructions::Plain => {
                        dispatch!(Level::new(), _simd => plain(&unpacked, steps * STEP, values, &mut sums));
                    }
                    // SAFETY: this variant is created only if the processor has AVX2.
                    #[cfg(target_arch = "x86_64")]
                    Instructions::Avx2 => unsafe { tile_of_avx2(*tile_rows, panel, values, &mut sums) },
                    // SAFETY: this variant is created only if the processor has AVX-512 with these extensions.
                    #[cfg(target_arch = "x86_64")]
                    Instructions::Avx512Vnni => unsafe {
                        tile_of_avx512(*tile_rows, panel, values, &mut sums)
                    },
                }
                let first = tile * tile_rows;
                for (row, sums) in (first..*rows).zip(sums.iter().take(*tile_rows)) {
                    finish(row, number * OUTPUTS, sums);
                }
            }
        }
    }
}

/// Rows of inputs in the layout that a kernel reads.
pub(super) struct Inputs {
    rows: usize,
    steps: usize,
    tile_rows: usize,
    values: Vec<u8>,
}

impl Inputs {
    /// `write` fills in the row with the given number; each row has `width` bytes.
    #[inline(always)]
    pub(super) fn new(
        kernel: Kernel,
        rows: usize,
        width: usize,
        mut write: impl FnMut(usize, &mut [u8]),
    ) -> Self {
        let (tile_rows, steps) = (kernel.tile_rows(rows), width.div_ceil(STEP));
        let mut row = vec![0; steps * STEP];
        let mut values = vec![0; rows.div_ceil(tile_rows) * tile_rows * steps * STEP * kernel.input_bytes()];
        for number in 0..rows {
            write(number, row.get_mut(..width).unwrap_or_default());
            let first = (number / tile_rows) * tile_rows * steps + number % tile_rows;
            let (four, _) = row.as_chunks::<STEP>();
            if kernel.input_bytes() == 1 {
                let places = values.as_chunks_mut::<STEP>().0.iter_mut().skip(first).step_by(tile_rows);
                places.zip(four).for_each(|(place, four)| *place = *four);
            } else {
                let places =
                    values.as_chunks_mut::<{ STEP * 2 }>().0.iter_mut().skip(first).step_by(tile_rows);
                places.zip(four).for_each(|(place, [a, b, c, d])| *place = [*a, 0, *b, 0, *c, 0, *d, 0]);
            }
        }
        Self { rows, steps, tile_rows, values }
    }
}

/// Arranges rows of weights, one per output, in panels. Missing outputs of the last panel are zero.
pub(super) fn panels(weights: &[i8], width: usize) -> Vec<u8> {
    let (outputs, steps) = (weights.len() / width.max(1), width.div_ceil(STEP));
    let mut panels = vec![0; outputs.div_ceil(OUTPUTS) * steps * STEP_BYTES];
    for (output, row) in weights.chunks_exact(width.max(1)).enumerate() {
        let first = (output / OUTPUTS) * steps * STEP_BYTES + (output % OUTPUTS) * STEP;
        for (input, weight) in row.iter().enumerate() {
            if let Some(place) = panels.get_mut(first + (input / STEP) * STEP_BYTES + input % STEP) {
                *place = weight.cast_unsigned();
            }
        }
    }
    panels
}

/// Computes the sums of one row. `rows` contains the weights of a panel, output by output.
#[inline(always)]
fn plain(rows: &[i16], width: usize, values: &[u8], sums: &mut Sums) {
    let Some(sums) = sums.first_mut() else { return };
    for (sum, weights) in sums.iter_mut().zip(rows.chunks_exact(width)) {
        *sum = weights.iter().zip(values).map(|(a, b)| i32::from(*a) * i32::from(i16::from(*b))).sum();
    }
}

/// Unpacks a panel's weights to 16 bits each, output by output.
fn unpack(panel: &[[u8; STEP_BYTES]], rows: &mut Vec<i16>) {
    let width = panel.len() * STEP;
    rows.resize(width * OUTPUTS, 0);
    for (step, weights) in panel.iter().enumerate() {
        for (row, four) in rows.chunks_exact_mut(width).zip(weights.as_chunks::<STEP>().0) {
            for (place, weight) in row.iter_mut().skip(step * STEP).zip(four) {
                *place = weight.cast_signed().into();
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn tile_of_avx2(rows: usize, panel: &[[u8; STEP_BYTES]], values: &[u8], sums: &mut Sums) {
    let (values, _) = values.as_chunks();
    match rows {
        1 => avx2::<1>(panel, values, sums),
        2 => avx2::<2>(panel, values, sums),
        _ => avx2::<3>(panel, values, sums),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<const ROWS: usize>(panel: &[[u8; STEP_BYTES]], values: &[[u8; STEP * 2]], sums: &mut Sums) {
    /// The number of outputs summed at once; more would not fit into the registers.
    const SOME: usize = 16;
    for part in 0..OUTPUTS / SOME {
        // Two sums for each output.
        let mut pairs = [[_mm256_setzero_si256(); SOME / 4]; ROWS];
        for (step, values) in panel.iter().zip(values.as_chunks::<ROWS>().0) {
            let Some(weights) = step.as_chunks::<{ SOME * STEP }>().0.get(part) else { return };
            for (at, weights) in weights.as_chunks::<16>().0.iter().enumerate() {
                // SAFETY: the pointer refers to 16 bytes.
                let weights = _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(weights.as_ptr().cast()) });
                for (pairs, four) in pairs.iter_mut().zip(values) {
                    let four = _mm256_set1_epi64x(i64::from_le_bytes(*four));
                    pairs[at] = _mm256_add_epi32(pairs[at], _mm256_madd_epi16(weights, four));
                }
            }
        }
        for (pairs, sums) in pairs.iter().zip(sums.iter_mut()) {
            let Some(sums) = sums.as_chunks_mut::<SOME>().0.get_mut(part) else { return };
            for (pairs, sums) in pairs.iter().zip(sums.as_chunks_mut::<4>().0) {
                let mut eight = [0_i32; 8];
                // SAFETY: the pointer refers to 32 bytes.
                unsafe { _mm256_storeu_si256(eight.as_mut_ptr().cast(), *pairs) };
                for (sum, pair) in sums.iter_mut().zip(eight.as_chunks::<2>().0) {
                    *sum = pair[0] + pair[1];
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn tile_of_avx512(rows: usize, panel: &[[u8; STEP_BYTES]], values: &[u8], sums: &mut Sums) {
    let (values, _) = values.as_chunks();
    match rows {
        1 => avx512::<1>(panel, values, sums),
        2 => avx512::<2>(panel, values, sums),
        3 => avx512::<3>(panel, values, sums),
        4 => avx512::<4>(panel, values, sums),
        5 => avx512::<5>(panel, values, sums),
        _ => avx512::<MOST_ROWS>(panel, values, sums),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn avx512<const ROWS: usize>(panel: &[[u8; STEP_BYTES]], values: &[[u8; STEP]], sums: &mut Sums) {
    let mut all = [[_mm512_setzero_si512(); OUTPUTS / 16]; ROWS];
    for (step, values) in panel.iter().zip(values.as_chunks::<ROWS>().0) {
        let (weights, _) = step.as_chunks::<64>();
        // SAFETY: each pointer refers to 64 bytes.
        let weights: [__m512i; OUTPUTS / 16] =
            std::array::from_fn(|at| unsafe { _mm512_loadu_si512(weights[at].as_ptr().cast()) });
        for (sums, four) in all.iter_mut().zip(values) {
            let four = _mm512_set1_epi32(i32::from_le_bytes(*four));
            for (sum, weights) in sums.iter_mut().zip(weights) {
                *sum = _mm512_dpbusd_epi32(*sum, four, weights);
            }
        }
    }
    for (all, sums) in all.iter().zip(sums.iter_mut()) {
        for (all, sums) in all.iter().zip(sums.as_chunks_mut::<16>().0) {
            // SAFETY: the pointer refers to 64 bytes.
            unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), *all) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test bytes that include the extreme values.
    fn bytes(count: usize, factor: usize) -> Vec<u8> {
        (0..count).map(|at| if at % 7 == 0 { 255 } else { (at * factor % 256) as u8 }).collect()
    }

    #[test]
    fn every_kernel_computes_exact_sums() {
        for (rows, width, outputs) in [(1, 4, 3), (7, 33, 65), (13, 384, 64), (2, 1_536, 130)] {
            let inputs = bytes(rows * width, 31);
            let weights: Vec<i8> =
                bytes(outputs * width, 57).into_iter().map(|byte| byte.cast_signed().max(-127)).collect();
            let panels = panels(&weights, width);
            for kernel in Kernel::all() {
                let laid = Inputs::new(kernel, rows, width, |row, place| {
                    place.copy_from_slice(&inputs[row * width..][..width]);
                });
                let mut seen = 0;
                kernel.multiply(&panels, &laid, |row, first, sums| {
                    for (output, sum) in (first..outputs).zip(sums) {
                        let pairs = weights[output * width..][..width].iter().zip(&inputs[row * width..]);
                        let exact: i32 = pairs.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
                        assert_eq!(*sum, exact, "{kernel:?}, {rows} x {width} x {outputs}");
                        seen += 1;
                    }
                });
                assert_eq!(seen, rows * outputs);
            }
        }
    }
}
