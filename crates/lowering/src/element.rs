//! Maps the element types of JAX to those of ONNX.

use onnx::{Builder, DType, Dim, Expr, Tensor, Type};

use crate::error::Refused;

/// The ONNX type of an element, and the number of its parts if it has any.
///
/// A complex number is a pair, and a random key is a list of words. An array of either has one more
/// axis, the last, for these parts. `key_data` returns keys in this form, and NumPy stores complex
/// numbers in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element {
    pub dtype: DType,
    pub parts: Option<i64>,
}

impl Element {
    pub fn of(dtype: &jaxpr::DType) -> Result<Element, Refused> {
        if let Some(carried) = Element::in_parts(dtype) {
            return Ok(carried);
        }
        let refused = || Refused::NoType { dtype: dtype.to_string() };
        Ok(Element { dtype: number(dtype).ok_or_else(refused)?, parts: None })
    }

    /// Returns the element, or a refusal if a runtime of the target supports the type only in later opsets or not at
    /// all.
    pub fn for_model(dtype: &jaxpr::DType, builder: &Builder) -> Result<Element, Refused> {
        let (element, opset) = (Element::of(dtype)?, builder.opset());
        if !builder.target().is_default() {
            return Ok(element);
        }
        match builder.target().type_comes_with(element.dtype) {
            Some(needed) if needed <= opset => Ok(element),
            Some(needed) => Err(Refused::NeedsOpset { op: dtype.to_string(), needed, opset }),
            None => {
                let (runtime, dtype) = (builder.target().spell(), dtype.to_string());
                Err(Refused::NoKernel { runtime, op: "Cast".into(), dtype })
            }
        }
    }

    /// True if an array of this type has an axis of parts.
    pub fn has_parts(dtype: &jaxpr::DType) -> bool {
        Element::in_parts(dtype).is_some()
    }

    fn in_parts(dtype: &jaxpr::DType) -> Option<Element> {
        let (dtype, parts) = match dtype {
            jaxpr::DType::C64 => (DType::F32, 2),
            jaxpr::DType::C128 => (DType::F64, 2),
            jaxpr::DType::Key(implementation) => match &**implementation {
                "fry" => (DType::U32, 2),
                "rbg" | "urbg" => (DType::U32, 4),
                _ => return None,
            },
            _ => return None,
        };
        Some(Element { dtype, parts: Some(parts) })
    }
}

/// Returns the type of the real or imaginary part of an array of pairs.
pub(crate) fn part_type(pairs: &Type) -> Type {
    let shape: Vec<Dim> = pairs.shape[..pairs.rank().saturating_sub(1)].to_vec();
    Type::new(pairs.dtype, shape)
}

/// True if the model must compute the same as JAX where an element of `x` is NaN, even if this
/// needs more nodes.
pub(crate) fn guards_nan(x: Expr<'_>) -> bool {
    x.dtype().is_float() && x.builder.exact_nan()
}

/// Returns the ONNX type with the same elements.
fn number(dtype: &jaxpr::DType) -> Option<DType> {
    use jaxpr::DType as J;
    Some(match dtype {
        J::Bool => DType::Bool,
        J::I2 => DType::I2,
        J::I4 => DType::I4,
        J::I8 => DType::I8,
        J::I16 => DType::I16,
        J::I32 => DType::I32,
        J::I64 => DType::I64,
        J::U2 => DType::U2,
        J::U4 => DType::U4,
        J::U8 => DType::U8,
        J::U16 => DType::U16,
        J::U32 => DType::U32,
        J::U64 => DType::U64,
        J::F8E4M3Fn => DType::F8E4M3Fn,
        J::F8E4M3FnUz => DType::F8E4M3FnUz,
        J::F8E5M2 => DType::F8E5M2,
        J::F8E5M2FnUz => DType::F8E5M2FnUz,
        J::F8E8M0 => DType::F8E8M0,
        J::F16 => DType::F16,
        J::Bf16 => DType::Bf16,
        J::F32 => DType::F32,
        J::F64 => DType::F64,
        J::C64 | J::C128 | J::Key(_) | J::Other(_) => return None,
    })
}

/// Returns a constant of the jaxpr as an ONNX tensor.
pub(crate) fn tensor(constant: &jaxpr::Constant) -> Result<Tensor, Refused> {
    let Element { dtype, parts } = Element::of(&constant.dtype)?;
    let data = match dtype.bits() {
        bits @ (2 | 4) => pack(&constant.data, bits),
        _ => constant.data.clone(),
    };
    Ok(Tensor::new(dtype, constant.shape.iter().copied().chain(parts).collect(), data))
}

/// Packs elements of one byte into `bits` bits each. The first element is in the lowest bits.
fn pack(data: &[u8], bits: usize) -> bytes::Bytes {
    let mask = (1u8 << bits) - 1;
    let join = |byte: u8, (i, &element): (usize, &u8)| byte | (element & mask) << (i * bits);
    data.chunks(8 / bits).map(|chunk| chunk.iter().enumerate().fold(0, join)).collect()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn keys_and_complex_numbers_have_an_axis_of_parts() {
        check(
            "jaxpr f(a:key<fry>[4], b:c64[3]) {
               c:key<fry>[4,2] = broadcast_in_dim{shape=(4, 2); broadcast_dimensions=(0); sharding=None} a
               d:key<fry>[2,4] = transpose{permutation=(1, 0)} c
               e:c64[3] = sub b (1.0, 0.0):c64[]
               return d, e
             }",
            expect![[r#"
                graph test(in_0:u32[4,2], in_1:f32[3,2]) -> (out_0, out_1)
                %0 = Unsqueeze(in_0, [1]:i64)
                %1 = Expand(%0, [4, 2, 2]:i64)
                out_0:u32[2,4,2] = Transpose(%1) {perm=[1, 0, 2]}
                out_1:f32[3,2] = Sub(in_1, [1.0, 0.0])
            "#]],
        );
    }

    #[test]
    fn a_plugin_without_complex_numbers_refuses_them() {
        check(
            "jaxpr f(a:c64[3]) {
               b:c64[3] = floor a
               return b
             }",
            expect![[r#"
                refused: `floor of c64` has no ONNX counterpart
            "#]],
        );
    }
}
