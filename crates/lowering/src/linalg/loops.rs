//! Loops over the columns of matrices, and the values that they carry.

use onnx::{Attr, Builder, DType, Dim, Expr, OpType, Type};

use super::matrix::Matrix;
use crate::bodies::{own_results, types};

/// `carried = step(k, carried)` for `k = 0, 1, … count − 1`. `k` is a list of one index.
#[track_caller]
pub(super) fn loop_over<'g, S: Carried<'g>>(
    builder: &'g Builder,
    count: &Dim,
    carried: S,
    step: impl FnOnce(Expr<'g>, S) -> S,
) -> S {
    match count.known() {
        Some(0) => return carried,
        Some(1) => return step(builder.ints(&[0]), carried),
        _ => {}
    }
    looped(builder, "round", count, carried, |inputs, carried| {
        let results = step(inputs[0].unsqueeze(&[0]), carried);
        (inputs[1], results)
    })
}

/// `carried = step(carried)` at most `limit` times, while the flag that `step` returns is true.
#[track_caller]
pub(super) fn loop_while<'g, S: Carried<'g>>(
    builder: &'g Builder,
    limit: i64,
    carried: S,
    step: impl FnOnce(S) -> (Expr<'g>, S),
) -> S {
    looped(builder, "sweep", &limit.into(), carried, |_, carried| step(carried))
}

/// Runs a body at most `limit` times. The body takes the counter and the flag of the loop.
#[track_caller]
fn looped<'g, S: Carried<'g>>(
    builder: &'g Builder,
    name: &str,
    limit: &Dim,
    carried: S,
    step: impl FnOnce(&[Expr<'g>], S) -> (Expr<'g>, S),
) -> S {
    let list = |carried: S| {
        let mut arrays = Vec::new();
        carried.list(&mut arrays);
        arrays
    };
    let before = list(carried);
    let counter = [Type::new(DType::I64, []), Type::new(DType::Bool, [])];
    let inputs = [&counter[..], &types(&before)].concat();
    let body = builder.body(name, &inputs, |inputs| -> Result<_, std::convert::Infallible> {
        let inside = carried.replaced(&mut inputs[2..].iter().copied());
        let (goes_on, results) = step(inputs, inside);
        let results = list(results);
        check_carried(builder, &before, &results);
        Ok(own_results(builder, [&[goes_on], &results[..]].concat()))
    });
    let Ok(body) = body;
    let goes_on = builder.constant_ints(DType::Bool, &[], &[1]);
    let head = [Some(builder.size(limit)), Some(goes_on)];
    let operands: Vec<_> = head.into_iter().chain(before.iter().copied().map(Some)).collect();
    let attrs = vec![("body", Attr::from(body))];
    let results = builder.nodes(OpType::Loop, &operands, attrs, before.len());
    carried.replaced(&mut results.into_iter())
}

/// Checks that the values that a loop carries keep their types.
fn check_carried(builder: &Builder, before: &[Expr<'_>], after: &[Expr<'_>]) {
    for (before, after) in before.iter().zip(after) {
        let (before, after) = (before.ty(), after.ty());
        if before != after {
            let _ = builder.broken(format!("a loop carries `{before}` and `{after}`"), before);
        }
    }
}

/// The values that a loop passes from one iteration to the next.
pub(super) trait Carried<'g>: Copy {
    /// Appends the arrays to a list.
    fn list(&self, arrays: &mut Vec<Expr<'g>>);

    /// Replaces the arrays by the next ones.
    fn replaced(&self, next: &mut dyn Iterator<Item = Expr<'g>>) -> Self;
}

impl<'g> Carried<'g> for Expr<'g> {
    fn list(&self, arrays: &mut Vec<Expr<'g>>) {
        arrays.push(*self);
    }

    fn replaced(&self, next: &mut dyn Iterator<Item = Expr<'g>>) -> Self {
        next.next().unwrap_or(*self)
    }
}

impl<'g> Carried<'g> for Matrix<'g> {
    fn list(&self, arrays: &mut Vec<Expr<'g>>) {
        arrays.push(self.re);
        arrays.extend(self.im);
    }

    fn replaced(&self, next: &mut dyn Iterator<Item = Expr<'g>>) -> Self {
        let re = self.re.replaced(next);
        Matrix { re, im: self.im.map(|im| im.replaced(next)) }
    }
}

impl<'g, T: Carried<'g>, const N: usize> Carried<'g> for [T; N] {
    fn list(&self, arrays: &mut Vec<Expr<'g>>) {
        for one in self {
            one.list(arrays);
        }
    }

    fn replaced(&self, next: &mut dyn Iterator<Item = Expr<'g>>) -> Self {
        std::array::from_fn(|i| self[i].replaced(next))
    }
}

impl<'g, A: Carried<'g>, B: Carried<'g>> Carried<'g> for (A, B) {
    fn list(&self, arrays: &mut Vec<Expr<'g>>) {
        self.0.list(arrays);
        self.1.list(arrays);
    }

    fn replaced(&self, next: &mut dyn Iterator<Item = Expr<'g>>) -> Self {
        let first = self.0.replaced(next);
        (first, self.1.replaced(next))
    }
}
