//! One row per operator: everything that the rest of the project knows about it.
//!
//! The match has no wildcard arm, so an operator without a row does not compile. [`crate::kernels`] says whether a
//! runtime has a kernel.

use std::ops::BitOr;

use super::OpType;
use super::properties::{
    ALIASES, ALONG_AN_AXIS, ARITHMETIC, BLIND_TO_ZERO_SIGNS, BRANCHES, BROADCASTING, BY_ROW, CASTS,
    COMPARISONS, COPIES, ELEMENTWISE, EXACT, EXPANDS, HOLDS_PRODUCTS, IN_PLACE, JOINS, LOOPS,
    NEVER_GROWS, NONE, NORMALIZES, PARTIAL, PICKS, PRODUCTS, QUANTIZED, RANDOM, REDUCTIONS,
    RESERVES_NAME, RESHAPES, ROUNDS_ONCE, SIGNLESS, TOTAL, TRANSPOSES,
};
use crate::cost::{self as of, rules as cost};
use crate::facts::{self as about, rules as facts};
use crate::infer::{self as types, rules as infer};

/// The knowledge about an operator.
pub(crate) struct Row {
    /// The rule by which the types of the results follow from the operands.
    pub infer: types::Rule,
    /// The rule by which facts about the results follow from facts about the operands.
    pub facts: about::Rule,
    /// The rule by which the cost of a node follows from the shapes of operands and results.
    pub cost: of::Rule,
    pub properties: Properties,
    /// The axis that the operator works along if it has no attribute `axis`.
    pub axis: Option<i64>,
    /// The operand that contains the axes if there is no attribute `axes`.
    pub axes: Option<usize>,
}

impl Row {
    fn axis(self, axis: i64) -> Row {
        Row { axis: Some(axis), ..self }
    }

    fn axes(self, operand: usize) -> Row {
        Row { axes: Some(operand), ..self }
    }
}

/// Properties of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties(pub(super) u32);

impl Properties {
    /// Returns the properties of both.
    pub const fn or(self, other: Properties) -> Properties {
        Properties(self.0 | other.0)
    }
}

impl BitOr for Properties {
    type Output = Properties;

    fn bitor(self, other: Properties) -> Properties {
        self.or(other)
    }
}

fn row(infer: types::Rule, facts: about::Rule, cost: of::Rule, properties: Properties) -> Row {
    Row { infer, facts, cost, properties, axis: None, axes: None }
}

impl OpType {
    /// True if the operator has at least one of these properties.
    pub fn is(self, properties: Properties) -> bool {
        self.row().properties.0 & properties.0 != 0
    }

    /// Returns the axis that the operator works along if it has no attribute `axis`.
    pub fn default_axis(self) -> Option<i64> {
        self.row().axis
    }

    /// Returns the operand that contains the axes if there is no attribute `axes`.
    pub fn axes_operand(self) -> Option<usize> {
        self.row().axes
    }

