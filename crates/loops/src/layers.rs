//! `split-layers`, `split-recurrences`: writes a scan over several cells, or over several recurrences, as one scan for
//! each.
//!
//! In `h = first(h, x); g = second(g, h)`, all steps of the first cell can run before those of the second one, which
//! then scans over the states of the first.

use algebra::rewrite::require;
use onnx::edit::{for_each_read, rename};
use onnx::{Node, OpType, Outcome, Patch, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::batches::Batches;
use super::linear::chunks::{keeps_recurrence, leaves_loop};
use super::recurrent::is_cell;
use super::{Array, Counted, Stack, copy_of, makers, replacing};

/// The most carries of a scan that is split.
const MAX_CARRIES: usize = 64;

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    split(
        edit,
        &Kind { max_states: 2, reads_before: false, is_found: |edit, index| is_cell(edit, index) },
    )
}

/// Splits recurrences that are computed without a loop if they are alone in it.
pub fn run_recurrences(edit: &mut Patch<'_, '_>) -> Outcome {
    require(keeps_recurrence(edit, edit.root()))?;
    split(edit, &Kind { max_states: 8, reads_before: true, is_found: leaves_loop })
}

/// A shape that the first part of a scan may have.
struct Kind {
    max_states: usize,
    /// True if the second part may read the states before a step too.
    reads_before: bool,
    /// True for the scan over the first part.
    is_found: fn(&mut Patch<'_, '_>, usize) -> bool,
}

fn split(edit: &mut Patch<'_, '_>, kind: &Kind) -> Outcome {
    let index = edit.root();
    require(edit.node(index).op == OpType::Scan)?;
    let mut rest = Counted::at(edit, index)?;
    require((2..=MAX_CARRIES).contains(&rest.carries.len()) && rest.keeps_order())?;
    let mut made: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    while let Some(parts) = Parts::of(&rest, kind) {
        let first = parts.first(edit, &rest)?;
        let (op, results) = first.clone().into_op(edit);
        let values = edit.insert_instead(op, &replacing(&results));
        let place = edit.producer(*values.first()?)?;
        require((kind.is_found)(edit, place))?;
        made.extend(results.into_iter().zip(values));
        rest = parts.rest(edit, &rest, &first, &mut made)?;
    }
    require(!made.is_empty())?;
    let (op, results) = rest.into_op(edit);
    let values = edit.insert_instead(op, &replacing(&results));
    made.extend(results.into_iter().zip(values));
    let outputs = edit.node(index).outputs.to_vec();
    let replaced = outputs.iter().map(|output| made.get(output).copied());
    let replaced: Vec<ValueId> = replaced.collect::<Option<_>>()?;
    edit.done(&[], replaced.into_iter().enumerate().collect::<Vec<_>>())
}

/// The nodes of a body, in two parts. The second one reads the first one's new states.
struct Parts {
    /// The indices of the carries of the first part.
    carries: Vec<usize>,
    first: FxHashSet<usize>,
    rest: FxHashSet<usize>,
    /// The states that the second part reads or that are stacked.
    read: Vec<ValueId>,
}

impl Parts {
    /// Finds a few carries that depend on no other, while another one is left.
    fn of(scan: &Counted, kind: &Kind) -> Option<Parts> {
        let makers: FxHashMap<ValueId, usize> = makers(&scan.nodes);
        let befores: Vec<ValueId> = scan.carries.iter().map(|carry| carry.before).collect();
        let needs: Vec<(FxHashSet<usize>, FxHashSet<ValueId>)> = scan
            .carries
            .iter()
            .map(|carry| behind(&scan.nodes, &makers, [carry.after], &FxHashSet::default()))
            .collect();
        let states_of = |carry: usize| {
            let mut states = vec![carry];
            let mut place = 0;
            while let Some(&state) = states.get(place) {
                for (other, before) in befores.iter().enumerate() {
                    if needs[state].1.contains(before) && !states.contains(&other) {
                        states.push(other);
                    }
                }
                if states.len() > kind.max_states {
                    return None;
                }
                place += 1;
            }
            Some(states).filter(|states| states.len() < befores.len())
        };
        (0..befores.len()).find_map(|carry| {
            let carries = states_of(carry)?;
            Parts::of_states(scan, kind, &makers, carries)
        })
    }

