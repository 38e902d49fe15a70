//! Steps in which a mask keeps the state.

use algebra::rewrite::{Result, ensure, require};
use onnx::{DType, Op, OpType, Patch, Tensor, ValueId};

use super::body::Body;
use super::moves::Move;

/// An array with a flag for each step and each example, which is false (or true, if it is negated) where the step keeps
/// the state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mask {
    pub array: ValueId,
    pub is_negated: bool,
}

/// The next state, where a mask does not keep the old one.
pub(super) struct Masked {
    pub new: ValueId,
    pub mask: Option<Mask>,
}

impl Mask {
    /// Reads the next state.
    pub(super) fn of(body: &Body<'_>, next: ValueId, state: ValueId) -> Option<Masked> {
        let Some((mask, on_true, on_false)) = chosen(body, next) else {
            return Some(Masked { new: next, mask: None });
        };
        let other = Mask { is_negated: !mask.is_negated, ..mask };
        match () {
            () if on_false == state => Some(Masked { new: on_true, mask: Some(mask) }),
            () if on_true == state => Some(Masked { new: on_false, mask: Some(other) }),
            () => None,
        }
    }
}

/// Reads a choice between two values by the flags of a step.
fn chosen(body: &Body<'_>, value: ValueId) -> Option<(Mask, ValueId, ValueId)> {
    let Some((OpType::Where, operands)) = body.formula(value) else { return None };
    let &[condition, on_true, on_false] = &operands[..] else { return None };
    let (mut flags, mut is_negated) = (body.view(condition), false);
    if let Some((OpType::Not, negated)) = body.formula(flags.value) {
        flags = body.peel(super::body::View { value: negated[0], ..flags });
        is_negated = true;
    }
    let is_reshape = |step: &Move| matches!(step, Move::Reshape { .. });
    require(flags.moves.iter().all(is_reshape) && body.is_per_example(condition, flags.value))?;
    let array = body.array(flags.value)?;
    Some((Mask { array, is_negated }, on_true, on_false))
}

/// The results of a step of the loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kept {
    /// The state, which is the old one in masked steps.
    State,
    /// The new state, and zeros in masked steps.
    Zeroed,
}

impl Kept {
    /// Reads the results of the steps.
    pub(super) fn of(
        body: &Body<'_>,
        hidden: usize,
        carries: usize,
        masked: &Masked,
    ) -> Option<Vec<Kept>> {
        let state = body.output(hidden)?;
        let stacks = carries..body.outputs();
        let kept = stacks.map(|number| {
            let output = body.output(number)?;
            if output == state || !body.is_read(number) {
                return Some(Kept::State);
            }
            let (mask, on_true, on_false) = chosen(body, output)?;
            let is_same = masked.mask.is_some_and(|own| own.array == mask.array);
            let is_opposite = masked.mask != Some(mask);
            let (new, zero) = if is_opposite { (on_false, on_true) } else { (on_true, on_false) };
            let is_zero = body.edit.tensor(zero).is_some_and(super::is_zero);
            let is_new = new == masked.new || new == state;
            (is_same && is_zero && is_new).then_some(Kept::Zeroed)
        });
        kept.collect()
    }
}

/// The mask as operands of the operator.
pub(super) struct Lengths {
    /// The numbers of steps, for `sequence_lens`.
    pub counts: ValueId,
    /// The flags of the steps that are not masked, in the shape of the operator's result, with one feature.
    pub flags: ValueId,
    /// True if the masked steps are the last ones, and each example has a step.
    pub are_prefixes: ValueId,
}

