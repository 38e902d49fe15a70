//! `unroll-loops`: unrolls short loops.
//!
//! An iteration of a loop costs ONNX Runtime about as much as two small nodes, and entering the loop as much as
//! sixteen. In an unrolled loop, taking an entry of an array and adding one to a result are nodes, unless the array
//! is a constant.

use algebra::rewrite::{Declined, Result, ensure};
use onnx::kernels::Limit;
use onnx::{Edit, Op, OpType, Outcome, Patch, ValueId};
use options::Options;
use rustc_hash::FxHashMap;

use super::{Counted, results_in_place};

/// The costs of a loop in tenths of a small node: to enter it, per iteration, and per carried value.
const ENTRY: i64 = 160;
const ITERATION: i64 = 20;
const CARRY: i64 = 4;

/// The cost of a node that takes an element of an array or adds one to a result.
const ACCESS: i64 = 10;

/// The most nodes of a loop in a loop that has to be unrolled, because a runtime does not start it again.
const MAX_NEEDED: usize = 512;

/// Such nodes cost much of what unrolling saves. If more than one in this many nodes is one, or if the loop stacks
/// results, the limit of nodes is this many times lower.
const WITH_ACCESSES: usize = 4;

pub fn run(edit: &mut Edit<'_>, options: &Options) {
    for index in (0..edit.len()).filter(|&index| edit.is_live(index)).collect::<Vec<_>>() {
        edit.patch(index, |patch| run_at(patch, options.unroll));
    }
}

fn run_at(patch: &mut Patch<'_, '_>, max_nodes: usize) -> Outcome {
    let counted = Counted::at(patch, patch.root())?;
    let iterations = counted.iterations.known()?;
    let is_needed = patch.is_in_loop() && patch.target().has_limit(Limit::ScanRestarts);
    let max_nodes = if is_needed { MAX_NEEDED } else { max_nodes };
    let results = unroll(patch, &counted, iterations, max_nodes, is_needed);
    patch.settle(results)
}

