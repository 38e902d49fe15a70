//! Reads a model file without its large weights.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use super::schema::Field;
use super::wire::{Fields, FileSource, Walk};

/// Smaller weights are read with the bytes around them.
const MIN_SKIPPED: u64 = 1 << 16;

/// Reads the first `size` bytes of a model. Zeros replace the contents of large weights, and take no memory until
/// they are read. Bytes that are not a model are read unchanged.
pub fn without_weights(file: &mut (impl Read + Seek), size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let mut start = 0;
    let end = std::iter::once(size..size);
    for weights in large_weights(file, size as u64).into_iter().chain(end) {
        file.seek(SeekFrom::Start(start as u64))?;
        file.read_exact(&mut bytes[start..weights.start])?;
        start = weights.end;
    }
    Ok(bytes)
}

/// Returns the positions of large weights, up to the first position at which the file is not a model.
fn large_weights(file: &mut (impl Read + Seek), size: u64) -> Vec<Range<usize>> {
    let mut source = FileSource::new(file);
    let mut walk = Walk::new(Fields::of_model(size));
    let mut large = Vec::new();
    while let Ok(Some(found)) = walk.next(&mut source) {
        if found.size() < MIN_SKIPPED {
            walk.pass();
        } else if found.id == Field::TensorRawData {
            large.push(found.content.start as usize..found.content.end as usize);
        }
    }
    large
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::proto::testing::{field, model};

    fn loaded(bytes: &[u8]) -> Vec<u8> {
        without_weights(&mut Cursor::new(bytes), bytes.len()).unwrap()
    }

    #[test]
    fn only_the_contents_of_large_weights_are_left_out() {
        let raw = vec![7; 5 * MIN_SKIPPED as usize];
        let large = [field(Field::TensorName, "w"), field(Field::TensorRawData, &raw)].concat();
        let sparse = [
            field(Field::SparseTensorIndices, &large),
            field(Field::SparseTensorValues, field(Field::TensorRawData, [9; 100])),
        ];
        let body = field(Field::GraphInitializer, &large);
        let attribute = [field(Field::AttributeG, body), field(Field::AttributeT, &large)].concat();
        let node = [field(Field::NodeAttribute, &attribute), field(Field::NodeOpType, "Loop")];
        let model = [
            model(&[
                field(Field::GraphInitializer, &large),
                field(Field::GraphSparseInitializer, sparse.concat()),
                field(Field::GraphNode, node.concat()),
                field(Field::GraphDocString, vec![b'n'; raw.len()]),
            ]),
            field(Field::ModelFunctions, field(Field::FunctionAttributeProto, &attribute)),
            field(
                Field::ModelTrainingInfo,
                field(Field::TrainingInfoAlgorithm, field(Field::GraphInitializer, &large)),
            ),
            field(Field::ModelProducerName, "producer"),
        ]
        .concat();
        let read = loaded(&model);
        assert_eq!(read.len(), model.len());
        let left_out: Vec<&u8> =
            read.iter().zip(&model).filter(|(a, b)| a != b).map(|it| it.0).collect();
        assert_eq!(left_out, vec![&0; 7 * raw.len()]);
    }

    #[test]
    fn bytes_that_are_not_a_model_are_read_as_they_are() {
        let noise: Vec<u8> = (0..300_000_u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
        for start in 0..64 {
            assert_eq!(loaded(&noise[start..]), &noise[start..]);
        }
        assert!(loaded(&[]).is_empty());
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let raw = field(Field::TensorRawData, vec![7; 5 * MIN_SKIPPED as usize]);
        let graph = model(&[field(Field::GraphInitializer, raw)]);
        let whole = [graph, field(Field::ModelProducerName, "producer")].concat();
        let error = without_weights(&mut Cursor::new(&whole[..whole.len() - 3]), whole.len());
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