    #[rustfmt::skip]
    #[expect(clippy::match_same_arms, reason = "one row for each operator")]
    pub(crate) fn row(self) -> Row {
        match self {
            OpType::Abs => row(infer::same, facts::size, cost::each(1), ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS | EXACT),
            OpType::Acos => row(infer::same, facts::unknown, cost::TRANSCENDENTAL, ELEMENTWISE),
            OpType::Acosh => row(infer::same, facts::unknown, cost::TRANSCENDENTAL, ELEMENTWISE),
            OpType::Add => row(infer::join, facts::add, cost::each(1), BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE | ARITHMETIC | RESERVES_NAME),
            OpType::AffineGrid => row(infer::unknown, facts::unknown, cost::by(cost::affine_grid), NONE),
            OpType::And => row(infer::join, facts::unknown, cost::each(1), BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            OpType::ArgMax => row(infer::arg, facts::place, cost::by(cost::reduce), BLIND_TO_ZERO_SIGNS | EXACT).axis(0),
            OpType::ArgMin => row(infer::arg, facts::place, cost::by(cost::reduce), BLIND_TO_ZERO_SIGNS | EXACT).axis(0),
            OpType::Asin => row(infer::same, facts::unknown, cost::TRANSCENDENTAL, ELEMENTWISE),
            OpType::Asinh => row(infer::same, facts::unknown, cost::TRANSCENDENTAL, ELEMENTWISE),
            OpType::Atan => row(infer::same, facts::unknown, cost::TRANSCENDENTAL, ELEMENTWISE),
            OpType::Atanh => row(infer::same, facts::unknown, cost::TRANSCENDENTAL, ELEMENTWISE),
            OpType::Attention => row(infer::attention, facts::unknown, cost::by(cost::attention), BLIND_TO_ZERO_SIGNS | HOLDS_PRODUCTS),
            OpType::AveragePool => row(infer::pool, facts::unknown, cost::by(cost::average_pool), NONE),
            OpType::BatchNormalization => row(infer::same, facts::unknown, cost::by(cost::batch_normalization), NONE),
            OpType::Bernoulli => row(infer::random_like, facts::unknown, cost::each_with(1, 1), RANDOM),
            OpType::BitCast => row(infer::cast, facts::unknown, cost::NOTHING, NONE),
            OpType::BitShift => row(infer::join, facts::shift, cost::each(1), BROADCASTING | PARTIAL),
            OpType::BitwiseAnd => row(infer::join, facts::bits_of_both, cost::each(1), BROADCASTING | SIGNLESS),
            OpType::BitwiseNot => row(infer::same, facts::unknown, cost::each(1), ELEMENTWISE | SIGNLESS),
            OpType::BitwiseOr => row(infer::join, facts::bits_of_one, cost::each(1), BROADCASTING | SIGNLESS),
            OpType::BitwiseXor => row(infer::join, facts::bits_of_one, cost::each(1), BROADCASTING | SIGNLESS),
            OpType::BlackmanWindow => row(infer::window_function, facts::unknown, cost::LONG_WINDOW, NONE),
            OpType::Cast => row(infer::cast, facts::cast, cost::by(cost::cast), ELEMENTWISE | CASTS | TOTAL | ROUNDS_ONCE | IN_PLACE),
            OpType::CastLike => row(infer::cast_like, facts::unknown, cost::by(cost::cast), NONE),
            OpType::CausalConvWithState => row(infer::unknown, facts::unknown, cost::by(cost::causal_conv), NONE),
            OpType::Ceil => row(infer::same, facts::ceil, cost::each(1), ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            OpType::Celu => row(infer::same, facts::unknown, cost::each_with(6, 1), ELEMENTWISE | IN_PLACE),
            OpType::CenterCropPad => row(infer::unknown, facts::unknown, cost::MOVES, NONE),
            OpType::Clip => row(infer::same, facts::clip, cost::by(cost::clip), ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT | IN_PLACE),
            OpType::Col2Im => row(infer::unknown, facts::unknown, cost::by(cost::each_of_operand), NONE),
            OpType::Compress => row(infer::unknown, facts::unknown, cost::MOVES, EXACT),
            OpType::Concat => row(infer::concat, facts::concat, cost::MOVES, TOTAL | BY_ROW | ALONG_AN_AXIS | JOINS | SIGNLESS | EXACT),
            OpType::ConcatFromSequence => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::Constant => row(infer::constant, facts::unknown, cost::NOTHING, EXACT | RESERVES_NAME),
            OpType::ConstantOfShape => row(infer::constant_of_shape, facts::unknown, cost::WRITES, EXACT),
            OpType::Conv => row(infer::conv, facts::unknown, cost::by(cost::conv), BLIND_TO_ZERO_SIGNS | PRODUCTS),
            OpType::ConvInteger => row(infer::conv_of_bytes, facts::unknown, cost::by(cost::conv), QUANTIZED | HOLDS_PRODUCTS),
            OpType::ConvTranspose => row(infer::conv_transpose, facts::unknown, cost::by(cost::conv_transpose), BLIND_TO_ZERO_SIGNS | PRODUCTS),
            OpType::Cos => row(infer::same, facts::wave, cost::TRANSCENDENTAL, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS),
            OpType::Cosh => row(infer::same, facts::positive, cost::each_with(3, 2), ELEMENTWISE | BLIND_TO_ZERO_SIGNS),
            OpType::CumProd => row(infer::same, facts::unknown, cost::by(cost::cumulate), NONE).axes(1),
            OpType::CumSum => row(infer::same, facts::unknown, cost::by(cost::cumulate), SIGNLESS).axes(1),
            OpType::DFT => row(infer::dft, facts::unknown, cost::by(cost::dft), NONE),
            OpType::DeformConv => row(infer::unknown, facts::unknown, cost::by(cost::deform_conv), HOLDS_PRODUCTS),
            OpType::DepthToSpace => row(infer::depth_to_blocks, facts::same, cost::MOVES, EXACT),
            OpType::DequantizeLinear => row(infer::dequantize, facts::unknown, cost::by(cost::dequantize), QUANTIZED),
            OpType::Det => row(infer::determinant, facts::unknown, cost::by(cost::determinant), NONE),
            OpType::Div => row(infer::join, facts::divide, cost::each(1), BROADCASTING | ROUNDS_ONCE | PARTIAL | ARITHMETIC | RESERVES_NAME),
            OpType::Dropout => row(infer::dropout, facts::unknown, cost::DROPOUT, RANDOM),
            OpType::DynamicQuantizeLinear => row(infer::quantize_dynamically, facts::unknown, cost::by(cost::quantize_dynamically), QUANTIZED),
            OpType::Einsum => row(infer::einsum, facts::unknown, cost::by(cost::einsum), SIGNLESS | HOLDS_PRODUCTS),
            OpType::Elu => row(infer::same, facts::unknown, cost::each_with(3, 1), ELEMENTWISE | IN_PLACE),
            OpType::Equal => row(infer::compare, facts::unknown, cost::each(1), BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | SIGNLESS | EXACT | COMPARISONS),
            OpType::Erf => row(infer::same, facts::limited, cost::TRANSCENDENTAL, ELEMENTWISE | TOTAL | NEVER_GROWS),
            OpType::Exp => row(infer::same, facts::exponential, cost::TRANSCENDENTAL, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL),
            OpType::Expand => row(infer::expand, facts::same, cost::MOVES, EXPANDS | TOTAL | SIGNLESS | EXACT),
            OpType::EyeLike => row(infer::random_like, facts::unknown, cost::WRITES, NONE),
            OpType::Flatten => row(infer::flatten, facts::same, cost::NOTHING, EXACT | ALIASES).axis(1),
            OpType::Floor => row(infer::same, facts::floor, cost::each(1), ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            OpType::GRU => row(infer::gru, facts::unknown, cost::by(cost::gru), HOLDS_PRODUCTS),
            OpType::Gather => row(infer::gather, facts::same, cost::PICKS, PICKS | BY_ROW | SIGNLESS | EXACT | RESERVES_NAME).axis(0),
            OpType::GatherElements => row(infer::gather_elements, facts::same, cost::PICKS, PICKS | SIGNLESS | EXACT).axis(0),
            OpType::GatherND => row(infer::gather_nd, facts::same, cost::PICKS, PICKS | SIGNLESS | EXACT),
            OpType::Gelu => row(infer::same, facts::unknown, cost::by(cost::gelu), ELEMENTWISE),
            OpType::Gemm => row(infer::gemm, facts::unknown, cost::by(cost::gemm), BLIND_TO_ZERO_SIGNS | TOTAL | PRODUCTS),
            OpType::GlobalAveragePool => row(infer::global_pool, facts::unknown, cost::by(cost::mean), NONE),
            OpType::GlobalLpPool => row(infer::global_pool, facts::unknown, cost::by(cost::global_lp_pool), NONE),
            OpType::GlobalMaxPool => row(infer::global_pool, facts::unknown, cost::by(cost::reduce), NONE),
            OpType::Greater => row(infer::compare, facts::unknown, cost::each(1), BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT | COMPARISONS),
            OpType::GreaterOrEqual => row(infer::compare, facts::unknown, cost::each(1), BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT | COMPARISONS),
            OpType::GridSample => row(infer::grid_sample, facts::unknown, cost::by(cost::grid_sample), NONE),
            OpType::GroupNormalization => row(infer::same, facts::unknown, cost::by(cost::group_normalization), NONE),
            OpType::HammingWindow => row(infer::window_function, facts::unknown, cost::WINDOW, NONE),
            OpType::HannWindow => row(infer::window_function, facts::unknown, cost::WINDOW, NONE),
            OpType::HardSigmoid => row(infer::same, facts::unknown, cost::each(4), ELEMENTWISE | IN_PLACE),
            OpType::HardSwish => row(infer::same, facts::unknown, cost::each(5), ELEMENTWISE),
            OpType::Hardmax => row(infer::same, facts::probabilities, cost::by(cost::hardmax), ALONG_AN_AXIS | NORMALIZES).axis(-1),
            OpType::Identity => row(infer::same, facts::same, cost::NOTHING, ELEMENTWISE | COPIES | TOTAL | EXACT | ALIASES),
            OpType::If => row(infer::branches, facts::unknown, cost::NOTHING, BRANCHES),
            OpType::ImageDecoder => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::InstanceNormalization => row(infer::same, facts::unknown, cost::by(cost::instance_normalization), NONE),
            OpType::IsInf => row(infer::test, facts::unknown, cost::each(1), ELEMENTWISE | BLIND_TO_ZERO_SIGNS | EXACT),
            OpType::IsNaN => row(infer::test, facts::unknown, cost::each(1), ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            OpType::LRN => row(infer::same, facts::unknown, cost::by(cost::local_response), NONE),
            OpType::LSTM => row(infer::lstm, facts::unknown, cost::by(cost::lstm), HOLDS_PRODUCTS),
            OpType::LayerNormalization => row(infer::normalize, facts::normalize, cost::by(cost::layer_normalization), BY_ROW | NORMALIZES).axis(-1),
            OpType::LeakyRelu => row(infer::same, facts::unknown, cost::each(3), ELEMENTWISE | IN_PLACE),
            OpType::Less => row(infer::compare, facts::unknown, cost::each(1), BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT | COMPARISONS),
            OpType::LessOrEqual => row(infer::compare, facts::unknown, cost::each(1), BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT | COMPARISONS),
            OpType::LinearAttention => row(infer::unknown, facts::unknown, cost::UNKNOWN, HOLDS_PRODUCTS),
            OpType::Log => row(infer::same, facts::logarithm, cost::TRANSCENDENTAL, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL),
            OpType::LogSoftmax => row(infer::same, facts::log_probabilities, cost::by(cost::log_softmax), BLIND_TO_ZERO_SIGNS | BY_ROW | ALONG_AN_AXIS | NORMALIZES | IN_PLACE).axis(-1),
            OpType::Loop => row(infer::loop_, facts::unknown, cost::NOTHING, LOOPS),
            OpType::LpNormalization => row(infer::same, facts::unknown, cost::by(cost::lp_normalization), NONE).axis(-1),
            OpType::LpPool => row(infer::pool, facts::unknown, cost::by(cost::lp_pool), NONE),
            OpType::MatMul => row(infer::matmul, facts::matmul, cost::by(cost::matmul), BLIND_TO_ZERO_SIGNS | TOTAL | BY_ROW | PRODUCTS | SIGNLESS),
            OpType::MatMulInteger => row(infer::matmul_of_bytes, facts::unknown, cost::by(cost::matmul), QUANTIZED | HOLDS_PRODUCTS),
            OpType::Max => row(infer::join, facts::maximum, cost::by(cost::joined), BROADCASTING | TOTAL | NEVER_GROWS | EXACT),
            OpType::MaxPool => row(infer::pool, facts::unknown, cost::by(cost::max_pool), NEVER_GROWS | EXACT),
            OpType::MaxRoiPool => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::MaxUnpool => row(infer::unknown, facts::unknown, cost::MOVES, NONE),
            OpType::Mean => row(infer::join, facts::unknown, cost::by(cost::mean_of_operands), BROADCASTING),
            OpType::MeanVarianceNormalization => row(infer::same, facts::unknown, cost::by(cost::mean_variance), NONE),
            OpType::MelWeightMatrix => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::Min => row(infer::join, facts::minimum, cost::by(cost::joined), BROADCASTING | TOTAL | NEVER_GROWS | EXACT),
            OpType::Mish => row(infer::same, facts::unknown, cost::each_with(5, 3), ELEMENTWISE),
            OpType::Mod => row(infer::join, facts::remainder, cost::each(1), BROADCASTING | EXACT | PARTIAL),
            OpType::Mul => row(infer::join, facts::multiply, cost::each(1), BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE | ARITHMETIC | RESERVES_NAME),
            OpType::Multinomial => row(infer::draw, facts::unknown, cost::RANDOM, RANDOM),
            OpType::Neg => row(infer::same, facts::negate, cost::each(1), ELEMENTWISE | TOTAL | NEVER_GROWS | SIGNLESS | EXACT),
            OpType::NegativeLogLikelihoodLoss => row(infer::unknown, facts::unknown, cost::by(cost::picked_loss), NONE),
            OpType::NonMaxSuppression => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::NonZero => row(infer::unknown, facts::sizes, cost::by(cost::each_of_operand), BLIND_TO_ZERO_SIGNS | EXACT),
            OpType::Not => row(infer::same, facts::unknown, cost::each(1), ELEMENTWISE | TOTAL | EXACT),
            OpType::OneHot => row(infer::one_hot, facts::unknown, cost::MOVES, EXACT).axis(-1),
            OpType::Optional => row(infer::unknown, facts::unknown, cost::NOTHING, NONE),
            OpType::OptionalGetElement => row(infer::unknown, facts::unknown, cost::NOTHING, NONE),
            OpType::OptionalHasElement => row(infer::flag, facts::unknown, cost::NOTHING, NONE),
            OpType::Or => row(infer::join, facts::unknown, cost::each(1), BROADCASTING | TOTAL | EXACT),
            OpType::PRelu => row(infer::same, facts::unknown, cost::each(3), NONE),
            OpType::Pad => row(infer::pad, facts::unknown, cost::MOVES, JOINS | SIGNLESS | EXACT).axes(3),
            OpType::Pow => row(infer::power, facts::power, cost::by(cost::power), BROADCASTING | TOTAL | PARTIAL),
            OpType::QLinearConv => row(infer::unknown, facts::unknown, cost::by(cost::quantized_conv), QUANTIZED | HOLDS_PRODUCTS),
            OpType::QLinearMatMul => row(infer::unknown, facts::unknown, cost::by(cost::quantized_matmul), QUANTIZED | HOLDS_PRODUCTS),
            OpType::QuantizeLinear => row(infer::quantize, facts::unknown, cost::by(cost::quantize), QUANTIZED),
            OpType::RMSNormalization => row(infer::same, facts::normalize, cost::by(cost::rms_normalization), BY_ROW | NORMALIZES).axis(-1),
            OpType::RNN => row(infer::gru, facts::unknown, cost::by(cost::rnn), HOLDS_PRODUCTS),
            OpType::RandomNormal => row(infer::random, facts::unknown, cost::RANDOM, RANDOM),
            OpType::RandomNormalLike => row(infer::random_like, facts::unknown, cost::RANDOM, RANDOM),
            OpType::RandomUniform => row(infer::random, facts::unknown, cost::RANDOM, RANDOM),
            OpType::RandomUniformLike => row(infer::random_like, facts::unknown, cost::RANDOM, RANDOM),
            OpType::Range => row(infer::range, facts::range, cost::WRITES, NONE),
            OpType::Reciprocal => row(infer::same, facts::reciprocal, cost::each(1), ELEMENTWISE | TOTAL | ROUNDS_ONCE),
            OpType::ReduceL1 => row(infer::reduce, facts::norm, cost::by(cost::reduce_mapped), REDUCTIONS | BLIND_TO_ZERO_SIGNS).axes(1),
            OpType::ReduceL2 => row(infer::reduce, facts::norm, cost::by(cost::reduce_l2), REDUCTIONS | BLIND_TO_ZERO_SIGNS).axes(1),
            OpType::ReduceLogSum => row(infer::reduce, facts::unknown, cost::by(cost::log_sum), REDUCTIONS).axes(1),
            OpType::ReduceLogSumExp => row(infer::reduce, facts::unknown, cost::by(cost::log_sum_exp), REDUCTIONS).axes(1),
            OpType::ReduceMax => row(infer::reduce, facts::extreme, cost::by(cost::reduce), REDUCTIONS | TOTAL | NEVER_GROWS | EXACT).axes(1),
            OpType::ReduceMean => row(infer::reduce, facts::mean, cost::by(cost::mean), REDUCTIONS | TOTAL).axes(1),
            OpType::ReduceMin => row(infer::reduce, facts::extreme, cost::by(cost::reduce), REDUCTIONS | TOTAL | NEVER_GROWS | EXACT).axes(1),
            OpType::ReduceProd => row(infer::reduce, facts::unknown, cost::by(cost::reduce), REDUCTIONS).axes(1),
            OpType::ReduceSum => row(infer::reduce, facts::sum, cost::by(cost::reduce), REDUCTIONS | TOTAL | SIGNLESS).axes(1),
            OpType::ReduceSumSquare => row(infer::reduce, facts::norm, cost::by(cost::reduce_mapped), REDUCTIONS | BLIND_TO_ZERO_SIGNS).axes(1),
            OpType::RegexFullMatch => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::Relu => row(infer::same, facts::relu, cost::each(1), ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT | IN_PLACE),
            OpType::Reshape => row(infer::reshape, facts::same, cost::NOTHING, RESHAPES | TOTAL | SIGNLESS | EXACT | ALIASES),
            OpType::Resize => row(infer::resize, facts::unknown, cost::by(cost::resize), NONE),
            OpType::ReverseSequence => row(infer::same, facts::unknown, cost::MOVES, EXACT),
            OpType::RoiAlign => row(infer::unknown, facts::unknown, cost::by(cost::roi_align), NONE),
            OpType::RotaryEmbedding => row(infer::same, facts::rotate, cost::by(cost::rotate), NONE),
            OpType::Round => row(infer::same, facts::round, cost::each(1), ELEMENTWISE | NEVER_GROWS | EXACT),
            OpType::STFT => row(infer::unknown, facts::unknown, cost::by(cost::stft), NONE),
            OpType::Scan => row(infer::scan, facts::unknown, cost::NOTHING, LOOPS),
            OpType::Scatter => row(infer::same, facts::unknown, cost::MOVES, NONE).axis(0),
            OpType::ScatterElements => row(infer::same, facts::unknown, cost::by(cost::scatter), SIGNLESS | IN_PLACE).axis(0),
            OpType::ScatterND => row(infer::same, facts::unknown, cost::by(cost::scatter), SIGNLESS),
            OpType::Selu => row(infer::same, facts::unknown, cost::each_with(4, 1), ELEMENTWISE | IN_PLACE),
            OpType::SequenceAt => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::SequenceConstruct => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::SequenceEmpty => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::SequenceErase => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::SequenceInsert => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::SequenceLength => row(infer::count, facts::unknown, cost::NOTHING, NONE),
            OpType::SequenceMap => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::Shape => row(infer::shape, facts::sizes, cost::WRITES, BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            OpType::Shrink => row(infer::same, facts::unknown, cost::each(6), IN_PLACE),
            OpType::Sigmoid => row(infer::same, facts::probability, cost::each_with(3, 1), ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS | IN_PLACE),
            OpType::Sign => row(infer::same, facts::sign, cost::each(1), ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            OpType::Sin => row(infer::same, facts::wave, cost::TRANSCENDENTAL, ELEMENTWISE | TOTAL | NEVER_GROWS),
            OpType::Sinh => row(infer::same, facts::unknown, cost::each_with(3, 2), ELEMENTWISE),
            OpType::Size => row(infer::count, facts::sizes, cost::WRITES, BLIND_TO_ZERO_SIGNS | EXACT | RESERVES_NAME),
            OpType::Slice => row(infer::slice, facts::same, cost::PICKS, PICKS | TOTAL | BY_ROW | SIGNLESS | EXACT).axes(3),
            OpType::Softmax => row(infer::same, facts::probabilities, cost::by(cost::softmax), BLIND_TO_ZERO_SIGNS | BY_ROW | ALONG_AN_AXIS | NORMALIZES | IN_PLACE).axis(-1),
            OpType::SoftmaxCrossEntropyLoss => row(infer::unknown, facts::unknown, cost::by(cost::softmax_loss), NONE),
            OpType::Softplus => row(infer::same, facts::positive, cost::each_with(4, 2), ELEMENTWISE | BLIND_TO_ZERO_SIGNS | IN_PLACE),
            OpType::Softsign => row(infer::same, facts::wave, cost::each(3), ELEMENTWISE | IN_PLACE),
            OpType::SpaceToDepth => row(infer::blocks_to_depth, facts::same, cost::MOVES, EXACT),
            OpType::Split => row(infer::split, facts::same, cost::MOVES, BY_ROW | ALONG_AN_AXIS | JOINS | EXACT).axis(0),
            OpType::SplitToSequence => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::Sqrt => row(infer::same, facts::root, cost::TRANSCENDENTAL, ELEMENTWISE | TOTAL | NEVER_GROWS | ROUNDS_ONCE),
            OpType::Squeeze => row(infer::squeeze, facts::same, cost::NOTHING, RESHAPES | TOTAL | EXACT | RESERVES_NAME | ALIASES).axes(1),
            OpType::StringConcat => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::StringNormalizer => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::StringSplit => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::Sub => row(infer::join, facts::subtract, cost::each(1), BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE | ARITHMETIC | RESERVES_NAME),
            OpType::Sum => row(infer::join, facts::unknown, cost::by(cost::joined), BROADCASTING),
            OpType::SwiGLU => row(infer::unknown, facts::unknown, cost::each_with(5, 1), NONE),
            OpType::Swish => row(infer::same, facts::unknown, cost::by(cost::swish), ELEMENTWISE),
            OpType::Tan => row(infer::same, facts::unknown, cost::TRANSCENDENTAL, ELEMENTWISE),
            OpType::Tanh => row(infer::same, facts::limited, cost::TRANSCENDENTAL, ELEMENTWISE | TOTAL | NEVER_GROWS | IN_PLACE),
            OpType::TensorScatter => row(infer::same, facts::unknown, cost::MOVES, NONE),
            OpType::TfIdfVectorizer => row(infer::unknown, facts::unknown, cost::UNKNOWN, NONE),
            OpType::ThresholdedRelu => row(infer::same, facts::unknown, cost::each(2), ELEMENTWISE | IN_PLACE),
            OpType::Tile => row(infer::tile, facts::same, cost::MOVES, JOINS | SIGNLESS | EXACT),
            OpType::TopK => row(infer::top_k, facts::top_k, cost::by(cost::top_k), JOINS | EXACT).axis(-1),
            OpType::Transpose => row(infer::transpose, facts::same, cost::MOVES, TRANSPOSES | TOTAL | BY_ROW | SIGNLESS | EXACT),
            OpType::Trilu => row(infer::same, facts::unknown, cost::MOVES, JOINS | SIGNLESS | EXACT | IN_PLACE),
            OpType::Unique => row(infer::unknown, facts::unknown, cost::UNKNOWN, EXACT),
            OpType::Unsqueeze => row(infer::unsqueeze, facts::same, cost::NOTHING, RESHAPES | TOTAL | EXACT | RESERVES_NAME | ALIASES).axes(1),
            OpType::Upsample => row(infer::unknown, facts::unknown, cost::by(cost::resize), NONE),
            OpType::Where => row(infer::choose, facts::choose, cost::each(1), BROADCASTING | TOTAL | JOINS | SIGNLESS | EXACT),
            OpType::Xor => row(infer::join, facts::unknown, cost::each(1), BROADCASTING | TOTAL | EXACT),
        }
    }
}
