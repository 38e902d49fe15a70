//! The forms of nodes that were probed, and how to recognize them.

use super::limit::{
    captures, ends, has_low_row, has_several, has_unread_input, reads_result, restarts,
};
use super::probed::Ability;
use super::runtime::Runtime;
use super::uses::overwrites_state;
use crate::attr::Attr;
use crate::dtype::DType;
use crate::model::Node;
use crate::operator::OpType;
use crate::operator::properties::{COMPARISONS, POINTWISE, REDUCTIONS, VIEW_OPS};
use crate::tensor::Tensor;
use crate::value::{Dim, Type, ValueId, Values};

/// A form of a node.
pub(super) struct Form {
    pub ability: Ability,
    /// A sentence about a runtime without the form.
    pub says: &'static str,
    /// True for a node with the form, by the operator and by the rest of the node.
    test: fn(OpType, &View<'_>) -> bool,
}

impl Form {
    /// True if a runtime rejects the form or computes it wrongly, from the `oldest` of its releases on.
    pub fn is_lacking(&self, runtime: &Runtime, oldest: usize) -> bool {
        match self.ability {
            // Only a wrong result shows it.
            Ability::ScanAddsThenTanh
            | Ability::AttentionLowMask
            | Ability::DivConstants
            | Ability::ReductionTwice
            | Ability::ScanInScanRestarts
            | Ability::AttentionSoftcapMask
            | Ability::DftLaterAxis
            | Ability::LstmSharedInput
            | Ability::UnsignedHighConstant => runtime.miscomputes(self.ability, oldest),
            _ => runtime.lacks(self.ability),
        }
    }

    /// True if few programs with floats have numbers for which the form is wrong: equal floats are rare.
    pub fn is_rare_in_floats(&self) -> bool {
        self.ability == Ability::TopKManyTies
    }

    pub fn is_of(&self, view: &View<'_>) -> bool {
        view.node.op.onnx().is_some_and(|op| (self.test)(op, view))
    }
}

/// A test of a node.
type Test<'t> = &'t dyn Fn(&Node) -> bool;

/// Calls a function with each node that reads a value.
type Readers<'r> = dyn Fn(ValueId, &mut dyn FnMut(&Node)) + 'r;

/// A node with what is known about its values.
pub(crate) struct View<'a> {
    pub node: &'a Node,
    pub values: &'a Values,
    /// True for a value that something reads.
    pub is_read: &'a dyn Fn(ValueId) -> bool,
    /// True for positions from `TopK` whose readers see the order of equal elements.
    pub shows_order: &'a dyn Fn(ValueId) -> bool,
    /// Calls a function with each node of the same graph that is before it, until the function returns true.
    pub earlier: &'a dyn Fn(Test<'_>) -> bool,
    /// Calls a function with each node of the same graph that reads a value.
    pub readers: &'a Readers<'a>,
}

/// Returns the number of elements that a `TopK` sorts, and how often it sorts them.
pub(crate) fn sorted_size(node: &Node, values: &Values) -> Option<(i64, i64)> {
    let ty = values[node.inputs.first().copied()??].ty.as_ref()?;
    let axis = match node.attr("axis") {
        Some(&Attr::Int(axis)) => axis,
        _ => -1,
    };
    let axis = crate::infer::axis_from_front(axis, ty.rank())?;
    let sizes: Vec<i64> = ty.shape.iter().map(Dim::known).collect::<Option<_>>()?;
    let others = sizes.iter().enumerate().filter(|&(at, _)| at != axis);
    Some((sizes[axis], others.map(|(_, &size)| size).product()))
}

