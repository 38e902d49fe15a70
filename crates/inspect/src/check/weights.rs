//! Checks that the sizes of weights match their types, and that the weight files exist.

use std::path::Path;

use onnx::DType;
use onnx::scan::Tensor;
use rustc_hash::FxHashMap;

use super::Findings;
use crate::Document;
use crate::external::{self, Outside};

pub(super) fn check(document: &Document<'_>, findings: &mut Findings) {
    let folder = document.path.as_deref().and_then(Path::parent);
    let mut files: FxHashMap<&str, Result<u64, Outside>> = FxHashMap::default();
    for tensor in document.scan.tensors() {
        shape(&tensor, findings);
        if !tensor.is_external {
            continue;
        }
        let Some(location) = tensor.location() else {
            let outside = Outside::NoLocation(tensor.name.to_owned());
            findings.error("external-data", None, format_args!("{outside}"));
            continue;
        };
        let Some(folder) = folder else { continue };
        let is_new = !files.contains_key(location);
        let size = files.entry(location).or_insert_with(|| external::size(folder, location));
        match size {
            Ok(size) => extent(&tensor, location, *size, findings),
            Err(outside) if is_new => {
                findings.error("external-data", None, format_args!("{outside}"));
            }
            Err(_) => {}
        }
    }
}

/// Reports contents whose size does not match their type and shape.
fn shape(tensor: &Tensor<'_>, findings: &mut Findings) {
    let name = tensor.name;
    if tensor.dims.iter().any(|&dim| dim < 0) {
        let message =
            format_args!("the shape of `{name}` has a negative size: {}", tensor.type_text());
        findings.error("weight-shape", None, message);
        return;
    }
    if DType::from_code(tensor.element).is_none() {
        let message = format_args!("`{name}` has the unknown element type {}", tensor.element);
        findings.error("weight-type", None, message);
        return;
    }
    if tensor.elements().is_none() {
        let message = format_args!("`{name}` has too many elements: {}", tensor.type_text());
        findings.error("weight-shape", None, message);
        return;
    }
    if let (Some(raw), Some(bytes)) = (tensor.raw, tensor.bytes())
        && raw.len() as u64 != bytes
    {
        let (found, ty) = (raw.len(), tensor.type_text());
        let message = format_args!("`{name}` has {found} bytes, but {ty} needs {bytes}");
        findings.error("weight-size", None, message);
    }
}

/// Reports contents that are not completely within their file.
fn extent(tensor: &Tensor<'_>, location: &str, size: u64, findings: &mut Findings) {
    let name = tensor.name;
    let Some((offset, length)) = external::extent(tensor) else {
        let message =
            format_args!("the offset or length of `{name}` in `{location}` is not a number");
        findings.error("external-data", None, message);
        return;
    };
    let length = length.or(tensor.bytes()).unwrap_or(0);
    if offset.checked_add(length).is_none_or(|end| end > size) {
        let message =
            format_args!("`{name}` extends past the end of `{location}`, which has {size} bytes");
        findings.error("external-data", None, message);
    }
    if let Some(bytes) = tensor.bytes().filter(|&bytes| bytes != length) {
        let message = format_args!(
            "`{name}` has {length} bytes in `{location}`, but {} needs {bytes}",
            tensor.type_text()
        );
        findings.error("weight-size", None, message);
    }
}
