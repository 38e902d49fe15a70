//! Flags that are given back: by a cast there and back, and by `and` with what is always true.

use onnx::{DType, Dim, Edit, Op, Tensor, ValueId};

use super::{before_spreading, uniform};

/// The flags that were cast to numbers, of which a cast makes flags again: true is one, and one is
/// true.
pub(super) fn before_casts(edit: &Edit<'_>, index: usize) -> Option<ValueId> {
    let is_cast = |index: usize| &*edit.node(index).op == "Cast";
    let result = edit.ty(edit.node(index).outputs[0])?;
    let first = edit.producer(edit.input(index, 0)?).filter(|&first| is_cast(first))?;
    let flags = edit.input(first, 0)?;
    (is_cast(index) && result.dtype == DType::Bool && edit.ty(flags)? == result).then_some(flags)
}

/// The other operand of an `And` with what is always true, or of an `Or` with what is never.
pub(super) fn beside_a_known_flag(edit: &Edit<'_>, index: usize) -> Option<ValueId> {
    let neutral = match &*edit.node(index).op {
        "And" => 1.0,
        "Or" => 0.0,
        _ => return None,
    };
    let (a, b) = (edit.input(index, 0)?, edit.input(index, 1)?);
    let is_neutral =
        |id: ValueId| edit.tensor(before_spreading(edit, id)).and_then(uniform) == Some(neutral);
    if is_neutral(b) {
        return Some(a);
    }
    is_neutral(a).then_some(b)
}

/// Where the other operand has fewer elements than the result, the operator only repeats it.
pub(super) fn repeat_instead(edit: &mut Edit<'_>, index: usize) -> Option<()> {
    let flags = beside_a_known_flag(edit, index)?;
    let shape = edit.ty(edit.node(index).outputs[0])?.shape.clone();
    if edit.ty(flags)?.shape == shape {
        return None;
    }
    let sizes: Vec<i64> = shape.iter().map(Dim::known).collect::<Option<_>>()?;
    let sizes = Tensor::of_ints(DType::I64, vec![sizes.len() as i64], &sizes)?;
    let sizes = edit.constant(index, &[], sizes, &[]);
    edit.rewrite(index, &[], Op::new("Expand", &[flags, sizes]));
    Some(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn flags_that_were_numbers_for_a_while_are_flags() {
        check(
            super::super::run,
            "graph g(x:bool[3], n:i32[3]) -> (y, z)
%0:f32[3] = Cast(x) {to=1}
%1:bool[3] = Cast(%0) {to=9}
y:bool[3] = Not(%1)
%2:f32[3] = Cast(n) {to=1}
%3:bool[3] = Cast(%2) {to=9}
z:bool[3] = Not(%3)",
            expect![[r#"
                graph g(x:bool[3], n:i32[3]) -> (y, z)
                %0 = Cast(x) {to=1}  # 2
                y:bool[3] = Not(x)  # 4 3
                %1 = Cast(n) {to=1}  # 5
                %2 = Cast(%1) {to=9}  # 6
                z:bool[3] = Not(%2)  # 7
            "#]],
        );
    }

    #[test]
    fn what_is_always_true_adds_nothing_but_its_size() {
        check(
            super::super::run,
            "graph g(x:bool[3], c:bool[2,1]) -> (y, z, w)
%0:bool[3] = And(true, x)
y:bool[3] = Not(%0)
%1:bool[2,3] = And(x, [[true], [true]])
z:bool[2,3] = Not(%1)
%2:bool[2,3] = And(x, [[true], [false]])
w:bool[2,3] = Not(%2)",
            expect![[r#"
                graph g(x:bool[3], c:bool[2,1]) -> (y, z, w)
                y:bool[3] = Not(x)  # 3 2
                %0 = Expand(x, [2, 3]:i64)  # 4
                z:bool[2,3] = Not(%0)  # 5
                %1 = And(x, [[true], [false]])  # 6
                w:bool[2,3] = Not(%1)  # 7
            "#]],
        );
    }
}
