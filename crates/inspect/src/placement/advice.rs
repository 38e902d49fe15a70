//! Finds an edit that would remove a copy.

use onnx::DType;
use onnx::kernels::{Target, audit_bytes};
use onnx::scan::ValueType;
use rustc_hash::FxHashMap;

use super::{PlacedNode, Placement};
use crate::Document;
use crate::profile::CPU;

/// The targets of `to_onnx` that describe a provider.
const TARGETS: &[(&str, &str)] = &[
    ("CUDAExecutionProvider", "onnxruntime-cuda"),
    ("OpenVINOExecutionProvider", "openvino"),
    ("TensorrtExecutionProvider", "tensorrt"),
    ("NvTensorRTRTXExecutionProvider", "tensorrt"),
    ("CoreMLExecutionProvider", "coreml"),
    ("QNNExecutionProvider", "qnn"),
];

/// Adds advice to the lines that the main provider leaves to the CPU.
pub(super) fn advise(document: &Document<'_>, placement: &mut Placement<'_>) {
    let has_cpu = placement.providers.iter().any(|(provider, _)| provider.as_deref() == Some(CPU));
    let main = placement.main().filter(|main| has_cpu && *main != CPU).map(str::to_owned);
    let Some(main) = main else { return };
    let nodes = document.scan.nodes.iter().enumerate();
    let numbers: FxHashMap<&str, usize> = nodes
        .filter(|(_, node)| !node.name.is_empty())
        .map(|(number, node)| (node.name, number))
        .collect();
    let lacks = lacks(document, &main);
    let floats = computed_in_floats(document, placement, &main, &numbers);
    for line in &mut placement.lines {
        let mut left = line.nodes.iter().filter(|node| node.provider.as_deref() == Some(CPU));
        line.advice = left.find_map(|node| {
            let number = *numbers.get(&*node.name)?;
            lacks.get(&number).cloned().or_else(|| {
                let other = types(document, number).into_iter().find(|dtype| !is_short(*dtype))?;
                let (op, dtype) = (&node.op, floats.get(&*node.op)?);
                Some(format!(
                    "{main} runs `{op}` of {dtype} in this model, but not of {other}: compute it in {dtype} if \
                     the numbers allow that"
                ))
            })
        });
    }
}

/// Returns advice for each node that the target of a provider lacks.
fn lacks(document: &Document<'_>, provider: &str) -> FxHashMap<usize, String> {
    let key = TARGETS.iter().find(|(known, _)| *known == provider).map(|(_, key)| *key);
    let target = key.and_then(|key| Target::parse([key]).ok().map(|target| (key, target)));
    let Some((key, target)) = target else { return FxHashMap::default() };
    let found = audit_bytes(document.bytes, target).unwrap_or_default().into_iter();
    // A provider also takes the nodes that it computes wrongly. Nodes of other domains may come from the runtime.
    let is_own =
        |number: usize| document.scan.nodes.get(number).is_some_and(|node| node.domain.is_empty());
    let advice = found.filter(|finding| !finding.lack.is_wrong()).filter_map(|finding| {
        let node = finding.node.filter(|&number| is_own(number))?;
        Some((node, format!("export with `target=\"{key}\"`: {finding}")))
    });
    advice.collect()
}

/// Returns the operators that a provider runs on floats, and the type.
fn computed_in_floats(
    document: &Document<'_>,
    placement: &Placement<'_>,
    main: &str,
    numbers: &FxHashMap<&str, usize>,
) -> FxHashMap<String, DType> {
    let is_on_main = |node: &&PlacedNode| node.provider.as_deref() == Some(main);
    let nodes = placement.lines.iter().flat_map(|line| &line.nodes).filter(is_on_main);
    let mut found = FxHashMap::default();
    for node in nodes {
        let Some(&number) = numbers.get(&*node.name) else { continue };
        let types = types(document, number);
        if let (Some(&dtype), true) = (types.first(), types.iter().all(|&dtype| is_short(dtype))) {
            found.entry(node.op.to_string()).or_insert(dtype);
        }
    }
    found
}

/// True for the floats that every GPU computes fast.
fn is_short(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::Bf16)
}

/// Returns the element types of the operands of a node, without booleans.
fn types(document: &Document<'_>, number: usize) -> Vec<DType> {
    let node = &document.scan.nodes[number];
    let graph = node.graph as usize;
    let element = |name: &&str| match document.declared_type(graph, name) {
        Some(ValueType::Tensor { element, .. }) => Some(*element),
        Some(_) => None,
        None => document.initializer(graph, name).map(|tensor| tensor.element),
    };
    let types = node.inputs.iter().filter_map(element).filter_map(DType::from_code);
    types.filter(|&dtype| dtype != DType::Bool).collect()
}
