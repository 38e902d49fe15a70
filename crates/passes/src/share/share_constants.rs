//! `share-constants`: merges initializers with equal contents.

use onnx::{Edit, ValueId};

pub(crate) fn run(edit: &mut Edit<'_>) {
    edit.share_constants(may_be_one);
}

/// True if two equal constants may become one. Small weights keep their own names, because sharing less than a page of the
/// data file saves nothing.
fn may_be_one(edit: &Edit<'_>, one: ValueId, other: ValueId) -> bool {
    const PAGE: usize = 4096;
    let is_large = edit.tensor(one).is_some_and(|tensor| tensor.byte_len() > PAGE);
    is_large || edit.name(one) == edit.name(other)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check;

    #[test]
    fn equal_constants_become_one_initializer() {
        check(
            super::run,
            "graph g(x:f32[4,64]) -> (y)
a = const f32[64,64]
b = const f32[64,64]
%0:f32[4,64] = MatMul(x, a)
y:f32[4,64] = MatMul(%0, b)",
            expect![[r#"
                graph g(x:f32[4,64]) -> (y)
                a = const f32[64,64]
                %0 = MatMul(x, a)  # 4
                y:f32[4,64] = MatMul(%0, a)  # 5
            "#]],
        );
    }

    #[test]
    fn small_weights_keep_their_names_and_literals_have_no_name() {
        check(
            super::run,
            "graph g(x:f32[2]) -> (y)
scale = const f32[2]
other = const f32[2]
%0:f32[2] = Mul(x, [0.0, 1.0])
%1:f32[2] = Mul(%0, scale)
%2:f32[2] = Mul(%1, other)
y:f32[2] = Mul(%2, [0.0, 1.0])",
            expect![[r#"
                graph g(x:f32[2]) -> (y)
                scale = [0.0, 1.0]  # 4
                other = [0.0, 1.0]  # 5
                %0 = Mul(x, [0.0, 1.0])  # 6
                %1 = Mul(%0, scale)  # 7
                %2 = Mul(%1, other)
                y:f32[2] = Mul(%2, [0.0, 1.0])
            "#]],
        );
    }

    #[test]
    fn equal_bytes_of_another_type_are_not_merged() {
        check(
            super::run,
            "graph g(x:f32[], n:i32[]) -> (y, m)
y:f32[] = Add(x, 0.0)
m:i32[] = Add(n, 0:i32)",
            expect![[r#"
                graph g(x:f32[], n:i32[]) -> (y, m)
                y:f32[] = Add(x, 0.0)  # 2
                m:i32[] = Add(n, 0:i32)  # 3
            "#]],
        );
    }
}
