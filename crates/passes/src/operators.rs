//! Groups operators by their effect on the axes of their operands.

use onnx::OpType;

/// Of each element by itself, of the first operand; the others are single numbers.
pub(crate) const ELEMENTWISE: &[OpType] = &[
    OpType::Abs,
    OpType::Acos,
    OpType::Acosh,
    OpType::Asin,
    OpType::Asinh,
    OpType::Atan,
    OpType::Atanh,
    OpType::BitwiseNot,
    OpType::Cast,
    OpType::Ceil,
    OpType::Celu,
    OpType::Clip,
    OpType::Cos,
    OpType::Cosh,
    OpType::Elu,
    OpType::Erf,
    OpType::Exp,
    OpType::Floor,
    OpType::Gelu,
    OpType::HardSigmoid,
    OpType::HardSwish,
    OpType::Identity,
    OpType::IsInf,
    OpType::IsNaN,
    OpType::LeakyRelu,
    OpType::Log,
    OpType::Mish,
    OpType::Neg,
    OpType::Not,
    OpType::Reciprocal,
    OpType::Relu,
    OpType::Round,
    OpType::Selu,
    OpType::Sigmoid,
    OpType::Sign,
    OpType::Sin,
    OpType::Sinh,
    OpType::Softplus,
    OpType::Softsign,
    OpType::Sqrt,
    OpType::Swish,
    OpType::Tan,
    OpType::Tanh,
    OpType::ThresholdedRelu,
];

/// Of operands that all broadcast to the shape of the result.
pub(crate) const BROADCASTING: &[OpType] = &[
    OpType::Add,
    OpType::And,
    OpType::BitShift,
    OpType::BitwiseAnd,
    OpType::BitwiseOr,
    OpType::BitwiseXor,
    OpType::Div,
    OpType::Equal,
    OpType::Greater,
    OpType::GreaterOrEqual,
    OpType::Less,
    OpType::LessOrEqual,
    OpType::Max,
    OpType::Min,
    OpType::Mod,
    OpType::Mul,
    OpType::Or,
    OpType::Pow,
    OpType::Sub,
    OpType::Where,
    OpType::Xor,
];

/// Over axes, which `keepdims` says whether to keep.
pub(crate) const REDUCTIONS: &[OpType] = &[
    OpType::ReduceL1,
    OpType::ReduceL2,
    OpType::ReduceLogSum,
    OpType::ReduceLogSumExp,
    OpType::ReduceMax,
    OpType::ReduceMean,
    OpType::ReduceMin,
    OpType::ReduceProd,
    OpType::ReduceSum,
    OpType::ReduceSumSquare,
];

/// The layout ops: they keep every element, and change only where it is.
pub(crate) const LAYOUT_OPS: &[OpType] =
    &[OpType::Transpose, OpType::Reshape, OpType::Squeeze, OpType::Unsqueeze];

/// Layout ops that keep the order of elements, and change only the shape.
pub(crate) const RESHAPES: &[OpType] = &[OpType::Reshape, OpType::Squeeze, OpType::Unsqueeze];

/// What broadcasts an array: reshapes that add unit axes, and their expansion.
pub(crate) const BROADCAST_OPS: &[OpType] =
    &[OpType::Reshape, OpType::Squeeze, OpType::Unsqueeze, OpType::Expand, OpType::Identity];

/// What views of an array are made of: layout ops and broadcasts.
pub(crate) const VIEW_OPS: &[OpType] = &[
    OpType::Transpose,
    OpType::Reshape,
    OpType::Squeeze,
    OpType::Unsqueeze,
    OpType::Expand,
    OpType::Identity,
];

/// All elements of the result are elements of the first operand.
pub(crate) const SELECTIONS: &[OpType] = &[
    OpType::Expand,
    OpType::Gather,
    OpType::GatherElements,
    OpType::GatherND,
    OpType::Identity,
    OpType::Reshape,
    OpType::Slice,
    OpType::Squeeze,
    OpType::Transpose,
    OpType::Unsqueeze,
];
