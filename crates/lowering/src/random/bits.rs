//! Generates random bits of a given width.

use onnx::{DType, Dim, Expr};

use super::threefry::{Pair, counts, folded_hash, halves, hash};
use super::{beside, is_partitionable, needs_threefry, unknown_size, words};
use crate::ctx::{Ctx, Eqn};
use crate::error::Result;

/// Returns integers of `bit_width` random bits, in the given shape for each key.
pub(crate) fn random_bits<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let width: i64 = eqn.param("bit_width")?;
    let shape: Vec<Dim> = eqn.param("shape")?;
    let partitionable = is_partitionable(eqn)?;
    let [key] = eqn.operands()?;
    needs_threefry(eqn, eqn.input_dtypes.first())?;
    let bits = bits(words(key), width, &ctx.dims(&shape)?, partitionable);
    Ok(bits.ok_or_else(|| unknown_size(eqn))?.cast(eqn.output()?.dtype))
}

/// Returns random bits: the hashes of `0, 1, 2, …`, with the two words of each hash joined to one
/// number. Their shape is that of the keys, followed by `shape`. A width of 8 or 16 uses the lowest
/// bits of 32.
///
/// Without `jax_threefry_partitionable`, which used to be the default, the list of hashes is cut
/// into narrower numbers, or its second half is joined with the first half to wider numbers. This
/// needs a known size.
pub(super) fn bits<'g>(
    key: Pair<'g>,
    width: i64,
    shape: &[Dim],
    partitionable: bool,
) -> Option<Expr<'g>> {
    let builder = key[0].builder;
    if partitionable {
        let key = key.map(|word| beside(word, shape.len()));
        let counts = counts(builder, shape);
        if width < 64 {
            return Some(folded_hash(key, counts));
        }
        let [high, low] = hash(key, counts);
        return Some(join(high, low));
    }
    let size = builder.product(shape).known()?;
    let hashes = halves(key, (width * size + 31) / 32);
    let axis = hashes.rank() - 1;
    let row = match width {
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
    };
    Some(row.reshape(&[&key[0].shape()[..], shape].concat()))
}

fn join<'g>(high: Expr<'g>, low: Expr<'g>) -> Expr<'g> {
    high.cast(DType::U64).shift_left(32.0).bitwise_or(low.cast(DType::U64))
}
