//! Summarizes the contents of weights: the minimum, the maximum, NaN, and a histogram.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use onnx::locate::locate;
use onnx::scan::Tensor;
use onnx::{DType, Tensor as Array};
use rustc_hash::FxHashMap;
use serde::ser::{Serialize, SerializeTuple, Serializer};

use super::limits::Limits;
use crate::{Document, external, open_regular};

/// The number of bins of a histogram.
const BINS: usize = 16;
/// Larger weights are sampled, in bytes.
const MAX_WHOLE: u64 = 4 << 20;
/// A sample has this many blocks, at equal distances.
const BLOCKS: u64 = 256;
/// The size of a block in bytes, a multiple of the size of every element.
const BLOCK: u64 = 4096;

/// The summary of a weight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summary {
    /// The number of elements that were read; fewer than the weight has, if it was sampled.
    read: u64,
    nans: u64,
    infinities: u64,
    /// The minimum and the maximum of the finite elements.
    range: Option<(f64, f64)>,
    /// The number of elements in each of `BINS` parts of the range, from 0 to 100 relative to the fullest part.
    bins: Vec<u8>,
}

/// `[read, nans, infinities, minimum, maximum, bins]`
impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(6)?;
        tuple.serialize_element(&self.read)?;
        tuple.serialize_element(&self.nans)?;
        tuple.serialize_element(&self.infinities)?;
        tuple.serialize_element(&self.range.map(|(minimum, _)| shortest(minimum)))?;
        tuple.serialize_element(&self.range.map(|(_, maximum)| shortest(maximum)))?;
        tuple.serialize_element(&self.bins)?;
        tuple.end()
    }
}

/// Rounds a number to the nearest one with seven significant digits, which has a short text.
fn shortest(number: f64) -> f64 {
    format!("{number:.6e}").parse().unwrap_or(number)
}

/// Reads the contents of weights.
pub(super) struct Statistics<'d, 'a> {
    document: &'d Document<'a>,
    /// The files with contents, by their paths; `None` if a file cannot be read.
    files: FxHashMap<PathBuf, Option<(File, u64)>>,
}

impl<'d, 'a> Statistics<'d, 'a> {
    pub(super) fn new(document: &'d Document<'a>) -> Statistics<'d, 'a> {
        Statistics { document, files: FxHashMap::default() }
    }

    /// Returns the summary of a weight; `None` if its contents are not numbers, missing, or too much to read.
    pub(super) fn of(&mut self, tensor: &Tensor<'_>, limits: &mut Limits) -> Option<Summary> {
        let dtype = DType::from_code(tensor.element)?;
        let is_number = matches!(dtype.bits(), 8 | 16 | 32 | 64) && !dtype.is_complex();
        let size = tensor.bytes().filter(|&size| size > 0 && is_number)?;
        let is_listed = tensor.raw.is_none() && !tensor.is_external;
        let wanted = if size <= MAX_WHOLE || is_listed { size } else { BLOCKS * BLOCK };
        if !limits.contents.take_all(usize::try_from(wanted).ok()?) {
            limits.statistics.take(1);
            return None;
        }
        let bytes = match tensor.raw {
            Some(raw) if raw.len() as u64 != size => return None,
            Some(raw) => self.inside(raw, size)?,
            None if tensor.is_external => self.outside(tensor, size)?,
            None => {
                let bytes = tensor.listed().filter(|bytes| bytes.len() as u64 == size)?;
                bytes_of(&bytes, size)?
            }
        };
        summarize(dtype, bytes)
    }

    /// Returns contents in the model itself.
    fn inside(&mut self, raw: &[u8], size: u64) -> Option<Vec<u8>> {
        let document = self.document;
        let path = document.path.as_deref().filter(|_| !document.has_weights);
        let Some(path) = path else {
            return bytes_of(raw, size);
        };
        // The document contains zeros in place of large weights, at the same position as in the file.
        let position = (raw.as_ptr() as usize).checked_sub(document.bytes.as_ptr() as usize)?;
        self.in_file(path.to_owned(), position as u64, size)
    }

    /// Returns contents in another file.
    fn outside(&mut self, tensor: &Tensor<'_>, size: u64) -> Option<Vec<u8>> {
        let (offset, length) = external::extent(tensor)?;
        if length.is_some_and(|length| length != size) {
            return None;
        }
        let folder = self.document.path.as_deref()?.parent().unwrap_or(Path::new(""));
        let path = locate(folder, tensor.location()?).ok()?;
        self.in_file(path, offset, size)
    }

    fn in_file(&mut self, path: PathBuf, offset: u64, size: u64) -> Option<Vec<u8>> {
        let opened = self.files.entry(path);
        let opened = opened.or_insert_with_key(|path| open_regular(path).ok());
        let (file, length) = opened.as_mut()?;
        if offset.checked_add(size)? > *length {
            return None;
        }
        sample(size, |start, part| {
            file.seek(SeekFrom::Start(offset + start)).ok()?;
            file.read_exact(part).ok()
        })
    }
}