/// Inserts the nodes that compute the lengths of the examples.
///
/// With `s` the number of flags from a step on, a step with `s > 0` is not masked or comes before one that is not. If
/// there are as many of them as flags, no step in between is masked. ONNX Runtime returns zeros, and not the initial
/// state, for an example without steps.
pub(super) fn lengths(edit: &mut Patch<'_, '_>, mask: Mask, batch: usize) -> Result<Lengths> {
    let rank = edit.rank(mask.array).ok_or("the type of a value is unknown")?;
    let axes: &[i64] = match (batch, rank) {
        (0, 1) => &[1, 2, 3],
        (0, 2) => &[1, 2],
        (_, 2) => &[1, 3],
        _ => &[1],
    };
    let mut flags = edit.unsqueeze(mask.array, axes).ok_or("no axes")?;
    if mask.is_negated {
        flags = edit.insert(Op::new(OpType::Not, &[flags]));
    }
    let count =
        edit.insert(Op::new(OpType::Cast, &[flags]).attr("to", i64::from(DType::I32.code())));
    let none = edit.integers(&[]).ok_or("no axes")?;
    let total = |edit: &mut Patch<'_, '_>, value: ValueId| {
        edit.insert(Op::new(OpType::ReduceSum, &[value, none]).attr("keepdims", 0))
    };
    let others = edit.integers(&[0, 1, 3]).ok_or("no axes")?;
    let lengths = edit.insert(Op::new(OpType::ReduceSum, &[count, others]).attr("keepdims", 0));
    let one = Tensor::of_ints(DType::I32, Vec::new(), &[1]).ok_or("no number")?;
    let one = edit.constant(one, &[]);
    let first = edit.integer(0).ok_or("no axis")?;
    let left = edit.insert(Op::new(OpType::CumSum, &[count, first]).attr("reverse", 1));
    let is_before = edit.insert(Op::new(OpType::Min, &[left, one]));
    let gaps = edit.insert(Op::new(OpType::Sub, &[is_before, count]));
    let gaps = total(edit, gaps);
    let has_steps = edit.insert(Op::new(OpType::Min, &[lengths, one]));
    let empty = edit.insert(Op::new(OpType::Sub, &[one, has_steps]));
    let empty = total(edit, empty);
    let wrong = edit.insert(Op::new(OpType::Add, &[gaps, empty]));
    let are_lengths = edit.insert(Op::new(OpType::Less, &[wrong, one]));
    ensure(edit.dtype(are_lengths).is_some(), "the lengths have no type")?;
    Ok(Lengths { counts: lengths, flags, are_prefixes: are_lengths })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use testing::{check_ignoring_nan, each};

    /// A GRU whose next state `n` is `h1` after these nodes, with a mask over three examples.
    fn masked(nodes: &str, attributes: &str) -> String {
        format!(
            "graph g(x:f32[T,3,1], m:bool[T,3,1], h:f32[3,1]) -> (h2, ys)
h2:f32[3,1], ys:f32[T,3,1] = Scan(h, x, m) {{body={{
  graph b(h0:f32[3,1], x0:f32[3,1], m0:bool[3,1]) -> (h1, y1)
  wx:f32[3,3] = MatMul(x0, [[1.0, 2.0, 3.0]])
  wh:f32[3,3] = MatMul(h0, [[4.0, 5.0, 6.0]])
  xr:f32[3,1], xz:f32[3,1], xn:f32[3,1] = Split(wx, [1, 1, 1]:i64) {{axis=1}}
  hr:f32[3,1], hz:f32[3,1], hn:f32[3,1] = Split(wh, [1, 1, 1]:i64) {{axis=1}}
  sr:f32[3,1] = Add(xr, hr)
  r:f32[3,1] = Sigmoid(sr)
  sz:f32[3,1] = Add(xz, hz)
  u:f32[3,1] = Sigmoid(sz)
  rn:f32[3,1] = Mul(r, hn)
  sn:f32[3,1] = Add(xn, rn)
  n1:f32[3,1] = Tanh(sn)
  d:f32[3,1] = Sub(h0, n1)
  k:f32[3,1] = Mul(u, d)
  n:f32[3,1] = Add(n1, k)
{nodes}
}}, num_scan_inputs=2{attributes}}}"
        )
    }

    #[track_caller]
    fn check_masked(nodes: &str, attributes: &str, expect: Expect) {
        let text = masked(nodes, attributes);
        check_ignoring_nan(each(crate::recurrent::run), &text, expect);
    }

    #[test]
    fn a_device_takes_lengths_unless_the_sequence_runs_in_reverse() {
        let nodes = "  h1:f32[3,1] = Where(m0, n, h0)\n  y1:f32[3,1] = Identity(h1)";
        let reverse = ", scan_input_directions=[1, 1], scan_output_directions=[1]";
        for (attributes, is_fused) in [("", true), (reverse, false)] {
            let mut model = onnx::text::parse_graph(&masked(nodes, attributes)).unwrap();
            model.target = onnx::kernels::Target::parse(["onnxruntime-cuda"]).unwrap();
            model.exact_nan = false;
            let fuse = each(crate::recurrent::run);
            model.edit(&mut |edit| fuse(edit));
            assert_eq!(model.text().to_string().contains("GRU("), is_fused, "{attributes}");
        }
    }

    #[test]
    fn a_mask_of_lengths_is_computed_and_checked() {
        check_masked(
            "  h1:f32[3,1] = Where(m0, n, h0)
  y1:f32[3,1] = Identity(h1)",
            "",
            expect![[r#"
                graph g(x:f32[T,3,1], m:bool[T,3,1], h:f32[3,1]) -> (h2, ys)
                %0 = Unsqueeze(m, [1]:i64)  # 2
                %1 = Cast(%0) {to=6}  # 2
                %2 = ReduceSum(%1, [0, 1, 3]:i64) {keepdims=0}  # 2
                %3 = CumSum(%1, 0:i64) {reverse=1}  # 2
                %4 = Min(%3, 1:i32)  # 2
                %5 = Sub(%4, %1)  # 2
                %6 = ReduceSum(%5, []:i64) {keepdims=0}  # 2
                %7 = Min(%2, 1:i32)  # 2
                %8 = Sub(1:i32, %7)  # 2
                %9 = ReduceSum(%8, []:i64) {keepdims=0}  # 2
                %10 = Add(%6, %9)  # 2
                %11 = Less(%10, 1:i32)  # 2
                %12 = Size(x)  # 2
                %13 = Greater(%12, 0:i64)  # 2
                %14 = And(%11, %13)  # 2
                %15 = Unsqueeze(h, [0]:i64)  # 2
                %16, %17 = If(%14) {else_branch={  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
                  graph recurrent/scan() -> (%20, %21)
                  %18, %19 = Scan(h, x, m) {body={  # 2
                    graph b(h0:f32[3,1], x0:f32[3,1], m0:bool[3,1]) -> (h1, y1)
                    wx = MatMul(x0, [[1.0, 2.0, 3.0]])  # 4
                    wh = MatMul(h0, [[4.0, 5.0, 6.0]])  # 5
                    xr, xz, xn = Split(wx, [1, 1, 1]:i64) {axis=1}  # 6
                    hr, hz, hn = Split(wh, [1, 1, 1]:i64) {axis=1}  # 7
                    sr = Add(xr, hr)  # 8
                    r = Sigmoid(sr)  # 9
                    sz = Add(xz, hz)  # 10
                    u = Sigmoid(sz)  # 11
                    rn = Mul(r, hn)  # 12
                    sn = Add(xn, rn)  # 13
                    n1 = Tanh(sn)  # 14
                    d = Sub(h0, n1)  # 15
                    k = Mul(u, d)  # 16
                    n = Add(n1, k)  # 17
                    h1:f32[3,1] = Where(m0, n, h0)  # 18
                    y1:f32[3,1] = Identity(h1)  # 19
                  }, num_scan_inputs=2}
                  %20:f32[1,3,1] = Unsqueeze(%18, [0]:i64)  # 2
                  %21:f32[T,1,3,1] = Unsqueeze(%19, [1]:i64)  # 2
                }, then_branch={
                  graph recurrent/fused() -> (%23, %24)
                  %22, %23:f32[1,3,1] = GRU(x, [[[2.0], [1.0], [3.0]]], [[[5.0], [4.0], [6.0]]], [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0]], %2, %15) {hidden_size=1, linear_before_reset=1}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
                  %24:f32[T,1,3,1] = Where(%0, %22, %23)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
                }}
                h2:f32[3,1] = Squeeze(%16, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
                ys:f32[T,3,1] = Squeeze(%17, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
            "#]],
        );
    }

    #[test]
    fn a_negated_mask_in_reverse_keeps_the_initial_state() {
        check_masked(
            "  p:bool[3,1] = Not(m0)
  h1:f32[3,1] = Where(p, n, h0)
  y1:f32[3,1] = Identity(h1)",
            ", scan_input_directions=[1, 1], scan_output_directions=[1]",
            expect![[r#"
                graph g(x:f32[T,3,1], m:bool[T,3,1], h:f32[3,1]) -> (h2, ys)
                %0 = Unsqueeze(m, [1]:i64)  # 2
                %1 = Not(%0)  # 2
                %2 = Cast(%1) {to=6}  # 2
                %3 = ReduceSum(%2, [0, 1, 3]:i64) {keepdims=0}  # 2
                %4 = CumSum(%2, 0:i64) {reverse=1}  # 2
                %5 = Min(%4, 1:i32)  # 2
                %6 = Sub(%5, %2)  # 2
                %7 = ReduceSum(%6, []:i64) {keepdims=0}  # 2
                %8 = Min(%3, 1:i32)  # 2
                %9 = Sub(1:i32, %8)  # 2
                %10 = ReduceSum(%9, []:i64) {keepdims=0}  # 2
                %11 = Add(%7, %10)  # 2
                %12 = Less(%11, 1:i32)  # 2
                %13 = Size(x)  # 2
                %14 = Greater(%13, 0:i64)  # 2
                %15 = And(%12, %14)  # 2
                %16 = Unsqueeze(h, [0]:i64)  # 2
                %17, %18 = If(%15) {else_branch={  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
                  graph recurrent/scan() -> (%21, %22)
                  %19, %20 = Scan(h, x, m) {body={  # 2
                    graph b(h0:f32[3,1], x0:f32[3,1], m0:bool[3,1]) -> (h1, y1)
                    wx = MatMul(x0, [[1.0, 2.0, 3.0]])  # 4
                    wh = MatMul(h0, [[4.0, 5.0, 6.0]])  # 5
                    xr, xz, xn = Split(wx, [1, 1, 1]:i64) {axis=1}  # 6
                    hr, hz, hn = Split(wh, [1, 1, 1]:i64) {axis=1}  # 7
                    sr = Add(xr, hr)  # 8
                    r = Sigmoid(sr)  # 9
                    sz = Add(xz, hz)  # 10
                    u = Sigmoid(sz)  # 11
                    rn = Mul(r, hn)  # 12
                    sn = Add(xn, rn)  # 13
                    n1 = Tanh(sn)  # 14
                    d = Sub(h0, n1)  # 15
                    k = Mul(u, d)  # 16
                    n = Add(n1, k)  # 17
                    p = Not(m0)  # 18
                    h1:f32[3,1] = Where(p, n, h0)  # 19
                    y1:f32[3,1] = Identity(h1)  # 20
                  }, num_scan_inputs=2, scan_input_directions=[1, 1], scan_output_directions=[1]}
                  %21:f32[1,3,1] = Unsqueeze(%19, [0]:i64)  # 2
                  %22:f32[T,1,3,1] = Unsqueeze(%20, [1]:i64)  # 2
                }, then_branch={
                  graph recurrent/fused() -> (%24, %25)
                  %23, %24:f32[1,3,1] = GRU(x, [[[2.0], [1.0], [3.0]]], [[[5.0], [4.0], [6.0]]], [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0]], %3, %16) {direction="reverse", hidden_size=1, linear_before_reset=1}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
                  %25:f32[T,1,3,1] = Where(%1, %23, %16)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
                }}
                h2:f32[3,1] = Squeeze(%17, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
                ys:f32[T,3,1] = Squeeze(%18, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
            "#]],
        );
    }

    #[test]
    fn masked_steps_may_return_zeros() {
        check_masked(
            "  h1:f32[3,1] = Where(m0, n, h0)
  y1:f32[3,1] = Where(m0, h1, 0.0)",
            "",
            expect![[r#"
                graph g(x:f32[T,3,1], m:bool[T,3,1], h:f32[3,1]) -> (h2, ys)
                %0 = Unsqueeze(m, [1]:i64)  # 2
                %1 = Cast(%0) {to=6}  # 2
                %2 = ReduceSum(%1, [0, 1, 3]:i64) {keepdims=0}  # 2
                %3 = CumSum(%1, 0:i64) {reverse=1}  # 2
                %4 = Min(%3, 1:i32)  # 2
                %5 = Sub(%4, %1)  # 2
                %6 = ReduceSum(%5, []:i64) {keepdims=0}  # 2
                %7 = Min(%2, 1:i32)  # 2
                %8 = Sub(1:i32, %7)  # 2
                %9 = ReduceSum(%8, []:i64) {keepdims=0}  # 2
                %10 = Add(%6, %9)  # 2
                %11 = Less(%10, 1:i32)  # 2
                %12 = Size(x)  # 2
                %13 = Greater(%12, 0:i64)  # 2
                %14 = And(%11, %13)  # 2
                %15 = Unsqueeze(h, [0]:i64)  # 2
                %16, %17 = If(%14) {else_branch={  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
                  graph recurrent/scan() -> (%20, %21)
                  %18, %19 = Scan(h, x, m) {body={  # 2
                    graph b(h0:f32[3,1], x0:f32[3,1], m0:bool[3,1]) -> (h1, y1)
                    wx = MatMul(x0, [[1.0, 2.0, 3.0]])  # 4
                    wh = MatMul(h0, [[4.0, 5.0, 6.0]])  # 5
                    xr, xz, xn = Split(wx, [1, 1, 1]:i64) {axis=1}  # 6
                    hr, hz, hn = Split(wh, [1, 1, 1]:i64) {axis=1}  # 7
                    sr = Add(xr, hr)  # 8
                    r = Sigmoid(sr)  # 9
                    sz = Add(xz, hz)  # 10
                    u = Sigmoid(sz)  # 11
                    rn = Mul(r, hn)  # 12
                    sn = Add(xn, rn)  # 13
                    n1 = Tanh(sn)  # 14
                    d = Sub(h0, n1)  # 15
                    k = Mul(u, d)  # 16
                    n = Add(n1, k)  # 17
                    h1:f32[3,1] = Where(m0, n, h0)  # 18
                    y1:f32[3,1] = Where(m0, h1, 0.0)  # 19
                  }, num_scan_inputs=2}
                  %20:f32[1,3,1] = Unsqueeze(%18, [0]:i64)  # 2
                  %21:f32[T,1,3,1] = Unsqueeze(%19, [1]:i64)  # 2
                }, then_branch={
                  graph recurrent/fused() -> (%23, %22)
                  %22:f32[T,1,3,1], %23:f32[1,3,1] = GRU(x, [[[2.0], [1.0], [3.0]]], [[[5.0], [4.0], [6.0]]], [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0]], %2, %15) {hidden_size=1, linear_before_reset=1}  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
                }}
                h2:f32[3,1] = Squeeze(%16, [0]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
                ys:f32[T,3,1] = Squeeze(%17, [1]:i64)  # 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19
            "#]],
        );
    }

    #[test]
    fn a_step_that_returns_a_state_without_the_mask_stays() {
        check_masked(
            "  h1:f32[3,1] = Where(m0, n, h0)
  y1:f32[3,1] = Identity(n)",
            "",
            expect![[r#"
                graph g(x:f32[T,3,1], m:bool[T,3,1], h:f32[3,1]) -> (h2, ys)
                h2:f32[3,1], ys:f32[T,3,1] = Scan(h, x, m) {body={  # 2
                  graph b(h0:f32[3,1], x0:f32[3,1], m0:bool[3,1]) -> (h1, y1)
                  wx = MatMul(x0, [[1.0, 2.0, 3.0]])  # 4
                  wh = MatMul(h0, [[4.0, 5.0, 6.0]])  # 5
                  xr, xz, xn = Split(wx, [1, 1, 1]:i64) {axis=1}  # 6
                  hr, hz, hn = Split(wh, [1, 1, 1]:i64) {axis=1}  # 7
                  sr = Add(xr, hr)  # 8
                  r = Sigmoid(sr)  # 9
                  sz = Add(xz, hz)  # 10
                  u = Sigmoid(sz)  # 11
                  rn = Mul(r, hn)  # 12
                  sn = Add(xn, rn)  # 13
                  n1 = Tanh(sn)  # 14
                  d = Sub(h0, n1)  # 15
                  k = Mul(u, d)  # 16
                  n = Add(n1, k)  # 17
                  h1:f32[3,1] = Where(m0, n, h0)  # 18
                  y1:f32[3,1] = Identity(n)  # 19
                }, num_scan_inputs=2}
            "#]],
        );
    }
}
