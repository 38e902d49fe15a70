//! Random bits of a width.

use onnx::{Builder, DType, Dim, Expr};

use super::threefry::{counts, halves, hash};
use super::{beside, is_partitionable, needs_threefry, unknown_size, words};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// Numbers of `bit_width` random bits, as many for each key as the shape asks for
///
/// The hashes of `0, 1, 2, …`, each joined to one number.
pub(crate) fn random_bits<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let width: i64 = eqn.param("bit_width")?;
    let shape: Vec<jaxpr::Dim> = eqn.param("shape")?;
    let partitionable = is_partitionable(eqn)?;
    let [key] = eqn.operands()?;
    needs_threefry(eqn, eqn.input_dtypes.first())?;
    let result = eqn.output()?;
    let shape = ctx.dims(&shape)?;
    let key = words(key);
    if partitionable {
        let key = key.map(|word| beside(word, shape.len()));
        let [high, low] = hash(key, counts(ctx.builder, &shape));
        return Ok(match width {
            64 => join(high, low),
            _ => high.bitwise_xor(low).cast(result.dtype),
        });
    }
    let Dim::Known(size) = ctx.builder.product(&shape) else {
        return Err(unknown_size(eqn).into());
    };
    let bits = halves_of_width(ctx.builder, key, width, size);
    Ok(bits.cast(result.dtype).reshape(&result.shape))
}

/// As JAX had it before `jax_threefry_partitionable`: the hashes in a row are cut into numbers, or
/// joined, the first half with the second
fn halves_of_width<'g>(
    builder: &'g Builder,
    key: [Expr<'g>; 2],
    width: i64,
    size: i64,
) -> Expr<'g> {
    let hashes = halves(key, (width * size + 31) / 32);
    let axis = hashes.rank() - 1;
    match width {
        64 => join(hashes.slice_axis(axis, 0, size), hashes.slice_axis(axis, size, 2 * size)),
        32 => hashes,
        _ => {
            let each = 32 / width;
            let places: Vec<i64> = (0..each).map(|place| place * width).collect();
            let places = builder.constant_ints(DType::U32, &[each], &places);
            let mask = builder.constant_ints(DType::U32, &[], &[(1 << width) - 1]);
            let cut = hashes.unsqueeze(&[axis + 1]).shift_right(places).bitwise_and(mask);
            let mut row = hashes.shape().to_vec();
            row[axis] = builder.product(&cut.shape()[axis..]);
            cut.reshape(&row).slice_axis(axis, 0, size)
        }
    }
}

fn join<'g>(high: Expr<'g>, low: Expr<'g>) -> Expr<'g> {
    high.cast(DType::U64).shift_left(32.0).bitwise_or(low.cast(DType::U64))
}