/// Reads contents in memory.
fn bytes_of(contents: &[u8], size: u64) -> Option<Vec<u8>> {
    sample(size, |start, part| {
        let start = usize::try_from(start).ok()?;
        part.copy_from_slice(contents.get(start..start + part.len())?);
        Some(())
    })
}

/// Reads all of some contents, or blocks of them at equal distances.
fn sample(size: u64, mut read: impl FnMut(u64, &mut [u8]) -> Option<()>) -> Option<Vec<u8>> {
    if size <= MAX_WHOLE {
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        read(0, &mut bytes)?;
        return Some(bytes);
    }
    let mut bytes = vec![0; usize::try_from(BLOCKS * BLOCK).ok()?];
    for (number, part) in (0..BLOCKS).zip(bytes.chunks_exact_mut(BLOCK as usize)) {
        let start = u128::from(size - BLOCK) * u128::from(number) / u128::from(BLOCKS - 1);
        // Each block begins with a whole element.
        read(u64::try_from(start).ok()? / 8 * 8, part)?;
    }
    Some(bytes)
}

fn summarize(dtype: DType, bytes: Vec<u8>) -> Option<Summary> {
    let count = bytes.len() * 8 / dtype.bits();
    let array = Array::new(dtype, vec![count as i64], bytes);
    let numbers = match dtype {
        DType::U64 => array.ints()?.into_iter().map(|bits| bits as u64 as f64).collect(),
        _ if dtype.is_float() => array.floats()?,
        _ => array.ints()?.into_iter().map(|number| number as f64).collect::<Vec<f64>>(),
    };
    let nans = numbers.iter().filter(|number| number.is_nan()).count() as u64;
    let infinities = numbers.iter().filter(|number| number.is_infinite()).count() as u64;
    let finite = || numbers.iter().copied().filter(|number| number.is_finite());
    let range = finite().fold(None, |range: Option<(f64, f64)>, number| {
        let (minimum, maximum) = range.unwrap_or((number, number));
        Some((minimum.min(number), maximum.max(number)))
    });
    let mut counts = [0u64; BINS];
    if let Some((minimum, maximum)) = range.filter(|(minimum, maximum)| minimum < maximum) {
        for number in finite() {
            // The difference of two finite numbers may be infinite.
            let part = (number / 2.0 - minimum / 2.0) / (maximum / 2.0 - minimum / 2.0);
            let bin = ((part * BINS as f64) as usize).min(BINS - 1);
            counts[bin] += 1;
        }
    }
    let most = counts.iter().copied().max().filter(|&most| most > 0);
    let bins = most.map_or_else(Vec::new, |most| {
        counts.iter().map(|&count| (count * 100).div_ceil(most) as u8).collect()
    });
    Some(Summary { read: numbers.len() as u64, nans, infinities, range, bins })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[f32]) -> Summary {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        summarize(DType::F32, bytes).unwrap()
    }

    #[test]
    fn a_summary_counts_what_is_not_finite_apart() {
        let found = of(&[1.0, f32::NAN, -3.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0]);
        assert_eq!((found.read, found.nans, found.infinities), (7, 2, 2));
        assert_eq!(found.range, Some((-3.0, 1.0)));
        assert_eq!((found.bins[0], found.bins[15]), (50, 100));
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(text, "[7,2,2,-3.0,1.0,[50,0,0,0,0,0,0,0,0,0,0,0,0,0,0,100]]");
    }

    #[test]
    fn a_constant_weight_and_one_without_numbers_have_no_histogram() {
        assert_eq!(of(&[2.0; 3]).range, Some((2.0, 2.0)));
        assert!(of(&[2.0; 3]).bins.is_empty());
        assert_eq!(of(&[f32::NAN]).range, None);
    }

    #[test]
    fn the_largest_numbers_have_a_histogram() {
        let bytes = [f64::MIN, 0.0, f64::MAX].iter().flat_map(|it| it.to_le_bytes()).collect();
        let bins = summarize(DType::F64, bytes).unwrap().bins;
        assert_eq!((bins[0], bins[8], bins[15]), (100, 100, 100));
        let bytes = u64::MAX.to_le_bytes().to_vec();
        assert_eq!(
            summarize(DType::U64, bytes).unwrap().range,
            Some((2f64.powi(64), 2f64.powi(64)))
        );
    }

    #[test]
    fn large_contents_are_sampled_from_the_first_to_the_last_block() {
        let size = 3 * MAX_WHOLE;
        let mut starts = Vec::new();
        let bytes = sample(size, |start, part| {
            starts.push(start);
            part.fill(1);
            Some(())
        });
        assert_eq!(bytes.unwrap().len() as u64, BLOCKS * BLOCK);
        assert_eq!((starts[0], starts.len() as u64), (0, BLOCKS));
        assert!(starts.iter().all(|start| start % 8 == 0 && start + BLOCK <= size));
        assert_eq!(starts[255] + BLOCK, size);
    }
}
