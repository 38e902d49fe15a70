//! One row per operator: everything that the rest of the project knows about it.
//!
//! The match has no wildcard arm, so an operator without a row does not compile. [`crate::kernels`] says whether a
//! runtime has a kernel.

use std::ops::BitOr;

use super::OpType;
use super::properties::{
    ALONG_AN_AXIS, ARITHMETIC, BLIND_TO_ZERO_SIGNS, BRANCHES, BROADCASTING, BY_ROW, CASTS,
    COMPARISONS, COPIES, ELEMENTWISE, EXACT, EXPANDS, HOLDS_PRODUCTS, JOINS, LOOPS, NEVER_GROWS,
    NONE, NORMALIZES, PARTIAL, PICKS, PRODUCTS, QUANTIZED, RANDOM, REDUCTIONS, RESERVES_NAME,
    RESHAPES, ROUNDS_ONCE, SIGNLESS, TOTAL, TRANSPOSES,
};
use crate::facts::{self as about, rules as facts};
use crate::infer::{self as types, rules as infer};

/// The knowledge about an operator.
pub(crate) struct Row {
    /// The rule by which the types of the results follow from the operands.
    pub infer: types::Rule,
    /// The rule by which facts about the results follow from facts about the operands.
    pub facts: about::Rule,
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

fn row(infer: types::Rule, facts: about::Rule, properties: Properties) -> Row {
    Row { infer, facts, properties, axis: None, axes: None }
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
            OpType::Abs => row(infer::same, facts::size, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS | EXACT),
            OpType::Acos => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Acosh => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Add => row(infer::join, facts::add, BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE | ARITHMETIC | RESERVES_NAME),
            OpType::AffineGrid => row(infer::unknown, facts::unknown, NONE),
            OpType::And => row(infer::join, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            OpType::ArgMax => row(infer::arg, facts::place, BLIND_TO_ZERO_SIGNS | EXACT).axis(0),
            OpType::ArgMin => row(infer::arg, facts::place, BLIND_TO_ZERO_SIGNS | EXACT).axis(0),
            OpType::Asin => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Asinh => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Atan => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Atanh => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Attention => row(infer::attention, facts::unknown, BLIND_TO_ZERO_SIGNS | HOLDS_PRODUCTS),
            OpType::AveragePool => row(infer::pool, facts::unknown, NONE),
            OpType::BatchNormalization => row(infer::same, facts::unknown, NONE),
            OpType::Bernoulli => row(infer::random_like, facts::unknown, RANDOM),
            OpType::BitCast => row(infer::cast, facts::unknown, NONE),
            OpType::BitShift => row(infer::join, facts::shift, BROADCASTING | PARTIAL),
            OpType::BitwiseAnd => row(infer::join, facts::bits_of_both, BROADCASTING | SIGNLESS),
            OpType::BitwiseNot => row(infer::same, facts::unknown, ELEMENTWISE | SIGNLESS),
            OpType::BitwiseOr => row(infer::join, facts::bits_of_one, BROADCASTING | SIGNLESS),
            OpType::BitwiseXor => row(infer::join, facts::bits_of_one, BROADCASTING | SIGNLESS),
            OpType::BlackmanWindow => row(infer::window_function, facts::unknown, NONE),
            OpType::Cast => row(infer::cast, facts::cast, ELEMENTWISE | CASTS | TOTAL | ROUNDS_ONCE),
            OpType::CastLike => row(infer::cast_like, facts::unknown, NONE),
            OpType::CausalConvWithState => row(infer::unknown, facts::unknown, NONE),
            OpType::Ceil => row(infer::same, facts::ceil, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            OpType::Celu => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::CenterCropPad => row(infer::unknown, facts::unknown, NONE),
            OpType::Clip => row(infer::same, facts::clip, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            OpType::Col2Im => row(infer::unknown, facts::unknown, NONE),
            OpType::Compress => row(infer::unknown, facts::unknown, EXACT),
            OpType::Concat => row(infer::concat, facts::concat, TOTAL | BY_ROW | ALONG_AN_AXIS | JOINS | SIGNLESS | EXACT),
            OpType::ConcatFromSequence => row(infer::unknown, facts::unknown, NONE),
            OpType::Constant => row(infer::constant, facts::unknown, EXACT | RESERVES_NAME),
            OpType::ConstantOfShape => row(infer::constant_of_shape, facts::unknown, EXACT),
            OpType::Conv => row(infer::conv, facts::unknown, BLIND_TO_ZERO_SIGNS | PRODUCTS),
            OpType::ConvInteger => row(infer::unknown, facts::unknown, QUANTIZED | HOLDS_PRODUCTS),
            OpType::ConvTranspose => row(infer::conv_transpose, facts::unknown, BLIND_TO_ZERO_SIGNS | PRODUCTS),
            OpType::Cos => row(infer::same, facts::wave, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS),
            OpType::Cosh => row(infer::same, facts::positive, ELEMENTWISE | BLIND_TO_ZERO_SIGNS),
            OpType::CumProd => row(infer::same, facts::unknown, NONE).axes(1),
            OpType::CumSum => row(infer::same, facts::unknown, SIGNLESS).axes(1),
            OpType::DFT => row(infer::dft, facts::unknown, NONE),
            OpType::DeformConv => row(infer::unknown, facts::unknown, HOLDS_PRODUCTS),
            OpType::DepthToSpace => row(infer::depth_to_blocks, facts::same, EXACT),
            OpType::DequantizeLinear => row(infer::dequantize, facts::unknown, QUANTIZED),
            OpType::Det => row(infer::determinant, facts::unknown, NONE),
            OpType::Div => row(infer::join, facts::divide, BROADCASTING | ROUNDS_ONCE | PARTIAL | ARITHMETIC | RESERVES_NAME),
            OpType::Dropout => row(infer::dropout, facts::unknown, RANDOM),
            OpType::DynamicQuantizeLinear => row(infer::quantize_dynamically, facts::unknown, QUANTIZED),
            OpType::Einsum => row(infer::einsum, facts::unknown, SIGNLESS | HOLDS_PRODUCTS),
            OpType::Elu => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Equal => row(infer::compare, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | SIGNLESS | EXACT | COMPARISONS),
            OpType::Erf => row(infer::same, facts::limited, ELEMENTWISE | TOTAL | NEVER_GROWS),
            OpType::Exp => row(infer::same, facts::exponential, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL),
            OpType::Expand => row(infer::expand, facts::same, EXPANDS | TOTAL | SIGNLESS | EXACT),
            OpType::EyeLike => row(infer::random_like, facts::unknown, NONE),
            OpType::Flatten => row(infer::flatten, facts::same, EXACT).axis(1),
            OpType::Floor => row(infer::same, facts::floor, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            OpType::GRU => row(infer::gru, facts::unknown, HOLDS_PRODUCTS),
            OpType::Gather => row(infer::gather, facts::same, PICKS | BY_ROW | SIGNLESS | EXACT | RESERVES_NAME).axis(0),
            OpType::GatherElements => row(infer::gather_elements, facts::same, PICKS | SIGNLESS | EXACT).axis(0),
            OpType::GatherND => row(infer::gather_nd, facts::same, PICKS | SIGNLESS | EXACT),
            OpType::Gelu => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Gemm => row(infer::gemm, facts::unknown, BLIND_TO_ZERO_SIGNS | TOTAL | PRODUCTS),
            OpType::GlobalAveragePool => row(infer::global_pool, facts::unknown, NONE),
            OpType::GlobalLpPool => row(infer::global_pool, facts::unknown, NONE),
            OpType::GlobalMaxPool => row(infer::global_pool, facts::unknown, NONE),
            OpType::Greater => row(infer::compare, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT | COMPARISONS),
            OpType::GreaterOrEqual => row(infer::compare, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT | COMPARISONS),
            OpType::GridSample => row(infer::grid_sample, facts::unknown, NONE),
            OpType::GroupNormalization => row(infer::same, facts::unknown, NONE),
            OpType::HammingWindow => row(infer::window_function, facts::unknown, NONE),
            OpType::HannWindow => row(infer::window_function, facts::unknown, NONE),
            OpType::HardSigmoid => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::HardSwish => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Hardmax => row(infer::same, facts::probabilities, ALONG_AN_AXIS | NORMALIZES).axis(-1),
            OpType::Identity => row(infer::same, facts::same, ELEMENTWISE | COPIES | TOTAL | EXACT),
            OpType::If => row(infer::branches, facts::unknown, BRANCHES),
            OpType::ImageDecoder => row(infer::unknown, facts::unknown, NONE),
            OpType::InstanceNormalization => row(infer::same, facts::unknown, NONE),
            OpType::IsInf => row(infer::test, facts::unknown, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | EXACT),
            OpType::IsNaN => row(infer::test, facts::unknown, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            OpType::LRN => row(infer::same, facts::unknown, NONE),
            OpType::LSTM => row(infer::lstm, facts::unknown, HOLDS_PRODUCTS),
            OpType::LayerNormalization => row(infer::normalize, facts::normalize, BY_ROW | NORMALIZES).axis(-1),
            OpType::LeakyRelu => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Less => row(infer::compare, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT | COMPARISONS),
            OpType::LessOrEqual => row(infer::compare, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT | COMPARISONS),
            OpType::LinearAttention => row(infer::unknown, facts::unknown, HOLDS_PRODUCTS),
            OpType::Log => row(infer::same, facts::logarithm, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL),
            OpType::LogSoftmax => row(infer::same, facts::unknown, BLIND_TO_ZERO_SIGNS | BY_ROW | ALONG_AN_AXIS | NORMALIZES).axis(-1),
            OpType::Loop => row(infer::loop_, facts::unknown, LOOPS),
            OpType::LpNormalization => row(infer::same, facts::unknown, NONE).axis(-1),
            OpType::LpPool => row(infer::pool, facts::unknown, NONE),
            OpType::MatMul => row(infer::matmul, facts::matmul, BLIND_TO_ZERO_SIGNS | TOTAL | BY_ROW | PRODUCTS | SIGNLESS),
            OpType::MatMulInteger => row(infer::matmul_of_bytes, facts::unknown, QUANTIZED | HOLDS_PRODUCTS),
            OpType::Max => row(infer::join, facts::maximum, BROADCASTING | TOTAL | NEVER_GROWS | EXACT),
            OpType::MaxPool => row(infer::pool, facts::unknown, NEVER_GROWS | EXACT),
            OpType::MaxRoiPool => row(infer::unknown, facts::unknown, NONE),
            OpType::MaxUnpool => row(infer::unknown, facts::unknown, NONE),
            OpType::Mean => row(infer::join, facts::unknown, BROADCASTING),
            OpType::MeanVarianceNormalization => row(infer::same, facts::unknown, NONE),
            OpType::MelWeightMatrix => row(infer::unknown, facts::unknown, NONE),
            OpType::Min => row(infer::join, facts::minimum, BROADCASTING | TOTAL | NEVER_GROWS | EXACT),
            OpType::Mish => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Mod => row(infer::join, facts::remainder, BROADCASTING | EXACT | PARTIAL),
            OpType::Mul => row(infer::join, facts::multiply, BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE | ARITHMETIC | RESERVES_NAME),
            OpType::Multinomial => row(infer::draw, facts::unknown, RANDOM),
            OpType::Neg => row(infer::same, facts::negate, ELEMENTWISE | TOTAL | NEVER_GROWS | SIGNLESS | EXACT),
            OpType::NegativeLogLikelihoodLoss => row(infer::unknown, facts::unknown, NONE),
            OpType::NonMaxSuppression => row(infer::unknown, facts::unknown, NONE),
            OpType::NonZero => row(infer::unknown, facts::sizes, BLIND_TO_ZERO_SIGNS | EXACT),
            OpType::Not => row(infer::same, facts::unknown, ELEMENTWISE | TOTAL | EXACT),
            OpType::OneHot => row(infer::one_hot, facts::unknown, EXACT).axis(-1),
            OpType::Optional => row(infer::unknown, facts::unknown, NONE),
            OpType::OptionalGetElement => row(infer::unknown, facts::unknown, NONE),
            OpType::OptionalHasElement => row(infer::flag, facts::unknown, NONE),
            OpType::Or => row(infer::join, facts::unknown, BROADCASTING | TOTAL | EXACT),
            OpType::PRelu => row(infer::same, facts::unknown, NONE),
            OpType::Pad => row(infer::pad, facts::unknown, JOINS | SIGNLESS | EXACT).axes(3),
            OpType::Pow => row(infer::power, facts::power, BROADCASTING | TOTAL | PARTIAL),
            OpType::QLinearConv => row(infer::unknown, facts::unknown, QUANTIZED | HOLDS_PRODUCTS),
            OpType::QLinearMatMul => row(infer::unknown, facts::unknown, QUANTIZED | HOLDS_PRODUCTS),
            OpType::QuantizeLinear => row(infer::quantize, facts::unknown, QUANTIZED),
            OpType::RMSNormalization => row(infer::same, facts::normalize, BY_ROW | NORMALIZES).axis(-1),
            OpType::RNN => row(infer::gru, facts::unknown, HOLDS_PRODUCTS),
            OpType::RandomNormal => row(infer::random, facts::unknown, RANDOM),
            OpType::RandomNormalLike => row(infer::random_like, facts::unknown, RANDOM),
            OpType::RandomUniform => row(infer::random, facts::unknown, RANDOM),
            OpType::RandomUniformLike => row(infer::random_like, facts::unknown, RANDOM),
            OpType::Range => row(infer::range, facts::range, NONE),
            OpType::Reciprocal => row(infer::same, facts::reciprocal, ELEMENTWISE | TOTAL | ROUNDS_ONCE),
            OpType::ReduceL1 => row(infer::reduce, facts::norm, REDUCTIONS | BLIND_TO_ZERO_SIGNS).axes(1),
            OpType::ReduceL2 => row(infer::reduce, facts::norm, REDUCTIONS | BLIND_TO_ZERO_SIGNS).axes(1),
            OpType::ReduceLogSum => row(infer::reduce, facts::unknown, REDUCTIONS).axes(1),
            OpType::ReduceLogSumExp => row(infer::reduce, facts::unknown, REDUCTIONS).axes(1),
            OpType::ReduceMax => row(infer::reduce, facts::extreme, REDUCTIONS | TOTAL | NEVER_GROWS | EXACT).axes(1),
            OpType::ReduceMean => row(infer::reduce, facts::mean, REDUCTIONS | TOTAL).axes(1),
            OpType::ReduceMin => row(infer::reduce, facts::extreme, REDUCTIONS | TOTAL | NEVER_GROWS | EXACT).axes(1),
            OpType::ReduceProd => row(infer::reduce, facts::unknown, REDUCTIONS).axes(1),
            OpType::ReduceSum => row(infer::reduce, facts::sum, REDUCTIONS | TOTAL | SIGNLESS).axes(1),
            OpType::ReduceSumSquare => row(infer::reduce, facts::norm, REDUCTIONS | BLIND_TO_ZERO_SIGNS).axes(1),
            OpType::RegexFullMatch => row(infer::unknown, facts::unknown, NONE),
            OpType::Relu => row(infer::same, facts::relu, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            OpType::Reshape => row(infer::reshape, facts::same, RESHAPES | TOTAL | SIGNLESS | EXACT),
            OpType::Resize => row(infer::resize, facts::unknown, NONE),
            OpType::ReverseSequence => row(infer::same, facts::unknown, EXACT),
            OpType::RoiAlign => row(infer::unknown, facts::unknown, NONE),
            OpType::RotaryEmbedding => row(infer::same, facts::rotate, NONE),
            OpType::Round => row(infer::same, facts::round, ELEMENTWISE | NEVER_GROWS | EXACT),
            OpType::STFT => row(infer::unknown, facts::unknown, NONE),
            OpType::Scan => row(infer::scan, facts::unknown, LOOPS),
            OpType::Scatter => row(infer::same, facts::unknown, NONE).axis(0),
            OpType::ScatterElements => row(infer::same, facts::unknown, SIGNLESS).axis(0),
            OpType::ScatterND => row(infer::same, facts::unknown, SIGNLESS),
            OpType::Selu => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::SequenceAt => row(infer::unknown, facts::unknown, NONE),
            OpType::SequenceConstruct => row(infer::unknown, facts::unknown, NONE),
            OpType::SequenceEmpty => row(infer::unknown, facts::unknown, NONE),
            OpType::SequenceErase => row(infer::unknown, facts::unknown, NONE),
            OpType::SequenceInsert => row(infer::unknown, facts::unknown, NONE),
            OpType::SequenceLength => row(infer::count, facts::unknown, NONE),
            OpType::SequenceMap => row(infer::unknown, facts::unknown, NONE),
            OpType::Shape => row(infer::shape, facts::sizes, BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            OpType::Shrink => row(infer::same, facts::unknown, NONE),
            OpType::Sigmoid => row(infer::same, facts::probability, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS),
            OpType::Sign => row(infer::same, facts::sign, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            OpType::Sin => row(infer::same, facts::wave, ELEMENTWISE | TOTAL | NEVER_GROWS),
            OpType::Sinh => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Size => row(infer::count, facts::sizes, BLIND_TO_ZERO_SIGNS | EXACT | RESERVES_NAME),
            OpType::Slice => row(infer::slice, facts::same, PICKS | TOTAL | BY_ROW | SIGNLESS | EXACT).axes(3),
            OpType::Softmax => row(infer::same, facts::probabilities, BLIND_TO_ZERO_SIGNS | BY_ROW | ALONG_AN_AXIS | NORMALIZES).axis(-1),
            OpType::SoftmaxCrossEntropyLoss => row(infer::unknown, facts::unknown, NONE),
            OpType::Softplus => row(infer::same, facts::positive, ELEMENTWISE | BLIND_TO_ZERO_SIGNS),
            OpType::Softsign => row(infer::same, facts::wave, ELEMENTWISE),
            OpType::SpaceToDepth => row(infer::blocks_to_depth, facts::same, EXACT),
            OpType::Split => row(infer::split, facts::same, BY_ROW | ALONG_AN_AXIS | JOINS | EXACT).axis(0),
            OpType::SplitToSequence => row(infer::unknown, facts::unknown, NONE),
            OpType::Sqrt => row(infer::same, facts::root, ELEMENTWISE | TOTAL | NEVER_GROWS | ROUNDS_ONCE),
            OpType::Squeeze => row(infer::squeeze, facts::same, RESHAPES | TOTAL | EXACT | RESERVES_NAME).axes(1),
            OpType::StringConcat => row(infer::unknown, facts::unknown, NONE),
            OpType::StringNormalizer => row(infer::unknown, facts::unknown, NONE),
            OpType::StringSplit => row(infer::unknown, facts::unknown, NONE),
            OpType::Sub => row(infer::join, facts::subtract, BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE | ARITHMETIC | RESERVES_NAME),
            OpType::Sum => row(infer::join, facts::unknown, BROADCASTING),
            OpType::SwiGLU => row(infer::unknown, facts::unknown, NONE),
            OpType::Swish => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Tan => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Tanh => row(infer::same, facts::limited, ELEMENTWISE | TOTAL | NEVER_GROWS),
            OpType::TensorScatter => row(infer::same, facts::unknown, NONE),
            OpType::TfIdfVectorizer => row(infer::unknown, facts::unknown, NONE),
            OpType::ThresholdedRelu => row(infer::same, facts::unknown, ELEMENTWISE),
            OpType::Tile => row(infer::tile, facts::same, JOINS | SIGNLESS | EXACT),
            OpType::TopK => row(infer::top_k, facts::top_k, JOINS | EXACT).axis(-1),
            OpType::Transpose => row(infer::transpose, facts::same, TRANSPOSES | TOTAL | BY_ROW | SIGNLESS | EXACT),
            OpType::Trilu => row(infer::same, facts::unknown, JOINS | SIGNLESS | EXACT),
            OpType::Unique => row(infer::unknown, facts::unknown, EXACT),
            OpType::Unsqueeze => row(infer::unsqueeze, facts::same, RESHAPES | TOTAL | EXACT | RESERVES_NAME).axes(1),
            OpType::Upsample => row(infer::unknown, facts::unknown, NONE),
            OpType::Where => row(infer::choose, facts::choose, BROADCASTING | TOTAL | JOINS | SIGNLESS | EXACT),
            OpType::Xor => row(infer::join, facts::unknown, BROADCASTING | TOTAL | EXACT),
        }
    }
}
