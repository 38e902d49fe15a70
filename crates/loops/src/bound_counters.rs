//! `bound-counters`: notes the bounds of loop counters.
//!
//! `buffer.at[i].set(x)` needs no bounds check of `i` if `i` is a loop counter that starts at 0 and ends before the size
//! of the buffer. The number of iterations or a comparison in the condition determines the end.

use onnx::{Attr, DType, Edit, Fact, Graph, OpType, ValueId};

use crate::drop_carries::Carries;
use crate::{maker, number};

pub fn run(edit: &mut Edit<'_>) {
    for index in edit.nodes() {
        let Some(carries) = Carries::of(edit.node(index)) else { continue };
        let bounded = |carry| Counter::of(edit, index, carries, carry)?.bounded();
        let found: Vec<_> = (0..carries.count).filter_map(bounded).collect();
        for (counter, bounds) in found {
            edit.note_bounds(counter, bounds);
        }
    }
}

/// Loop state that increases by the same number in each iteration.
struct Counter<'e, 'm> {
    edit: &'e Edit<'m>,
    index: usize,
    body: &'e Graph,
    before: ValueId,
    after: ValueId,
    dtype: DType,
    start: i64,
    step: i64,
}

impl<'e, 'm> Counter<'e, 'm> {
    fn of(
        edit: &'e Edit<'m>,
        index: usize,
        carries: Carries,
        carry: usize,
    ) -> Option<Counter<'e, 'm>> {
        let body = edit.node(index).bodies().next()?;
        let before = body.inputs[carries.operands + carry];
        let after = original(body, body.outputs[carries.results + carry]);
        let dtype = edit.ty(before).filter(|ty| ty.rank() == 0)?.dtype;
        let sum = maker(&body.nodes, after)
            .filter(|sum| sum.op == OpType::Add && dtype.is_signed_int())?;
        let step = match sum.inputs[..] {
            [Some(a), Some(b)] if original(body, a) == before => number(edit, b)?,
            [Some(a), Some(b)] if original(body, b) == before => number(edit, a)?,
            _ => return None,
        };
        let start = number(edit, edit.input(index, carries.operands + carry)?)?;
        (step > 0).then_some(Counter { edit, index, body, before, after, dtype, start, step })
    }

    /// Returns the counter and its bounds, if it does not overflow.
    fn bounded(self) -> Option<(ValueId, (i64, i64))> {
        let (least, most) = Fact::of_type(self.dtype).ints()?;
        let (start, step) = (self.start, self.step);
        let by_iterations = || start.checked_add(step.checked_mul(self.iterations()? - 1)?);
        // The sum does not overflow if the next number is below a limit, and this number is not below the start.
        let by_condition = || {
            let limit = self.limit(most)?;
            let last = limit.checked_sub(1).filter(|&last| start <= last)?;
            last.checked_add(step).filter(|&next| next <= most).map(|_| last)
        };
        let last = by_iterations().or_else(by_condition)?;
        let fits = (least..=most).contains(&start) && last.checked_add(step)? <= most;
        (fits && start <= last).then_some((self.before, (start, last)))
    }

    /// Returns the number of iterations.
    fn iterations(&self) -> Option<i64> {
        let (edit, node) = (self.edit, self.edit.node(self.index));
        let iterations = if node.op == OpType::Loop {
            number(edit, edit.input(self.index, 0)?)?
        } else if let Some(&Attr::Int(arrays)) = node.attr("num_scan_inputs")
            && node.attr("scan_input_axes").is_none()
        {
            let first = node.inputs.len().checked_sub(usize::try_from(arrays).ok()?)?;
            edit.shape(edit.input(self.index, first)?)?.first()?.known()?
        } else {
            return None;
        };
        (iterations > 0).then_some(iterations)
    }

