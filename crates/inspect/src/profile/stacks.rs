//! Groups the times of kernels by the call paths of the user.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::{Profile, attribute};
use crate::{Document, Frame};

/// One level of a call path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Level {
    pub name: String,
    pub file: Option<String>,
    pub line: u32,
}

/// Returns the call paths, outermost first and the operator last, with their microseconds in the counted runs.
pub fn stacks(document: &Document<'_>, profile: &Profile, warmup: usize) -> Vec<(Vec<Level>, u64)> {
    let mut numbers: FxHashMap<Vec<Level>, usize> = FxHashMap::default();
    let mut stacks: Vec<(Vec<Level>, u64)> = Vec::new();
    for (kernel, attribution) in profile.kernels.iter().zip(attribute(document, profile)) {
        let frames = attribution.origin.as_ref().map(|origin| origin.shown_frames(false));
        let mut path: Vec<Level> = match &frames {
            Some(frames) if !frames.is_empty() => frames.iter().rev().map(level).collect(),
            _ => vec![Level { name: "(not known)".to_owned(), file: None, line: 0 }],
        };
        path.push(Level { name: kernel.op.to_string(), file: None, line: 0 });
        let time: u64 = kernel.times.iter().skip(warmup).sum();
        if let Some(&number) = numbers.get(&path) {
            stacks[number].1 += time;
        } else {
            numbers.insert(path.clone(), stacks.len());
            stacks.push((path, time));
        }
    }
    stacks
}

pub(crate) fn level(frame: &Frame<'_>) -> Level {
    let name = if frame.function.is_empty() { frame.place() } else { frame.function.to_owned() };
    let file = frame.has_file().then(|| frame.file.to_owned());
    Level { name, file, line: frame.line }
}

/// Returns a profile in the file format of <https://www.speedscope.app>.
pub fn speedscope(stacks: &[(Vec<Level>, u64)], name: &str) -> Value {
    let mut numbers: FxHashMap<&Level, usize> = FxHashMap::default();
    let mut frames: Vec<Value> = Vec::new();
    let mut samples: Vec<Vec<usize>> = Vec::new();
    for (path, _) in stacks {
        let sample = path.iter().map(|level| {
            *numbers.entry(level).or_insert_with(|| {
                let mut frame = json!({"name": level.name});
                if let Some(file) = &level.file {
                    frame["file"] = json!(file);
                    frame["line"] = json!(level.line);
                }
                frames.push(frame);
                frames.len() - 1
            })
        });
        samples.push(sample.collect());
    }
    let weights: Vec<u64> = stacks.iter().map(|(_, time)| *time).collect();
    json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "jax2onnx",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": [{
            "type": "sampled",
            "name": name,
            "unit": "microseconds",
            "startValue": 0,
            "endValue": weights.iter().sum::<u64>(),
            "samples": samples,
            "weights": weights,
        }],
    })
}
