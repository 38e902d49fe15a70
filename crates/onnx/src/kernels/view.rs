//! A node with what is known about its values, as the tests of forms see it.

use std::cell::{Cell, RefCell};

use super::limit::folds_elements;
use super::probed::Ability;
use super::runtime::Runtime;
use crate::attr::Attr;
use crate::dtype::DType;
use rustc_hash::FxHashSet;

use crate::model::Node;
use crate::operator::OpType;
use crate::operator::properties::{LAYOUT_OPS, POINTWISE, RESHAPES, SELECTIONS, VIEW_OPS};
use crate::tensor::Tensor;
use crate::value::{Dim, Type, ValueId, Values};

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

/// Returns the number of an operand of a product or quotient of integers that is one constant, and the constant.
fn factor(node: &Node, values: &Values) -> Option<(usize, i64)> {
    if !matches!(node.op.onnx(), Some(OpType::Mul | OpType::Div)) {
        return None;
    }
    let constant = |&at: &usize| {
        let tensor = values[node.inputs.get(at).copied()??].tensor.as_ref()?;
        match tensor.ints()?[..] {
            [only] => Some((at, only)),
            _ => None,
        }
    };
    let is_constant = |value: &ValueId| values[*value].tensor.is_some();
    let is_computed = !node.inputs.iter().flatten().all(is_constant);
    [0, 1].iter().find_map(constant).filter(|_| is_computed)
}

