//! Finds the copies between devices, and the nodes that need them.
//!
//! ONNX Runtime inserts a node for each copy. Its own form of a model contains these nodes. Without that form, the
//! values are those between a node on the CPU and a node on another device, and the profile says their types.

use std::sync::Arc;

use onnx::DType;
use onnx::scan::{Dim, ValueType};
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::{Kernel, Profile};
use crate::Document;

/// The provider that computes on the CPU.
pub const CPU: &str = "CPUExecutionProvider";

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    ToCpu,
    FromCpu,
}

impl Direction {
    /// Returns the direction of the copies that an operator makes.
    pub fn of_op(op: &str) -> Option<Direction> {
        match op {
            "MemcpyToHost" => Some(Direction::ToCpu),
            "MemcpyFromHost" => Some(Direction::FromCpu),
            _ => None,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Direction::ToCpu => "to_cpu",
            Direction::FromCpu => "from_cpu",
        }
    }
}

/// A copy of a value. Nodes are numbered as in the scan of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The name of the node that copies.
    pub(crate) name: String,
    pub(crate) direction: Direction,
    /// The kernel, if a profile contains it.
    pub(crate) kernel: Option<usize>,
    pub(crate) value: Option<String>,
    pub(crate) ty: Option<String>,
    pub(crate) bytes: Option<u64>,
    /// The node that computes the value.
    pub(crate) maker: Option<usize>,
    /// The nodes that read the copy.
    pub(crate) readers: Vec<usize>,
    /// The node on the CPU that needs the copy. If an input of the model is copied, a node that reads it.
    pub(crate) cause: Option<usize>,
}

/// Returns the copies of a model, in the order of its nodes or of a profile.
pub(crate) fn copies(document: &Document<'_>, profile: Option<&Profile>) -> Vec<Copied> {
    let nodes = &document.scan.nodes;
    if nodes.iter().any(|node| Direction::of_op(node.op).is_some()) {
        return of_nodes(document, profile);
    }
    profile.map(|profile| of_kernels(document, profile)).unwrap_or_default()
}

/// Returns the copies that the model contains.
fn of_nodes(document: &Document<'_>, profile: Option<&Profile>) -> Vec<Copied> {
    let readers = readers(document);
    let outline = &document.outline().nodes;
    let mut kernels: FxHashMap<(&str, &str), Vec<usize>> = FxHashMap::default();
    let all = profile.map_or(&[][..], |profile| &profile.kernels);
    for (number, kernel) in all.iter().enumerate() {
        kernels.entry((&*kernel.node, &*kernel.op)).or_default().push(number);
    }
    let mut found = Vec::new();
    for (number, node) in document.scan.nodes.iter().enumerate() {
        let Some(direction) = Direction::of_op(node.op) else { continue };
        let (read, made) = (node.inputs.first().copied(), node.outputs.first().copied());
        // The runtime renames the value on the other device.
        let value = match direction {
            Direction::ToCpu => made.or(read),
            Direction::FromCpu => read.or(made),
        };
        let graph = node.graph as usize;
        let names = [value, read, made].into_iter().flatten();
        let declared = names.clone().find_map(|name| document.declared_type(graph, name));
        // Nodes of two graphs may have the same name.
        let fits = |&&kernel: &&usize| declared.is_none_or(|ty| is_of(&all[kernel], ty));
        let of_name = kernels.get(&(node.name, node.op)).map_or(&[][..], Vec::as_slice);
        let mut fitting = of_name.iter().filter(fits).copied();
        let kernel = fitting.next().filter(|_| fitting.next().is_none());
        let maker = outline[number].inputs.first().map(|&maker| maker as usize);
        let readers = readers[number].clone();
        found.push(Copied {
            name: document.node_name(number),
            direction,
            kernel,
            value: value.map(str::to_owned),
            ty: declared.map(ToString::to_string),
            bytes: declared.and_then(bytes).or_else(|| all.get(kernel?)?.bytes),
            maker,
            cause: cause(direction, maker, &readers),
            readers,
        });
    }
    found
}

