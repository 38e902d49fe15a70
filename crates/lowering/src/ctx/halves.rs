//! Computes float16 and bfloat16 in float32, if the user prefers speed to JAX's rounding.
//!
//! Inputs, outputs and weights keep their types. All other arrays of these types are float32, so that the graph is that
//! of a float32 program.

use jaxpr::{Atom, DType, Jaxpr};
use onnx::Expr;

use super::Ctx;
use crate::element::Element;
use crate::error::Refused;

/// The primitives whose results depend on the bits of their operands.
const BITWISE: &[&str] = &["bitcast_convert_type", "nextafter"];

impl<'g> Ctx<'g> {
    /// Computes float16 and bfloat16 in float32 from now on.
    pub(crate) fn widen_halves(&self) {
        self.widens_halves.set(true);
    }

    /// Runs `lower` with the types of the program.
    pub(crate) fn exactly<T>(&self, lower: impl FnOnce() -> T) -> T {
        let before = self.widens_halves.replace(false);
        let result = lower();
        self.widens_halves.set(before);
        result
    }

    /// True if an equation computes with the types of the program in any case. Plugins in Python choose operators by
    /// these types.
    pub(super) fn keeps_halves(&self, eqn: &jaxpr::Eqn) -> bool {
        self.widens_halves.get() && (eqn.recipe.is_some() || BITWISE.contains(&&*eqn.primitive))
    }

    /// Returns the element type in which the model computes arrays of this type.
    pub(super) fn computed<'a>(&self, dtype: &'a DType) -> &'a DType {
        if !self.widens(dtype) {
            return dtype;
        }
        if *dtype == DType::Bf16 || self.widened.get().is_none() {
            self.widened.set(Element::of(dtype).ok().map(|element| element.dtype));
        }
        &DType::F32
    }

    /// Returns the type of half precision that was computed in float32, if any.
    pub(crate) fn widened(&self) -> Option<onnx::DType> {
        self.widened.get()
    }

    /// True if the model computes arrays of this type in a wider one.
    pub(crate) fn widens(&self, dtype: &DType) -> bool {
        self.widens_halves.get() && is_half(dtype)
    }

    /// Returns a variable or a literal in the type that the model computes with.
    pub(super) fn in_computed_type(
        &self,
        jaxpr: &Jaxpr,
        atom: &Atom,
        value: Expr<'g>,
    ) -> Result<Expr<'g>, Refused> {
        match jaxpr.atom_dtype(atom) {
            Some(dtype) if is_half(&dtype) => self.as_computed(value, &dtype),
            _ => Ok(value),
        }
    }

    /// Casts a value to the type in which the model computes arrays of this type.
    pub(crate) fn as_computed(&self, value: Expr<'g>, dtype: &DType) -> Result<Expr<'g>, Refused> {
        let wanted = Element::for_model(self.computed(dtype), self.builder)?.dtype;
        Ok(if value.dtype() == wanted { value } else { value.cast(wanted) })
    }
}

fn is_half(dtype: &DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use options::{HalfMode, Options};

    use crate::testing::check_with;

    #[track_caller]
    fn check(jaxpr: &str, expect: Expect) {
        check_with(Options { half: HalfMode::Fast, ..Options::default() }, jaxpr, expect);
    }

    #[test]
    fn only_inputs_and_outputs_are_cast() {
        check(
            "jaxpr f(x:bf16[2]) {\ny:bf16[2] = tanh x\nz:bf16[2] = mul y y\nreturn z\n}",
            expect![[r#"
                graph test(in_0:bf16[2]) -> (out_0)
                %0 = Cast(in_0) {to=1}
                %1 = Tanh(%0)
                %2 = Mul(%1, %1)
                out_0:bf16[2] = Cast(%2) {to=16}
            "#]],
        );
    }

    #[test]
    fn a_weight_keeps_its_type() {
        check(
            "jaxpr f(x:f16[2]) {\nconst w:f16[2] = [1.0, 2.0] \"w\"\ny:f16[2] = mul x w\nreturn y\n}",
            expect![[r#"
                graph test(in_0:f16[2]) -> (out_0)
                w = [1.0, 2.0]:f16
                %0 = Cast(in_0) {to=1}
                %1 = Cast(w) {to=1}
                %2 = Mul(%0, %1)
                out_0:f16[2] = Cast(%2) {to=10}
            "#]],
        );
    }

    #[test]
    fn the_result_of_a_cast_to_half_precision_is_not_rounded() {
        check(
            "jaxpr f(x:f32[2]) {\ny:bf16[2] = convert_element_type{new_dtype=bf16} x\nz:f32[2] = convert_element_type{new_dtype=f32} y\nreturn z\n}",
            expect![[r#"
                graph test(in_0:f32[2]) -> (out_0)
                out_0:f32[2] = Identity(in_0)
            "#]],
        );
    }

    #[test]
    fn an_input_that_is_an_output_keeps_its_type() {
        check(
            "jaxpr f(x:f16[2]) {\nreturn x, 1.5:f16[]\n}",
            expect![[r#"
            graph test(in_0:f16[2]) -> (out_0, out_1)
            %0 = Cast(in_0) {to=1}
            %1 = Cast(1.5:f16) {to=1}
            out_0:f16[2] = Cast(%0) {to=10}
            out_1:f16[] = Cast(%1) {to=10}
        "#]],
        );
    }

    #[test]
    fn a_body_computes_in_float32() {
        check(
            "jaxpr f(x:f16[]) {\ny:f16[] = while{cond_jaxpr=jaxpr c(a:f16[]) {\nb:bool[] = lt a 9.0:f16[]\nreturn b\n}; body_jaxpr=jaxpr g(a:f16[]) {\nb:f16[] = mul a 2.0:f16[]\nreturn b\n}; cond_nconsts=0; body_nconsts=0} x\nreturn y\n}",
            expect![[r#"
                graph test(in_0:f16[]) -> (out_0)
                %0 = Cast(in_0) {to=1}
                %1 = Cast(9.0:f16) {to=1}
                %2 = Less(%0, %1)
                %3 = Loop(_, %2, %0) {body={
                  graph while/body(%4:i64[], %5:bool[], %6:f32[]) -> (%10, %8)
                  %7 = Cast(2.0:f16) {to=1}
                  %8:f32[] = Mul(%6, %7)
                  %9 = Cast(9.0:f16) {to=1}
                  %10:bool[] = Less(%8, %9)
                }}
                out_0:f16[] = Cast(%3) {to=10}
            "#]],
        );
    }
}
