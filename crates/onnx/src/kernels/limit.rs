//! Forms of operators that some runtimes do not take.

use rustc_hash::FxHashSet;

use super::form::{FORMS, Form};
use super::probed::Ability;
use super::runtime::Runtime;
use super::view::View;
use crate::attr::Attr;
use crate::model::Graph;
use crate::operator::OpType;
use crate::tensor::Tensor;
use crate::value::{ValueId, Values};

/// A form of an operator that a pass writes in another way if a runtime rejects it or computes it wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The body of a `Scan` reads a computed value from outside.
    ScanCaptures,
    /// A `Scan` runs from the last element to the first.
    ScanReversed,
    /// The body of a `Scan` does not read all of its inputs.
    ScanUnread,
    /// The body of a `Scan` reads a result that the `Scan` stacks.
    ScanReadsResult,
    /// A `Scan` has a body that the runtime fuses in a wrong way.
    ScanFuses,
    /// Both operands of a comparison are repeated.
    BroadcastComparison,
    /// A `TopK` returns the positions of elements that may be equal.
    TopKTies,
    /// A `TopK` sorts as many elements as an earlier one.
    TopKTwice,
    /// A `ScatterElements` or `ScatterND` combines numbers.
    ScatterCombines,
    /// A `ScatterND` writes one entry, not a list of entries.
    ScatterEntry,
    /// A `ScatterND` has indices of several axes, but not of all.
    ScatterInnerSlices,
    /// A `DFT` computes one half of the spectrum.
    OneSidedDft,
    /// A `DFT` along another axis than the second.
    DftLaterAxis,
    /// A `DFT` along another axis than the last, or of another length than its input.
    DftAxis,
    /// A `Slice` starts at a computed position.
    DynamicSlice,
    /// A `Slice` runs backwards, or skips elements of a reshaped array, or of one from which a lookup picks entries.
    SliceReverses,
    /// A graph has an `If` before this one.
    IfTwice,
    /// A branch multiplies matrices by a product of others.
    BranchProducts,
    /// A product with 1, or a sum with 0, has more axes than the other operand.
    NeutralAxes,
    /// A `Mul` of an array of integers with itself.
    IntegerSquare,
    /// A `Squeeze` lists axes from the end, or not in order.
    SqueezeUnordered,
    /// A product with a vector.
    MatMulVector,
    /// A convolution or a pool without attributes that have defaults.
    WindowDefaults,
    /// A `Gelu` by a formula with `Tanh`.
    GeluTanh,
    /// A `Pow` with a computed exponent, or with several ones.
    PowComputed,
    /// A `GRU` whose reset gate comes after the product.
    GruLinear,
    /// An `LSTM`, a `GRU` or an `RNN` that runs from the last element to the first.
    RecurrentReversed,
    /// A `Where` repeats the elements of its last operand.
    WhereRepeats,
    /// A `GatherND` looks up points of a batch of arrays.
    GatherBatch,
    /// A `Cast` makes flags from the results of a `TopK`.
    SortedFlags,
    /// An `Attention` has a `softcap` and a mask.
    SoftcapMask,
    /// An `LSTM`, a `GRU` or an `RNN` reads the same array as an earlier one.
    RecurrentShared,
    /// An `Attention` adds very low numbers to all scores of a row.
    LowMask,
    /// A `Scan` in the body of a `Scan` starts with other states than its last ones.
    ScanRestarts,
    /// A `Scan` computes numbers from the elements of a constant array.
    ScanConstant,
    /// The first branch of an `If` returns a constant.
    BranchConstant,
    /// A `Mul` or a `Div` of integers by one constant, which the runtime takes for a mask of what it reads.
    ConstantFactor,
    /// Another node reads the initial state of a loop, too.
    LoopStateShared,
    /// A `Scan` runs over an array with an added axis, and stacks results without it.
    ScanWidened,
    /// The body of a `Loop` computes whether it goes on.
    LoopEnds,
    /// A `Div` of constants.
    ConstantQuotient,
    /// A reduction is read both as it is and with other axes.
    ReductionTwice,
    /// A `ConvTranspose` has `pads`.
    ConvTransposePads,
    /// A `Resize` of a vector, of a matrix, or along the first two axes.
    ResizeRows,
    /// A constant of `uint32` contains a number that does not fit into `int32`.
    HighConstant,
    /// A `Cast` makes `uint8` from floats.
    CastToByte,
    /// A `Cast` to 16 bits drops bits of integers.
    CastToShort,
    /// A `BitShift` to the left drops bits of bytes.
    ShiftedBytes,
    /// A node reads `int8` of an input and other `int8`.
    InputBytes,
}