    /// Returns a number that is larger than the next number whenever there is another iteration. An unknown limit is at
    /// most `most`.
    fn limit(&self, most: i64) -> Option<i64> {
        let condition =
            self.body.outputs.first().filter(|_| self.edit.node(self.index).op == OpType::Loop)?;
        let mut open = vec![*condition];
        while let Some(flag) = open.pop() {
            let Some(node) = maker(&self.body.nodes, original(self.body, flag)) else { continue };
            let operand = |at: usize| node.inputs.get(at).copied().flatten();
            let is_next =
                |at: usize| operand(at).is_some_and(|id| original(self.body, id) == self.after);
            let limit = |at: usize| operand(at).and_then(|id| number(self.edit, id));
            match node.op.onnx() {
                Some(OpType::And) => open.extend(node.inputs.iter().flatten()),
                Some(OpType::Less) if is_next(0) => return limit(1).or(Some(most)),
                Some(OpType::Greater) if is_next(1) => return limit(0).or(Some(most)),
                Some(OpType::LessOrEqual) if is_next(0) && limit(1).is_some() => {
                    return limit(1)?.checked_add(1);
                }
                _ => {}
            }
        }
        None
    }
}

fn original(body: &Graph, value: ValueId) -> ValueId {
    super::original(|value| maker(&body.nodes, value), value)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_model;

    fn bound_and_simplify(model: &mut onnx::Model) {
        model.edit(&mut super::run);
        model.edit(&mut passes::canonicalize::everything);
    }

    #[test]
    fn a_counter_below_a_limit_needs_no_clamp() {
        check_model(
            bound_and_simplify,
            "graph g(x:f32[9], n:i32[], p:bool[]) -> (k, y)
k:i32[], y:f32[] = Loop(_, p, 0:i32, 1.0) {body={
  graph b(i:i64[], c:bool[], m:i32[], s:f32[]) -> (d, o, t)
  o:i32[] = Add(m, 1:i32)
  %0:i32[] = Clip(m, 0:i32, 8:i32)
  %1:f32[] = Gather(x, %0) {axis=0}
  t:f32[] = Add(s, %1)
  %2:bool[] = Less(o, 9:i32)
  %3:bool[] = Less(t, 9.0)
  d:bool[] = And(%2, %3)
}}",
            expect![[r#"
                graph g(x:f32[9], n:i32[], p:bool[]) -> (k, y)
                k:i32[], y:f32[] = Loop(_, p, 0:i32, 1.0) {body={  # 2
                  graph b(i:i64[], c:bool[], m:i32[], s:f32[]) -> (d, o, t)
                  o:i32[] = Add(m, 1:i32)  # 4
                  %0 = Gather(x, m) {axis=0}  # 6 5
                  t:f32[] = Add(s, %0)  # 7
                  %1 = Less(o, 9:i32)  # 8
                  %2 = Less(t, 9.0)  # 9
                  d:bool[] = And(%1, %2)  # 10
                }}
            "#]],
        );
    }

    #[test]
    fn a_limit_that_is_too_large_or_for_another_number_gives_no_bounds() {
        check_model(
            bound_and_simplify,
            "graph g(x:f32[9], n:i32[], p:bool[]) -> (k, j, y)
k:i32[], j:i32[], y:f32[] = Loop(_, p, 0:i32, 0:i32, 1.0) {body={
  graph b(i:i64[], c:bool[], m:i32[], l:i32[], s:f32[]) -> (d, o, q, t)
  o:i32[] = Add(m, 1:i32)
  q:i32[] = Add(l, 2:i32)
  %0:i32[] = Clip(m, 0:i32, 8:i32)
  %1:f32[] = Gather(x, %0) {axis=0}
  %2:i32[] = Clip(l, 0:i32, 8:i32)
  %3:f32[] = Gather(x, %2) {axis=0}
  t:f32[] = Add(%3, %1)
  d:bool[] = Less(o, 10:i32)
}}",
            expect![[r#"
                graph g(x:f32[9], n:i32[], p:bool[]) -> (k, j, y)
                k:i32[], j:i32[], y:f32[] = Loop(_, p, 0:i32, 0:i32, 1.0) {body={  # 2
                  graph b(i:i64[], c:bool[], m:i32[], l:i32[], s:f32[]) -> (d, o, q, t)
                  o:i32[] = Add(m, 1:i32)  # 4
                  q:i32[] = Add(l, 2:i32)  # 5
                  %0 = Clip(m, 0:i32, 8:i32)  # 6
                  %1 = Gather(x, %0) {axis=0}  # 7
                  %2 = Clip(l, 0:i32, 8:i32)  # 8
                  %3 = Gather(x, %2) {axis=0}  # 9
                  t:f32[] = Add(%3, %1)  # 10
                  d:bool[] = Less(o, 10:i32)  # 11
                }}
            "#]],
        );
    }
}
