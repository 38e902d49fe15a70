//! Rounding.

use onnx::Expr;

use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// To the nearest integer; halves to the even one, or away from zero
///
/// Away from zero: `sign(x) · floor(|x| + ½)`, but without the sum, which rounds for the number just
/// below ½.
pub(crate) fn round<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let method: jaxpr::Param = eqn.param("rounding_method")?;
    let [x] = eqn.operands()?;

    let to_even = matches!(&method, jaxpr::Param::Enum(_, name) if &**name == "TO_NEAREST_EVEN")
        || matches!(method, jaxpr::Param::Int(1));
    if to_even {
        return Ok(x.round());
    }
    let size = x.abs();
    let floor = size.floor();
    let is_half_or_more = (size - floor).greater_equal(0.5);
    let rounded = is_half_or_more.select(floor + 1.0, floor);
    Ok(rounded * x.sign())
}
