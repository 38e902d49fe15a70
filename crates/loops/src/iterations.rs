//! `count-iterations`: gives a loop its number of iterations, if its condition compares a counter with a constant.
//!
//! `while_loop(lambda s: s[0] < 100, …)` is a `for` loop. If the number of iterations is known, the other rewrites of
//! loops apply to it. If there is another condition too, it stays, and the `Loop` itself counts.

use algebra::rewrite::require;
use onnx::{DType, Edit, Fact, Graph, Node, Op, OpType, Outcome, Patch, ValueId};

use super::{node_reads, number, plus_constant};

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    require(edit.node(index).op == OpType::Loop && edit.input(index, 0).is_none())?;
    let body = edit.node(index).bodies().next()?;
    let end = End::of(edit, body)?;
    let start = number(edit, edit.input(index, 2 + end.carry)?)?;
    let iterations = end.iterations(start)?;
    let mut body = body.clone();
    if let Some(other) = end.other {
        let again = body.nodes.iter().find(|node| node.outputs[..] == body.outputs[..1]);
        for node in [again?, &body.nodes[end.place]] {
            edit.take_lines(node);
        }
        body.outputs[0] = other;
    } else {
        let again = &mut body.nodes[end.place];
        again.op = OpType::Identity.into();
        again.inputs = [Some(body.inputs[1])].into_iter().collect();
    }
    let iterations = edit.integer(iterations)?;
    let mut inputs = edit.inputs(index);
    inputs[0] = Some(iterations);
    let op = Op { op: OpType::Loop.into(), inputs, attrs: Vec::new() }.attr("body", body);
    edit.done(&[], op)
}

/// A condition that becomes false when a counter reaches a limit.
struct End {
    /// The index of the comparison in the body.
    place: usize,
    /// The rest of the condition, if there is more.
    other: Option<ValueId>,
    comparison: OpType,
    limit: i64,
    /// The index of the counter among the carries, and the number that an iteration adds to it.
    carry: usize,
    step: i64,
    dtype: DType,
}

impl End {
    fn of(edit: &Edit<'_>, body: &Graph) -> Option<End> {
        let (&again, after) = body.outputs.split_first()?;
        let maker = |id: ValueId| body.nodes.iter().position(|node| node.outputs[..] == [id]);
        let place = maker(again)?;
        let is_read =
            after.contains(&again) || body.nodes.iter().any(|node: &Node| node_reads(node, again));
        let operands = |place: usize| match body.nodes[place].inputs[..] {
            [Some(a), Some(b)] => Some((a, b)),
            _ => None,
        };
        let compared = |place: usize, other: Option<ValueId>| {
            let (a, b) = operands(place)?;
            let op = body.nodes[place].op.onnx()?;
            let (next, limit, comparison) = match number(edit, b) {
                Some(limit) => (a, limit, op),
                None => (b, number(edit, a)?, turned(op)?),
            };
            let (before, step) = plus_constant(edit, &body.nodes[maker(next)?])?;
            let carry = after.iter().position(|&after| after == next)?;
            let ty = edit.ty(next).filter(|ty| ty.dtype.is_signed_int() && ty.rank() == 0)?;
            let is_counter = body.inputs.get(2 + carry) == Some(&before);
            let end = End { place, other, comparison, limit, carry, step, dtype: ty.dtype };
            is_counter.then_some(end)
        };
        if body.nodes[place].op != OpType::And {
            return compared(place, None).filter(|_| !is_read);
        }
        let (a, b) = operands(place)?;
        let beside = |end: ValueId, other: ValueId| {
            let is_own = maker(other).is_some() && !body.outputs.contains(&other);
            compared(maker(end)?, Some(other)).filter(|_| is_own)
        };
        beside(a, b).or_else(|| beside(b, a))
    }