    fn of_states(
        scan: &Counted,
        kind: &Kind,
        makers: &FxHashMap<ValueId, usize>,
        carries: Vec<usize>,
    ) -> Option<Parts> {
        let own = |number: &usize| carries.contains(number);
        let afters = carries.iter().map(|&carry| original(scan, makers, scan.carries[carry].after));
        let afters: FxHashSet<ValueId> = afters.collect();
        let befores: FxHashSet<ValueId> =
            carries.iter().map(|&carry| scan.carries[carry].before).collect();
        let goals = carries.iter().map(|&carry| scan.carries[carry].after);
        let (first, _) = behind(&scan.nodes, makers, goals, &FxHashSet::default());
        let others = scan.carries.iter().enumerate().filter(|(number, _)| !own(number));
        let goals: Vec<ValueId> = others.map(|(_, carry)| carry.after).collect();
        let states: FxHashSet<ValueId> = afters.union(&befores).copied().collect();
        let (_, needed) = behind(&scan.nodes, makers, goals.iter().copied(), &states);
        require(!kind.reads_before || !needed.is_disjoint(&states))?;
        let is_own = |stack: &&Stack| afters.contains(&original(scan, makers, stack.element));
        let goals = goals
            .into_iter()
            .chain(scan.stacks.iter().filter(|stack| !is_own(stack)).map(|stack| stack.element));
        let (rest, values) = behind(&scan.nodes, makers, goals, &states);
        require(kind.reads_before || values.is_disjoint(&befores))?;
        require(!rest.is_empty())?;
        let is_stacked = |value: &ValueId| {
            scan.stacks.iter().any(|stack| original(scan, makers, stack.element) == *value)
        };
        let mut read: Vec<ValueId> = states
            .into_iter()
            .filter(|value| values.contains(value) || is_stacked(value))
            .collect();
        read.sort_unstable();
        require(!read.is_empty())?;
        Some(Parts { carries, first, rest, read })
    }

    /// Returns the scan over the first part.
    fn first(&self, edit: &mut Patch<'_, '_>, scan: &Counted) -> Option<Counted> {
        let mut first = scan.clone();
        let makers = makers(&scan.nodes);
        let mut number = 0;
        first.carries.retain(|_| {
            number += 1;
            self.carries.contains(&(number - 1))
        });
        let nodes = scan.nodes.iter().enumerate();
        first.nodes = nodes
            .filter(|(place, _)| self.first.contains(place))
            .map(|(_, node)| node.clone())
            .collect();
        let batches = Batches::new(scan.iterations.clone(), []);
        first.stacks.clear();
        for &value in &self.read {
            let own =
                scan.stacks.iter().find(|stack| original(scan, &makers, stack.element) == value);
            let ty = edit.ty(value)?.clone();
            let result = match own {
                Some(stack) => stack.result,
                None => edit.body_input(batches.batch(&ty)),
            };
            let element = edit.body_input(ty);
            let carry = scan.carries.iter().find(|carry| carry.before == value);
            let maker = makers.get(&carry.map_or(value, |carry| carry.after))?;
            first.nodes.push(copy_of(value, element, &scan.nodes[*maker]));
            first.stack(element, result);
        }
        Some(first)
    }

    /// Returns the scan over the second part. `made` has the results of the `first` one.
    fn rest(
        &self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        first: &Counted,
        made: &mut FxHashMap<ValueId, ValueId>,
    ) -> Option<Counted> {
        let mut rest = scan.clone();
        let makers = makers(&scan.nodes);
        let mut number = 0;
        rest.carries.retain(|_| {
            number += 1;
            !self.carries.contains(&(number - 1))
        });
        // Both bodies define their values.
        let mut renamed: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        for array in &mut rest.arrays {
            let element = edit.body_input(edit.ty(array.element)?.clone());
            renamed.insert(std::mem::replace(&mut array.element, element), element);
        }
        for (&value, stack) in self.read.iter().zip(&first.stacks) {
            let element = edit.body_input(edit.ty(value)?.clone());
            rest.arrays.push(Array { whole: *made.get(&stack.result)?, element });
            renamed.insert(value, element);
        }
        let nodes = scan.nodes.iter().enumerate();
        rest.nodes = nodes
            .filter(|(place, _)| self.rest.contains(place))
            .map(|(_, node)| node.clone())
            .collect();
        let shared = self.rest.intersection(&self.first).copied();
        for place in shared {
            require(scan.nodes[place].bodies().next().is_none())?;
            for &output in &scan.nodes[place].outputs {
                let other = edit.body_input(edit.ty(output)?.clone());
                renamed.insert(output, other);
            }
        }
        for node in &mut rest.nodes {
            for output in &mut node.outputs {
                *output = renamed.get(output).copied().unwrap_or(*output);
            }
            rename(node, &renamed);
        }
        for stack in &rest.stacks {
            let value = original(scan, &makers, stack.element);
            if let Some(place) = self.read.iter().position(|&read| read == value) {
                let result = *made.get(&first.stacks[place].result)?;
                made.insert(stack.result, result);
            }
        }
        rest.stacks.retain(|stack| !self.read.contains(&original(scan, &makers, stack.element)));
        for value in rest.carries.iter_mut().map(|carry| &mut carry.after) {
            *value = renamed.get(value).copied().unwrap_or(*value);
        }
        for stack in &mut rest.stacks {
            stack.element = renamed.get(&stack.element).copied().unwrap_or(stack.element);
        }
        Some(rest)
    }
}

