//! `merge-choices`: merges the choices that depend on one flag in a loop into one `If`.
//!
//! An adaptive solver keeps a step or repeats it: `jnp.where(is_accepted, new, old)` for each part of its state. In
//! ONNX Runtime, a `Where` of small arrays takes 1.2 µs, and needs four nodes if the sign of a zero matters. An `If`
//! takes 0.7 µs, plus 0.5 µs per result, and keeps all signs.

use algebra::rewrite::require;
use onnx::{DType, Edit, Op, OpType, Outcome, Patch, Type, ValueId};

pub fn run(edit: &mut Edit<'_>) {
    // A device copies the flag of an `If` to the CPU.
    if !edit.is_in_loop() || edit.target().device_name().is_some() {
        return;
    }
    // Each group has independent choices with the same flag.
    let mut groups: Vec<Vec<Choice>> = Vec::new();
    for index in edit.nodes() {
        let Some(choice) = Choice::at(edit, index) else { continue };
        match groups.iter_mut().find(|group| takes(edit, group, &choice)) {
            Some(group) => group.push(choice),
            None => groups.push(vec![choice]),
        }
    }
    for group in groups.iter().filter(|group| group.len() > 1) {
        edit.patch(group[group.len() - 1].index, |patch| merge(patch, group));
    }
}

/// A `Where` with a scalar flag and two values of the type of its result.
struct Choice {
    index: usize,
    flag: ValueId,
    on_true: ValueId,
    on_false: ValueId,
}

impl Choice {
    fn at(edit: &Edit<'_>, index: usize) -> Option<Choice> {
        let node = edit.node(index);
        require(edit.is_live(index) && node.op == OpType::Where)?;
        let [flag, on_true, on_false] = [0, 1, 2].map(|operand| edit.input(index, operand));
        let (flag, on_true, on_false) = (flag?, on_true?, on_false?);
        let ty = edit.ty(node.outputs[0])?.clone();
        let is_flag = *edit.ty(flag)? == Type::new(DType::Bool, []);
        let is_whole = |value| edit.ty(value) == Some(&ty);
        (is_flag && is_whole(on_true) && is_whole(on_false)).then_some(Choice {
            index,
            flag,
            on_true,
            on_false,
        })
    }
}

/// True if a later choice has the same flag as a group, and no node up to it reads a result of the group.
fn takes(edit: &Edit<'_>, group: &[Choice], later: &Choice) -> bool {
    let is_read_before = |choice: &Choice| {
        let mut readers = edit.readers(edit.result(choice.index));
        readers.any(|reader| reader == later.index || edit.is_before(reader, later.index))
    };
    group.iter().all(|choice| choice.flag == later.flag && !is_read_before(choice))
}

