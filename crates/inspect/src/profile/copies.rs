//! Finds the copies between devices, and the nodes that need them.
//!
//! ONNX Runtime inserts a node for each copy. Its own form of a model contains these nodes. Without that form, the
//! values are those between a node on the CPU and a node on another device, and the profile says their types.

use std::sync::Arc;

use onnx::DType;
use onnx::scan::{Dim, Tensor, ValueType};
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
        let weight = value.and_then(|value| document.initializer(graph, value));
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
            ty: declared.map(ToString::to_string).or_else(|| weight.map(Tensor::type_text)),
            bytes: declared
                .and_then(bytes)
                .or_else(|| weight.and_then(Tensor::bytes))
                .or_else(|| all.get(kernel?)?.bytes),
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
    let candidates = candidates(document, profile);
    let class = |copied: &Copied| -> Option<Class> {
        let kernel = profile.kernels.get(copied.kernel?)?;
        Some((copied.direction, kernel.shapes.made.clone(), kernel.calls.last().copied()))
    };
    let mut counts: FxHashMap<Class, usize> = FxHashMap::default();
    for class in found.iter().filter_map(class) {
        *counts.entry(class).or_default() += 1;
    }
    if counts.len().saturating_mul(candidates.len()) > MAX_COMPARED {
        return found;
    }
    // Copies of the same type that ran equally often have the same candidates.
    let mut known: FxHashMap<Class, Fitting> = FxHashMap::default();
    for copied in &mut found {
        let Some(class) = class(copied) else { continue };
        let Some(kernel) = copied.kernel.and_then(|number| profile.kernels.get(number)) else {
            continue;
        };
        let copies = counts.get(&class).copied().unwrap_or(0);
        let fitting = known.entry(class).or_insert_with_key(|(direction, _, calls)| {
            let fits = |it: &&Candidate<'_>| {
                it.directions.contains(direction)
                    && it.ty.is_none_or(|ty| is_of(kernel, ty))
                    && it.weight.is_none_or(|weight| is_of_weight(kernel, weight))
                    && it.calls.iter().any(|known| known.is_none() || known == calls)
            };
            Fitting::of(document, *direction, candidates.iter().filter(fits))
        });
        if copies <= fitting.count {
            copied.cause = fitting.cause;
        }
        if let (1, 1, Some(only)) = (copies, fitting.count, fitting.first) {
            let Some(candidate) = candidates.get(only) else { continue };
            copied.value = Some(candidate.value.to_owned());
            copied.maker = candidate.maker;
            copied.readers.clone_from(&candidate.readers);
        }
    }
    found
}

/// The direction, the type and the number of runs of a copy.
type Class = (Direction, Option<Arc<str>>, Option<u64>);

/// The maximum number of comparisons between copies and values.
const MAX_COMPARED: usize = 1 << 24;

/// The values that a copy may be of.
struct Fitting {
    count: usize,
    first: Option<usize>,
    /// The node that needs the copy. If there are several values, all such nodes are on its line.
    cause: Option<usize>,
}

impl Fitting {
    fn of<'c>(
        document: &Document<'_>,
        direction: Direction,
        candidates: impl Iterator<Item = &'c Candidate<'c>>,
    ) -> Fitting {
        let line = |cause: Option<usize>| document.callsites(cause?).first().copied();
        let mut found = Fitting { count: 0, first: None, cause: None };
        let mut is_one_line = true;
        for candidate in candidates {
            let cause = cause(direction, candidate.maker, &candidate.readers);
            if found.count == 0 {
                found.first = Some(candidate.number);
                found.cause = cause;
            }
            is_one_line &= line(cause) == line(found.cause);
            found.count += 1;
        }
        found.cause = found.cause.filter(|_| is_one_line);
        found
    }
}

/// A value that may be copied between devices.
struct Candidate<'d> {
    number: usize,
    directions: Vec<Direction>,
    value: &'d str,
    ty: Option<&'d ValueType<'d>>,
    weight: Option<&'d Tensor<'d>>,
    /// `None` for inputs and weights.
    maker: Option<usize>,
    /// The nodes that may read the copy.
    readers: Vec<usize>,
    /// The number of times that the last run computed and read the value; `None` if it is unknown.
    calls: Vec<Option<u64>>,
}

