//! One row for each operator: all that the rest of the project knows about it.
//!
//! The match has no arm for the rest, so that an operator without a row does not compile. Whether a runtime has a kernel
//! is in [`crate::kernels`].

use std::ops::BitOr;

use super::OpType;
use super::properties::*;
use crate::infer::Rule;
use crate::infer::rules::*;

/// What is known about an operator.
pub(crate) struct Row {
    /// How the types of the results follow from the operands.
    pub infer: Rule,
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

fn row(infer: Rule, properties: Properties) -> Row {
    Row { infer, properties }
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
            Abs => row(same, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS | EXACT),
            Acos => row(same, ELEMENTWISE),
            Acosh => row(same, ELEMENTWISE),
            Add => row(join, BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE),
            AffineGrid => row(unknown, NONE),
            And => row(join, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            ArgMax => row(arg, BLIND_TO_ZERO_SIGNS | EXACT),
            ArgMin => row(arg, BLIND_TO_ZERO_SIGNS | EXACT),
            Asin => row(same, ELEMENTWISE),
            Asinh => row(same, ELEMENTWISE),
            Atan => row(same, ELEMENTWISE),
            Atanh => row(same, ELEMENTWISE),
            Attention => row(attention, BLIND_TO_ZERO_SIGNS),
            AveragePool => row(pool, NONE),
            BatchNormalization => row(same, NONE),
            Bernoulli => row(random_like, RANDOM),
            BitCast => row(cast, NONE),
            BitShift => row(join, BROADCASTING),
            BitwiseAnd => row(join, BROADCASTING | SIGNLESS),
            BitwiseNot => row(same, ELEMENTWISE | SIGNLESS),
            BitwiseOr => row(join, BROADCASTING | SIGNLESS),
            BitwiseXor => row(join, BROADCASTING | SIGNLESS),
            BlackmanWindow => row(window_function, NONE),
            Cast => row(cast, ELEMENTWISE | CASTS | TOTAL | ROUNDS_ONCE),
            CastLike => row(cast_like, NONE),
            CausalConvWithState => row(unknown, NONE),
            Ceil => row(same, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            Celu => row(same, ELEMENTWISE),
            CenterCropPad => row(unknown, NONE),
            Clip => row(same, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            Col2Im => row(unknown, NONE),
            Compress => row(unknown, EXACT),
            Concat => row(concat, TOTAL | BY_ROW | ALONG_AN_AXIS | JOINS | SIGNLESS | EXACT),
            ConcatFromSequence => row(unknown, NONE),
            Constant => row(constant, EXACT),
            ConstantOfShape => row(constant_of_shape, EXACT),
            Conv => row(conv, BLIND_TO_ZERO_SIGNS | PRODUCTS),
            ConvInteger => row(unknown, NONE),
            ConvTranspose => row(conv_transpose, BLIND_TO_ZERO_SIGNS | PRODUCTS),
            Cos => row(same, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS),
            Cosh => row(same, ELEMENTWISE | BLIND_TO_ZERO_SIGNS),
            CumProd => row(same, NONE),
            CumSum => row(same, SIGNLESS),
            DFT => row(dft, NONE),
            DeformConv => row(unknown, NONE),
            DepthToSpace => row(depth_to_blocks, EXACT),
            DequantizeLinear => row(dequantize, NONE),
            Det => row(determinant, NONE),
            Div => row(join, BROADCASTING | ROUNDS_ONCE),
            Dropout => row(dropout, RANDOM),
            DynamicQuantizeLinear => row(quantize_dynamically, NONE),
            Einsum => row(einsum, SIGNLESS),
            Elu => row(same, ELEMENTWISE),
            Equal => row(compare, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | SIGNLESS | EXACT),
            Erf => row(same, ELEMENTWISE | TOTAL | NEVER_GROWS),
            Exp => row(same, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL),
            Expand => row(expand, EXPANDS | TOTAL | SIGNLESS | EXACT),
            EyeLike => row(eye, NONE),
            Flatten => row(flatten, EXACT),
            Floor => row(same, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            GRU => row(gru, NONE),
            Gather => row(gather, PICKS | BY_ROW | SIGNLESS | EXACT),
            GatherElements => row(gather_elements, PICKS | SIGNLESS | EXACT),
            GatherND => row(gather_nd, PICKS | SIGNLESS | EXACT),
            Gelu => row(same, ELEMENTWISE),
            Gemm => row(gemm, BLIND_TO_ZERO_SIGNS | TOTAL | PRODUCTS),
            GlobalAveragePool => row(global_pool, NONE),
            GlobalLpPool => row(global_pool, NONE),
            GlobalMaxPool => row(global_pool, NONE),
            Greater => row(compare, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            GreaterOrEqual => row(compare, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            GridSample => row(grid_sample, NONE),
            GroupNormalization => row(same, NONE),
            HammingWindow => row(window_function, NONE),
            HannWindow => row(window_function, NONE),
            HardSigmoid => row(same, ELEMENTWISE),
            HardSwish => row(same, ELEMENTWISE),
            Hardmax => row(same, ALONG_AN_AXIS),
            Identity => row(same, ELEMENTWISE | COPIES | TOTAL | EXACT),
            If => row(branches, BRANCHES),
            ImageDecoder => row(unknown, NONE),
            InstanceNormalization => row(same, NONE),
            IsInf => row(test, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | EXACT),
            IsNaN => row(test, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            LRN => row(same, NONE),
            LSTM => row(lstm, NONE),
            LayerNormalization => row(normalize, BY_ROW),
            LeakyRelu => row(same, ELEMENTWISE),
            Less => row(compare, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            LessOrEqual => row(compare, BROADCASTING | BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            LinearAttention => row(unknown, NONE),
            Log => row(same, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL),
            LogSoftmax => row(same, BLIND_TO_ZERO_SIGNS | BY_ROW | ALONG_AN_AXIS),
            Loop => row(loop_, LOOPS),
            LpNormalization => row(same, NONE),
            LpPool => row(pool, NONE),
            MatMul => row(matmul, BLIND_TO_ZERO_SIGNS | TOTAL | BY_ROW | PRODUCTS | SIGNLESS),
            MatMulInteger => row(matmul_of_bytes, NONE),
            Max => row(join, BROADCASTING | TOTAL | NEVER_GROWS | EXACT),
            MaxPool => row(pool, NEVER_GROWS | EXACT),
            MaxRoiPool => row(unknown, NONE),
            MaxUnpool => row(unknown, NONE),
            Mean => row(join, NONE),
            MeanVarianceNormalization => row(same, NONE),
            MelWeightMatrix => row(unknown, NONE),
            Min => row(join, BROADCASTING | TOTAL | NEVER_GROWS | EXACT),
            Mish => row(same, ELEMENTWISE),
            Mod => row(join, BROADCASTING | EXACT),
            Mul => row(join, BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE),
            Multinomial => row(draw, RANDOM),
            Neg => row(same, ELEMENTWISE | TOTAL | NEVER_GROWS | SIGNLESS | EXACT),
            NegativeLogLikelihoodLoss => row(unknown, NONE),
            NonMaxSuppression => row(unknown, NONE),
            NonZero => row(unknown, BLIND_TO_ZERO_SIGNS | EXACT),
            Not => row(same, ELEMENTWISE | TOTAL | EXACT),
            OneHot => row(one_hot, EXACT),
            Optional => row(unknown, NONE),
            OptionalGetElement => row(unknown, NONE),
            OptionalHasElement => row(flag, NONE),
            Or => row(join, BROADCASTING | TOTAL | EXACT),
            PRelu => row(same, NONE),
            Pad => row(pad, JOINS | SIGNLESS | EXACT),
            Pow => row(power, BROADCASTING | TOTAL),
            QLinearConv => row(unknown, NONE),
            QLinearMatMul => row(unknown, NONE),
            QuantizeLinear => row(quantize, NONE),
            RMSNormalization => row(same, BY_ROW),
            RNN => row(gru, NONE),
            RandomNormal => row(random, RANDOM),
            RandomNormalLike => row(random_like, RANDOM),
            RandomUniform => row(random, RANDOM),
            RandomUniformLike => row(random_like, RANDOM),
            Range => row(range, NONE),
            Reciprocal => row(same, ELEMENTWISE | TOTAL | ROUNDS_ONCE),
            ReduceL1 => row(reduce, REDUCTIONS | BLIND_TO_ZERO_SIGNS),
            ReduceL2 => row(reduce, REDUCTIONS | BLIND_TO_ZERO_SIGNS),
            ReduceLogSum => row(reduce, REDUCTIONS),
            ReduceLogSumExp => row(reduce, REDUCTIONS),
            ReduceMax => row(reduce, REDUCTIONS | TOTAL | NEVER_GROWS | EXACT),
            ReduceMean => row(reduce, REDUCTIONS | TOTAL),
            ReduceMin => row(reduce, REDUCTIONS | TOTAL | NEVER_GROWS | EXACT),
            ReduceProd => row(reduce, REDUCTIONS),
            ReduceSum => row(reduce, REDUCTIONS | TOTAL | SIGNLESS),
            ReduceSumSquare => row(reduce, REDUCTIONS | BLIND_TO_ZERO_SIGNS),
            RegexFullMatch => row(unknown, NONE),
            Relu => row(same, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            Reshape => row(reshape, RESHAPES | TOTAL | SIGNLESS | EXACT),
            Resize => row(resize, NONE),
            ReverseSequence => row(same, EXACT),
            RoiAlign => row(unknown, NONE),
            RotaryEmbedding => row(same, NONE),
            Round => row(same, ELEMENTWISE | NEVER_GROWS | EXACT),
            STFT => row(unknown, NONE),
            Scan => row(scan, LOOPS),
            Scatter => row(same, NONE),
            ScatterElements => row(same, SIGNLESS),
            ScatterND => row(same, SIGNLESS),
            Selu => row(same, ELEMENTWISE),
            SequenceAt => row(unknown, NONE),
            SequenceConstruct => row(unknown, NONE),
            SequenceEmpty => row(unknown, NONE),
            SequenceErase => row(unknown, NONE),
            SequenceInsert => row(unknown, NONE),
            SequenceLength => row(count, NONE),
            SequenceMap => row(unknown, NONE),
            Shape => row(shape, BLIND_TO_ZERO_SIGNS | TOTAL | EXACT),
            Shrink => row(same, NONE),
            Sigmoid => row(same, ELEMENTWISE | BLIND_TO_ZERO_SIGNS | TOTAL | NEVER_GROWS),
            Sign => row(same, ELEMENTWISE | TOTAL | NEVER_GROWS | EXACT),
            Sin => row(same, ELEMENTWISE | TOTAL | NEVER_GROWS),
            Sinh => row(same, ELEMENTWISE),
            Size => row(count, BLIND_TO_ZERO_SIGNS | EXACT),
            Slice => row(slice, PICKS | TOTAL | BY_ROW | SIGNLESS | EXACT),
            Softmax => row(same, BLIND_TO_ZERO_SIGNS | BY_ROW | ALONG_AN_AXIS),
            SoftmaxCrossEntropyLoss => row(unknown, NONE),
            Softplus => row(same, ELEMENTWISE | BLIND_TO_ZERO_SIGNS),
            Softsign => row(same, ELEMENTWISE),
            SpaceToDepth => row(blocks_to_depth, EXACT),
            Split => row(split, BY_ROW | ALONG_AN_AXIS | JOINS | EXACT),
            SplitToSequence => row(unknown, NONE),
            Sqrt => row(same, ELEMENTWISE | TOTAL | NEVER_GROWS | ROUNDS_ONCE),
            Squeeze => row(squeeze, RESHAPES | TOTAL | EXACT),
            StringConcat => row(unknown, NONE),
            StringNormalizer => row(unknown, NONE),
            StringSplit => row(unknown, NONE),
            Sub => row(join, BROADCASTING | TOTAL | SIGNLESS | ROUNDS_ONCE),
            Sum => row(join, NONE),
            SwiGLU => row(unknown, NONE),
            Swish => row(same, ELEMENTWISE),
            Tan => row(same, ELEMENTWISE),
            Tanh => row(same, ELEMENTWISE | TOTAL | NEVER_GROWS),
            TensorScatter => row(same, NONE),
            TfIdfVectorizer => row(unknown, NONE),
            ThresholdedRelu => row(same, ELEMENTWISE),
            Tile => row(tile, JOINS | SIGNLESS | EXACT),
            TopK => row(top_k, JOINS | EXACT),
            Transpose => row(transpose, TRANSPOSES | TOTAL | BY_ROW | SIGNLESS | EXACT),
            Trilu => row(same, JOINS | SIGNLESS | EXACT),
            Unique => row(unknown, EXACT),
            Unsqueeze => row(unsqueeze, RESHAPES | TOTAL | EXACT),
            Upsample => row(unknown, NONE),
            Where => row(choose, BROADCASTING | TOTAL | JOINS | SIGNLESS | EXACT),
            Xor => row(join, BROADCASTING | TOTAL | EXACT),
        }
    }
}