/// Numbers up to this one are very low for an [`Limit::LowMask`].
pub const VERY_LOW: f64 = -1e29;

impl Limit {
    pub(super) fn abilities(self) -> &'static [Ability] {
        match self {
            Limit::ScanCaptures => &[Ability::ScanCaptures],
            Limit::ScanReversed => &[Ability::ScanReverse],
            Limit::ScanUnread => &[Ability::ScanUnreadInput],
            Limit::ScanReadsResult => &[Ability::ScanReadsResult],
            Limit::ScanFuses => &[Ability::ScanAddsThenTanh],
            Limit::BroadcastComparison => &[Ability::BroadcastComparison],
            Limit::TopKTies => &[Ability::TopKManyTies],
            Limit::TopKTwice => &[Ability::TopKTwice],
            Limit::ScatterCombines => &[
                Ability::ScatterNdAddDuplicates,
                Ability::ScatterNdMulDuplicates,
                Ability::ScatterNdMaxDuplicates,
                Ability::ScatterNdMinDuplicates,
                Ability::ScatterElementsAddDuplicates,
                Ability::ScatterElementsMulDuplicates,
                Ability::ScatterElementsMaxDuplicates,
                Ability::ScatterElementsMinDuplicates,
            ],
            Limit::ScatterEntry => &[Ability::ScatterNdEntry, Ability::ScatterNdScalar],
            Limit::ScatterInnerSlices => &[Ability::ScatterNdInnerSlices],
            Limit::OneSidedDft => &[Ability::DftOneSided],
            Limit::DftLaterAxis => &[Ability::DftLaterAxis],
            Limit::DftAxis => &[Ability::DftFirstAxis, Ability::DftLength, Ability::DftPadded],
            Limit::DynamicSlice => &[Ability::DynamicSlice],
            Limit::SliceReverses => &[
                Ability::SliceReversesImage,
                Ability::SliceNegativeStep,
                Ability::SliceStepReshaped,
                Ability::SliceStepPicked,
            ],
            Limit::IfTwice => &[Ability::IfTwice],
            Limit::BranchProducts => &[Ability::IfMultipliesProduct],
            Limit::NeutralAxes => &[Ability::MulOneAddsAxis],
            Limit::IntegerSquare => &[Ability::MulItself, Ability::MulItselfShort],
            Limit::SqueezeUnordered => &[Ability::SqueezeUnordered],
            Limit::MatMulVector => &[
                Ability::MatMulMatricesVector,
                Ability::MatMulVectorMatrices,
                Ability::MatMulVectorMatrix,
                Ability::MatMulVectors,
                Ability::MatMulVectorsRead,
                Ability::MatMulMatricesConstantVector,
                Ability::MatMulVectorConstantVector,
            ],
            Limit::WindowDefaults => &[
                Ability::ConvDefaultAttributes,
                Ability::ConvDefaultStrides,
                Ability::ConvTransposeDefaultAttributes,
                Ability::MaxPoolDefaultAttributes,
            ],
            Limit::GeluTanh => &[Ability::GeluTanh],
            Limit::PowComputed => &[Ability::PowComputed, Ability::PowSeveralExponents],
            Limit::GruLinear => &[Ability::GruLinearBeforeReset],
            Limit::RecurrentReversed => {
                &[Ability::LstmReverse, Ability::GruReverse, Ability::RnnReverse]
            }
            Limit::WhereRepeats => &[Ability::WhereBroadcastElse],
            Limit::GatherBatch => &[Ability::GatherNdBatchPoints],
            Limit::SortedFlags => &[Ability::TopKOfFlags],
            Limit::SoftcapMask => &[Ability::AttentionSoftcapMask],
            Limit::RecurrentShared => &[Ability::LstmSharedInput],
            Limit::LowMask => &[Ability::AttentionLowMask],
            Limit::ScanRestarts => &[Ability::ScanInScanRestarts],
            Limit::ScanConstant => &[Ability::ScanScalesConstant],
            Limit::ConstantFactor => &[Ability::ScanDividesState],
            Limit::ScanWidened => &[Ability::ScanWidened],
            Limit::LoopStateShared => &[Ability::ScanStateShared],
            Limit::BranchConstant => &[Ability::IfReturnsConstant],
            Limit::LoopEnds => &[Ability::LoopWhile],
            Limit::ConstantQuotient => &[Ability::DivConstants],
            Limit::ReductionTwice => &[Ability::ReductionTwice],
            Limit::ConvTransposePads => &[Ability::ConvTransposePads],
            Limit::ResizeRows => {
                &[Ability::ResizeVector, Ability::ResizeMatrix, Ability::ResizeOuterAxes]
            }
            Limit::HighConstant => &[Ability::UnsignedHighConstant],
            Limit::CastToByte => &[Ability::CastFloatToByte],
            Limit::CastToShort => &[Ability::CastToShort],
            Limit::ShiftedBytes => &[Ability::BitShiftLeftBytes],
            Limit::InputBytes => &[Ability::InputBytes],
        }
    }

    /// True if a runtime has the limit for some node.
    pub(super) fn holds_in(self, runtime: &Runtime, oldest: usize) -> bool {
        FORMS.iter().any(|form| self.is_about(form) && form.is_lacking(runtime, oldest))
    }

    /// True if a runtime does not take a node because of the limit.
    pub(super) fn concerns(self, runtime: &Runtime, oldest: usize, view: &View<'_>) -> bool {
        let mut forms = FORMS.iter().filter(|form| self.is_about(form));
        forms.any(|form| form.is_lacking(runtime, oldest) && form.is_of(view))
    }

    fn is_about(self, form: &Form) -> bool {
        self.abilities().contains(&form.ability)
    }
}

