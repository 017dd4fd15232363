//! Stored vectors: one signed byte per dimension, and a scale. The error of a cosine is below 0.01.

use fearless_simd::{Level, dispatch};

/// The number of bytes of the scale, which precedes the dimensions.
const SCALE: usize = 4;

/// The size of a packed vector in bytes.
pub const fn packed_bytes(dimensions: usize) -> usize {
    SCALE + dimensions
}

/// Packs a vector: the scale in little endian, then one byte per dimension.
pub fn pack(vector: &[f32]) -> Vec<u8> {
    let most = vector.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let scale = if most > 0.0 && most.is_finite() { most / 127.0 } else { 0.0 };
    let mut bytes = Vec::with_capacity(packed_bytes(vector.len()));
    bytes.extend(scale.to_le_bytes());
    bytes.extend(vector.iter().map(|value| {
        let whole = if scale > 0.0 { (value / scale).round() as i8 } else { 0 };
        whole.to_le_bytes()[0]
    }));
    bytes
}

/// A vector that is compared with many others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compared {
    scale: f32,
    values: Vec<i16>,
}

impl Compared {
    pub fn new(vector: &[f32]) -> Self {
        Self::unpack(&pack(vector))
    }

    /// Reads a packed vector.
    pub fn unpack(packed: &[u8]) -> Self {
        let Some((scale, values)) = packed.split_first_chunk::<SCALE>() else { return Self::default() };
        let values = values.iter().map(|byte| byte.cast_signed().into()).collect();
        Self { scale: f32::from_le_bytes(*scale), values }
    }

    pub fn dimensions(&self) -> usize {
        self.values.len()
    }

    /// The cosine of the angle between this vector and each of `records`, all of length 1. A record consists of `head`
    /// bytes and a packed vector of the same dimensions; a remainder is ignored.
    pub fn cosines(&self, records: &[u8], head: usize) -> Vec<f32> {
        let mut cosines = Vec::with_capacity(records.len() / (head + packed_bytes(self.dimensions())));
        dispatch!(Level::new(), _simd => self.compare(records, head, &mut cosines));
        cosines
    }

    #[inline(always)]
    fn compare(&self, records: &[u8], head: usize, cosines: &mut Vec<f32>) {
        for record in records.chunks_exact(head + packed_bytes(self.dimensions())) {
            let packed = record.get(head..).and_then(<[u8]>::split_first_chunk::<SCALE>);
            let Some((scale, values)) = packed else { return };
            let products =
                self.values.iter().zip(values).map(|(a, b)| i32::from(*a) * i32::from(b.cast_signed()));
            cosines.push(products.sum::<i32>() as f32 * self.scale * f32::from_le_bytes(*scale));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unit(values: &[f32]) -> Vec<f32> {
        let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
        values.iter().map(|value| value / length.max(f32::MIN_POSITIVE)).collect()
    }

    #[test]
    fn cosines_are_computed_for_consecutive_records() {
        let record = |vector: &[f32]| [vec![9; 3], pack(vector)].concat();
        let records = [record(&[1.0, 0.0]), record(&[0.0, -1.0]), record(&[0.0, 0.0]), vec![1; 8]].concat();
        let asked = Compared::new(&[0.6, 0.8]);
        let cosines: Vec<_> =
            asked.cosines(&records, 3).iter().map(|it| (it * 10.0).round() as i32).collect();
        assert_eq!((cosines, asked.dimensions()), (vec![6, -8, 0], 2));
        assert_eq!(pack(&[1.0, -0.5])[SCALE..], [127, 192]);
        assert_eq!(Compared::new(&[f32::NAN, f32::INFINITY]).cosines(&records, 3).len(), 3);
        assert_eq!(Compared::unpack(&[1, 2]).dimensions(), 0);
    }

    proptest! {
        #[test]
        fn the_cosine_of_a_packed_vector_is_accurate(
            a in proptest::collection::vec(-1.0f32..1.0, 67), b in proptest::collection::vec(-1.0f32..1.0, 67),
        ) {
            let (a, b) = (unit(&a), unit(&b));
            let exact: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            let found = Compared::new(&a).cosines(&pack(&b), 0)[0];
            prop_assert!((exact - found).abs() < 0.01, "{exact} against {found}");
        }
    }
}