impl View<'_> {
    fn input(&self, at: usize) -> Option<ValueId> {
        self.node.inputs.get(at).copied().flatten()
    }

    fn ty(&self, at: usize) -> Option<&Type> {
        self.values[self.input(at)?].ty.as_ref()
    }

    fn rank(&self, at: usize) -> Option<usize> {
        self.ty(at).map(|ty| ty.rank())
    }

    fn dtype(&self, at: usize) -> Option<DType> {
        self.ty(at).map(|ty| ty.dtype)
    }

    fn result(&self, at: usize) -> Option<&Type> {
        self.values[*self.node.outputs.get(at)?].ty.as_ref()
    }

    fn tensor(&self, at: usize) -> Option<&Tensor> {
        self.values[self.input(at)?].tensor.as_deref()
    }

    fn ints(&self, at: usize) -> Vec<i64> {
        self.tensor(at).and_then(|tensor| tensor.ints()).unwrap_or_default()
    }

    fn is_computed(&self, at: usize) -> bool {
        self.input(at).is_some() && self.tensor(at).is_none()
    }

    fn has_negative(&self, at: usize) -> bool {
        self.ints(at).iter().any(|&int| int < 0)
    }

    fn text(&self, name: &str) -> &str {
        match self.node.attr(name) {
            Some(Attr::Str(text)) => text,
            _ => "",
        }
    }

    fn int(&self, name: &str) -> i64 {
        match self.node.attr(name) {
            Some(&Attr::Int(int)) => int,
            _ => 0,
        }
    }

    /// True if a list of integers contains another integer than `usual`.
    fn has_other(&self, name: &str, usual: i64) -> bool {
        match self.node.attr(name) {
            Some(Attr::Ints(ints)) => ints.iter().any(|&int| int != usual),
            _ => false,
        }
    }

    fn combines(&self, by: &str) -> bool {
        self.text("reduction") == by
    }

    /// True if a window has no attribute that says its step. Runtimes know the other defaults.
    fn has_defaults(&self) -> bool {
        self.node.attr("strides").is_none()
    }

    /// True if a `Resize` of images changes the size of the batch or of the channels.
    fn enlarges_outer_axes(&self) -> bool {
        let sizes = self.ty(0).zip(self.result(0));
        sizes.is_some_and(|(before, after)| {
            before.rank() > 2 && before.shape.get(..2) != after.shape.get(..2)
        })
    }

    /// True if a transform is not along the axis before the parts.
    fn has_outer_axis(&self) -> bool {
        let axis = self.ints(2).first().copied().unwrap_or(-2);
        let rank = self.rank(0).unwrap_or_default() as i64;
        axis != -2 && axis != rank - 2
    }

    /// True if a transform cuts its input (`Less`) or adds zeros to it (`Greater`).
    fn has_length(&self, order: std::cmp::Ordering) -> bool {
        let whole = self.ty(0).and_then(|ty| {
            let axis = self.ints(2).first().copied().unwrap_or(-2);
            let axis = crate::infer::axis_from_front(axis, ty.rank())?;
            ty.shape.get(axis)?.known()
        });
        self.ints(1).first().zip(whole).is_some_and(|(length, whole)| length.cmp(&whole) == order)
    }

    /// True if a `Slice` has another step than one along an axis that a `Reshape` before it makes.
    fn skips_in_reshaped(&self) -> bool {
        let (axes, steps) = (self.ints(3), self.ints(4));
        let (Some(x), Some(ty)) = (self.input(0), self.ty(0)) else { return false };
        let is_new = |before: &Type, axis: i64| {
            let axis = crate::infer::axis_from_front(axis, ty.rank());
            axis.is_none_or(|axis| before.shape.get(..=axis) != ty.shape.get(..=axis))
        };
        let skipped = || axes.iter().zip(&steps).filter(|&(_, &step)| step != 1);
        let reshapes = |node: &Node| {
            let before = node.inputs.first().copied().flatten();
            let before = before.and_then(|before| self.values[before].ty.as_ref());
            node.op == OpType::Reshape
                && node.outputs.contains(&x)
                && before.is_some_and(|before| skipped().any(|(&axis, _)| is_new(before, axis)))
        };
        skipped().next().is_some() && (self.earlier)(&reshapes)
    }

    /// True if the result of a reduction is read both as it is and with other axes, or is the same as that of an
    /// earlier one with other axes. A `Gather` may take it apart.
    fn is_reduced_twice(&self) -> bool {
        let Some(&result) = self.node.outputs.first() else { return false };
        let Some(ty) = self.result(0).filter(|ty| ty.rank() > 0) else { return false };
        let (mut reads, mut gathers) = (0, 0);
        (self.readers)(result, &mut |node| {
            reads += 1;
            gathers += usize::from(node.op == OpType::Gather);
        });
        if reads == gathers {
            return false;
        }
        let is_other = |node: &Node| {
            let shape = |value: &ValueId| self.values[*value].ty.as_ref().map(|ty| &ty.shape);
            let differs = node.outputs.first().and_then(shape).is_none_or(|it| *it != ty.shape);
            node.op == self.node.op && node.inputs.first() == self.node.inputs.first() && differs
        };
        reads > 1 && self.moves(result, MAX_MOVES) || (self.earlier)(&is_other)
    }

    /// True if a layout op reads a value, perhaps after a few elementwise operators.
    fn moves(&self, value: ValueId, steps: usize) -> bool {
        let (mut is_moved, mut results) = (false, Vec::new());
        (self.readers)(value, &mut |node| {
            is_moved |= node.op.is(VIEW_OPS);
            if node.op.is(POINTWISE) {
                results.extend(node.outputs.first().copied());
            }
        });
        is_moved || steps > 0 && results.into_iter().any(|next| self.moves(next, steps - 1))
    }

    /// Returns the number of states of a `Scan`.
    fn states(&self) -> usize {
        let scanned = usize::try_from(self.int("num_scan_inputs")).unwrap_or(0);
        self.node.inputs.len().saturating_sub(scanned)
    }

    /// True if a runtime was seen to compute this form correctly, although it computes the operator wrongly for some
    /// numbers.
    pub(super) fn is_exempt(&self, op: OpType, runtime: &Runtime) -> bool {
        op == OpType::BitShift
            && self.text("direction") == "LEFT"
            && !runtime.lacks(Ability::BitShiftLeft)
    }

    /// True if an operand is a constant of `uint32` with a number that does not fit into `int32`.
    fn has_high_constant(&self) -> bool {
        let constants = (0..self.node.inputs.len()).filter_map(|at| self.tensor(at));
        let is_high = |&int: &i64| int > i64::from(i32::MAX);
        let mut unsigned = constants.filter(|tensor| tensor.dtype == DType::U32);
        unsigned.any(|tensor| tensor.ints().is_some_and(|ints| ints.iter().any(is_high)))
    }

    fn is_empty(&self) -> bool {
        let is_zero = |ty: &Type| ty.shape.contains(&Dim::Known(0));
        let values = self.node.inputs.iter().flatten().chain(&self.node.outputs);
        // A list of no sizes or axes is a constant.
        let is_empty = |&id: &ValueId| {
            self.values[id].tensor.is_none() && self.values[id].ty.as_ref().is_some_and(is_zero)
        };
        values.into_iter().any(is_empty)
    }
}