/// Returns the value that `Identity` nodes copy to `value`.
fn original(scan: &Counted, makers: &FxHashMap<ValueId, usize>, value: ValueId) -> ValueId {
    super::original(|value| Some(&scan.nodes[*makers.get(&value)?]), value)
}

/// Returns the nodes that values depend on, and the values that these nodes read. Stops at some values.
fn behind(
    nodes: &[Node],
    makers: &FxHashMap<ValueId, usize>,
    goals: impl IntoIterator<Item = ValueId>,
    stop: &FxHashSet<ValueId>,
) -> (FxHashSet<usize>, FxHashSet<ValueId>) {
    let (mut places, mut values) = (FxHashSet::default(), FxHashSet::default());
    let mut open: Vec<ValueId> = goals.into_iter().collect();
    while let Some(value) = open.pop() {
        if !values.insert(value) || stop.contains(&value) {
            continue;
        }
        if let Some(&place) = makers.get(&value)
            && places.insert(place)
        {
            for_each_read(&nodes[place], &mut |id| open.push(id));
        }
    }
    (places, values)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use testing::{check_lean, each};

    /// The nodes of a GRU.
    fn cell(name: &str, state: &str, input: &str) -> String {
        format!(
            "  wx{name}:f32[3,3] = MatMul({input}, [[1.0, 2.0, 3.0]])
  wh{name}:f32[3,3] = MatMul({state}, [[4.0, 5.0, 6.0]])
  xr{name}:f32[3,1], xz{name}:f32[3,1], xn{name}:f32[3,1] = Split(wx{name}, [1, 1, 1]:i64) {{axis=1}}
  hr{name}:f32[3,1], hz{name}:f32[3,1], hn{name}:f32[3,1] = Split(wh{name}, [1, 1, 1]:i64) {{axis=1}}
  sr{name}:f32[3,1] = Add(xr{name}, hr{name})
  r{name}:f32[3,1] = Sigmoid(sr{name})
  sz{name}:f32[3,1] = Add(xz{name}, hz{name})
  u{name}:f32[3,1] = Sigmoid(sz{name})
  rn{name}:f32[3,1] = Mul(r{name}, hn{name})
  sn{name}:f32[3,1] = Add(xn{name}, rn{name})
  n{name}:f32[3,1] = Tanh(sn{name})
  d{name}:f32[3,1] = Sub({state}, n{name})
  k{name}:f32[3,1] = Mul(u{name}, d{name})
  h{name}:f32[3,1] = Add(n{name}, k{name})"
        )
    }

    #[track_caller]
    fn check(second: &str, expect: Expect) {
        let first = cell("1", "a", "x0");
        let text = format!(
            "graph g(x:f32[5,3,1], h:f32[3,1]) -> (last, ys, zs)
o:f32[3,1], last:f32[3,1], ys:f32[5,3,1], zs:f32[5,3,1] = Scan(h, h, x) {{body={{
  graph g2(a:f32[3,1], b:f32[3,1], x0:f32[3,1]) -> (h1, h2, y1, z1)
{first}
{second}
  y1:f32[3,1] = Identity(h1)
  z1:f32[3,1] = Identity(h2)
}}, num_scan_inputs=1}}"
        );
        check_lean(each(super::run), &text, expect);
    }

    #[test]
    fn the_second_cell_runs_over_the_states_of_the_first() {
        check(
            &cell("2", "b", "h1"),
            expect![[r#"
            graph g(x:f32[5,3,1], h:f32[3,1]) -> (last, ys, zs)
            o, ys:f32[5,3,1] = Scan(h, x) {body={  # 2
              graph g2(a:f32[3,1], x0:f32[3,1]) -> (h1, %0)
              wx1 = MatMul(x0, [[1.0, 2.0, 3.0]])  # 4
              wh1 = MatMul(a, [[4.0, 5.0, 6.0]])  # 5
              xr1, xz1, xn1 = Split(wx1, [1, 1, 1]:i64) {axis=1}  # 6
              hr1, hz1, hn1 = Split(wh1, [1, 1, 1]:i64) {axis=1}  # 7
              sr1 = Add(xr1, hr1)  # 8
              r1 = Sigmoid(sr1)  # 9
              sz1 = Add(xz1, hz1)  # 10
              u1 = Sigmoid(sz1)  # 11
              rn1 = Mul(r1, hn1)  # 12
              sn1 = Add(xn1, rn1)  # 13
              n1 = Tanh(sn1)  # 14
              d1 = Sub(a, n1)  # 15
              k1 = Mul(u1, d1)  # 16
              h1:f32[3,1] = Add(n1, k1)  # 17
              %0:f32[3,1] = Identity(h1)  # 17
            }, num_scan_inputs=1}
            last:f32[3,1], zs:f32[5,3,1] = Scan(h, ys) {body={  # 2
              graph g2(b:f32[3,1], %1:f32[3,1]) -> (h2, z1)
              wx2 = MatMul(%1, [[1.0, 2.0, 3.0]])  # 18
              wh2 = MatMul(b, [[4.0, 5.0, 6.0]])  # 19
              xr2, xz2, xn2 = Split(wx2, [1, 1, 1]:i64) {axis=1}  # 20
              hr2, hz2, hn2 = Split(wh2, [1, 1, 1]:i64) {axis=1}  # 21
              sr2 = Add(xr2, hr2)  # 22
              r2 = Sigmoid(sr2)  # 23
              sz2 = Add(xz2, hz2)  # 24
              u2 = Sigmoid(sz2)  # 25
              rn2 = Mul(r2, hn2)  # 26
              sn2 = Add(xn2, rn2)  # 27
              n2 = Tanh(sn2)  # 28
              d2 = Sub(b, n2)  # 29
              k2 = Mul(u2, d2)  # 30
              h2:f32[3,1] = Add(n2, k2)  # 31
              z1:f32[3,1] = Identity(h2)  # 33
            }, num_scan_inputs=1}
        "#]],
        );
    }

    #[test]
    fn a_cell_that_reads_the_old_state_of_the_first_stays() {
        check(
            &cell("2", "b", "a"),
            expect![[r#"
            graph g(x:f32[5,3,1], h:f32[3,1]) -> (last, ys, zs)
            o, last:f32[3,1], ys:f32[5,3,1], zs:f32[5,3,1] = Scan(h, h, x) {body={  # 2
              graph g2(a:f32[3,1], b:f32[3,1], x0:f32[3,1]) -> (h1, h2, y1, z1)
              wx1 = MatMul(x0, [[1.0, 2.0, 3.0]])  # 4
              wh1 = MatMul(a, [[4.0, 5.0, 6.0]])  # 5
              xr1, xz1, xn1 = Split(wx1, [1, 1, 1]:i64) {axis=1}  # 6
              hr1, hz1, hn1 = Split(wh1, [1, 1, 1]:i64) {axis=1}  # 7
              sr1 = Add(xr1, hr1)  # 8
              r1 = Sigmoid(sr1)  # 9
              sz1 = Add(xz1, hz1)  # 10
              u1 = Sigmoid(sz1)  # 11
              rn1 = Mul(r1, hn1)  # 12
              sn1 = Add(xn1, rn1)  # 13
              n1 = Tanh(sn1)  # 14
              d1 = Sub(a, n1)  # 15
              k1 = Mul(u1, d1)  # 16
              h1:f32[3,1] = Add(n1, k1)  # 17
              wx2 = MatMul(a, [[1.0, 2.0, 3.0]])  # 18
              wh2 = MatMul(b, [[4.0, 5.0, 6.0]])  # 19
              xr2, xz2, xn2 = Split(wx2, [1, 1, 1]:i64) {axis=1}  # 20
              hr2, hz2, hn2 = Split(wh2, [1, 1, 1]:i64) {axis=1}  # 21
              sr2 = Add(xr2, hr2)  # 22
              r2 = Sigmoid(sr2)  # 23
              sz2 = Add(xz2, hz2)  # 24
              u2 = Sigmoid(sz2)  # 25
              rn2 = Mul(r2, hn2)  # 26
              sn2 = Add(xn2, rn2)  # 27
              n2 = Tanh(sn2)  # 28
              d2 = Sub(b, n2)  # 29
              k2 = Mul(u2, d2)  # 30
              h2:f32[3,1] = Add(n2, k2)  # 31
              y1:f32[3,1] = Identity(h1)  # 32
              z1:f32[3,1] = Identity(h2)  # 33
            }, num_scan_inputs=1}
        "#]],
        );
    }
}
