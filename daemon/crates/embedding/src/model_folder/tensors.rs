//! Writes the weights of a model in the order of recall's file.

use safetensors::{Dtype, SafeTensors};

use super::{ModelError, WEIGHTS, unfit};
use crate::encoder::Shape;
use crate::model_file::Writer;

/// Reads tensors by name and checks their sizes.
struct Tensors<'a> {
    tensors: SafeTensors<'a>,
    /// Prepended to all names, because some models are stored as a part of a larger one.
    prefix: &'static str,
}

impl Tensors<'_> {
    fn values(&self, name: &str, sizes: &[usize]) -> Result<Vec<f32>, ModelError> {
        let name = format!("{}{name}", self.prefix);
        let tensor = self.tensors.tensor(&name).map_err(|_| unfit(WEIGHTS, format!("{name} is missing")))?;
        if tensor.dtype() != Dtype::F32 {
            return Err(unfit(WEIGHTS, format!("{name} is in {:?} instead of F32", tensor.dtype())));
        }
        if tensor.shape() != sizes {
            return Err(unfit(
                WEIGHTS,
                format!("{name} has the sizes {:?} instead of {sizes:?}", tensor.shape()),
            ));
        }
        let (words, _) = tensor.data().as_chunks::<4>();
        Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
    }

    /// Writes the outputs of several parts, one after another.
    fn linear(
        &self,
        writer: &mut Writer,
        names: &[String],
        outputs: usize,
        inputs: usize,
    ) -> Result<(), ModelError> {
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for name in names {
            weight.extend(self.values(&format!("{name}.weight"), &[outputs, inputs])?);
            bias.extend(self.values(&format!("{name}.bias"), &[outputs])?);
        }
        writer.linear(&weight, &bias, inputs);
        Ok(())
    }

    fn norm(&self, writer: &mut Writer, name: &str, length: usize) -> Result<(), ModelError> {
        writer.numbers(&self.values(&format!("{name}.weight"), &[length])?);
        writer.numbers(&self.values(&format!("{name}.bias"), &[length])?);
        Ok(())
    }

    fn layer(&self, writer: &mut Writer, number: usize, shape: Shape) -> Result<(), ModelError> {
        let Shape { dimensions, inner, .. } = shape;
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        let attention = ["query", "key", "value"].map(|part| name(&format!("attention.self.{part}")));
        self.linear(writer, &attention, dimensions, dimensions)?;
        self.linear(writer, &[name("attention.output.dense")], dimensions, dimensions)?;
        self.norm(writer, &name("attention.output.LayerNorm"), dimensions)?;
        self.linear(writer, &[name("intermediate.dense")], inner, dimensions)?;
        self.linear(writer, &[name("output.dense")], dimensions, inner)?;
        self.norm(writer, &name("output.LayerNorm"), dimensions)
    }
}

/// Writes the weights in the order of a file.
pub(super) fn write(bytes: &[u8], shape: Shape, mut writer: Writer) -> Result<Vec<u8>, ModelError> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| unfit(WEIGHTS, error))?;
    let is_part = tensors.names().iter().any(|name| name.starts_with("bert."));
    let tensors = Tensors { tensors, prefix: if is_part { "bert." } else { "" } };
    let Shape { dimensions, pieces, positions, .. } = shape;
    let words = tensors.values("embeddings.word_embeddings.weight", &[pieces, dimensions])?;
    writer.rows(&words, dimensions);
    // The vector of token type 0 is added to every piece.
    let types = tensors.values("embeddings.token_type_embeddings.weight", &[2, dimensions])?;
    let mut places = tensors.values("embeddings.position_embeddings.weight", &[positions, dimensions])?;
    for row in places.chunks_exact_mut(dimensions) {
        row.iter_mut().zip(&types).for_each(|(place, kind)| *place += kind);
    }
    writer.numbers(&places);
    tensors.norm(&mut writer, "embeddings.LayerNorm", dimensions)?;
    for number in 0..shape.layers {
        tensors.layer(&mut writer, number, shape)?;
    }
    Ok(writer.finish())
}