/// Merges choices at the last one, which is the root.
fn merge(edit: &mut Patch<'_, '_>, choices: &[Choice]) -> Outcome {
    let flag = choices.first()?.flag;
    let mut branch = |name: &str, chosen: fn(&Choice) -> ValueId| {
        edit.branch(name, |edit| {
            let copy = |choice: &Choice| {
                edit.move_to(choice.index);
                edit.insert(Op::new(OpType::Identity, &[chosen(choice)]))
            };
            choices.iter().map(copy).collect()
        })
    };
    let on_true = branch("choice/true", |choice| choice.on_true);
    let on_false = branch("choice/false", |choice| choice.on_false);
    let merged: Vec<usize> = choices.iter().map(|choice| choice.index).collect();
    edit.move_to(edit.root());
    edit.take(&merged);
    let results = edit.insert_if(flag, on_true, on_false);
    for (choice, result) in merged.into_iter().zip(results) {
        edit.replace(choice, [], vec![(0, result)]).ok()?;
    }
    edit.finish()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check;

    #[test]
    fn choices_of_a_loop_with_one_flag_are_one_if() {
        check(
            super::run,
            "graph g(x:f32[3], s:f32[]) -> (y, z)
y:f32[3], z:f32[] = Loop(5:i64, true, x, s) {body={
  graph b(i:i64[], c:bool[], v:f32[3], t:f32[]) -> (d, w, u)
  d:bool[] = Identity(c)
  %0:f32[3] = Sin(v)
  %1:bool[] = Less(t, 1.0)
  w:f32[3] = Where(%1, %0, v)
  %2:f32[] = Add(t, 0.5)
  u:f32[] = Where(%1, %2, t)
}}",
            expect![[r#"
                graph g(x:f32[3], s:f32[]) -> (y, z)
                y:f32[3], z:f32[] = Loop(5:i64, true, x, s) {body={  # 2
                  graph b(i:i64[], c:bool[], v:f32[3], t:f32[]) -> (d, w, u)
                  d:bool[] = Identity(c)  # 4
                  %0 = Sin(v)  # 5
                  %1 = Less(t, 1.0)  # 6
                  %2 = Add(t, 0.5)  # 8
                  w:f32[3], u:f32[] = If(%1) {else_branch={  # 9 7
                    graph choice/false() -> (%3, %4)
                    %3:f32[3] = Identity(v)  # 7
                    %4:f32[] = Identity(t)  # 9
                  }, then_branch={
                    graph choice/true() -> (%5, %6)
                    %5:f32[3] = Identity(%0)  # 7
                    %6:f32[] = Identity(%2)  # 9
                  }}
                }}
            "#]],
        );
    }

    #[test]
    fn choices_by_a_flag_that_another_flag_chooses_are_a_second_if() {
        check(
            super::run,
            "graph g(x:f32[3], p:bool[]) -> (y, z)
y:f32[3], z:bool[] = Loop(5:i64, true, x, p) {body={
  graph b(i:i64[], c:bool[], v:f32[3], q:bool[]) -> (d, w, u)
  d:bool[] = Identity(c)
  %0:f32[3] = Sin(v)
  %1:f32[3] = Where(q, %0, v)
  %2:bool[] = Where(q, c, q)
  %3:f32[3] = Where(%2, %1, %0)
  %4:f32[3] = Where(%2, v, %1)
  w:f32[3] = Add(%3, %4)
  u:bool[] = Not(%2)
}}",
            expect![[r#"
                graph g(x:f32[3], p:bool[]) -> (y, z)
                y:f32[3], z:bool[] = Loop(5:i64, true, x, p) {body={  # 2
                  graph b(i:i64[], c:bool[], v:f32[3], q:bool[]) -> (d, w, u)
                  d:bool[] = Identity(c)  # 4
                  %0 = Sin(v)  # 5
                  %1, %2 = If(q) {else_branch={  # 7 6
                    graph choice/false() -> (%5, %6)
                    %5:f32[3] = Identity(v)  # 6
                    %6:bool[] = Identity(q)  # 7
                  }, then_branch={
                    graph choice/true() -> (%7, %8)
                    %7:f32[3] = Identity(%0)  # 6
                    %8:bool[] = Identity(c)  # 7
                  }}
                  %3, %4 = If(%2) {else_branch={  # 9 8
                    graph choice/false() -> (%9, %10)
                    %9:f32[3] = Identity(%0)  # 8
                    %10:f32[3] = Identity(%1)  # 9
                  }, then_branch={
                    graph choice/true() -> (%11, %12)
                    %11:f32[3] = Identity(%1)  # 8
                    %12:f32[3] = Identity(v)  # 9
                  }}
                  w:f32[3] = Add(%3, %4)  # 10
                  u:bool[] = Not(%2)  # 11
                }}
            "#]],
        );
    }

    #[test]
    fn choices_that_depend_on_each_other_or_broadcast_stay() {
        check(
            super::run,
            "graph g(x:f32[3], s:f32[]) -> (y, z, a)
y:f32[3], z:f32[3], a:f32[3] = Loop(5:i64, true, x, x, x) {body={
  graph b(i:i64[], c:bool[], v:f32[3], t:f32[3], r:f32[3]) -> (d, w, u, q)
  d:bool[] = Identity(c)
  w:f32[3] = Where(c, t, v)
  %2:f32[3] = Add(w, 0.5)
  u:f32[3] = Where(c, %2, t)
  q:f32[3] = Where(c, s, r)
}}",
            expect![[r#"
                graph g(x:f32[3], s:f32[]) -> (y, z, a)
                y:f32[3], z:f32[3], a:f32[3] = Loop(5:i64, true, x, x, x) {body={  # 2
                  graph b(i:i64[], c:bool[], v:f32[3], t:f32[3], r:f32[3]) -> (d, w, u, q)
                  d:bool[] = Identity(c)  # 4
                  w:f32[3] = Where(c, t, v)  # 5
                  %0 = Add(w, 0.5)  # 6
                  u:f32[3] = Where(c, %0, t)  # 7
                  q:f32[3] = Where(c, s, r)  # 8
                }}
            "#]],
        );
    }

    #[test]
    fn choices_outside_of_loops_and_of_elements_stay() {
        check(
            super::run,
            "graph g(c:bool[], x:f32[3], y:f32[3]) -> (a, b, e)
a:f32[3] = Where(c, x, y)
b:f32[3] = Where(c, y, x)
e:f32[3] = Loop(5:i64, true, x) {body={
  graph h(i:i64[], p:bool[], v:f32[3]) -> (d, w)
  d:bool[] = Identity(p)
  %0:bool[3] = Less(v, x)
  %1:f32[3] = Where(%0, x, y)
  %2:f32[3] = Where(%0, y, v)
  w:f32[3] = Add(%1, %2)
}}",
            expect![[r#"
                graph g(c:bool[], x:f32[3], y:f32[3]) -> (a, b, e)
                a:f32[3] = Where(c, x, y)  # 2
                b:f32[3] = Where(c, y, x)  # 3
                e:f32[3] = Loop(5:i64, true, x) {body={  # 4
                  graph h(i:i64[], p:bool[], v:f32[3]) -> (d, w)
                  d:bool[] = Identity(p)  # 6
                  %0 = Less(v, x)  # 7
                  %1 = Where(%0, x, y)  # 8
                  %2 = Where(%0, y, v)  # 9
                  w:f32[3] = Add(%1, %2)  # 10
                }}
            "#]],
        );
    }
}
