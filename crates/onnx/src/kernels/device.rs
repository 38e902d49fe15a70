//! Devices on which a runtime runs the nodes that it has kernels for. All other nodes stay on the CPU.
//!
//! A device adds no limits to a target: its runtime loads every model that it loads without the device. Passes ask
//! whether a node runs on the device, and write it in a form that does.

use smallvec::SmallVec;

use super::behavior::{When, Wrong};
use super::probed::{self, Ability, Probed};
use super::runtime::Row;
use super::target::{Fault, Target};
use super::{Limit, Lookup};
use crate::attr::Attr;
use crate::dtype::DType;
use crate::model::Node;
use crate::operator::OpType;
use crate::value::{ValueId, Values};

/// A device of the default runtime.
#[derive(Debug)]
pub(super) struct Device {
    /// The name in `target=`.
    pub key: &'static str,
    pub name: &'static str,
    /// The kernels of the device; an operator that stayed on the CPU takes no types.
    probed: &'static Probed,
}

pub(super) static DEVICES: &[Device] =
    &[Device { key: "onnxruntime-cuda", name: "CUDA", probed: &probed::onnxruntime_cuda::PROBED }];

/// The casts with which a node runs on a device.
#[derive(Debug, PartialEq, Eq)]
pub struct Widened {
    pub dtype: DType,
    /// The operands and results to cast.
    pub operands: Vec<usize>,
    pub results: Vec<usize>,
}

impl Device {
    fn row(&self, op: OpType, opset: i64) -> Option<&'static Row> {
        let mut rows = self.probed.rows.iter().filter(|row| row.op == op);
        rows.find(|row| (row.since..=row.until).contains(&opset))
    }

    /// True if the device has a kernel for these types. An operator that was not probed counts as one that has.
    fn takes(
        &self,
        op: OpType,
        opset: i64,
        operands: &[Option<DType>],
        results: &[Option<DType>],
    ) -> bool {
        let Some(row) = self.row(op, opset) else { return true };
        let takes = |variables: &[usize], at: usize, dtype: DType| {
            let variable = variables.get(at).or(variables.last());
            variable.is_none_or(|&variable| mask(row, variable) >> dtype.code() & 1 == 1)
        };
        let all = |variables: &[usize], types: &[Option<DType>]| {
            let mut known = types.iter().enumerate();
            known.all(|(at, dtype)| dtype.is_none_or(|dtype| takes(variables, at, dtype)))
        };
        row.types.iter().any(|types| !types.is_empty())
            && all(row.inputs, operands)
            && all(row.outputs, results)
    }

    fn is_able(&self, ability: Ability) -> bool {
        self.probed.abilities.binary_search(&ability).is_ok()
    }

    pub(super) fn faults(&self, op: OpType, dtype: DType) -> impl Iterator<Item = &'static Wrong> {
        self.probed.wrong.iter().filter(move |row| row.op == op && row.types.contains(&dtype))
    }

    /// True if the device computes a form, and its numbers are wrong.
    pub(super) fn miscomputes(&self, limit: Limit) -> bool {
        limit
            .abilities()
            .iter()
            .any(|ability| self.probed.miscomputed.binary_search(ability).is_ok())
    }

    /// True if the node runs on the device.
    pub(super) fn runs(&self, node: &Node, values: &Values, opset: i64) -> bool {
        let Some(op) = node.op.onnx() else { return true };
        if op == OpType::GRU && node.attr("linear_before_reset") == Some(&Attr::Int(1)) {
            return self.is_able(Ability::GruLinearBeforeReset);
        }
        if op == OpType::ConvTranspose && has_uneven_pads(node) {
            return self.is_able(Ability::ConvTransposePads);
        }
        let dtype = |id: &ValueId| values[*id].ty.as_ref().map(|ty| ty.dtype);
        let operands: SmallVec<[Option<DType>; 4]> =
            node.inputs.iter().map(|input| input.as_ref().and_then(dtype)).collect();
        let results: SmallVec<[Option<DType>; 4]> = node.outputs.iter().map(dtype).collect();
        self.takes(op, opset, &operands, &results)
    }
}

fn has_uneven_pads(node: &Node) -> bool {
    let Some(Attr::Ints(pads)) = node.attr("pads") else { return false };
    let (starts, ends) = pads.split_at(pads.len() / 2);
    starts != ends
}

/// Returns the types of a variable, one bit each.
fn mask(row: &Row, variable: usize) -> u32 {
    row.types.get(variable).map_or(0, |types| types.iter().map(|&(_, mask)| mask).sum())
}

