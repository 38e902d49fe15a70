//! Formats a profile as a trace for <https://ui.perfetto.dev>, with the line of each kernel.

use std::io::Read;

use rustc_hash::FxHashMap;
use serde_json::Value;

use super::{Profile, ProfileError, attribute};
use crate::Document;

/// The maximum size of a profile in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// Returns the events of a profile, with `callsite`, `scope` and `frames` added to the arguments of each kernel.
pub fn trace(
    document: &Document<'_>,
    profile: &Profile,
    file: impl Read,
) -> Result<Value, ProfileError> {
    let read = serde_json::from_reader(std::io::BufReader::new(file.take(MAX_BYTES)));
    let mut events: Vec<Value> = read.map_err(|why| ProfileError::NotAProfile(why.to_string()))?;
    let mut origins = FxHashMap::default();
    for (kernel, attribution) in profile.kernels.iter().zip(attribute(document, profile)) {
        if let Some(origin) = attribution.origin {
            origins.entry(&*kernel.node).or_insert(origin);
        }
    }
    for event in &mut events {
        let name = event["name"].as_str().and_then(|name| name.strip_suffix("_kernel_time"));
        let Some(origin) = name.and_then(|name| origins.get(name)) else { continue };
        let frames: Vec<String> =
            origin.shown_frames(false).iter().map(ToString::to_string).collect();
        let Some(arguments) = event["args"].as_object_mut() else { continue };
        if let Some(callsite) = origin.callsite {
            arguments.insert("callsite".to_owned(), callsite.to_string().into());
        }
        arguments.insert("frames".to_owned(), frames.into());
        if !origin.scope.is_empty() {
            arguments.insert("scope".to_owned(), origin.scope.join("/").into());
        }
    }
    Ok(Value::Array(events))
}
