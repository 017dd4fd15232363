//! Vectors as they are stored: one signed byte for each dimension, and a scale. The error of a cosine is below 0.01.

/// A vector in the form in which it is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packed<'a> {
    pub scale: f32,
    pub values: &'a [i8],
}

/// Bytes of the scale, before those of the dimensions.
const SCALE: usize = 4;

/// A vector as bytes: the scale in little endian, then one byte for each dimension.
pub fn pack(vector: &[f32]) -> Vec<u8> {
    let most = vector.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    let scale = if most > 0.0 && most.is_finite() { most / 127.0 } else { 0.0 };
    let mut bytes = Vec::with_capacity(SCALE + vector.len());
    bytes.extend(scale.to_le_bytes());
    bytes.extend(vector.iter().map(|value| {
        let whole = if scale > 0.0 { (value / scale).round() as i8 } else { 0 };
        whole.to_le_bytes()[0]
    }));
    bytes
}

/// Reads packed vectors of `dimensions` that follow each other. What is left over is ignored.
pub fn unpack(bytes: &[u8], dimensions: usize) -> impl Iterator<Item = (f32, Vec<i8>)> {
    bytes.chunks_exact(SCALE + dimensions).filter_map(|one| {
        let (scale, values) = one.split_first_chunk::<SCALE>()?;
        Some((f32::from_le_bytes(*scale), values.iter().map(|byte| byte.cast_signed()).collect()))
    })
}

/// The cosine of the angle between two vectors of length 1.
pub fn cosine(a: Packed<'_>, b: Packed<'_>) -> f32 {
    let sum: i32 = a.values.iter().zip(b.values).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    sum as f32 * a.scale * b.scale
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
    fn several_vectors_follow_each_other() {
        let bytes = [pack(&[1.0, -0.5]), pack(&[0.0, 0.0]), vec![1]].concat();
        let read: Vec<_> = unpack(&bytes, 2).collect();
        assert_eq!(read, [(1.0 / 127.0, vec![127, -64]), (0.0, vec![0, 0])]);
        assert_eq!(unpack(&pack(&[f32::NAN, f32::INFINITY]), 2).count(), 1);
    }

    proptest! {
        #[test]
        fn a_packed_cosine_is_close(
            a in proptest::collection::vec(-1.0f32..1.0, 64), b in proptest::collection::vec(-1.0f32..1.0, 64),
        ) {
            let (a, b) = (unit(&a), unit(&b));
            let exact: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            let (packed_a, packed_b) = (pack(&a), pack(&b));
            let (a, b) = (unpack(&packed_a, 64).next().unwrap(), unpack(&packed_b, 64).next().unwrap());
            let found = cosine(Packed { scale: a.0, values: &a.1 }, Packed { scale: b.0, values: &b.1 });
            prop_assert!((exact - found).abs() < 0.01, "{exact} against {found}");
        }
    }
}
