//! `lift-weights`: turns the weights of a function into inputs, so that calls with different weights can share it.

use onnx::{Model, Value};

/// Larger constants become initializers, whose contents are in the file only once.
const MAX_BYTES: usize = 256;

pub(crate) fn run(model: &mut Model) {
    model.lift_constants(is_weight);
}

fn is_weight(value: &Value) -> bool {
    let is_large = value.tensor.as_ref().is_some_and(|tensor| tensor.byte_len() > MAX_BYTES);
    value.is_weight || is_large || value.name.is_some()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_model;

    #[test]
    fn a_weight_becomes_an_input_of_all_functions_on_the_path_to_it() {
        check_model(
            super::run,
            "graph g(x:f32[16]) -> (y)
y:f32[16] = my::f_2(x)
function my::f(%0:f32[16]) -> (%2)
w = const f32[16]
%1:f32[16] = Mul(%0, w)
%2:f32[16] = Add(%1, 2.0)
function my::f_2(%3:f32[16]) -> (%4)
%4:f32[16] = my::f(%3)",
            expect![[r#"
                graph g(x:f32[16]) -> (y)
                w = const f32[16]
                y:f32[16] = my::f_2(x, w)  # 2
                function my::f(%0:f32[16], %1:f32[16]) -> (%3)
                %2 = Mul(%0, %1)  # 5
                %3:f32[16] = Add(%2, 2.0)  # 6
                function my::f_2(%4:f32[16], %5:f32[16]) -> (%6)
                %6:f32[16] = my::f(%4, %5)  # 8
            "#]],
        );
    }
}
