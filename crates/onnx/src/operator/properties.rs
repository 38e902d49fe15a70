//! The properties that a row of the table of operators can have. `|` combines several.

pub use super::table::Properties;

/// No property.
pub const NONE: Properties = Properties(0);
/// Each element of the result is computed from the element of the first operand at the same position. Other
/// operands are scalars.
pub const ELEMENTWISE: Properties = Properties(1 << 0);
/// All operands broadcast to the shape of the result, and each element is computed independently.
pub const BROADCASTING: Properties = Properties(1 << 1);
/// Reduces axes; the attribute `keepdims` says whether they stay with size one.
pub const REDUCTIONS: Properties = Properties(1 << 2);
/// Keeps all elements and their order, and changes only the shape.
pub const RESHAPES: Properties = Properties(1 << 3);
/// Keeps all elements and changes the order of axes.
pub const TRANSPOSES: Properties = Properties(1 << 4);
/// Repeats elements along axes of size one.
pub const EXPANDS: Properties = Properties(1 << 5);
/// Returns its operand.
pub const COPIES: Properties = Properties(1 << 6);
/// Each element of the result is an element of the first operand; other operands select it.
pub const PICKS: Properties = Properties(1 << 7);
/// Each element of the result is an element of some operand, or zero.
pub const JOINS: Properties = Properties(1 << 8);
/// Works along one axis, which the attribute `axis` specifies.
pub const ALONG_AN_AXIS: Properties = Properties(1 << 9);
/// Can be computed for all iterations of a loop at once, with an additional leading axis.
pub const BY_ROW: Properties = Properties(1 << 10);
/// Computes one product of two operands. If one of these operators replaces another, the product is still the same
/// one.
pub const PRODUCTS: Properties = Properties(1 << 11);
/// The result is the same for `0` and `−0`.
pub const BLIND_TO_ZERO_SIGNS: Properties = Properties(1 << 12);
/// Cannot fail for operands of the right types, whatever their numbers.
pub const TOTAL: Properties = Properties(1 << 13);
/// Returns different numbers each time.
pub const RANDOM: Properties = Properties(1 << 14);
/// No result is larger in magnitude than the largest operand or 1.
pub const NEVER_GROWS: Properties = Properties(1 << 15);
/// The bits of the result are the same for signed and unsigned integers.
pub const SIGNLESS: Properties = Properties(1 << 16);
/// Copies, selects, compares or counts: no result is rounded.
pub const EXACT: Properties = Properties(1 << 17);
/// The result is the exact one, rounded once.
pub const ROUNDS_ONCE: Properties = Properties(1 << 18);
/// Runs a body several times.
pub const LOOPS: Properties = Properties(1 << 19);
/// Runs one of several bodies.
pub const BRANCHES: Properties = Properties(1 << 20);
/// Converts elements to another type.
pub const CASTS: Properties = Properties(1 << 21);
/// Scales the entries along an axis to a common size. Before opset 13, it works along all axes from that one on.
pub const NORMALIZES: Properties = Properties(1 << 22);
/// May fail or be undefined for some numbers, such as for a division by zero.
pub const PARTIAL: Properties = Properties(1 << 23);
/// Adds, subtracts, multiplies or divides.
pub const ARITHMETIC: Properties = Properties(1 << 24);
/// Computes with integers instead of floats, or converts between them.
pub const QUANTIZED: Properties = Properties(1 << 25);
/// Computes products, among other things.
pub const HOLDS_PRODUCTS: Properties = Properties(1 << 26);
/// ONNX Runtime 1.31 mistakes a function with this name for the operator, whatever its domain. It does not load a
/// function `Constant`. For the others, it reads operands that the function may not have, which ends the process.
pub const RESERVES_NAME: Properties = Properties(1 << 27);
/// Compares two operands, element by element.
pub const COMPARISONS: Properties = Properties(1 << 28);
/// ONNX Runtime lets the first result be another name for the memory of the first operand.
pub const ALIASES: Properties = Properties(1 << 29);
/// ONNX Runtime may write the first result over the first operand, if nothing else needs it.
pub const IN_PLACE: Properties = Properties(1 << 30);

/// The layout ops: they keep every element, and change only its position.
pub const LAYOUT_OPS: Properties = RESHAPES.or(TRANSPOSES);
/// Broadcasts an array: a reshape adds axes of size one, an expand repeats them.
pub const BROADCAST_OPS: Properties = RESHAPES.or(EXPANDS).or(COPIES);
/// A step of a view: a layout op or a broadcast.
pub const VIEW_OPS: Properties = LAYOUT_OPS.or(BROADCAST_OPS);
/// All elements of the result are elements of the first operand.
pub const SELECTIONS: Properties = VIEW_OPS.or(PICKS);
/// Each element is computed independently.
pub const POINTWISE: Properties = ELEMENTWISE.or(BROADCASTING);
/// Has bodies.
pub const CONTROL_FLOW: Properties = LOOPS.or(BRANCHES);
