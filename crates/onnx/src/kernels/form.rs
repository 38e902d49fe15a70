//! The forms of nodes that were probed, and how to recognize them.

use super::limit::{
    adds_axes, captures, ends, has_low_row, has_several, has_unread_input, multiplies_by_product,
    reads_result, restarts, returns_constant,
};
use super::probed::Ability;
use super::runtime::Runtime;
use super::uses::overwrites_state;
use super::view::{View, sorted_size};
use crate::attr::Attr;
use crate::dtype::DType;
use crate::model::Node;
use crate::operator::OpType;
use crate::operator::properties::{COMPARISONS, REDUCTIONS};
use crate::value::{Dim, Type};

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
            | Ability::ScanScalesConstant
            | Ability::IfReturnsConstant
            | Ability::AttentionLowMask
            | Ability::DivConstants
            | Ability::ReductionTwice
            | Ability::ScanInScanRestarts
            | Ability::AttentionSoftcapMask
            | Ability::DftLaterAxis
            | Ability::LstmSharedInput
            | Ability::CastFloatToByte
            | Ability::BitShiftLeftBytes
            | Ability::InputBytes
            | Ability::CastToShort
            | Ability::GruReverse
            | Ability::RnnReverse
            | Ability::UnsignedHighConstant => runtime.miscomputes(self.ability, oldest),
            // A runtime without `Scan` refuses their models for another reason.
            Ability::ScanDividesState | Ability::ScanStateShared | Ability::ScanWidened => {
                runtime.lacks(self.ability) && !runtime.lacks(Ability::Scan)
            }
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
    ScanScalesConstant: "a `Scan` takes an element of a constant array for the whole array",
        |op, it| op == OpType::Scan && it.takes_whole_arrays();
    ScanDividesState: "integers that a loop carries, or a hash of `uint32`, cannot be scaled by one constant",
        |op, it| match op {
            OpType::Scan => it.scales_state(),
            OpType::Mul | OpType::Div => it.scales_hash(),
            _ => false,
        };
    ScanStateShared: "a computed value cannot be both the initial state of a loop and an operand of another node",
        |op, it| matches!(op, OpType::Scan | OpType::Loop) && it.shared_states().next().is_some();
    ScanWidened: "a `Scan` over an array with an added axis cannot stack results without it",
        |op, it| op == OpType::Scan && it.widened_arrays().next().is_some();
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
    IfReturnsConstant: "an `If` whose first branch returns a constant always returns it", |op, it| {
        let first = match it.node.attr("then_branch") {
            Some(Attr::Graph(branch)) => Some(branch),
            _ => None,
        };
        op == OpType::If
            && it.is_computed(0)
            && first.is_some_and(|branch| returns_constant(branch, it.values))
    };
    IfTwice: "a graph cannot contain two `If`",
        |op, it| op == OpType::If && (it.earlier)(&|node| node.op == OpType::If);
    IfMultipliesProduct: "a branch cannot multiply matrices by a product of others",
        |op, it| op == OpType::If && it.node.bodies().any(multiplies_by_product);
    MulOneAddsAxis: "an operation with 1 or 0 does not add axes", |op, it| adds_axes(op, it);
    MulItselfShort: "a `Mul` of `int32` cannot square them",
        |op, it| op == OpType::Mul && it.dtype(0) == Some(DType::I32) && it.input(0) == it.input(1);
    MulItself: "a `Mul` of integers cannot square them", |op, it| {
        let is_int = it.dtype(0).is_some_and(|dtype| dtype.is_int() && dtype != DType::I32);
        op == OpType::Mul && is_int && it.input(0) == it.input(1)
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
    SliceStepPicked: "a lookup cannot read a `Slice` that skips elements",
        |op, it| op == OpType::Slice && it.skips_for_lookup();
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
        let is_number = |ty: &Type| ty.shape.iter().all(|size| *size == Dim::Known(1));
        let differs = |(ty, result): (&Type, &Type)| !is_number(ty) && ty.shape != result.shape;
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
    LstmLengths: "an `LSTM` takes no lengths of sequences",
        |op, it| op == OpType::LSTM && it.input(4).is_some();
    GruLengths: "a `GRU` takes no lengths of sequences",
        |op, it| op == OpType::GRU && it.input(4).is_some();
    LstmPeepholes: "an `LSTM` takes no peepholes",
        |op, it| op == OpType::LSTM && it.input(7).is_some();
    LstmReverse: "an `LSTM` cannot run in reverse",
        |op, it| op == OpType::LSTM && it.text("direction") == "reverse";
    GruReverse: "a `GRU` cannot run in reverse",
        |op, it| op == OpType::GRU && it.text("direction") == "reverse";
    RnnReverse: "an `RNN` cannot run in reverse",
        |op, it| op == OpType::RNN && it.text("direction") == "reverse";
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
    CastFloatToByte: "a `Cast` of floats to `uint8` ends at 127",
        |op, it| op == OpType::Cast
            && it.dtype(0).is_some_and(DType::is_float)
            && it.result(0).is_some_and(|ty| ty.dtype == DType::U8);
    CastToShort: "a `Cast` to 16 bits keeps more bits",
        |op, it| op == OpType::Cast && it.drops_high_bits();
    BitShiftLeftBytes: "a `BitShift` to the left keeps the largest number instead of dropping bits",
        |op, it| op == OpType::BitShift
            && it.text("direction") == "LEFT"
            && it.dtype(0).is_some_and(|dtype| dtype.bits() < 32);
    InputBytes: "an input of `int8` cannot be combined with other `int8`",
        |op, it| op != OpType::Pad && it.combines_input_bytes();
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
