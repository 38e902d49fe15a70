//! One row for each operator: all that the rest of the project knows about it.
//!
//! The match has no arm for the rest, so that an operator without a row does not compile. Whether a runtime has a kernel
//! is in [`crate::kernels`].

use std::ops::BitOr;

use super::OpType;
use super::properties::*;
use crate::facts::{self as about, rules as facts};
use crate::infer::{self as types, rules as infer};

/// What is known about an operator.
pub(crate) struct Row {
    /// How the types of the results follow from the operands.
    pub infer: types::Rule,
    /// How facts about the numbers of the results follow from those about operands.
    pub facts: about::Rule,
    pub properties: Properties,
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
    Row { infer, facts, properties }
}

impl OpType {
    /// True if the operator has one of these properties.
    pub fn is(self, properties: Properties) -> bool {
        self.row().properties.0 & properties.0 != 0
    }

    #[rustfmt::skip]
    pub(crate) fn row(self) -> Row {
        use OpType::*;
        match self {
            Abs => row(infer::same, facts::size, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS | EXACT),
            Acos => row(infer::same, facts::unknown, ELEMENTWISE),
            Acosh => row(infer::same, facts::unknown, ELEMENTWISE),
            Add => row(infer::join, facts::add, BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE),
            AffineGrid => row(infer::unknown, facts::unknown, NONE),
            And => row(infer::join, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            ArgMax => row(infer::arg, facts::place, BLIND_TO_ZERO_SIGNS | EXACT),
            ArgMin => row(infer::arg, facts::place, BLIND_TO_ZERO_SIGNS | EXACT),
            Asin => row(infer::same, facts::unknown, ELEMENTWISE),
            Asinh => row(infer::same, facts::unknown, ELEMENTWISE),
            Atan => row(infer::same, facts::unknown, ELEMENTWISE),
            Atanh => row(infer::same, facts::unknown, ELEMENTWISE),
            Attention => row(infer::attention, facts::unknown, BLIND_TO_ZERO_SIGNS),
            AveragePool => row(infer::pool, facts::unknown, NONE),
            BatchNormalization => row(infer::same, facts::unknown, NONE),
            Bernoulli => row(infer::random_like, facts::unknown, RANDOM),
            BitCast => row(infer::cast, facts::unknown, NONE),
            BitShift => row(infer::join, facts::shift, BROADCASTING),
            BitwiseAnd => row(infer::join, facts::bits_of_both, BROADCASTING | SIGNLESS),
            BitwiseNot => row(infer::same, facts::unknown, ELEMENTWISE | SIGNLESS),
            BitwiseOr => row(infer::join, facts::bits_of_one, BROADCASTING | SIGNLESS),
            BitwiseXor => row(infer::join, facts::bits_of_one, BROADCASTING | SIGNLESS),
            BlackmanWindow => row(infer::window_function, facts::unknown, NONE),
            Cast => row(infer::cast, facts::cast, ELEMENTWISE | CASTS | TOTAL | ROUNDS_ONCE),
            CastLike => row(infer::cast_like, facts::unknown, NONE),
            CausalConvWithState => row(infer::unknown, facts::unknown, NONE),
            Ceil => row(infer::same, facts::ceil, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            Celu => row(infer::same, facts::unknown, ELEMENTWISE),
            CenterCropPad => row(infer::unknown, facts::unknown, NONE),
            Clip => row(infer::same, facts::clip, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            Col2Im => row(infer::unknown, facts::unknown, NONE),
            Compress => row(infer::unknown, facts::unknown, EXACT),
            Concat => row(infer::concat, facts::concat, TOTAL | BY_ROW | ALONG_AN_AXIS | JOINS | SIGNLESS | EXACT),
            ConcatFromSequence => row(infer::unknown, facts::unknown, NONE),
            Constant => row(infer::constant, facts::unknown, EXACT),
            ConstantOfShape => row(infer::constant_of_shape, facts::unknown, EXACT),
            Conv => row(infer::conv, facts::unknown, BLIND_TO_ZERO_SIGNS | PRODUCTS),
            ConvInteger => row(infer::unknown, facts::unknown, NONE),
            ConvTranspose => row(infer::conv_transpose, facts::unknown, BLIND_TO_ZERO_SIGNS | PRODUCTS),
            Cos => row(infer::same, facts::wave, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS),
            Cosh => row(infer::same, facts::positive, ELEMENTWISE | BLIND_TO_ZERO_SIGNS),
            CumProd => row(infer::same, facts::unknown, NONE),
            CumSum => row(infer::same, facts::unknown, SIGNLESS),
            DFT => row(infer::dft, facts::unknown, NONE),
            DeformConv => row(infer::unknown, facts::unknown, NONE),
            DepthToSpace => row(infer::depth_to_blocks, facts::same, EXACT),
            DequantizeLinear => row(infer::dequantize, facts::unknown, NONE),
            Det => row(infer::determinant, facts::unknown, NONE),
            Div => row(infer::join, facts::divide, BROADCASTING | ROUNDS_ONCE),
            Dropout => row(infer::dropout, facts::unknown, RANDOM),
            DynamicQuantizeLinear => row(infer::quantize_dynamically, facts::unknown, NONE),
            Einsum => row(infer::einsum, facts::unknown, SIGNLESS),
            Elu => row(infer::same, facts::unknown, ELEMENTWISE),
            Equal => row(infer::compare, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | SIGNLESS | EXACT),
            Erf => row(infer::same, facts::limited, ELEMENTWISE | TOTAL | NEVER_GROWS),
            Exp => row(infer::same, facts::exponential, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL),
            Expand => row(infer::expand, facts::same, EXPANDS | TOTAL | SIGNLESS | EXACT),
            EyeLike => row(infer::eye, facts::unknown, NONE),
            Flatten => row(infer::flatten, facts::same, EXACT),
            Floor => row(infer::same, facts::floor, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            GRU => row(infer::gru, facts::unknown, NONE),
            Gather => row(infer::gather, facts::same, PICKS | BY_ROW | SIGNLESS | EXACT),
            GatherElements => row(infer::gather_elements, facts::same, PICKS | SIGNLESS | EXACT),
            GatherND => row(infer::gather_nd, facts::same, PICKS | SIGNLESS | EXACT),
            Gelu => row(infer::same, facts::unknown, ELEMENTWISE),
            Gemm => row(infer::gemm, facts::unknown, BLIND_TO_ZERO_SIGNS | TOTAL | PRODUCTS),
            GlobalAveragePool => row(infer::global_pool, facts::unknown, NONE),
            GlobalLpPool => row(infer::global_pool, facts::unknown, NONE),
            GlobalMaxPool => row(infer::global_pool, facts::unknown, NONE),
            Greater => row(infer::compare, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            GreaterOrEqual => row(infer::compare, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            GridSample => row(infer::grid_sample, facts::unknown, NONE),
            GroupNormalization => row(infer::same, facts::unknown, NONE),
            HammingWindow => row(infer::window_function, facts::unknown, NONE),
            HannWindow => row(infer::window_function, facts::unknown, NONE),
            HardSigmoid => row(infer::same, facts::unknown, ELEMENTWISE),
            HardSwish => row(infer::same, facts::unknown, ELEMENTWISE),
            Hardmax => row(infer::same, facts::probabilities, ALONG_AN_AXIS),
            Identity => row(infer::same, facts::same, ELEMENTWISE | COPIES | TOTAL | EXACT),
            If => row(infer::branches, facts::unknown, BRANCHES),
            ImageDecoder => row(infer::unknown, facts::unknown, NONE),
            InstanceNormalization => row(infer::same, facts::unknown, NONE),
            IsInf => row(infer::test, facts::unknown, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | EXACT),
            IsNaN => row(infer::test, facts::unknown, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            LRN => row(infer::same, facts::unknown, NONE),
            LSTM => row(infer::lstm, facts::unknown, NONE),
            LayerNormalization => row(infer::normalize, facts::normalize, BY_ROW),
            LeakyRelu => row(infer::same, facts::unknown, ELEMENTWISE),
            Less => row(infer::compare, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            LessOrEqual => row(infer::compare, facts::unknown, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            LinearAttention => row(infer::unknown, facts::unknown, NONE),
            Log => row(infer::same, facts::logarithm, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL),
            LogSoftmax => row(infer::same, facts::unknown, BLIND_TO_ZERO_SIGNS | BY_ROW | ALONG_AN_AXIS),
            Loop => row(infer::loop_, facts::unknown, LOOPS),
            LpNormalization => row(infer::same, facts::unknown, NONE),
            LpPool => row(infer::pool, facts::unknown, NONE),
            MatMul => row(infer::matmul, facts::matmul, BLIND_TO_ZERO_SIGNS | TOTAL | BY_ROW | PRODUCTS | SIGNLESS),
            MatMulInteger => row(infer::matmul_of_bytes, facts::unknown, NONE),
            Max => row(infer::join, facts::maximum, BROADCASTING | TOTAL | NEVER_GROWS | EXACT),
            MaxPool => row(infer::pool, facts::unknown, NEVER_GROWS | EXACT),
            MaxRoiPool => row(infer::unknown, facts::unknown, NONE),
            MaxUnpool => row(infer::unknown, facts::unknown, NONE),
            Mean => row(infer::join, facts::unknown, NONE),
            MeanVarianceNormalization => row(infer::same, facts::unknown, NONE),
            MelWeightMatrix => row(infer::unknown, facts::unknown, NONE),
            Min => row(infer::join, facts::minimum, BROADCASTING | TOTAL | NEVER_GROWS | EXACT),
            Mish => row(infer::same, facts::unknown, ELEMENTWISE),
            Mod => row(infer::join, facts::remainder, BROADCASTING | EXACT),
            Mul => row(infer::join, facts::multiply, BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE),
            Multinomial => row(infer::draw, facts::unknown, RANDOM),
            Neg => row(infer::same, facts::negate, ELEMENTWISE | TOTAL | NEVER_GROWS | SIGNLESS | EXACT),
            NegativeLogLikelihoodLoss => row(infer::unknown, facts::unknown, NONE),
            NonMaxSuppression => row(infer::unknown, facts::unknown, NONE),
            NonZero => row(infer::unknown, facts::sizes, BLIND_TO_ZERO_SIGNS | EXACT),
            Not => row(infer::same, facts::unknown, ELEMENTWISE | TOTAL | EXACT),
            OneHot => row(infer::one_hot, facts::unknown, EXACT),
            Optional => row(infer::unknown, facts::unknown, NONE),
            OptionalGetElement => row(infer::unknown, facts::unknown, NONE),
            OptionalHasElement => row(infer::flag, facts::unknown, NONE),
            Or => row(infer::join, facts::unknown, BROADCASTING | TOTAL | EXACT),
            PRelu => row(infer::same, facts::unknown, NONE),
            Pad => row(infer::pad, facts::unknown, JOINS | SIGNLESS | EXACT),
            Pow => row(infer::power, facts::power, BROADCASTING | TOTAL),
            QLinearConv => row(infer::unknown, facts::unknown, NONE),
            QLinearMatMul => row(infer::unknown, facts::unknown, NONE),
            QuantizeLinear => row(infer::quantize, facts::unknown, NONE),
            RMSNormalization => row(infer::same, facts::normalize, BY_ROW),
            RNN => row(infer::gru, facts::unknown, NONE),
            RandomNormal => row(infer::random, facts::unknown, RANDOM),
            RandomNormalLike => row(infer::random_like, facts::unknown, RANDOM),
            RandomUniform => row(infer::random, facts::unknown, RANDOM),
            RandomUniformLike => row(infer::random_like, facts::unknown, RANDOM),
            Range => row(infer::range, facts::range, NONE),
            Reciprocal => row(infer::same, facts::reciprocal, ELEMENTWISE | TOTAL | ROUNDS_ONCE),
            ReduceL1 => row(infer::reduce, facts::norm, REDUCTIONS | BLIND_TO_ZERO_SIGNS),
            ReduceL2 => row(infer::reduce, facts::norm, REDUCTIONS | BLIND_TO_ZERO_SIGNS),
            ReduceLogSum => row(infer::reduce, facts::unknown, REDUCTIONS),
            ReduceLogSumExp => row(infer::reduce, facts::unknown, REDUCTIONS),
            ReduceMax => row(infer::reduce, facts::extreme, REDUCTIONS | TOTAL | NEVER_GROWS | EXACT),
            ReduceMean => row(infer::reduce, facts::mean, REDUCTIONS | TOTAL),
            ReduceMin => row(infer::reduce, facts::extreme, REDUCTIONS | TOTAL | NEVER_GROWS | EXACT),
            ReduceProd => row(infer::reduce, facts::unknown, REDUCTIONS),
            ReduceSum => row(infer::reduce, facts::sum, REDUCTIONS | TOTAL | SIGNLESS),
            ReduceSumSquare => row(infer::reduce, facts::norm, REDUCTIONS | BLIND_TO_ZERO_SIGNS),
            RegexFullMatch => row(infer::unknown, facts::unknown, NONE),
            Relu => row(infer::same, facts::relu, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            Reshape => row(infer::reshape, facts::same, RESHAPES | TOTAL | SIGNLESS | EXACT),
            Resize => row(infer::resize, facts::unknown, NONE),
            ReverseSequence => row(infer::same, facts::unknown, EXACT),
            RoiAlign => row(infer::unknown, facts::unknown, NONE),
            RotaryEmbedding => row(infer::same, facts::rotate, NONE),
            Round => row(infer::same, facts::round, ELEMENTWISE | NEVER_GROWS | EXACT),
            STFT => row(infer::unknown, facts::unknown, NONE),
            Scan => row(infer::scan, facts::unknown, LOOPS),
            Scatter => row(infer::same, facts::unknown, NONE),
            ScatterElements => row(infer::same, facts::unknown, SIGNLESS),
            ScatterND => row(infer::same, facts::unknown, SIGNLESS),
            Selu => row(infer::same, facts::unknown, ELEMENTWISE),
            SequenceAt => row(infer::unknown, facts::unknown, NONE),
            SequenceConstruct => row(infer::unknown, facts::unknown, NONE),
            SequenceEmpty => row(infer::unknown, facts::unknown, NONE),
            SequenceErase => row(infer::unknown, facts::unknown, NONE),
            SequenceInsert => row(infer::unknown, facts::unknown, NONE),
            SequenceLength => row(infer::count, facts::unknown, NONE),
            SequenceMap => row(infer::unknown, facts::unknown, NONE),
            Shape => row(infer::shape, facts::sizes, BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            Shrink => row(infer::same, facts::unknown, NONE),
            Sigmoid => row(infer::same, facts::probability, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS),
            Sign => row(infer::same, facts::sign, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            Sin => row(infer::same, facts::wave, ELEMENTWISE | TOTAL | NEVER_GROWS),
            Sinh => row(infer::same, facts::unknown, ELEMENTWISE),
            Size => row(infer::count, facts::sizes, BLIND_TO_ZERO_SIGNS | EXACT),
            Slice => row(infer::slice, facts::same, PICKS | TOTAL | BY_ROW | SIGNLESS | EXACT),
            Softmax => row(infer::same, facts::probabilities, BLIND_TO_ZERO_SIGNS | BY_ROW | ALONG_AN_AXIS),
            SoftmaxCrossEntropyLoss => row(infer::unknown, facts::unknown, NONE),
            Softplus => row(infer::same, facts::positive, ELEMENTWISE | BLIND_TO_ZERO_SIGNS),
            Softsign => row(infer::same, facts::wave, ELEMENTWISE),
            SpaceToDepth => row(infer::blocks_to_depth, facts::same, EXACT),
            Split => row(infer::split, facts::same, BY_ROW | ALONG_AN_AXIS | JOINS | EXACT),
            SplitToSequence => row(infer::unknown, facts::unknown, NONE),
            Sqrt => row(infer::same, facts::root, ELEMENTWISE | TOTAL | NEVER_GROWS | ROUNDS_ONCE),
            Squeeze => row(infer::squeeze, facts::same, RESHAPES | TOTAL | EXACT),
            StringConcat => row(infer::unknown, facts::unknown, NONE),
            StringNormalizer => row(infer::unknown, facts::unknown, NONE),
            StringSplit => row(infer::unknown, facts::unknown, NONE),
            Sub => row(infer::join, facts::subtract, BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE),
            Sum => row(infer::join, facts::unknown, NONE),
            SwiGLU => row(infer::unknown, facts::unknown, NONE),
            Swish => row(infer::same, facts::unknown, ELEMENTWISE),
            Tan => row(infer::same, facts::unknown, ELEMENTWISE),
            Tanh => row(infer::same, facts::limited, ELEMENTWISE | TOTAL | NEVER_GROWS),
            TensorScatter => row(infer::same, facts::unknown, NONE),
            TfIdfVectorizer => row(infer::unknown, facts::unknown, NONE),
            ThresholdedRelu => row(infer::same, facts::unknown, ELEMENTWISE),
            Tile => row(infer::tile, facts::same, JOINS | SIGNLESS | EXACT),
            TopK => row(infer::top_k, facts::top_k, JOINS | EXACT),
            Transpose => row(infer::transpose, facts::same, TRANSPOSES | TOTAL | BY_ROW | SIGNLESS | EXACT),
            Trilu => row(infer::same, facts::unknown, JOINS | SIGNLESS | EXACT),
            Unique => row(infer::unknown, facts::unknown, EXACT),
            Unsqueeze => row(infer::unsqueeze, facts::same, RESHAPES | TOTAL | EXACT),
            Upsample => row(infer::unknown, facts::unknown, NONE),
            Where => row(infer::choose, facts::choose, BROADCASTING | TOTAL | JOINS | SIGNLESS | EXACT),
            Xor => row(infer::join, facts::unknown, BROADCASTING | TOTAL | EXACT),
        }
    }
}