/// True if each row of a constant has a number above `lowest`.
pub fn is_above_in_each_row(tensor: &Tensor, lowest: f64) -> bool {
    let width = tensor.shape.last().map_or(1, |&size| size.max(1)) as usize;
    let (mut place, mut is_left) = (0, false);
    tensor.all_floats(|number| {
        is_left = number > lowest || (is_left && place % width > 0);
        place += 1;
        is_left || place % width > 0
    })
}

/// True if a constant has a row of very low numbers.
pub(super) fn has_low_row(tensor: &Tensor) -> bool {
    tensor.dtype.is_float() && !is_above_in_each_row(tensor, VERY_LOW)
}

/// True if a constant of floats contains different numbers.
pub(super) fn has_several(tensor: &Tensor) -> bool {
    let mut first = None;
    tensor.dtype.is_float() && !tensor.all_floats(|number| *first.get_or_insert(number) == number)
}

/// Calls `read` with every value that the nodes and outputs of a body and of the bodies inside read.
pub(super) fn visit_reads(body: &Graph, read: &mut dyn FnMut(ValueId)) {
    for node in &body.nodes {
        node.inputs.iter().flatten().for_each(|&value| read(value));
        node.bodies().for_each(|inner| visit_reads(inner, read));
    }
    body.outputs.iter().for_each(|&value| read(value));
}

fn visit_definitions(body: &Graph, define: &mut dyn FnMut(ValueId)) {
    body.inputs.iter().for_each(|&value| define(value));
    for node in &body.nodes {
        node.outputs.iter().for_each(|&value| define(value));
        node.bodies().for_each(|inner| visit_definitions(inner, define));
    }
}

/// Returns the values from outside that a body reads, except constants, in the order of the reads.
pub fn captured(body: &Graph, values: &Values) -> Vec<ValueId> {
    let mut known = FxHashSet::default();
    visit_definitions(body, &mut |value| {
        known.insert(value);
    });
    let mut captured = Vec::new();
    visit_reads(body, &mut |value| {
        if values[value].tensor.is_none() && known.insert(value) {
            captured.push(value);
        }
    });
    captured
}

pub(super) fn captures(body: &Graph, values: &Values) -> bool {
    !captured(body, values).is_empty()
}

/// True if the body of a `Loop` computes whether it goes on.
pub(super) fn ends(body: &Graph, values: &Values) -> bool {
    let (Some(&flag), Some(&next)) = (body.inputs.get(1), body.outputs.first()) else {
        return false;
    };
    let is_kept = |value: ValueId| value == flag || values[value].tensor.is_some();
    let source = body.nodes.iter().find(|node| node.outputs.contains(&next));
    let copies = source.is_some_and(|node| {
        node.op == OpType::Identity && node.inputs.iter().flatten().all(|&value| is_kept(value))
    });
    !is_kept(next) && !copies
}

/// True if the first branch of an `If` returns a constant, or what follows from constants.
pub(super) fn returns_constant(branch: &Graph, values: &Values) -> bool {
    let is_constant = |value: ValueId| values[value].tensor.is_some();
    let known = constants(branch, is_constant);
    branch.outputs.iter().any(|&value| known.contains(&value) || is_constant(value))
}

/// Returns the results in a body that follow from constants.
pub fn constants(body: &Graph, is_constant: impl Fn(ValueId) -> bool) -> FxHashSet<ValueId> {
    let mut known = FxHashSet::default();
    for node in &body.nodes {
        let follows = |&value: &ValueId| known.contains(&value) || is_constant(value);
        if node.bodies().next().is_none() && node.inputs.iter().flatten().all(follows) {
            known.extend(&node.outputs);
        }
    }
    known
}

