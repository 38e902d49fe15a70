//! Finds what a runtime cannot load or computes wrongly in a model.

use provenance::OriginId;
use rustc_hash::FxHashSet;

use super::digits::keeps_digits;
use super::form::FORMS;
use super::limit::has_low_row;
use super::probed::Ability;
use super::runtime::Runtime;
use super::uses::Uses;
use super::view::View;
use super::{Evidence, Fault, Limit, Numbers, Target, rounds};
use crate::dtype::DType;
use crate::infer::Call;
use crate::model::{Graph, Model, Node};
use crate::operator::properties::CASTS;
use crate::operator::{OpType, Operator};
use crate::proto::read_types;
use crate::value::{ValueId, Values};

/// A node that a runtime does not run correctly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The number of the node, as [`crate::outline`] counts them; `None` for the model as a whole.
    pub node: Option<usize>,
    pub origin: Option<OriginId>,
    pub op: String,
    pub runtime: &'static str,
    /// The oldest release of the runtime that the model is for.
    pub version: String,
    pub lack: Lack,
    pub evidence: Evidence,
}

/// The reason why a runtime does not run a node correctly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// It does not load models of this opset.
    Opset { opset: i64, newest: i64 },
    /// An input of the model cannot have the type.
    Input(DType),
    /// It has no such operator.
    Operator,
    /// The operator is not of ONNX, and nobody asked the runtime for it.
    Unknown,
    /// It has no kernel of the operator for a type.
    Type(DType),
    /// Its kernel of the operator computes wrong numbers for a type.
    Wrong(DType, Numbers),
    /// It does not take the operator in this form.
    Form { says: &'static str, is_wrong: bool, is_rare: bool },
    /// Its device computes wrong numbers for a type.
    WrongOnDevice { device: &'static str, dtype: DType },
    /// Its device has no kernel, so that the node runs on the CPU.
    Fallback { device: &'static str, dtype: Option<DType> },
}

impl Lack {
    /// True if a program may have no numbers for which the runtime is wrong.
    pub fn depends_on_numbers(self) -> bool {
        match self {
            Lack::Wrong(_, numbers) => {
                matches!(numbers, Numbers::Large | Numbers::Zero | Numbers::Ties)
            }
            Lack::Form { is_rare, .. } => is_rare,
            _ => false,
        }
    }

    /// True if the runtime loads the model and computes wrong numbers.
    pub fn is_wrong(self) -> bool {
        match self {
            Lack::Opset { .. }
            | Lack::Input(_)
            | Lack::Operator
            | Lack::Unknown
            | Lack::Type(_)
            | Lack::Fallback { .. } => false,
            Lack::Wrong(..) | Lack::WrongOnDevice { .. } => true,
            Lack::Form { is_wrong, .. } => is_wrong,
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Finding { op, runtime, version, .. } = self;
        match self.lack {
            Lack::Opset { opset, newest } => {
                write!(f, "{runtime} {version} loads opset {newest} and older, not {opset}")
            }
            Lack::Input(dtype) => {
                write!(f, "{runtime} {version} does not take the input `{op}` of {dtype}")
            }
            Lack::Operator => write!(f, "{runtime} {version} has no `{op}`"),
            Lack::Unknown => {
                return write!(f, "`{op}` is not of ONNX: {runtime} {version} may not have it");
            }
            Lack::Type(dtype) => write!(f, "{runtime} {version} has no `{op}` of {dtype}"),
            Lack::Wrong(dtype, numbers) => {
                let whose = match numbers {
                    Numbers::Most => "",
                    Numbers::Large => " for large numbers",
                    Numbers::Zero => " for zeros",
                    Numbers::Ties => " for equal numbers and halves",
                    Numbers::Nan => " for NaN",
                };
                write!(f, "{runtime} {version} computes `{op}` of {dtype} wrongly{whose}")
            }
            Lack::Form { says, .. } => write!(f, "{runtime} {version}: {says}"),
            Lack::WrongOnDevice { device, dtype } => {
                write!(f, "{runtime} with {device} computes `{op}` of {dtype} wrongly")
            }
            Lack::Fallback { device, dtype } => {
                write!(f, "`{op}`")?;
                if let Some(dtype) = dtype {
                    write!(f, " of {dtype}")?;
                }
                write!(f, " has no kernel for {device} in {runtime}, and runs on the CPU")
            }
        }?;
        match self.evidence {
            Evidence::Run => Ok(()),
            Evidence::Documentation => write!(f, " (by its documentation)"),
        }
    }
}

/// Returns everything that a runtime of the target cannot load or computes wrongly, in the order of the outline.
pub fn audit(model: &Model, target: Target) -> Vec<Finding> {
    let own = model.opsets.iter().find(|(domain, _)| domain.is_empty());
    let opset = own.map_or(0, |(_, version)| *version);
    let functions: FxHashSet<(&str, &str)> =
        model.functions.iter().map(|function| (&*function.domain, &*function.name)).collect();
    let (functions, uses) = (&functions, &Uses::of(model));
    let mut findings = Vec::new();
    for (runtime, target) in target.each() {
        let auditor = Auditor { model, functions, uses, runtime, target, opset };
        auditor.audit(&mut findings);
    }
    findings.sort_by_key(|finding| finding.node);
    findings
}

/// Audits a model in its file format. The contents of its weights may be missing.
///
/// Fails with a description if the model cannot be read.
pub fn audit_bytes(bytes: &[u8], target: Target) -> Result<Vec<Finding>, String> {
    let mut model = read_types(bytes.to_vec().into()).map_err(|error| error.to_string())?;
    let own = model.opsets.iter().find(|(domain, _)| domain.is_empty());
    let opset = own.map_or(0, |(_, version)| *version);
    infer_missing(&model.graph, &mut model.values, opset);
    for function in &model.functions {
        infer_missing(&function.body, &mut model.values, opset);
    }
    let mut findings = audit(&model, target);
    findings.extend(roundings(model, target));
    findings.sort_by_key(|finding| finding.node);
    Ok(findings)
}

/// Returns the nodes whose `int32` a runtime computes in float32, although they may have more digits. The numbers decide
/// whether that is wrong.
fn roundings(mut model: Model, target: Target) -> Vec<Finding> {
    let mut results: FxHashSet<ValueId> = FxHashSet::default();
    model.edit(&mut |edit| {
        for index in edit.nodes() {
            if rounds(edit, index, target) {
                results.extend(edit.node(index).outputs.first());
            }
        }
    });
    let (functions, uses) = (&FxHashSet::default(), &Uses::of(&model));
    let mut findings = Vec::new();
    for (runtime, target) in target.each() {
        let opset = 0;
        let auditor = Auditor { model: &model, functions, uses, runtime, target, opset };
        let nodes = model.graphs().into_iter().flat_map(|graph| &graph.nodes);
        for (number, node) in nodes.enumerate() {
            let Some(op) = node.op.onnx() else { continue };
            let result = node.outputs.first().filter(|result| results.contains(result));
            let dtype = result.and_then(|&id| model.values[id].ty.as_ref()).map(|ty| ty.dtype);
            if let Some(dtype) = dtype.filter(|&dtype| !keeps_digits(target, op, dtype)) {
                let lack = Lack::Wrong(dtype, Numbers::Large);
                let op = op.name().to_owned();
                findings.push(auditor.finding(Some(number), Some(node), op, lack));
            }
        }
    }
    findings
}

/// Infers the types that the file does not state.
fn infer_missing(graph: &Graph, values: &mut Values, opset: i64) {
    for node in &graph.nodes {
        node.bodies().for_each(|body| infer_missing(body, values, opset));
        if let Ok(types) = Call::of_node(node, values, opset).types() {
            for (&output, ty) in node.outputs.iter().zip(types) {
                let stated = &mut values[output].ty;
                *stated = stated.take().or(ty);
            }
        }
    }
}

struct Auditor<'a> {
    model: &'a Model,
    functions: &'a FxHashSet<(&'a str, &'a str)>,
    uses: &'a Uses<'a>,
    runtime: &'static Runtime,
    /// The runtime alone.
    target: Target,
    opset: i64,
}

impl Auditor<'_> {
    fn audit(&self, findings: &mut Vec<Finding>) {
        let newest = self.target.newest_opset().unwrap_or(self.opset);
        if self.opset > newest {
            let lack = Lack::Opset { opset: self.opset, newest };
            findings.push(self.finding(None, None, String::new(), lack));
        }
        for &input in &self.model.graph.inputs {
            let value = &self.model.values[input];
            if let Some(dtype) = value.ty.as_ref().map(|ty| ty.dtype)
                && self.runtime.interface >> dtype.code() & 1 == 0
            {
                let name = value.name.as_deref().unwrap_or_default().to_owned();
                let finding = self.finding(None, None, name, Lack::Input(dtype));
                let origin = self.model.graph.nodes.first().map(|node| self.model.origin_of(node));
                findings.push(Finding { origin: value.origin.or(origin), ..finding });
            }
        }
        let graphs = self.model.graphs().into_iter();
        let nodes = graphs.flat_map(|graph| {
            (0..).zip(&graph.nodes).map(move |(at, node)| (&graph.nodes[..at], node))
        });
        for (number, (earlier, node)) in nodes.enumerate() {
            if let Some(lack) = self.lack(node, earlier).or_else(|| self.lack_of_device(node)) {
                let op = node.op.name().to_owned();
                findings.push(self.finding(Some(number), Some(node), op, lack));
            }
        }
    }

    fn finding(
        &self,
        number: Option<usize>,
        node: Option<&Node>,
        op: String,
        lack: Lack,
    ) -> Finding {
        let oldest = self.target.releases().next().map(|(_, oldest, _)| oldest.version);
        Finding {
            node: number,
            origin: node.map(|node| self.model.origin_of(node)),
            op,
            runtime: self.runtime.name,
            version: oldest.map_or_else(String::new, |(major, minor)| format!("{major}.{minor}")),
            lack,
            evidence: self.runtime.evidence,
        }
    }

    fn lack(&self, node: &Node, earlier: &[Node]) -> Option<Lack> {
        let op = match &node.op {
            Operator::Onnx(op) => *op,
            Operator::Composite(_) => return None,
            Operator::Foreign(_) => {
                let called = (node.op.domain(), node.op.name());
                if self.functions.contains(&called) {
                    return self.runtime.lacks(Ability::Functions).then_some(Lack::Operator);
                }
                let oldest = self.target.oldest_of(self.runtime);
                let has = self.runtime.has_other(called.0, called.1, oldest);
                return match has {
                    Some(true) => None,
                    // A device may have kernels of its own.
                    Some(false) if !self.target.has_device() => Some(Lack::Operator),
                    _ => Some(Lack::Unknown),
                };
            }
        };
        if !self.target.has(op, self.opset) {
            return Some(Lack::Operator);
        }
        let values = &self.model.values;
        let dtype = |id: &ValueId| values[*id].ty.as_ref().map(|ty| ty.dtype);
        let mut operands: Vec<Option<DType>> =
            node.inputs.iter().map(|input| input.as_ref().and_then(dtype)).collect();
        let mut results: Vec<Option<DType>> = node.outputs.iter().map(dtype).collect();
        if self.runtime.demoted.contains(&DType::F64) && self.uses.fits_32_bits(node) {
            for dtype in operands.iter_mut().chain(&mut results) {
                *dtype = dtype.map(|it| if it == DType::F64 { DType::F32 } else { it });
            }
        }
        let constants = node.inputs.iter().zip(&operands);
        let refused = constants.into_iter().find_map(|(input, dtype)| {
            let is_constant = input.is_some_and(|id| values[id].tensor.is_some());
            dtype.filter(|&dtype| is_constant && !self.runtime.takes_constant(dtype))
        });
        if let Some(dtype) = refused {
            return Some(Lack::Type(dtype));
        }
        let earlier = |is_it: &dyn Fn(&Node) -> bool| earlier.iter().any(is_it);
        let is_read = |value: ValueId| self.uses.is_read(value);
        let shows_order = |value: ValueId| self.uses.shows_order(value);
        let readers = |value: ValueId, visit: &mut dyn FnMut(&Node)| {
            self.uses.readers(value).iter().for_each(|reader| visit(reader));
        };
        let (is_read, shows_order, earlier) = (&is_read, &shows_order, &earlier);
        let view = View { node, values, is_read, shows_order, earlier, readers: &readers };
        let first = operands.first().copied().flatten();
        let is_exempt = view.is_exempt(op, self.runtime);
        if let Some(missing) = self.target.missing_type(op, self.opset, &operands, &results) {
            // The runtime takes some types that no model should use, because their numbers are wrong.
            let is_wrong = self.target.wrong_numbers(op, missing).is_some() && !op.is(CASTS);
            match is_wrong {
                true if first == Some(missing) && is_exempt => {}
                true => return Some(Lack::Wrong(missing, Numbers::Most)),
                false => return Some(Lack::Type(missing)),
            }
        }
        if let Some(first) = first.filter(|_| !op.is(CASTS) && !is_exempt) {
            if let Some(numbers) = self.target.wrong_numbers(op, first)
                && (first != DType::F64 || !self.uses.has_narrow_operands(node))
            {
                return Some(Lack::Wrong(first, numbers));
            }
            if self.target.fault(op, self.opset, first) == Some(Fault::OfNan)
                && self.uses.expects_nan(node)
            {
                return Some(Lack::Wrong(first, Numbers::Nan));
            }
        }
        let oldest = self.target.oldest_of(self.runtime);
        let mut forms = FORMS.iter();
        let form = forms.find(|form| form.is_lacking(self.runtime, oldest) && form.is_of(&view))?;
        let is_wrong = self.runtime.miscomputes(form.ability, oldest);
        let is_rare = form.is_rare_in_floats()
            && first.is_some_and(DType::is_float)
            && !self.uses.has_likely_ties(node);
        Some(Lack::Form { says: form.says, is_wrong, is_rare })
    }

    /// Returns what the device of the runtime lacks.
    fn lack_of_device(&self, node: &Node) -> Option<Lack> {
        let device = self.target.device?;
        let values = &self.model.values;
        let first = node.inputs.first().copied().flatten();
        let dtype = first.and_then(|id| values[id].ty.as_ref()).map(|ty| ty.dtype);
        if !device.runs(node, values, self.opset) {
            return Some(Lack::Fallback { device: device.name, dtype });
        }
        if let (Some(op), Some(dtype)) = (node.op.onnx(), dtype)
            && self.target.device_fault(op, dtype) == Some(Fault::Wrong)
        {
            return Some(Lack::WrongOnDevice { device: device.name, dtype });
        }
        if node.op != OpType::Attention || !device.miscomputes(Limit::LowMask) {
            return None;
        }
        let mask = node.inputs.get(3).copied().flatten()?;
        let is_low = match &values[mask].tensor {
            Some(tensor) => has_low_row(tensor),
            None => self.uses.is_low_choice(mask),
        };
        let form = FORMS.iter().find(|form| form.ability == Ability::AttentionLowMask)?;
        is_low.then_some(Lack::Form { says: form.says, is_wrong: true, is_rare: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what a runtime lacks for a node of another domain.
    fn lacks(target: &str, op: &str) -> Vec<String> {
        let graph = format!("graph g(x:f32[3]) -> (y)\ny:f32[3] = {op}(x)");
        let model = crate::text::parse_graph(&graph).unwrap();
        let found = audit(&model, Target::parse([target]).unwrap()).into_iter();
        found.map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn onnx_runtime_has_the_operators_of_other_domains_that_its_releases_list() {
        assert_eq!(lacks("onnxruntime", "com.microsoft::FastGelu"), Vec::<String>::new());
        assert_eq!(lacks("onnxruntime", "ai.onnx.ml::Scaler"), Vec::<String>::new());
        let missing = ["ONNX Runtime 1.23 has no `LinearAttention`"];
        assert_eq!(lacks("onnxruntime", "com.microsoft::LinearAttention"), missing);
        let of_newest = lacks("onnxruntime>=1.31", "com.microsoft::LinearAttention");
        assert_eq!(of_newest, Vec::<String>::new());
        assert_eq!(lacks("onnxruntime", "nobody::Op"), ["ONNX Runtime 1.23 has no `Op`"]);
    }

    #[test]
    fn an_operator_of_another_domain_is_unknown_to_the_table_of_another_runtime() {
        for (target, name) in [("openvino", "OpenVINO 2026.4"), ("tract", "tract 0.23")] {
            let unknown = format!("`FastGelu` is not of ONNX: {name} may not have it");
            assert_eq!(lacks(target, "com.microsoft::FastGelu"), [unknown]);
        }
    }
}