/// The device on which a node ran, and how often.
#[derive(Clone, Copy)]
struct Ran {
    /// `None` if it is unknown.
    is_on_cpu: Option<bool>,
    calls: Option<u64>,
}

/// Returns the values of the model that may be computed on one device and read on another one. The device of a node
/// that did not run under its own name is unknown.
fn candidates<'d>(document: &'d Document<'_>, profile: &Profile) -> Vec<Candidate<'d>> {
    let mut kernels: FxHashMap<&str, Ran> = FxHashMap::default();
    for kernel in profile.kernels.iter().filter(|kernel| !kernel.node.is_empty()) {
        let is_on_cpu = (!kernel.provider.is_empty()).then_some(*kernel.provider == *CPU);
        let ran = Ran { is_on_cpu, calls: kernel.calls.last().copied() };
        // Nodes of two graphs may have the same name.
        let unknown = |known: &mut Ran| {
            known.is_on_cpu = known.is_on_cpu.filter(|_| known.is_on_cpu == is_on_cpu);
            known.calls = None;
        };
        kernels.entry(&*kernel.node).and_modify(unknown).or_insert(ran);
    }
    let nodes = &document.scan.nodes;
    let unknown = Ran { is_on_cpu: None, calls: None };
    let ran = |node: usize| kernels.get(nodes[node].name).copied().unwrap_or(unknown);
    let mut makers: FxHashMap<&str, Option<usize>> = FxHashMap::default();
    for (number, node) in nodes.iter().enumerate() {
        for &output in &node.outputs {
            // A name that several graphs use identifies no node.
            makers.entry(output).and_modify(|maker| *maker = None).or_insert(Some(number));
        }
    }
    let mut readers: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    let mut order: Vec<&'d str> = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        for &value in node.inputs.iter().filter(|value| !value.is_empty()) {
            let readers = readers.entry(value).or_default();
            if readers.is_empty() {
                order.push(value);
            }
            readers.push(number);
        }
    }
    let mut found = Vec::new();
    for value in order {
        let maker = makers.get(value).copied().flatten();
        let made = makers.get(value).map(|maker| maker.map_or(unknown, ran));
        let all = readers.remove(value).unwrap_or_default();
        let graph = maker.or(all.first().copied()).map_or(0, |node| nodes[node].graph as usize);
        // An input of a body may be on either device. Others are on the device that reads them, unless both do.
        let is_body_input = document.graph(graph).is_some_and(|graph| {
            graph.around.is_some() && graph.inputs.iter().any(|input| input.name == value)
        });
        let (mut directions, mut reading) = (Vec::new(), Vec::new());
        for direction in [Direction::FromCpu, Direction::ToCpu] {
            let is_from_cpu = direction == Direction::FromCpu;
            let can_be = |ran: Ran, is_on_cpu: bool| ran.is_on_cpu.is_none_or(|it| it == is_on_cpu);
            let copied = all.iter().copied().filter(|&reader| can_be(ran(reader), !is_from_cpu));
            let copied: Vec<usize> = copied.collect();
            let is_shared = || {
                let is_inner = |&reader: &usize| nodes[reader].graph > 0;
                copied.iter().any(is_inner) || all.iter().any(|&it| can_be(ran(it), is_from_cpu))
            };
            let is_made = match made {
                Some(made) => can_be(made, is_from_cpu),
                None => is_body_input || is_from_cpu && is_shared(),
            };
            if is_made && !copied.is_empty() {
                directions.push(direction);
                reading = copied;
            }
        }
        if directions.is_empty() {
            continue;
        }
        let mut calls: Vec<Option<u64>> = made.iter().map(|made| made.calls).collect();
        calls.extend(reading.iter().map(|&reader| ran(reader).calls));
        calls.sort_unstable();
        calls.dedup();
        let ty = document.declared_type(graph, value);
        let weight = document.initializer(graph, value);
        let (number, readers) = (found.len(), reading);
        found.push(Candidate { number, directions, value, ty, weight, maker, readers, calls });
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

/// True if the first result of a kernel can be a weight.
fn is_of_weight(kernel: &Kernel, weight: &Tensor<'_>) -> bool {
    shape_of(kernel).is_none_or(|(dtype, sizes)| {
        DType::from_code(weight.element) == Some(dtype) && sizes == weight.dims
    })
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