/// True if a body computes numbers from `elements` and constants alone, and folds them into other constants: either they
/// are the operands of a second such step, or a product with them is scaled by another constant.
pub(super) fn folds_elements(body: &Graph, elements: &[ValueId], values: &Values) -> bool {
    let is_fixed = |value: ValueId| values[value].tensor.is_some();
    let mut computed: FxHashSet<ValueId> = FxHashSet::default();
    let mut scaled: FxHashSet<ValueId> = FxHashSet::default();
    body.nodes.iter().any(|node| {
        let inputs = || node.inputs.iter().flatten().copied();
        let is_inverse = |at: usize, value: ValueId| {
            node.op == OpType::Div && at == 1 && elements.contains(&value)
        };
        let folds =
            |(at, value): (usize, ValueId)| computed.contains(&value) || is_inverse(at, value);
        let is_factor = |(at, value): (usize, ValueId)| is_fixed(value) || folds((at, value));
        let follows = |value: ValueId| {
            is_fixed(value) || elements.contains(&value) || computed.contains(&value)
        };
        if !inputs().all(is_fixed) && inputs().all(follows) {
            if inputs().any(|value| computed.contains(&value)) {
                return true;
            }
            computed.extend(&node.outputs);
        } else if matches!(node.op.onnx(), Some(OpType::Mul | OpType::Div)) {
            let is_scaled = inputs().any(|value| scaled.contains(&value));
            if is_scaled && inputs().enumerate().any(is_factor) {
                return true;
            }
            if inputs().enumerate().any(folds) {
                scaled.extend(&node.outputs);
            }
        }
        false
    })
}

pub(super) fn has_unread_input(body: &Graph) -> bool {
    let mut unread: FxHashSet<ValueId> = body.inputs.iter().copied().collect();
    visit_reads(body, &mut |value| {
        unread.remove(&value);
    });
    !unread.is_empty()
}

/// True for a product with 1, or a sum with 0, that only adds axes to the other operand.
pub(super) fn adds_axes(op: OpType, view: &View<'_>) -> bool {
    let neutral = match op {
        OpType::Mul | OpType::Div => 1.0,
        OpType::Add | OpType::Sub => 0.0,
        _ => return false,
    };
    let is_neutral = |tensor: &Tensor| {
        let is_number = tensor.shape.iter().all(|&size| size == 1);
        is_number && tensor.dtype.is_float() && tensor.all_floats(|number| number == neutral)
    };
    let adds = |constant: usize, other: usize| {
        view.tensor(constant).is_some_and(is_neutral)
            && view.rank(other).is_some_and(|rank| view.rank(constant) > Some(rank))
    };
    adds(1, 0) || matches!(op, OpType::Mul | OpType::Add) && adds(0, 1)
}

/// True if the second operand of a product of matrices depends on another product in the same body.
pub(super) fn multiplies_by_product(body: &Graph) -> bool {
    let mut products = FxHashSet::default();
    body.nodes.iter().any(|node| {
        let is_product = matches!(node.op.onnx(), Some(OpType::MatMul | OpType::Gemm));
        let depends = |input: &Option<ValueId>| input.is_some_and(|id| products.contains(&id));
        let is_wrong = is_product && node.inputs.get(1).is_some_and(depends);
        if is_product || node.inputs.iter().any(depends) {
            products.extend(node.outputs.iter().copied());
        }
        is_wrong
    })
}

/// True if a node in the body of a `Scan` reads a result after the first `states` ones.
pub(super) fn reads_result(body: &Graph, states: usize) -> bool {
    let stacked = body.outputs.get(states..).unwrap_or_default();
    let mut is_read = false;
    let mut read = |value: ValueId| is_read |= stacked.contains(&value);
    for node in &body.nodes {
        node.inputs.iter().flatten().for_each(|&value| read(value));
        node.bodies().for_each(|inner| visit_reads(inner, &mut read));
    }
    is_read
}

/// True if the body of a `Scan` with a number of states contains a `Scan` that does not go on with the state that it
/// returned in the iteration before.
pub(super) fn restarts(body: &Graph, states: usize) -> bool {
    let outer = || body.inputs.iter().zip(&body.outputs).take(states);
    body.nodes.iter().filter(|node| node.op == OpType::Scan).any(|node| {
        let arrays = match node.attr("num_scan_inputs") {
            Some(&Attr::Int(arrays)) => usize::try_from(arrays).unwrap_or(0),
            _ => 0,
        };
        let own = node.inputs.len().saturating_sub(arrays);
        let mut carries = node.inputs.iter().zip(&node.outputs).take(own);
        carries.any(|(&initial, &last)| {
            !outer().any(|(&it, &next)| (Some(it), next) == (initial, last))
        })
    })
}
