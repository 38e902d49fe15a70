//! Operators that move, join or reduce elements.

use super::Expr;
use crate::attr::Attr;
use crate::build::Attrs;
use crate::dtype::DType;
use crate::operator::OpType;
use crate::value::Dim;

/// Returns the shape that two shapes broadcast to, by the rule of NumPy; `None` if they do not.
pub fn broadcast_shapes(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let rank = a.len().max(b.len());
    let size = |dims: &[Dim], axis: usize| match (axis + dims.len()).checked_sub(rank) {
        Some(index) => dims[index].clone(),
        None => Dim::Known(1),
    };
    (0..rank)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (a, b) if a == b => Some(a),
            (a, b) if b.is(1) => Some(a),
            (a, b) if a.is(1) => Some(b),
            _ => None,
        })
        .collect()
}

/// Returns the shape after `axes` are reduced.
pub fn reduced_shape(shape: &[Dim], axes: &[usize], keep: bool) -> Vec<Dim> {
    let kept = shape.iter().enumerate().filter_map(|(axis, dim)| match axes.contains(&axis) {
        true if keep => Some(Dim::Known(1)),
        true => None,
        false => Some(dim.clone()),
    });
    kept.collect()
}

impl<'g> Expr<'g> {
    /// Returns the same elements in another shape, which may have symbolic sizes.
    #[track_caller]
    pub fn reshape(self, shape: &[Dim]) -> Expr<'g> {
        if *self.shape() == *shape {
            return self;
        }
        let named = shape.iter().filter(|dim| dim.known().is_none()).count();
        let has_empty_axis = shape.iter().any(|dim| dim.is(0));
        // One unknown size can be inferred, unless an empty axis makes any size fit.
        let sizes = if named == 1 && !has_empty_axis {
            let sizes: Vec<i64> = shape.iter().map(|dim| dim.known().unwrap_or(-1)).collect();
            self.builder.ints(&sizes)
        } else {
            self.builder.sizes(shape)
        };
        // Without `allowzero`, `Reshape` takes a zero to mean "as before".
        let attrs = if has_empty_axis || named > 1 {
            vec![("allowzero", Attr::Int(1))]
        } else {
            Attrs::new()
        };
        self.builder.sized_node(OpType::Reshape, &[self, sizes], attrs, shape)
    }

    /// Repeats axes of size one until the shape is reached.
    #[track_caller]
    pub fn expand(self, shape: &[Dim]) -> Expr<'g> {
        if *self.shape() == *shape {
            return self;
        }
        let sizes = self.builder.sizes(shape);
        self.builder.sized_node(OpType::Expand, &[self, sizes], Attrs::new(), shape)
    }

    /// Transposes: axis `i` of the result is axis `order[i]` of this.
    #[track_caller]
    pub fn transpose(self, order: &[usize]) -> Expr<'g> {
        if order.iter().enumerate().all(|(i, &axis)| i == axis) {
            return self;
        }
        let order = as_ints(order);
        self.builder.node(OpType::Transpose, &[self], vec![("perm", order[..].into())])
    }

    /// Drops axes of size one.
    #[track_caller]
    pub fn squeeze(self, axes: &[usize]) -> Expr<'g> {
        if axes.is_empty() {
            return self;
        }
        let axes = self.builder.ints(&as_ints(axes));
        self.builder.node(OpType::Squeeze, &[self, axes], Attrs::new())
    }

    /// Inserts axes of size one at these positions of the result.
    #[track_caller]
    pub fn unsqueeze(self, axes: &[usize]) -> Expr<'g> {
        if axes.is_empty() {
            return self;
        }
        let axes = self.builder.ints(&as_ints(axes));
        self.builder.node(OpType::Unsqueeze, &[self, axes], Attrs::new())
    }

    /// Concatenates values along an axis.
    #[track_caller]
    pub fn concat(parts: &[Expr<'g>], axis: usize) -> Expr<'g> {
        let sum = |sum: Dim, part: &Expr<'g>| part.builder.sum(&sum, &part.shape()[axis]);
        Expr::concat_to(parts, axis, parts.iter().fold(Dim::Known(0), sum))
    }

    /// Concatenates values along an axis, whose size JAX may spell differently from the sum of the sizes.
    #[track_caller]
    pub fn concat_to(parts: &[Expr<'g>], axis: usize, size: Dim) -> Expr<'g> {
        let first = parts[0];
        if parts.len() == 1 {
            return first;
        }
        let mut shape = first.shape().to_vec();
        shape[axis] = size;
        let attrs = vec![("axis", Attr::Int(axis as i64))];
        first.builder.sized_node(OpType::Concat, parts, attrs, &shape)
    }

    /// Returns the elements `start, start + step, …` before `end` of each axis, in the shape `shape`. Negative
    /// numbers count from the end.
    #[track_caller]
    pub fn slice(self, ranges: &[Range], shape: &[Dim]) -> Expr<'g> {
        let sizes = self.shape();
        let changed: Vec<(usize, &Range)> = ranges
            .iter()
            .enumerate()
            .filter(|(axis, range)| !range.takes_all(&sizes[*axis]))
            .collect();
        if changed.is_empty() {
            return self;
        }
        let bounds = |bound: fn(&Range) -> &Dim| {
            let bounds: Vec<Dim> = changed.iter().map(|(_, range)| bound(range).clone()).collect();
            self.builder.numbers(&bounds)
        };
        let axes: Vec<i64> = changed.iter().map(|(axis, _)| *axis as i64).collect();
        let steps: Vec<i64> = changed.iter().map(|(_, range)| range.step).collect();
        let (starts, ends) = (bounds(|range| &range.start), bounds(|range| &range.end));
        let mut inputs = vec![self, starts, ends, self.builder.ints(&axes)];
        if steps.iter().any(|&step| step != 1) {
            inputs.push(self.builder.ints(&steps));
        }
        self.builder.sized_node(OpType::Slice, &inputs, Attrs::new(), shape)
    }

    /// Returns the elements of one axis from `start` to `end`.
    #[track_caller]
    pub fn slice_axis(self, axis: usize, start: i64, end: i64) -> Expr<'g> {
        let mut shape = self.shape().to_vec();
        let mut ranges = vec![Range::whole(); shape.len()];
        ranges[axis] = Range { start: start.into(), end: end.into(), step: 1 };
        shape[axis] = Dim::Known(end - start);
        self.slice(&ranges, &shape)
    }

    /// Reduces some axes with `ReduceSum` or a similar operator.
    #[track_caller]
    pub fn reduce(self, op: OpType, axes: &[usize], keep: bool) -> Expr<'g> {
        if axes.is_empty() {
            return self;
        }
        let mut attrs = vec![("keepdims", Attr::Int(i64::from(keep)))];
        // Opset 18 made the axes an operand; `ReduceSum` had that operand before.
        if op == OpType::ReduceSum || self.builder.opset() >= 18 {
            let axes = self.builder.ints(&as_ints(axes));
            return self.builder.node(op, &[self, axes], attrs);
        }
        attrs.push(("axes", as_ints(axes)[..].into()));
        self.builder.node(op, &[self], attrs)
    }

    /// Returns the sum over some axes.
    #[track_caller]
    pub fn reduce_sum(self, axes: &[usize], keep: bool) -> Expr<'g> {
        self.reduce(OpType::ReduceSum, axes, keep)
    }

    /// Returns the product of matrices, whose leading axes broadcast. An operand with one axis is a row on the left
    /// and a column on the right, and that axis is not in the result.
    #[track_caller]
    pub fn matmul(self, other: Expr<'g>) -> Expr<'g> {
        self.binary(OpType::MatMul, other)
    }

    /// Returns the entries of an axis at `indices`.
    #[track_caller]
    pub fn gather(self, indices: Expr<'g>, axis: usize) -> Expr<'g> {
        self.along(OpType::Gather, indices, axis)
    }

    /// Returns for each index the entry of the axis at that index. Along the other axes, the positions of entry and
    /// index agree.
    #[track_caller]
    pub fn gather_elements(self, indices: Expr<'g>, axis: usize) -> Expr<'g> {
        self.along(OpType::GatherElements, indices, axis)
    }

    #[track_caller]
    fn along(self, op: OpType, indices: Expr<'g>, axis: usize) -> Expr<'g> {
        self.builder.node(op, &[self, indices], vec![("axis", Attr::Int(axis as i64))])
    }

    /// Returns `0, 1, … size − 1` as 64-bit integers.
    #[track_caller]
    pub fn range(builder: &'g crate::build::Builder, size: &Dim) -> Expr<'g> {
        let bound = |value: i64| builder.constant_ints(DType::I64, &[], &[value]);
        let end = builder.size(size);
        builder.node(OpType::Range, &[bound(0), end, bound(1)], Attrs::new())
    }
}

/// A range of one axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub start: Dim,
    pub end: Dim,
    pub step: i64,
}

impl Range {
    /// Returns the whole axis, in order.
    pub fn whole() -> Range {
        Range { start: Dim::Known(0), end: Dim::Known(i64::MAX), step: 1 }
    }

    /// Returns the whole axis, from the last to the first.
    pub fn backwards() -> Range {
        Range { start: Dim::Known(-1), end: Dim::Known(i64::MIN), step: -1 }
    }

    fn takes_all(&self, dim: &Dim) -> bool {
        let reaches_the_end = match (&self.end, dim) {
            (Dim::Known(i64::MAX), _) => true,
            (Dim::Known(end), Dim::Known(size)) => end >= size,
            (end, dim) => end == dim,
        };
        self.start.is(0) && self.step == 1 && reaches_the_end
    }
}

fn as_ints(axes: &[usize]) -> Vec<i64> {
    axes.iter().map(|&axis| axis as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_broadcast_from_the_right() {
        let b = || Dim::symbol("B");
        let joined = broadcast_shapes(&[b(), 1.into()], &[4.into()]);
        assert_eq!(joined, Some(vec![b(), 4.into()]));
        assert_eq!(broadcast_shapes(&[b()], &[4.into()]), None);
        assert_eq!(broadcast_shapes(&[0.into()], &[1.into()]), Some(vec![0.into()]));
    }
}