impl View<'_> {
    pub(super) fn input(&self, at: usize) -> Option<ValueId> {
        self.node.inputs.get(at).copied().flatten()
    }

    pub(super) fn ty(&self, at: usize) -> Option<&Type> {
        self.values[self.input(at)?].ty.as_ref()
    }

    pub(super) fn rank(&self, at: usize) -> Option<usize> {
        self.ty(at).map(|ty| ty.rank())
    }

    pub(super) fn dtype(&self, at: usize) -> Option<DType> {
        self.ty(at).map(|ty| ty.dtype)
    }

    pub(super) fn result(&self, at: usize) -> Option<&Type> {
        self.values[*self.node.outputs.get(at)?].ty.as_ref()
    }

    pub(super) fn tensor(&self, at: usize) -> Option<&Tensor> {
        self.values[self.input(at)?].tensor.as_deref()
    }

    pub(super) fn ints(&self, at: usize) -> Vec<i64> {
        self.tensor(at).and_then(|tensor| tensor.ints()).unwrap_or_default()
    }

    pub(super) fn is_computed(&self, at: usize) -> bool {
        self.input(at).is_some() && self.tensor(at).is_none()
    }

    pub(super) fn has_negative(&self, at: usize) -> bool {
        self.ints(at).iter().any(|&int| int < 0)
    }

    pub(super) fn text(&self, name: &str) -> &str {
        match self.node.attr(name) {
            Some(Attr::Str(text)) => text,
            _ => "",
        }
    }

    pub(super) fn int(&self, name: &str) -> i64 {
        match self.node.attr(name) {
            Some(&Attr::Int(int)) => int,
            _ => 0,
        }
    }

    /// True if a list of integers contains another integer than `usual`.
    pub(super) fn has_other(&self, name: &str, usual: i64) -> bool {
        match self.node.attr(name) {
            Some(Attr::Ints(ints)) => ints.iter().any(|&int| int != usual),
            _ => false,
        }
    }

    pub(super) fn combines(&self, by: &str) -> bool {
        self.text("reduction") == by
    }

    /// True if a window has no attribute that says its step. Runtimes know the other defaults.
    pub(super) fn has_defaults(&self) -> bool {
        self.node.attr("strides").is_none()
    }

    /// True if a `Resize` of images changes the size of the batch or of the channels.
    pub(super) fn enlarges_outer_axes(&self) -> bool {
        let sizes = self.ty(0).zip(self.result(0));
        sizes.is_some_and(|(before, after)| {
            before.rank() > 2 && before.shape.get(..2) != after.shape.get(..2)
        })
    }

    /// True if a transform is not along the axis before the parts.
    pub(super) fn has_outer_axis(&self) -> bool {
        let axis = self.ints(2).first().copied().unwrap_or(-2);
        let rank = self.rank(0).unwrap_or_default() as i64;
        axis != -2 && axis != rank - 2
    }

    /// True if a transform cuts its input (`Less`) or adds zeros to it (`Greater`).
    pub(super) fn has_length(&self, order: std::cmp::Ordering) -> bool {
        let whole = self.ty(0).and_then(|ty| {
            let axis = self.ints(2).first().copied().unwrap_or(-2);
            let axis = crate::infer::axis_from_front(axis, ty.rank())?;
            ty.shape.get(axis)?.known()
        });
        self.ints(1).first().zip(whole).is_some_and(|(length, whole)| length.cmp(&whole) == order)
    }

    /// True if a `Slice` has another step than one along an axis that a `Reshape` before it makes.
    pub(super) fn skips_in_reshaped(&self) -> bool {
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
    pub(super) fn is_reduced_twice(&self) -> bool {
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
    pub(super) fn states(&self) -> usize {
        let scanned = usize::try_from(self.int("num_scan_inputs")).unwrap_or(0);
        self.node.inputs.len().saturating_sub(scanned)
    }

    /// Returns the operands that are initial states of a loop, that the same graph computes, and that other nodes read
    /// too, perhaps with other axes.
    pub(crate) fn shared_states(&self) -> impl Iterator<Item = usize> {
        let states = match self.node.op == OpType::Scan {
            true => 0..self.states(),
            // The number of iterations and the condition come first.
            false => 2..self.node.inputs.len(),
        };
        states.filter(|&at| self.input(at).is_some_and(|state| self.is_shared(state)))
    }

    /// Returns the number of an operand of a product or quotient of integers that is one constant, and the constant.
    pub(crate) fn factor(&self) -> Option<(usize, i64)> {
        factor(self.node, self.values)
    }

    /// True if the body of a `Scan` scales an integer that follows from a state by a constant.
    pub(super) fn scales_state(&self) -> bool {
        let states = self.states();
        self.node.bodies().any(|body| {
            let mut follows: FxHashSet<ValueId> =
                body.inputs.iter().take(states).copied().collect();
            body.nodes.iter().any(|node| {
                let reads = node.inputs.iter().flatten().any(|value| follows.contains(value));
                if reads && (node.op.is(POINTWISE) || node.op == OpType::Cast) {
                    follows.extend(&node.outputs);
                }
                reads && factor(node, self.values).is_some()
            })
        })
    }

    /// True if a hash of `uint32` is scaled by this constant and by another one.
    pub(super) fn scales_hash(&self) -> bool {
        let Some((at, own)) = self.factor() else { return false };
        let is_other = |node: &Node| factor(node, self.values).is_some_and(|(_, it)| it != own);
        self.dtype(at) == Some(DType::U32)
            && (self.earlier)(&is_other)
            && (self.earlier)(&|node| node.op == OpType::BitwiseXor)
    }

    /// True if a `Slice` skips elements, and a lookup or another `Slice` that reverses reads the others.
    pub(super) fn skips_for_lookup(&self) -> bool {
        let result = self.node.outputs.first().copied();
        self.ints(4).iter().any(|&step| step > 1)
            && result.is_some_and(|result| self.is_looked_up(result, MAX_MOVES))
    }

    /// True if a node picks or reverses entries of a value, perhaps after a few layout ops.
    fn is_looked_up(&self, value: ValueId, steps: usize) -> bool {
        const LOOKUPS: [OpType; 3] = [OpType::Gather, OpType::GatherElements, OpType::GatherND];
        let (mut is_looked_up, mut results) = (false, Vec::new());
        (self.readers)(value, &mut |node| {
            let is_data = node.inputs.first() == Some(&Some(value));
            let reverses = || {
                let steps = node.inputs.get(4).copied().flatten();
                let steps = steps.and_then(|steps| self.values[steps].tensor.as_ref()?.ints());
                steps.is_some_and(|steps| steps.iter().any(|&step| step < 0))
            };
            is_looked_up |= is_data && node.op.onnx().is_some_and(|op| LOOKUPS.contains(&op));
            is_looked_up |= is_data && node.op == OpType::Slice && reverses();
            if node.op.is(LAYOUT_OPS) {
                results.extend(node.outputs.first().copied());
            }
        });
        let mut results = results.into_iter();
        is_looked_up || steps > 0 && results.any(|next| self.is_looked_up(next, steps - 1))
    }

    /// Returns the operands of a `Scan` with an axis of one element that a node adds, if the body reads elements of fewer
    /// axes too, and stacks results of fewer axes.
    pub(crate) fn widened_arrays(&self) -> impl Iterator<Item = usize> {
        let states = self.states();
        let body = self.node.bodies().next();
        let rank = |value: &ValueId| self.values[*value].ty.as_ref().map(|ty| ty.rank());
        (states..self.node.inputs.len()).filter(move |&at| {
            let Some((whole, own)) = self.input(at).zip(self.rank(at)) else { return false };
            let has_unit = |ty: &Type| ty.shape[1..].contains(&Dim::Known(1));
            let is_thin = |value: &ValueId| rank(value).is_some_and(|rank| rank + 1 < own);
            body.is_some_and(|body| {
                own > 1
                    && self.ty(at).is_some_and(has_unit)
                    && body.inputs.iter().skip(states).any(is_thin)
                    && body.outputs.iter().skip(states).any(is_thin)
                    && self.is_widened(whole, MAX_MOVES)
            })
        })
    }

    /// True if a layout op adds axes to a value, perhaps before a few elementwise operators.
    fn is_widened(&self, value: ValueId, steps: usize) -> bool {
        let rank = |value: ValueId| self.values[value].ty.as_ref().map(|ty| ty.rank());
        let (is_widened, read) = (Cell::new(false), RefCell::new(Vec::new()));
        (self.earlier)(&|node| {
            let makes = node.outputs.contains(&value);
            if makes && node.op.is(RESHAPES) {
                let first = node.inputs.first().copied().flatten();
                is_widened.set(first.is_some_and(|first| rank(first) < rank(value)));
            } else if makes && node.op.is(POINTWISE) {
                read.borrow_mut().extend(node.inputs.iter().flatten());
            }
            makes
        });
        let mut read = read.into_inner().into_iter();
        is_widened.get() || steps > 0 && read.any(|before| self.is_widened(before, steps - 1))
    }

    fn is_shared(&self, value: ValueId) -> bool {
        let mut readers = 0;
        (self.readers)(value, &mut |_| readers += 1);
        let maker = Cell::new(None);
        (self.earlier)(&|node| {
            if node.outputs.contains(&value) && node.bodies().next().is_none() {
                let viewed = node.inputs.first().filter(|_| node.op.is(LAYOUT_OPS));
                maker.set(Some(viewed.copied().flatten()));
            }
            maker.get().is_some()
        });
        match maker.get() {
            Some(Some(viewed)) => readers > 1 || self.is_shared(viewed),
            Some(None) => readers > 1,
            None => false,
        }
    }

    /// True if the body of a `Scan` computes numbers from elements of constant arrays, and folds or scales them.
    pub(super) fn takes_whole_arrays(&self) -> bool {
        let states = self.states();
        self.node.bodies().any(|body| {
            let pairs = self.node.inputs.iter().zip(&body.inputs).skip(states);
            let is_constant = |whole: ValueId| self.values[whole].tensor.is_some();
            let constant = pairs.filter(|(whole, _)| whole.is_some_and(is_constant));
            let elements: Vec<ValueId> = constant.map(|(_, &element)| element).collect();
            !elements.is_empty() && folds_elements(body, &elements, self.values)
        })
    }

    /// True if a runtime was seen to compute this form correctly, although it computes the operator wrongly for some
    /// numbers.
    pub(super) fn is_exempt(&self, op: OpType, runtime: &Runtime) -> bool {
        op == OpType::BitShift
            && self.text("direction") == "LEFT"
            && !runtime.lacks(Ability::BitShiftLeft)
    }

    /// True if an operand is a constant of `uint32` with a number that does not fit into `int32`.
    pub(super) fn has_high_constant(&self) -> bool {
        let constants = (0..self.node.inputs.len()).filter_map(|at| self.tensor(at));
        let is_high = |&int: &i64| int > i64::from(i32::MAX);
        let mut unsigned = constants.filter(|tensor| tensor.dtype == DType::U32);
        unsigned.any(|tensor| tensor.ints().is_some_and(|ints| ints.iter().any(is_high)))
    }

    /// True for a cast to 16 bits of integers with more bits or of the other sign, unless they are the remainder of a division by 2^16, perhaps
    /// after a sum or a difference.
    pub(super) fn drops_high_bits(&self) -> bool {
        let is_short = |dtype| matches!(dtype, DType::U16 | DType::I16);
        let result = self.result(0).map(|ty| ty.dtype);
        let is_other = |dtype: DType| dtype.is_int() && dtype.bits() >= 16 && Some(dtype) != result;
        let makes = |node: &Node, value: Option<ValueId>| {
            value.is_some_and(|value| node.outputs.contains(&value))
        };
        let is_rest = |value: Option<ValueId>| {
            (self.earlier)(&|node| makes(node, value) && node.op == OpType::Mod)
        };
        let is_shifted_rest = (self.earlier)(&|node| {
            makes(node, self.input(0))
                && matches!(node.op.onnx(), Some(OpType::Add | OpType::Sub))
                && is_rest(node.inputs.first().copied().flatten())
        });
        result.is_some_and(is_short)
            && self.dtype(0).is_some_and(is_other)
            && !is_rest(self.input(0))
            && !is_shifted_rest
    }

    /// True if some operands of `int8` are inputs, which may be moved, and others are constants or computed.
    pub(super) fn combines_input_bytes(&self) -> bool {
        let bytes = self.node.inputs.iter().flatten().copied().filter(|&value| {
            self.values[value].ty.as_ref().is_some_and(|ty| ty.dtype == DType::I8)
        });
        let (inputs, others): (Vec<_>, Vec<_>) = bytes.partition(|&value| self.is_input(value));
        !inputs.is_empty() && !others.is_empty()
    }

    /// True if no node computes a value, or nodes only move an input.
    fn is_input(&self, mut value: ValueId) -> bool {
        loop {
            let moved = Cell::new(None);
            let is_made = (self.earlier)(&|node| {
                let makes = node.outputs.contains(&value);
                let first = node.inputs.first().copied().flatten();
                moved.set(first.filter(|_| makes && node.op.is(SELECTIONS)));
                makes
            });
            match moved.get() {
                Some(before) if is_made => value = before,
                _ => return !is_made && self.values[value].tensor.is_none(),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let is_zero = |ty: &Type| ty.shape.contains(&Dim::Known(0));
        let values = self.node.inputs.iter().flatten().chain(&self.node.outputs);
        // A list of no sizes or axes is a constant.
        let is_empty = |&id: &ValueId| {
            self.values[id].tensor.is_none() && self.values[id].ty.as_ref().is_some_and(is_zero)
        };
        values.into_iter().any(is_empty)
    }
}

/// The most elementwise operators between a reduction or a scan and a layout op, and layout ops before a lookup.
const MAX_MOVES: usize = 3;