/// Returns the copies of a profile. If only one value can be meant, finds it in the model.
fn of_kernels(document: &Document<'_>, profile: &Profile) -> Vec<Copied> {
    let mut found: Vec<Copied> = Vec::new();
    for (number, kernel) in profile.kernels.iter().enumerate() {
        let Some(direction) = Direction::of_op(&kernel.op) else { continue };
        let ty = shape_of(kernel).map(|(element, sizes)| {
            let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
            format!("{element}[{}]", sizes.join(","))
        });
        found.push(Copied {
            name: kernel.node.to_string(),
            direction,
            kernel: Some(number),
            value: None,
            ty,
            bytes: kernel.bytes,
            maker: None,
            readers: Vec::new(),
            cause: None,
        });
    }
    if found.is_empty() {
        return found;
    }
    let crossings = crossings(document, profile);
    // Copies of the same type that ran equally often have the same candidates.
    let mut known: FxHashMap<Class, Candidates> = FxHashMap::default();
    for copied in &mut found {
        let Some(kernel) = copied.kernel.and_then(|number| profile.kernels.get(number)) else {
            continue;
        };
        let calls = kernel.calls.last().copied();
        let key = (copied.direction, kernel.shapes.made.clone(), calls);
        if known.len() * crossings.len() > MAX_COMPARED {
            break;
        }
        let candidates = known.entry(key).or_insert_with(|| {
            let fits = |it: &&Crossing<'_>| {
                it.direction == copied.direction
                    && it.ty.is_none_or(|ty| is_of(kernel, ty))
                    && it.calls.contains(&calls)
            };
            Candidates::of(document, crossings.iter().filter(fits))
        });
        copied.cause = candidates.cause;
        if let Some(crossing) = candidates.only.and_then(|only| crossings.get(only)) {
            copied.value = Some(crossing.value.to_owned());
            copied.maker = Some(crossing.maker);
            copied.readers.clone_from(&crossing.readers);
        }
    }
    found
}

/// The direction, the type and the number of runs of a copy.
type Class = (Direction, Option<Arc<str>>, Option<u64>);

/// The maximum number of comparisons between copies and values.
const MAX_COMPARED: usize = 1 << 24;

/// What is known about the values that a copy may be of.
struct Candidates {
    /// The number of the value, if there is only one.
    only: Option<usize>,
    /// The node that needs the copy. If there are several values, all such nodes are on its line.
    cause: Option<usize>,
}

impl Candidates {
    fn of<'c>(
        document: &Document<'_>,
        mut crossings: impl Iterator<Item = &'c Crossing<'c>>,
    ) -> Candidates {
        let Some(first) = crossings.next() else { return Candidates { only: None, cause: None } };
        let line = |cause: Option<usize>| document.callsites(cause?).first().copied();
        let cause = first.cause();
        let mut only = Some(first.number);
        for other in crossings {
            only = None;
            if line(other.cause()) != line(cause) {
                return Candidates { only, cause: None };
            }
        }
        Candidates { only, cause }
    }
}

/// A value that a node on one device computes and nodes on another one read.
struct Crossing<'d> {
    number: usize,
    direction: Direction,
    value: &'d str,
    ty: Option<&'d ValueType<'d>>,
    maker: usize,
    readers: Vec<usize>,
    /// How often the last run computed and read the value.
    calls: Vec<Option<u64>>,
}

impl Crossing<'_> {
    fn cause(&self) -> Option<usize> {
        cause(self.direction, Some(self.maker), &self.readers)
    }
}

/// Returns the values of the model that are computed on one device and read on another one.
fn crossings<'d>(document: &'d Document<'_>, profile: &Profile) -> Vec<Crossing<'d>> {
    let mut kernels: FxHashMap<&str, Option<&Kernel>> = FxHashMap::default();
    for kernel in &profile.kernels {
        // Nodes of two graphs may have the same name, but not the same provider.
        let is_clear = |known: &mut Option<&Kernel>| {
            *known = known.filter(|known| known.provider == kernel.provider);
        };
        let is_known = !kernel.node.is_empty() && !kernel.provider.is_empty();
        kernels.entry(&*kernel.node).and_modify(is_clear).or_insert(is_known.then_some(kernel));
    }
    let nodes = &document.scan.nodes;
    let ran = |node: usize| {
        let kernel = kernels.get(nodes[node].name).copied().flatten()?;
        Some((*kernel.provider == *CPU, kernel.calls.last().copied()))
    };
    let mut makers: FxHashMap<&str, Option<usize>> = FxHashMap::default();
    for (number, node) in nodes.iter().enumerate() {
        for &output in &node.outputs {
            // A name that several graphs use identifies no value.
            makers.entry(output).and_modify(|maker| *maker = None).or_insert(Some(number));
        }
    }
    let mut numbers: FxHashMap<&str, usize> = FxHashMap::default();
    let mut found: Vec<Crossing<'d>> = Vec::new();
    for (reader, node) in nodes.iter().enumerate() {
        for &value in &node.inputs {
            let Some(maker) = makers.get(value).copied().flatten() else { continue };
            let (Some((is_from_cpu, made)), Some((is_to_cpu, read))) = (ran(maker), ran(reader))
            else {
                continue;
            };
            if is_from_cpu == is_to_cpu {
                continue;
            }
            let number = *numbers.entry(value).or_insert_with(|| {
                let direction = if is_from_cpu { Direction::FromCpu } else { Direction::ToCpu };
                let ty = document.declared_type(nodes[maker].graph as usize, value);
                let (number, readers, calls) = (found.len(), Vec::new(), vec![made]);
                found.push(Crossing { number, direction, value, ty, maker, readers, calls });
                number
            });
            found[number].readers.push(reader);
            if !found[number].calls.contains(&read) {
                found[number].calls.push(read);
            }
        }
    }
    found
}

