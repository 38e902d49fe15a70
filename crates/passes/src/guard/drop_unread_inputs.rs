//! `drop-unread-inputs`: drops unread inputs of functions whose types ONNX Runtime rejects.
//!
//! ONNX Runtime infers the types of an input from the body. If the body does not read the input, it accepts only older
//! types.

use onnx::{DType, Model, Value};

pub(crate) fn run(model: &mut Model) {
    while model.drop_unread_inputs(is_rejected) {
        // The node that computes a dropped input may be the only reader of another input.
        model.edit(&mut |edit| edit.drop_unread());
    }
}

/// True for element types that ONNX added after bfloat16.
fn is_rejected(value: &Value) -> bool {
    value.ty.as_ref().is_some_and(|ty| ty.dtype.code() > DType::Bf16.code())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_model;

    #[test]
    fn an_unread_input_of_a_new_type_is_dropped_from_all_functions() {
        check_model(
            super::run,
            "graph g(x:f32[3], i:i8[3]) -> (y)
%0:i4[3] = Cast(x) {to=22}
y:f32[3] = my::f_2(%0, x, i)
function my::f(%1:f32[3], %2:f8_e4m3fn[3], %3:i8[3]) -> (%4)
%4:f32[3] = Sin(%1)
function my::f_2(%5:i4[3], %6:f32[3], %7:i8[3]) -> (%9)
%8:f8_e4m3fn[3] = Cast(%5) {to=17}
%9:f32[3] = my::f(%6, %8, %7)",
            expect![[r#"
                graph g(x:f32[3], i:i8[3]) -> (y)
                y:f32[3] = my::f_2(x, i)  # 3
                function my::f(%0:f32[3], %1:i8[3]) -> (%2)
                %2:f32[3] = Sin(%0)  # 5
                function my::f_2(%3:f32[3], %4:i8[3]) -> (%5)
                %5:f32[3] = my::f(%3, %4)  # 8
            "#]],
        );
    }

    #[test]
    fn an_input_that_is_read_in_a_branch_stays() {
        check_model(
            super::run,
            "graph g(x:i4[3], c:bool[]) -> (y)
y:f32[3] = my::f(x, c)
function my::f(%1:i4[3], %2:bool[]) -> (%3)
%3:f32[3] = If(%2) {else_branch={
  graph e() -> (%4)
  %4:f32[3] = Cast(%1) {to=1}
}, then_branch={
  graph t() -> (%5)
  %5:f32[3] = Cast(%1) {to=1}
}}",
            expect![[r#"
                graph g(x:i4[3], c:bool[]) -> (y)
                y:f32[3] = my::f(x, c)  # 2
                function my::f(%0:i4[3], %1:bool[]) -> (%2)
                %2:f32[3] = If(%1) {else_branch={  # 4
                  graph e() -> (%3)
                  %3:f32[3] = Cast(%0) {to=1}  # 6
                }, then_branch={
                  graph t() -> (%4)
                  %4:f32[3] = Cast(%0) {to=1}  # 9
                }}
            "#]],
        );
    }
}
