//! Describes how an operator depends on the order of axes.

use algebra::axis_order::AxisOrder;
use algebra::rewrite::require;
use onnx::operator::properties::{ALONG_AN_AXIS, BROADCASTING, ELEMENTWISE, REDUCTIONS};
use onnx::{Dim, Edit, Node, OpType, Type, ValueId};

/// True if all operands of an operator broadcast. The slope of a `PRelu` broadcasts, but its first operand does not.
fn broadcasts(op: OpType) -> bool {
    op.is(BROADCASTING) || op == OpType::PRelu
}

/// The ranks of images and volumes, with a batch axis and a channel axis.
const IMAGE_RANKS: &[usize] = &[4, 5];

/// Weights that are larger than this are not copied if other nodes read them.
const MAX_SHARED: usize = 1 << 14;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Works in any order, as long as all results and all operands have the same one. Constants and operands of a
    /// lower rank are exceptions.
    Member,
    Transpose(AxisOrder),
    /// A product of this operand with constant weights. If the channels of an image come first, a product over its
    /// last axis is a convolution. If a matrix is transposed, a product over its first axis is one over its last
    /// axis.
    Product {
        operand: usize,
    },
    /// The result does not depend on the order of the operand, as long as these axes keep theirs.
    Sink(Vec<usize>),
    /// Can compute its result in any order in which these axes keep theirs.
    Source(Vec<usize>),
    /// Depends on the order of axes.
    Fixed,
}

/// Returns the transpose that a reshape is equivalent to, if it moves the only axis that is not a unit axis.
fn order_of_units(from: &[Dim], to: &[Dim]) -> Option<AxisOrder> {
    let (&[old], &[new]) = (&filled_axes(from)[..], &filled_axes(to)[..]) else { return None };
    let is_image = from.len() >= 3 && from.len() == to.len();
    let is_move = is_image && from[old] == to[new] && old != new;
    is_move.then(|| {
        let mut perm: Vec<usize> = (0..from.len()).filter(|&axis| axis != old).collect();
        perm.insert(new, old);
        AxisOrder::new(perm)
    })
}

/// Returns the role of a node. A node is a member only if [`carried`](super::carry::carried) can rewrite it for any
/// order.
pub(super) fn role(edit: &Edit<'_>, index: usize) -> Role {
    known_role(edit, index).unwrap_or(Role::Fixed)
}

fn known_role(edit: &Edit<'_>, index: usize) -> Option<Role> {
    let node = edit.node(index);
    let op = node.op.onnx()?;
    let x = edit.input(index, 0)?;
    let shape = edit.shape(x)?;
    let result = edit.ty(*node.outputs.first()?)?;
    let member = |is: bool| is.then_some(Role::Member);
    match op {
        OpType::Transpose => AxisOrder::of_node(edit, index).map(Role::Transpose),
        OpType::MatMul => product_with_weights(edit, index),
        OpType::Reshape => {
            if let Some(order) = order_of_units(shape, &result.shape) {
                return Some(Role::Transpose(order));
            }
            let target = edit.ints(index, 1)?;
            require(!target.contains(&0))?;
            // If both roles are possible, a source lets the result have another order.
            let ones = |dims: &[Dim]| dims.len() - filled_axes(dims).len();
            Some(match ones(&result.shape) > ones(shape) {
                true => Role::Source(filled_axes(&result.shape)),
                false => Role::Sink(filled_axes(shape)),
            })
        }
        OpType::Squeeze => {
            let axes = edit.axes(index)?;
            Some(Role::Sink(others(shape.len(), &axes)))
        }
        OpType::Unsqueeze => {
            let axes = edit.axes(index)?;
            Some(Role::Source(others(result.rank(), &axes)))
        }
        _ if op.is(ELEMENTWISE) => {
            let is_number = |operand: usize| {
                edit.input(index, operand).is_none_or(|id| {
                    edit.ty(id).is_some_and(|ty| ty.shape.iter().all(|dim| dim.is(1)))
                })
            };
            member((1..node.inputs.len()).all(is_number))
        }
        _ if broadcasts(op) => member(true),
        _ if op.is(ALONG_AN_AXIS) => {
            let sizes_are_known = op != OpType::Split || node.inputs.len() < 2 || {
                edit.input(index, 1).is_none_or(|sizes| edit.tensor(sizes).is_some())
            };
            member(edit.axis(index).is_some() && sizes_are_known)
        }
        _ if op.is(REDUCTIONS) => {
            let axes = edit.axes(index)?;
            require(!axes.is_empty())?;
            Some(if node.keeps_axes() {
                Role::Member
            } else {
                Role::Sink(others(shape.len(), &axes))
            })
        }
        OpType::ArgMax | OpType::ArgMin => member(node.keeps_axes() && edit.axis(index).is_some()),
        OpType::CumSum => member(edit.axes(index)?.len() == 1),
        OpType::Expand => {
            let fits = edit.ints(index, 1)?.len() == shape.len();
            member(fits && shape.len() == result.rank())
        }
        OpType::Gather => {
            let indices = edit.ty(edit.input(index, 1)?)?;
            member(indices.rank() == 1 && edit.axis(index).is_some())
        }
        OpType::Pad => {
            let axes_are_known = node.inputs.len() < 4 || edit.axes(index).is_some();
            member(edit.ints(index, 1).is_some() && axes_are_known)
        }
        OpType::Slice => member(edit.axes(index).is_some()),
        _ => None,
    }
}