/// Returns the nodes that read the results of each node.
fn readers(document: &Document<'_>) -> Vec<Vec<usize>> {
    let outline = &document.outline().nodes;
    let mut readers = vec![Vec::new(); document.scan.nodes.len()];
    for (number, node) in outline.iter().enumerate() {
        for &input in &node.inputs {
            if let Some(readers) = readers.get_mut(input as usize) {
                readers.push(number);
            }
        }
    }
    readers
}

/// Returns the node on the CPU that needs a copy.
fn cause(direction: Direction, maker: Option<usize>, readers: &[usize]) -> Option<usize> {
    let reader = readers.first().copied();
    match direction {
        Direction::ToCpu => reader.or(maker),
        Direction::FromCpu => maker.or(reader),
    }
}

/// True if the first result of a kernel can have a type.
fn is_of(kernel: &Kernel, ty: &ValueType<'_>) -> bool {
    let (Some((dtype, sizes)), ValueType::Tensor { element, shape }) = (shape_of(kernel), ty)
    else {
        return true;
    };
    let fits = |(known, size): (&Dim<'_>, &i64)| match known {
        Dim::Known(known) => known == size,
        Dim::Named(_) | Dim::Unknown => true,
    };
    let has_shape = shape
        .as_ref()
        .is_none_or(|shape| shape.len() == sizes.len() && shape.iter().zip(&sizes).all(fits));
    DType::from_code(*element) == Some(dtype) && has_shape
}

/// Returns the type of the first result of a kernel, which a profile writes as `{"float":[2,3]}`.
fn shape_of(kernel: &Kernel) -> Option<(DType, Vec<i64>)> {
    let shape: Value = serde_json::from_str(kernel.shapes.made.as_deref()?).ok()?;
    let (name, sizes) = shape.as_object()?.iter().next()?;
    let sizes = sizes.as_array()?.iter().map(Value::as_i64).collect::<Option<Vec<i64>>>()?;
    Some((element(name)?, sizes))
}

/// Returns the type that a profile calls `float`.
fn element(name: &str) -> Option<DType> {
    Some(match name {
        "float" => DType::F32,
        "double" => DType::F64,
        "float16" => DType::F16,
        "bfloat16" => DType::Bf16,
        "bool" => DType::Bool,
        "string" => DType::String,
        "int8" => DType::I8,
        "int16" => DType::I16,
        "int32" => DType::I32,
        "int64" => DType::I64,
        "uint8" => DType::U8,
        "uint16" => DType::U16,
        "uint32" => DType::U32,
        "uint64" => DType::U64,
        _ => return None,
    })
}

/// Returns the size of a value in bytes, if all sizes of its axes are known.
fn bytes(ty: &ValueType<'_>) -> Option<u64> {
    let ValueType::Tensor { element, shape } = ty else { return None };
    let bits = DType::from_code(*element)?.bits() as u64;
    let elements = shape.as_ref()?.iter().try_fold(1u64, |all, size| match size {
        Dim::Known(size) => all.checked_mul(u64::try_from(*size).ok()?),
        Dim::Named(_) | Dim::Unknown => None,
    })?;
    (bits > 0).then(|| elements.checked_mul(bits))?.map(|bits| bits.div_ceil(8))
}