impl Target {
    /// Returns the name of the device that the model is for.
    pub fn device_name(self) -> Option<&'static str> {
        self.device.map(|device| device.name)
    }

    /// True if a node stays on the CPU although the model is for a device.
    pub fn falls_back(self, node: &Node, values: &Values, opset: i64) -> bool {
        self.device.is_some_and(|device| !device.runs(node, values, opset))
    }

    /// True if there is no device, or it has a kernel of an operator for operands of a type.
    pub fn is_on_device(self, op: OpType, opset: i64, dtype: DType) -> bool {
        self.device.is_none_or(|device| device.takes(op, opset, &[Some(dtype)], &[]))
    }

    /// True if the model is for a device whose kernel of an operator computes all numbers correctly, NaN too. The
    /// kernel of the runtime need not.
    pub fn is_right_on_device(self, op: OpType, opset: i64, dtype: DType) -> bool {
        self.device.is_some_and(|device| {
            let runs = device.takes(op, opset, &[Some(dtype)], &[])
                || op == OpType::GRU && device.is_able(Ability::GruLinearBeforeReset);
            runs && device.faults(op, dtype).next().is_none()
        })
    }

    /// Returns what is wrong with the kernel of a device.
    pub fn device_fault(self, op: OpType, dtype: DType) -> Option<Fault> {
        let mut faults = self.device?.faults(op, dtype).peekable();
        faults.peek()?;
        let (mut is_ordinary, mut is_of_nan) = (false, false);
        for row in faults {
            is_ordinary |= row.is_ordinary(dtype);
            is_of_nan |= row.when.contains(&When::Nan);
        }
        match (is_ordinary, is_of_nan) {
            (true, _) => Some(Fault::Wrong),
            (false, true) => Some(Fault::OfNan),
            (false, false) => None,
        }
    }

    /// Returns a type that holds all numbers of the first operand, or of the choices of a `Where`, and for which the
    /// device has a kernel.
    pub fn widened_for_device(
        self,
        op: OpType,
        opset: i64,
        operands: &[Option<DType>],
        results: &[Option<DType>],
    ) -> Option<Widened> {
        let device = self.device?;
        let varied = usize::from(op == OpType::Where);
        let dtype = operands.get(varied).copied().flatten()?;
        let Lookup::Kernel(kernel) = self.kernel(op, opset) else { return None };
        let variable = kernel.variable_of_input(varied)?;
        let is_same = |own: Option<usize>| own == Some(variable);
        let among = |types: &[Option<DType>], variable_of: &dyn Fn(usize) -> Option<usize>| {
            let places = (0..types.len()).filter(|&at| types[at].is_some());
            places.filter(|&at| is_same(variable_of(at))).collect::<Vec<usize>>()
        };
        let cast_operands = among(operands, &|at| kernel.variable_of_input(at));
        let cast_results = among(results, &|at| kernel.variable_of_output(at));
        let with = |types: &[Option<DType>], places: &[usize], dtype: DType| {
            let mut types = types.to_vec();
            for &at in places {
                types[at] = Some(dtype);
            }
            types
        };
        let wider = embeddings(dtype).iter().copied().find(|&wider| {
            kernel.takes(variable, wider)
                && self.is_right(op, wider)
                && device.faults(op, wider).next().is_none()
                && device.takes(
                    op,
                    opset,
                    &with(operands, &cast_operands, wider),
                    &with(results, &cast_results, wider),
                )
        })?;
        Some(Widened { dtype: wider, operands: cast_operands, results: cast_results })
    }
}

/// Returns the types that hold every number of a type in the same order, the smallest first.
fn embeddings(dtype: DType) -> &'static [DType] {
    use DType::{F16, F32, F64, I32, I64, U8};
    match dtype {
        DType::Bool => &[U8, I32, F32],
        DType::I8 | U8 => &[I32, F16, F32],
        DType::I16 | DType::U16 => &[I32, F32],
        I32 | DType::U32 => &[I64, F64],
        F16 | DType::Bf16 => &[F32],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuda() -> Target {
        Target::parse(["onnxruntime-cuda"]).unwrap()
    }

    #[test]
    fn a_device_of_the_default_runtime_loads_what_the_runtime_loads() {
        assert_eq!(cuda().newest_opset(), Target::default().newest_opset());
        assert!(cuda().is_default() && cuda().includes_onnxruntime());
        assert_eq!(Target::parse(["onnxruntime-cuda>=1.31"]).unwrap().newest_opset(), Some(26));
        assert_eq!(Target::default().device_name(), None);
    }

    #[test]
    fn a_kernel_of_the_device_takes_some_types() {
        assert!(cuda().is_on_device(OpType::Max, 23, DType::I32));
        assert!(!cuda().is_on_device(OpType::Clip, 23, DType::I32));
        assert!(Target::default().is_on_device(OpType::Clip, 23, DType::I32));
    }

    #[test]
    fn flags_are_reduced_and_compared_in_a_type_that_the_device_takes() {
        let widened = |op, operands: &[DType], result| {
            let operands: Vec<_> = operands.iter().copied().map(Some).collect();
            cuda().widened_for_device(op, 23, &operands, &[Some(result)])
        };
        let flags = widened(OpType::ReduceMax, &[DType::Bool, DType::I64], DType::Bool);
        assert_eq!(flags, Some(Widened { dtype: DType::U8, operands: vec![0], results: vec![0] }));
        let places = widened(OpType::ArgMax, &[DType::U8], DType::I64);
        assert_eq!(places, Some(Widened { dtype: DType::F32, operands: vec![0], results: vec![] }));
        assert_eq!(widened(OpType::Pad, &[DType::I64, DType::I64], DType::I64), None);
    }

    #[test]
    fn faults_of_the_device_do_not_count_without_it() {
        assert_eq!(cuda().device_fault(OpType::Pow, DType::I32), Some(Fault::Wrong));
        assert_eq!(cuda().device_fault(OpType::Sign, DType::F32), Some(Fault::OfNan));
        assert_eq!(Target::default().device_fault(OpType::Sign, DType::F32), None);
    }
}