fn unroll(
    edit: &mut Patch<'_, '_>,
    counted: &Counted,
    iterations: i64,
    max_nodes: usize,
    is_needed: bool,
) -> Result<Vec<(usize, ValueId)>> {
    ensure(iterations >= 1, "the loop has no iterations")?;
    let is_forward = !counted.stacks.iter().any(|stack| stack.is_reverse);
    ensure(
        counted.stacks.is_empty() || is_needed && is_forward,
        "the loop stacks results of its iterations",
    )?;
    ensure(
        !counted.nodes.iter().any(|node| node.bodies().next().is_some()),
        "an iteration contains a loop or a branch",
    )?;
    ensure(!counted.nodes.iter().any(|node| !node.op.is_onnx()), "an iteration calls a function")?;
    let is_constant = |id: ValueId| edit.tensor(id).is_some();
    let is_weight = |id: ValueId| is_constant(id) && edit.name(id).is_some();
    ensure(
        !counted.arrays.iter().any(|array| is_weight(array.whole)),
        "the loop runs over weights, which would be split",
    )?;
    let arrays = counted.arrays.iter().filter(|array| !is_constant(array.whole)).count();
    let accesses = arrays as i64;
    let copies = |node: &&onnx::Node| node.op == OpType::Identity;
    let computed = counted.nodes.len() - counted.nodes.iter().filter(copies).count();
    let nodes = iterations.saturating_mul(computed as i64 + accesses);
    let has_few = arrays * WITH_ACCESSES <= computed;
    let max_nodes = if has_few || is_needed { max_nodes } else { max_nodes / WITH_ACCESSES };
    if nodes > max_nodes as i64 {
        return Err(Declined(format!(
            "the unrolled loop would have {nodes} nodes, more than {max_nodes}"
        )));
    }
    let carried = CARRY * counted.carries.len() as i64;
    let is_faster = ENTRY + iterations * (ITERATION + carried) > iterations * ACCESS * accesses;
    ensure(
        is_faster || is_needed,
        "splitting the inputs would take as many nodes as unrolling saves",
    )?;
    let unknown = || Declined::from("the type of a value is unknown");
    let mut carried: Vec<ValueId> = counted.carries.iter().map(|carry| carry.initial).collect();
    let mut stacked: Vec<Vec<ValueId>> = vec![Vec::new(); counted.stacks.len()];
    for iteration in 0..iterations {
        let mut values: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        values.extend(counted.carries.iter().map(|carry| carry.before).zip(carried));
        if let Some(counter) = counted.counter {
            values.insert(counter.number, edit.integer(iteration).ok_or_else(unknown)?);
            values.extend(counter.condition.map(|condition| (counter.flag, condition)));
        }
        for array in &counted.arrays {
            let place = if counted.is_reverse { iterations - 1 - iteration } else { iteration };
            let place = edit.integer(place).ok_or_else(unknown)?;
            let op = Op::new(OpType::Gather, &[array.whole, place]).attr("axis", 0);
            values.insert(array.element, edit.insert(op));
        }
        edit.insert_round(iteration as usize, &counted.nodes, &mut values);
        let now = |id: ValueId| values.get(&id).copied().unwrap_or(id);
        carried = counted.carries.iter().map(|carry| now(carry.after)).collect();
        for (stack, entries) in counted.stacks.iter().zip(&mut stacked) {
            let axis = edit.integers(&[0]).ok_or_else(unknown)?;
            entries.push(edit.insert(Op::new(OpType::Unsqueeze, &[now(stack.element), axis])));
        }
    }
    let mut results: Vec<(ValueId, ValueId)> = Vec::new();
    for (carry, last) in counted.carries.iter().zip(carried) {
        let last = edit.insert(Op::new(OpType::Identity, &[last]));
        results.push((carry.result, last));
    }
    for (stack, entries) in counted.stacks.iter().zip(stacked) {
        let whole = edit.insert(Op::new(OpType::Concat, &entries).attr("axis", 0));
        results.push((stack.result, whole));
    }
    Ok(results_in_place(edit, results))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use onnx::Edit;
    use options::Options;

    use testing::check_lean;

    fn unroll(edit: &mut Edit<'_>, unroll: usize) {
        super::run(edit, &Options { unroll, ..Options::default() });
    }

    #[test]
    fn the_iterations_of_a_short_loop_are_unrolled_with_their_lines() {
        check_lean(
            |edit| unroll(edit, 16),
            "graph g(x:f32[3]) -> (y)
y:f32[3] = Loop(3:i64, true, x) {body={
  graph b(i:i64[], c:bool[], v:f32[3]) -> (d, w)
  d:bool[] = Identity(c)
  %0:f32[] = Cast(i) {to=1}
  %1:f32[3] = Sin(v)
  w:f32[3] = Add(%1, %0)
}}",
            expect![[r#"
                graph g(x:f32[3]) -> (y)
                %0 = Cast(0:i64) {to=1}  # 5
                %1 = Sin(x)  # 6
                %2 = Add(%1, %0)  # 7
                %3 = Cast(1:i64) {to=1}  # 5
                %4 = Sin(%2)  # 6
                %5 = Add(%4, %3)  # 7
                %6 = Cast(2:i64) {to=1}  # 5
                %7 = Sin(%5)  # 6
                %8 = Add(%7, %6)  # 7
                y:f32[3] = Identity(%8)  # 2
            "#]],
        );
    }

    #[test]
    fn a_scan_in_a_scan_is_unrolled_for_a_runtime_that_does_not_start_it_again() {
        testing::check_for(
            "tract",
            |patch| super::run_at(patch, 0),
            "graph g(x:f32[3], xs:f32[4,2,3]) -> (y)
y:f32[3], s:f32[4,2,3] = Scan(x, xs) {body={
  graph b(v:f32[3], e:f32[2,3]) -> (w, t)
  %0:f32[3] = Neg(v)
  %1:f32[3], t:f32[2,3] = Scan(%0, e) {body={
    graph c(a:f32[3], r:f32[3]) -> (n, m)
    n:f32[3] = Add(a, r)
    m:f32[3] = Sin(n)
  }, num_scan_inputs=1}
  w:f32[3] = Exp(%1)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(x:f32[3], xs:f32[4,2,3]) -> (y)
                y:f32[3], s = Scan(x, xs) {body={  # 2
                  graph b(v:f32[3], e:f32[2,3]) -> (w, t)
                  %0 = Neg(v)  # 4
                  %1 = Gather(e, 0:i64) {axis=0}  # 5
                  %2 = Add(%0, %1)  # 7
                  %3 = Sin(%2)  # 8
                  %4 = Unsqueeze(%3, [0]:i64)  # 5
                  %5 = Gather(e, 1:i64) {axis=0}  # 5
                  %6 = Add(%2, %5)  # 7
                  %7 = Sin(%6)  # 8
                  %8 = Unsqueeze(%7, [0]:i64)  # 5
                  %9 = Identity(%6)  # 5
                  t:f32[2,3] = Concat(%4, %8) {axis=0}  # 5
                  w:f32[3] = Exp(%9)  # 10
                }, num_scan_inputs=1}
            "#]],
        );
    }

    #[test]
    fn a_long_loop_a_nested_one_and_one_of_unknown_length_stay() {
        check_lean(
            |edit| unroll(edit, 4),
            "graph g(x:f32[3], xs:f32[N,3], p:bool[]) -> (y, z, u)
y:f32[3] = Loop(5:i64, true, x) {body={
  graph b(i:i64[], c:bool[], v:f32[3]) -> (d, w)
  d:bool[] = Identity(c)
  w:f32[3] = Sin(v)
}}
z:f32[3] = Scan(x, xs) {body={
  graph e(q:f32[3], r:f32[3]) -> (s)
  s:f32[3] = Add(q, r)
}, num_scan_inputs=1}
u:f32[3] = Loop(2:i64, true, x) {body={
  graph b2(i2:i64[], c2:bool[], v2:f32[3]) -> (d2, w2)
  d2:bool[] = Identity(c2)
  w2:f32[3] = If(p) {else_branch={
    graph f() -> (q2)
    q2:f32[3] = Sin(v2)
  }, then_branch={
    graph t() -> (r2)
    r2:f32[3] = Cos(v2)
  }}
}}",
            expect![[r#"
                graph g(x:f32[3], xs:f32[N,3], p:bool[]) -> (y, z, u)
                y:f32[3] = Loop(5:i64, true, x) {body={  # 2
                  graph b(i:i64[], c:bool[], v:f32[3]) -> (d, w)
                  d:bool[] = Identity(c)  # 4
                  w:f32[3] = Sin(v)  # 5
                }}
                z:f32[3] = Scan(x, xs) {body={  # 7
                  graph e(q:f32[3], r:f32[3]) -> (s)
                  s:f32[3] = Add(q, r)  # 9
                }, num_scan_inputs=1}
                u:f32[3] = Loop(2:i64, true, x) {body={  # 11
                  graph b2(i2:i64[], c2:bool[], v2:f32[3]) -> (d2, w2)
                  d2:bool[] = Identity(c2)  # 13
                  w2:f32[3] = If(p) {else_branch={  # 14
                    graph f() -> (q2)
                    q2:f32[3] = Sin(v2)  # 16
                  }, then_branch={
                    graph t() -> (r2)
                    r2:f32[3] = Cos(v2)  # 19
                  }}
                }}
            "#]],
        );
    }

    #[test]
    fn unrolled_iterations_take_rows_in_the_direction_of_the_scan() {
        check_lean(
            |edit| unroll(edit, 40),
            "graph g(x:f32[3], xs:f32[2,3]) -> (y)
y:f32[3] = Scan(x, xs) {body={
  graph b(v:f32[3], e:f32[3]) -> (w)
  w:f32[3] = Sub(v, e)
}, num_scan_inputs=1, scan_input_directions=[1]}",
            expect![[r#"
                graph g(x:f32[3], xs:f32[2,3]) -> (y)
                %0 = Gather(xs, 1:i64) {axis=0}  # 2
                %1 = Sub(x, %0)  # 4
                %2 = Gather(xs, 0:i64) {axis=0}  # 2
                %3 = Sub(%1, %2)  # 4
                y:f32[3] = Identity(%3)  # 2
            "#]],
        );
    }

    #[test]
    fn a_loop_that_stacks_results_is_kept() {
        check_lean(
            |edit| unroll(edit, 40),
            "graph g(x:f32[3], xs:f32[2,3]) -> (y, ys)
y:f32[3], ys:f32[2,3] = Scan(x, xs) {body={
  graph b(v:f32[3], e:f32[3]) -> (w, o)
  w:f32[3] = Sub(v, e)
  o:f32[3] = Neg(w)
}, num_scan_inputs=1}",
            expect![[r#"
                graph g(x:f32[3], xs:f32[2,3]) -> (y, ys)
                y:f32[3], ys:f32[2,3] = Scan(x, xs) {body={  # 2
                  graph b(v:f32[3], e:f32[3]) -> (w, o)
                  w:f32[3] = Sub(v, e)  # 4
                  o:f32[3] = Neg(w)  # 5
                }, num_scan_inputs=1}
            "#]],
        );
    }
}