/// The most elementwise operators between a reduction and a layout op.
const MAX_MOVES: usize = 3;

/// The operators that read a sequence step by step.
const RECURRENT: [OpType; 3] = [OpType::LSTM, OpType::GRU, OpType::RNN];

fn is_recurrent(node: &Node) -> bool {
    node.op.onnx().is_some_and(|op| RECURRENT.contains(&op))
}

macro_rules! forms {
    ($($ability:ident: $says:literal, |$op:ident, $view:ident| $test:expr;)*) => {
        /// All forms, the most special first.
        pub(super) static FORMS: &[Form] = &[
            $(Form { ability: Ability::$ability, says: $says, test: |$op, $view| $test },)*
        ];
    };
}

forms! {
    ScanCaptures: "the body of a `Scan` cannot read a value from outside",
        |op, it| op == OpType::Scan && it.node.bodies().any(|body| captures(body, it.values));
    ScanReverse: "a `Scan` ignores its directions",
        |op, it| op == OpType::Scan
            && (it.has_other("scan_input_directions", 0) || it.has_other("scan_output_directions", 0));
    ScanUnreadInput: "a `Scan` must read all inputs of its body",
        |op, it| op == OpType::Scan && it.node.bodies().any(has_unread_input);
    ScanReadsResult: "the body of a `Scan` cannot read a result that is stacked",
        |op, it| op == OpType::Scan && {
            let states = it.states();
            it.node.bodies().any(|body| reads_result(body, states))
        };
    ScanAddsThenTanh: "the body of a `Scan` computes a state in the memory of an element",
        |op, it| op == OpType::Scan && {
            let states = it.states();
            it.node.bodies().any(|body| overwrites_state(body, states, it.values))
        };
    ScanInScan: "a `Scan` cannot contain another one",
        |op, it| op == OpType::Scan
            && it.node.bodies().any(|body| body.nodes.iter().any(|node| node.op == OpType::Scan));
    ScanInScanRestarts: "a `Scan` in a `Scan` continues with its last state",
        |op, it| op == OpType::Scan && {
            let states = it.states();
            it.node.bodies().any(|body| restarts(body, states))
        };
    LoopInScan: "a `Scan` cannot contain a `Loop`",
        |op, it| op == OpType::Scan
            && it.node.bodies().any(|body| body.nodes.iter().any(|node| node.op == OpType::Loop));
    DivConstants: "a quotient of constants is rounded down", |op, it| {
        let is_float = it.dtype(0).is_some_and(DType::is_float);
        op == OpType::Div && is_float && it.tensor(0).is_some() && it.tensor(1).is_some()
    };
    ReductionTwice: "a reduction is wrong if it is read both with and without other axes",
        |op, it| op.is(REDUCTIONS) && it.is_reduced_twice();
    IfTwice: "a graph cannot contain two `If`",
        |op, it| op == OpType::If && (it.earlier)(&|node| node.op == OpType::If);
    MulItself: "a `Mul` of integers cannot square them", |op, it| {
        let is_of_them = it.dtype(0).is_some_and(|dtype| {
            use DType::{I16, I64, U16, U32, U64};
            matches!(dtype, I16 | I64 | U16 | U32 | U64)
        });
        op == OpType::Mul && is_of_them && it.input(0) == it.input(1)
    };
    LoopScanOutput: "a `Loop` cannot stack results",
        |op, it| op == OpType::Loop && it.node.outputs.len() > it.node.inputs.len().saturating_sub(2);
    LoopWhile: "a `Loop` ignores its condition",
        |op, it| op == OpType::Loop && it.node.bodies().any(|body| ends(body, it.values));
    BroadcastComparison: "a comparison of floats cannot repeat both operands", |op, it| op.is(COMPARISONS) && {
        let differs = |at: &usize| {
            it.ty(*at).zip(it.result(0)).is_some_and(|(ty, result)| ty.shape != result.shape)
        };
        it.dtype(0).is_some_and(DType::is_float) && [0, 1].iter().all(differs)
    };
    TopKManyTies: "`TopK` returns equal elements in any order",
        |op, it| op == OpType::TopK && it.node.outputs.get(1).is_some_and(|&at| (it.shows_order)(at));
    TopKTwice: "a second `TopK` of as many elements returns wrong positions", |op, it| {
        let is_same = |node: &Node| {
            node.op == OpType::TopK
                && sorted_size(node, it.values) == sorted_size(it.node, it.values)
        };
        op == OpType::TopK
            && it.node.outputs.get(1).is_some_and(|&at| (it.is_read)(at))
            && (it.earlier)(&is_same)
    };
    ScatterNdAddDuplicates: "a `ScatterND` does not add numbers",
        |op, it| op == OpType::ScatterND && it.combines("add");
    ScatterNdMulDuplicates: "a `ScatterND` does not multiply numbers",
        |op, it| op == OpType::ScatterND && it.combines("mul");
    ScatterNdMaxDuplicates: "a `ScatterND` does not take the larger number",
        |op, it| op == OpType::ScatterND && it.combines("max");
    ScatterNdMinDuplicates: "a `ScatterND` does not take the smaller number",
        |op, it| op == OpType::ScatterND && it.combines("min");
    ScatterElementsAddDuplicates: "a `ScatterElements` does not add numbers",
        |op, it| op == OpType::ScatterElements && it.combines("add");
    ScatterElementsMulDuplicates: "a `ScatterElements` does not multiply numbers",
        |op, it| op == OpType::ScatterElements && it.combines("mul");
    ScatterElementsMaxDuplicates: "a `ScatterElements` does not take the larger number",
        |op, it| op == OpType::ScatterElements && it.combines("max");
    ScatterElementsMinDuplicates: "a `ScatterElements` does not take the smaller number",
        |op, it| op == OpType::ScatterElements && it.combines("min");
    ScatterNdScalar: "a `ScatterND` needs a list of numbers",
        |op, it| op == OpType::ScatterND && it.rank(2) == Some(0);
    ScatterNdEntry: "a `ScatterND` needs a list of indices",
        |op, it| op == OpType::ScatterND && it.rank(1) == Some(1);
    ScatterNdInnerSlices: "a `ScatterND` of slices takes indices of one axis", |op, it| {
        let depth = it.ty(1).and_then(|ty| ty.shape.last()?.known());
        let rank = it.rank(0).map(|rank| rank as i64);
        op == OpType::ScatterND && depth.zip(rank).is_some_and(|(depth, rank)| 1 < depth && depth < rank)
    };
    ScatterNdNegative: "a `ScatterND` takes no negative indices",
        |op, it| op == OpType::ScatterND && it.has_negative(1);
    ScatterElementsNegative: "a `ScatterElements` takes no negative indices",
        |op, it| op == OpType::ScatterElements && it.has_negative(1);
    GatherNegative: "a `Gather` takes no negative indices",
        |op, it| op == OpType::Gather && it.has_negative(1);
    GatherElementsNegative: "a `GatherElements` takes no negative indices",
        |op, it| op == OpType::GatherElements && it.has_negative(1);
    GatherNdNegative: "a `GatherND` takes no negative indices",
        |op, it| op == OpType::GatherND && it.has_negative(1);
    DftOneSided: "`DFT` has no one-sided form", |op, it| op == OpType::DFT && it.int("onesided") == 1;
    DftInverse: "`DFT` has no inverse form", |op, it| op == OpType::DFT && it.int("inverse") == 1;
    DftFirstAxis: "`DFT` takes the last axis only", |op, it| op == OpType::DFT && it.has_outer_axis();
    DftLaterAxis: "`DFT` takes the second axis only", |op, it| {
        let axis = it.ints(2).first().copied().zip(it.rank(0));
        op == OpType::DFT
            && axis.is_some_and(|(axis, rank)| crate::infer::axis_from_front(axis, rank) != Some(1))
    };
    DftLength: "`DFT` cannot cut its input",
        |op, it| op == OpType::DFT && it.has_length(std::cmp::Ordering::Less);
    DftPadded: "`DFT` cannot add zeros to its input",
        |op, it| op == OpType::DFT && it.has_length(std::cmp::Ordering::Greater);
    DynamicSlice: "a `Slice` cannot start at a computed position",
        |op, it| op == OpType::Slice && it.is_computed(1);
    SliceStepReshaped: "a `Slice` of a reshaped array cannot skip elements or reverse them",
        |op, it| op == OpType::Slice && it.skips_in_reshaped();
    SliceReversesImage: "a `Slice` cannot reverse an array of four dimensions",
        |op, it| op == OpType::Slice && it.has_negative(4) && it.rank(0).is_some_and(|rank| rank > 3);
    SliceNegativeStep: "a `Slice` cannot reverse an array",
        |op, it| op == OpType::Slice && it.has_negative(4);
    SqueezeUnordered: "a `Squeeze` needs its axes in order", |op, it| op == OpType::Squeeze && {
        let axes = it.ints(1);
        axes.len() > 1 && (axes[0] < 0 || !axes.is_sorted())
    };
    MatMulMatricesVector: "a `MatMul` cannot multiply many matrices with a vector",
        |op, it| op == OpType::MatMul && matches!((it.rank(0), it.rank(1)), (Some(3..), Some(1)));
    MatMulVectorMatrices: "a `MatMul` cannot multiply a vector with many matrices",
        |op, it| op == OpType::MatMul && matches!((it.rank(0), it.rank(1)), (Some(1), Some(3..)));
    MatMulVectorsRead: "a node cannot read the product of two vectors",
        |op, it| op == OpType::MatMul && matches!((it.rank(0), it.rank(1)), (Some(1), Some(1)));
    GatherNdBatchPoints: "a `GatherND` cannot look up points in a batch of arrays", |op, it| {
        let depth = it.ty(1).and_then(|ty| ty.shape.last()?.known());
        op == OpType::GatherND && it.int("batch_dims") > 0 && depth != Some(1)
    };
    WhereBroadcastElse: "a `Where` cannot repeat its last operand", |op, it| op == OpType::Where && {
        let differs = |(ty, result): (&Type, &Type)| ty.rank() > 0 && ty.shape != result.shape;
        it.ty(2).zip(it.result(0)).is_some_and(differs)
    };
    TopKOfFlags: "sorted numbers cannot become flags", |op, it| {
        let sorts = |node: &Node| {
            node.op == OpType::TopK && it.input(0).is_some_and(|x| node.outputs.contains(&x))
        };
        let result = it.result(0).map(|ty| ty.dtype);
        op == OpType::Cast && result == Some(DType::Bool) && (it.earlier)(&sorts)
    };
    MatMulVectors: "a `MatMul` cannot multiply two vectors",
        |op, it| op == OpType::MatMul && matches!((it.rank(0), it.rank(1)), (Some(1), Some(1)));
    MatMulMatricesConstantVector: "a `MatMul` cannot multiply many matrices with a constant vector",
        |op, it| op == OpType::MatMul
            && matches!((it.rank(0), it.rank(1)), (Some(3..), Some(1)))
            && it.tensor(1).is_some();
    MatMulVectorConstantVector: "a `MatMul` cannot multiply a vector with a constant one",
        |op, it| op == OpType::MatMul
            && matches!((it.rank(0), it.rank(1)), (Some(1), Some(1)))
            && it.tensor(1).is_some();
    MatMulVectorMatrix: "a `MatMul` cannot multiply a vector with a matrix",
        |op, it| op == OpType::MatMul && matches!((it.rank(0), it.rank(1)), (Some(1), Some(2)));
    ConvDefaultAttributes: "a `Conv` needs attributes that have defaults",
        |op, it| op == OpType::Conv && it.has_defaults() && it.node.attr("kernel_shape").is_none();
    ConvDefaultStrides: "a `Conv` needs attributes that have defaults",
        |op, it| op == OpType::Conv && it.has_defaults();
    ConvTransposeDefaultAttributes: "a `ConvTranspose` needs attributes that have defaults",
        |op, it| op == OpType::ConvTranspose && it.has_defaults();
    MaxPoolDefaultAttributes: "a pool needs attributes that have defaults",
        |op, it| matches!(op, OpType::MaxPool | OpType::AveragePool) && it.has_defaults();
    ConvThreeDimensions: "a `Conv` takes images, not volumes",
        |op, it| op == OpType::Conv && it.rank(0) == Some(5);
    ConvTransposeThreeDimensions: "a `ConvTranspose` takes images, not volumes",
        |op, it| op == OpType::ConvTranspose && it.rank(0) == Some(5);
    ConvTransposePads: "a `ConvTranspose` takes no `pads`",
        |op, it| op == OpType::ConvTranspose && it.has_other("pads", 0);
    MaxPoolDilation: "a `MaxPool` takes no `dilations`",
        |op, it| op == OpType::MaxPool && it.has_other("dilations", 1);
    AveragePoolDilation: "an `AveragePool` takes no `dilations`",
        |op, it| op == OpType::AveragePool && it.has_other("dilations", 1);
    MaxPoolThreeDimensions: "a `MaxPool` takes images, not volumes",
        |op, it| op == OpType::MaxPool && it.rank(0) == Some(5);
    AveragePoolThreeDimensions: "an `AveragePool` takes images, not volumes",
        |op, it| op == OpType::AveragePool && it.rank(0) == Some(5);
    MaxPoolIndices: "a `MaxPool` returns no indices",
        |op, it| op == OpType::MaxPool && it.node.outputs.get(1).is_some_and(|&at| (it.shows_order)(at));
    ResizeLinearAntialias: "a linear `Resize` has no `antialias`",
        |op, it| op == OpType::Resize && it.text("mode") == "linear" && it.int("antialias") == 1;
    ResizeCubicAntialias: "a cubic `Resize` has no `antialias`",
        |op, it| op == OpType::Resize && it.text("mode") == "cubic" && it.int("antialias") == 1;
    ResizeExcludeOutside: "a `Resize` has no `exclude_outside`",
        |op, it| op == OpType::Resize && it.int("exclude_outside") == 1;
    ResizeCubicKeys: "a cubic `Resize` has other coefficients",
        |op, it| op == OpType::Resize && it.node.attr("cubic_coeff_a").is_some();
    ResizeCubic: "a `Resize` cannot be cubic",
        |op, it| op == OpType::Resize && it.text("mode") == "cubic";
    ResizeVector: "a `Resize` takes images, not vectors",
        |op, it| op == OpType::Resize && it.rank(0) == Some(1);
    ResizeMatrix: "a `Resize` takes images, not matrices",
        |op, it| op == OpType::Resize && it.rank(0) == Some(2) && it.text("mode") == "nearest";
    ResizeOuterAxes: "a `Resize` cannot enlarge the first two axes",
        |op, it| op == OpType::Resize && it.enlarges_outer_axes();
    ResizeThreeDimensions: "a `Resize` takes images, not volumes",
        |op, it| op == OpType::Resize && it.rank(0) == Some(5);
    PadWrap: "a `Pad` cannot wrap", |op, it| op == OpType::Pad && it.text("mode") == "wrap";
    PadEdge: "a `Pad` cannot repeat the edge",
        |op, it| op == OpType::Pad && it.text("mode") == "edge";
    PadReflect: "a `Pad` cannot reflect",
        |op, it| op == OpType::Pad && it.text("mode") == "reflect";
    PadNegative: "a `Pad` cannot remove elements",
        |op, it| op == OpType::Pad && it.has_negative(1);
    PadDynamicValue: "a `Pad` needs a constant value",
        |op, it| op == OpType::Pad && it.is_computed(2);
    PadBooleans: "a `Pad` takes no flags",
        |op, it| op == OpType::Pad && it.dtype(0) == Some(DType::Bool);
    PadAxes: "a `Pad` takes no axes", |op, it| op == OpType::Pad && it.input(3).is_some();
    ReduceBooleans: "a reduction takes no flags",
        |op, it| matches!(op, OpType::ReduceMax | OpType::ReduceMin)
            && it.dtype(0) == Some(DType::Bool);
    EinsumThree: "an `Einsum` takes two operands",
        |op, it| op == OpType::Einsum && it.node.inputs.len() > 2;
    EinsumEllipsis: "an `Einsum` takes no ellipsis",
        |op, it| op == OpType::Einsum && it.text("equation").contains('.');
    EinsumDiagonal: "an `Einsum` takes no diagonal", |op, it| op == OpType::Einsum && {
        let operands = it.text("equation").split("->").next().unwrap_or_default();
        let repeats = |term: &str| {
            let letters = || term.chars().filter(|letter| letter.is_alphabetic());
            letters().any(|letter| letters().filter(|&other| other == letter).count() > 1)
        };
        operands.split(',').any(repeats)
    };
    GeluTanh: "a `Gelu` by `Tanh` is an approximation",
        |op, it| op == OpType::Gelu && it.text("approximate") == "tanh";
    PowComputed: "a `Pow` needs a constant exponent",
        |op, it| op == OpType::Pow && it.is_computed(1);
    PowSeveralExponents: "a `Pow` needs the same exponent for all numbers",
        |op, it| op == OpType::Pow && it.tensor(1).is_some_and(has_several);
    PowIntegerExponent: "a `Pow` of floats takes no integer exponent", |op, it| {
        let kinds = it.dtype(0).zip(it.dtype(1));
        op == OpType::Pow && kinds.is_some_and(|(base, by)| base.is_float() && by.is_int())
    };
    GruLinearBeforeReset: "a `GRU` has no `linear_before_reset`",
        |op, it| op == OpType::GRU && it.int("linear_before_reset") == 1;
    LstmReverse: "an `LSTM` cannot run in reverse",
        |op, it| op == OpType::LSTM && it.text("direction") == "reverse";
    LstmSharedInput: "two recurrent operators cannot read the same array", |op, it| {
        // A transpose that the runtime shares moves nothing if an axis has one element.
        let is_moved = |ty: &Type| !ty.shape.iter().take(2).any(|size| *size == Dim::Known(1));
        let reads_it =
            |node: &Node| is_recurrent(node) && node.inputs.first() == it.node.inputs.first();
        RECURRENT.contains(&op) && it.ty(0).is_none_or(is_moved) && (it.earlier)(&reads_it)
    };
    UnsignedHighConstant: "a constant of `uint32` from 2^31 on becomes 2^31 - 1",
        |_op, it| it.has_high_constant();
    MaxOneOperand: "a `Max` or `Min` needs two operands",
        |op, it| matches!(op, OpType::Max | OpType::Min) && it.node.inputs.len() == 1;
    SumOneOperand: "a `Sum` needs two operands",
        |op, it| op == OpType::Sum && it.node.inputs.len() == 1;
    CastFloatToBool: "a `Cast` of floats to flags is not a comparison with zero", |op, it| {
        let result = it.result(0).map(|ty| ty.dtype);
        op == OpType::Cast && it.dtype(0).is_some_and(DType::is_float) && result == Some(DType::Bool)
    };
    ArgMaxSelectLast: "`ArgMax` cannot return the last of equal elements",
        |op, it| matches!(op, OpType::ArgMax | OpType::ArgMin) && it.int("select_last_index") == 1;
    AttentionBoolMask: "an `Attention` takes no mask of flags",
        |op, it| op == OpType::Attention && it.dtype(3) == Some(DType::Bool);
    AttentionMask: "an `Attention` takes no mask",
        |op, it| op == OpType::Attention && it.input(3).is_some();
    AttentionLowMask: "`Attention` returns zeros for rows that are masked completely",
        |op, it| op == OpType::Attention && it.tensor(3).is_some_and(has_low_row);
    AttentionCausal: "an `Attention` cannot be causal",
        |op, it| op == OpType::Attention && it.int("is_causal") == 1;
    AttentionSoftcapMask: "an `Attention` adds the mask before it applies the `softcap`",
        |op, it| op == OpType::Attention
            && it.node.attr("softcap").is_some_and(|cap| !matches!(cap, Attr::Float(0.0)))
            && (it.input(3).is_some() || it.int("is_causal") == 1);
    AttentionSoftcap: "an `Attention` takes no `softcap`",
        |op, it| op == OpType::Attention && it.node.attr("softcap").is_some();
    AttentionThreeDimensions: "an `Attention` needs its heads as an axis",
        |op, it| op == OpType::Attention && it.rank(0) == Some(3);
    AttentionPast: "an `Attention` takes no cache",
        |op, it| op == OpType::Attention && it.input(4).is_some();
    EmptyConcat: "a `Concat` takes no empty array", |op, it| op == OpType::Concat && it.is_empty();
    EmptyGather: "a `Gather` takes no empty array", |op, it| op == OpType::Gather && it.is_empty();
    EmptySlice: "a `Slice` takes no empty array", |op, it| op == OpType::Slice && it.is_empty();
    EmptyPad: "a `Pad` takes no empty array", |op, it| op == OpType::Pad && it.is_empty();
    EmptySplit: "a `Split` takes no empty array", |op, it| op == OpType::Split && it.is_empty();
    EmptyExpand: "an `Expand` takes no empty array", |op, it| op == OpType::Expand && it.is_empty();
    EmptyReshape: "a `Reshape` takes no empty array",
        |op, it| op == OpType::Reshape && it.is_empty();
    EmptyTranspose: "a `Transpose` takes no empty array",
        |op, it| op == OpType::Transpose && it.is_empty();
    EmptyWhere: "a `Where` takes no empty array", |op, it| op == OpType::Where && it.is_empty();
    EmptyMatMul: "a `MatMul` takes no empty array", |op, it| op == OpType::MatMul && it.is_empty();
    EmptyReduceSum: "a `ReduceSum` takes no empty array",
        |op, it| op == OpType::ReduceSum && it.is_empty();
    EmptyReduceProd: "a `ReduceProd` takes no empty array",
        |op, it| op == OpType::ReduceProd && it.is_empty();
    EmptyReduceMax: "a `ReduceMax` takes no empty array",
        |op, it| op == OpType::ReduceMax && it.is_empty();
    EmptyInput: "an operator takes no empty array", |op, it| {
        use OpType::{Add, Cast, Equal, Less, Mul, Neg, Sub};
        matches!(op, Add | Cast | Equal | Less | Mul | Neg | Sub) && it.is_empty()
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_is_listed_twice() {
        for (at, form) in FORMS.iter().enumerate() {
            assert!(
                !FORMS[..at].iter().any(|other| other.ability == form.ability),
                "{}",
                form.says
            );
        }
    }
}