    /// Returns the number of iterations. The first one always runs. `None` if the counter never reaches the limit, or
    /// overflows before.
    fn iterations(&self, start: i64) -> Option<i64> {
        let (start, limit, step) =
            (i128::from(start), i128::from(self.limit), i128::from(self.step));
        let way = if step > 0 { limit - start } else { start - limit };
        let whole = way.checked_div_euclid(step.abs())?;
        let iterations = match self.comparison {
            OpType::Less if step > 0 => whole + i128::from(way % step != 0),
            OpType::Greater if step < 0 => whole + i128::from(way % step != 0),
            OpType::LessOrEqual if step > 0 => whole + 1,
            OpType::GreaterOrEqual if step < 0 => whole + 1,
            _ => return None,
        };
        let iterations = iterations.max(1);
        let (least, most) = Fact::of_type(self.dtype).ints()?;
        let is_in_range =
            (i128::from(least)..=i128::from(most)).contains(&(start + iterations * step));
        is_in_range.then(|| iterations.try_into().ok())?
    }
}

/// Returns the same comparison with swapped operands.
fn turned(comparison: OpType) -> Option<OpType> {
    Some(match comparison {
        OpType::Less => OpType::Greater,
        OpType::LessOrEqual => OpType::GreaterOrEqual,
        OpType::Greater => OpType::Less,
        OpType::GreaterOrEqual => OpType::LessOrEqual,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, check_lean, each};

    #[test]
    fn a_loop_that_a_counter_ends_has_a_number_of_rounds() {
        check_lean(
            each(super::run),
            "graph g(x:f32[]) -> (y, z)
%0:i32[], y:f32[] = Loop(_, true, 2:i32, x) {body={
  graph b(i:i64[], c:bool[], n:i32[], v:f32[]) -> (d, m, w)
  m:i32[] = Add(n, 3:i32)
  w:f32[] = Sin(v)
  d:bool[] = Less(m, 10:i32)
}}
%1:i32[], z:f32[] = Loop(_, true, 5:i32, x) {body={
  graph b2(i2:i64[], c2:bool[], n2:i32[], v2:f32[]) -> (d2, m2, w2)
  m2:i32[] = Add(-1:i32, n2)
  w2:f32[] = Sin(v2)
  d2:bool[] = LessOrEqual(0:i32, m2)
}}",
            expect![[r#"
                graph g(x:f32[]) -> (y, z)
                %0, y:f32[] = Loop(3:i64, true, 2:i32, x) {body={  # 2
                  graph b(i:i64[], c:bool[], n:i32[], v:f32[]) -> (d, m, w)
                  m:i32[] = Add(n, 3:i32)  # 4
                  w:f32[] = Sin(v)  # 5
                  d:bool[] = Identity(c)  # 6
                }}
                %1, z:f32[] = Loop(6:i64, true, 5:i32, x) {body={  # 8
                  graph b2(i2:i64[], c2:bool[], n2:i32[], v2:f32[]) -> (d2, m2, w2)
                  m2:i32[] = Add(-1:i32, n2)  # 10
                  w2:f32[] = Sin(v2)  # 11
                  d2:bool[] = Identity(c2)  # 12
                }}
            "#]],
        );
    }

    #[test]
    fn another_condition_stays() {
        check_lean(
            each(super::run),
            "graph g(x:f32[], p:bool[]) -> (y)
%0:i32[], y:f32[] = Loop(_, p, 0:i32, x) {body={
  graph b(i:i64[], c:bool[], n:i32[], v:f32[]) -> (d, m, w)
  m:i32[] = Add(n, 1:i32)
  w:f32[] = Sin(v)
  %1:bool[] = Less(w, 0.5)
  %2:bool[] = Less(m, 10:i32)
  d:bool[] = And(%1, %2)
}}",
            expect![[r#"
                graph g(x:f32[], p:bool[]) -> (y)
                %0, y:f32[] = Loop(10:i64, p, 0:i32, x) {body={  # 2 7 8
                  graph b(i:i64[], c:bool[], n:i32[], v:f32[]) -> (%1, m, w)
                  m:i32[] = Add(n, 1:i32)  # 4
                  w:f32[] = Sin(v)  # 5
                  %1:bool[] = Less(w, 0.5)  # 6
                }}
            "#]],
        );
    }

    #[test]
    fn a_counter_that_ends_nothing_or_overflows_gives_no_number() {
        check(
            each(super::run),
            "graph g(x:f32[], n:i32[]) -> (y, z, u)
%0:i32[], y:f32[] = Loop(_, true, n, x) {body={
  graph b(i:i64[], c:bool[], k:i32[], v:f32[]) -> (d, m, w)
  m:i32[] = Add(k, 1:i32)
  w:f32[] = Sin(v)
  d:bool[] = Less(m, 10:i32)
}}
%1:i32[], z:f32[] = Loop(_, true, 0:i32, x) {body={
  graph b2(i2:i64[], c2:bool[], k2:i32[], v2:f32[]) -> (d2, m2, w2)
  m2:i32[] = Add(k2, 1:i32)
  w2:f32[] = Sin(v2)
  d2:bool[] = Greater(m2, -10:i32)
}}
%2:i32[], u:f32[] = Loop(_, true, 2147483000:i32, x) {body={
  graph b3(i3:i64[], c3:bool[], k3:i32[], v3:f32[]) -> (d3, m3, w3)
  m3:i32[] = Add(k3, 600:i32)
  w3:f32[] = Sin(v3)
  d3:bool[] = LessOrEqual(m3, 2147483647:i32)
}}",
            expect![[r#"
                graph g(x:f32[], n:i32[]) -> (y, z, u)
                %0, y:f32[] = Loop(_, true, n, x) {body={  # 2
                  graph b(i:i64[], c:bool[], k:i32[], v:f32[]) -> (d, m, w)
                  m:i32[] = Add(k, 1:i32)  # 4
                  w:f32[] = Sin(v)  # 5
                  d:bool[] = Less(m, 10:i32)  # 6
                }}
                %1, z:f32[] = Loop(_, true, 0:i32, x) {body={  # 8
                  graph b2(i2:i64[], c2:bool[], k2:i32[], v2:f32[]) -> (d2, m2, w2)
                  m2:i32[] = Add(k2, 1:i32)  # 10
                  w2:f32[] = Sin(v2)  # 11
                  d2:bool[] = Greater(m2, -10:i32)  # 12
                }}
                %2, u:f32[] = Loop(_, true, 2147483000:i32, x) {body={  # 14
                  graph b3(i3:i64[], c3:bool[], k3:i32[], v3:f32[]) -> (d3, m3, w3)
                  m3:i32[] = Add(k3, 600:i32)  # 16
                  w3:f32[] = Sin(v3)  # 17
                  d3:bool[] = LessOrEqual(m3, 2147483647:i32)  # 18
                }}
            "#]],
        );
    }

    #[test]
    fn rounds_are_counted_as_the_condition_does() {
        let end = |comparison, limit, step| super::End {
            place: 0,
            other: None,
            comparison,
            limit,
            carry: 0,
            step,
            dtype: onnx::DType::I32,
        };
        let holds = |comparison, a: i64, b: i64| match comparison {
            onnx::OpType::Less => a < b,
            onnx::OpType::LessOrEqual => a <= b,
            onnx::OpType::Greater => a > b,
            _ => a >= b,
        };
        let comparisons = [
            (onnx::OpType::Less, 1),
            (onnx::OpType::LessOrEqual, 1),
            (onnx::OpType::Greater, -1),
            (onnx::OpType::GreaterOrEqual, -1),
        ];
        for (comparison, sign) in comparisons {
            for (limit, step) in (-7..8).flat_map(|limit| (1..5).map(move |step| (limit, step))) {
                let step = step * sign;
                let (mut number, mut rounds) = (step, 1);
                while holds(comparison, number, limit) {
                    (number, rounds) = (number + step, rounds + 1);
                }
                assert_eq!(
                    end(comparison, limit, step).iterations(0),
                    Some(rounds),
                    "{limit} {step}"
                );
            }
        }
    }
}