/// Returns the role of a product that has another form, unless that form would store its weights twice.
fn product_with_weights(edit: &Edit<'_>, index: usize) -> Option<Role> {
    let operands = [edit.input(index, 0)?, edit.input(index, 1)?];
    let operand = operands.iter().position(|&value| edit.tensor(value).is_none())?;
    let (x, weights) = (edit.ty(operands[operand])?, operands[1 - operand]);
    let tensor = edit.tensor(weights).filter(|tensor| tensor.shape.len() == 2)?;
    let has_other_form = match operand {
        0 => {
            let has_kernel = edit.has_kernel(OpType::Conv, x.dtype);
            IMAGE_RANKS.contains(&x.rank()) && has_kernel
        }
        _ => x.rank() == 2,
    };
    let is_shared = edit.reads(weights) > 1 && tensor.len() > MAX_SHARED;
    (has_other_form && !is_shared).then_some(Role::Product { operand })
}

/// Returns the axes that are not known to be unit axes.
fn filled_axes(shape: &[Dim]) -> Vec<usize> {
    (0..shape.len()).filter(|&axis| !shape[axis].is(1)).collect()
}

fn others(rank: usize, axes: &[usize]) -> Vec<usize> {
    (0..rank).filter(|axis| !axes.contains(axis)).collect()
}

/// Counts the operands of a member that are arrays, not sizes, axes or scalars.
pub(super) fn data_operands(node: &Node) -> usize {
    match node.op.onnx() {
        Some(op) if broadcasts(op) || op == OpType::Concat => node.inputs.len(),
        _ => 1,
    }
}

/// Returns the computed operands of a member that have the rank of its result.
pub(super) fn data_values(edit: &Edit<'_>, index: usize) -> Vec<ValueId> {
    let rank = edit.result_ty(index).map(Type::rank);
    computed(edit, index).filter(|&id| edit.rank(id) == rank).collect()
}

/// Returns the computed operands of a member that broadcast from a lower rank.
pub(super) fn narrow_values(edit: &Edit<'_>, index: usize) -> Vec<ValueId> {
    let rank = edit.result_ty(index).map_or(0, Type::rank);
    let is_narrow = |ty: &Type| ty.rank() > 0 && ty.rank() != rank;
    computed(edit, index).filter(|&id| edit.ty(id).is_none_or(is_narrow)).collect()
}

fn computed(edit: &Edit<'_>, index: usize) -> impl Iterator<Item = ValueId> {
    let arrays = (0..data_operands(edit.node(index))).filter_map(move |at| edit.input(index, at));
    arrays.filter(|&id| edit.tensor(id).is_none())
}
