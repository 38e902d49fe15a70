//! Lowers random keys and random bits. The bits are those of JAX.
//!
//! A key is stored as its words along the last axis, so wrapping and unwrapping keys needs no
//! nodes.

mod bits;
mod gamma;
mod products;
mod threefry;

pub(crate) use bits::random_bits;
pub(crate) use gamma::random_gamma;

use onnx::{DType, Dim, Expr};

use crate::convert::convert;
use crate::ctx::{Ctx, Eqn};
use crate::error::{Refused, Result};
use threefry::{Pair, counts, halves, hash};

/// Returns the hash of two words under a key of two words; all four broadcast.
pub(crate) fn threefry2x32<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>> {
    let [key_0, key_1, x_0, x_1] = eqn.operands()?;
    let shape = eqn.output()?.shape.clone();
    let hashed = hash([key_0, key_1], [Some(x_0), Some(x_1)]);
    Ok(hashed.map(|word| word.expand(&shape)).to_vec())
}

/// Returns the key of a seed: its high word and its low word.
pub(crate) fn random_seed<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    eqn.ignore(&["impl"]);
    let [seed] = eqn.operands()?;
    needs_threefry(eqn, eqn.output_dtypes.first())?;
    let low = seed.cast(DType::U32);
    let high = match seed.dtype().bits() {
        64 => seed.cast(DType::U64).shift_right(32.0).cast(DType::U32),
        _ => low.constant(0.0).expand(&low.shape()),
    };
    Ok(stack([high, low]))
}

/// Returns the hash of a number under each key, as a new key.
pub(crate) fn random_fold_in<'g>(_: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let [key, number] = eqn.operands()?;
    needs_threefry(eqn, eqn.input_dtypes.first())?;
    let hashed = hash(words(key), [None, Some(convert(number, DType::U32))]);
    Ok(stack(hashed))
}

/// Splits each key into new keys of the given shape.
pub(crate) fn random_split<'g>(ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Expr<'g>> {
    let shape: Vec<Dim> = eqn.param("shape")?;
    let partitionable = is_partitionable(eqn)?;
    let [key] = eqn.operands()?;
    needs_threefry(eqn, eqn.input_dtypes.first())?;
    let keys = split(words(key), &ctx.dims(&shape)?, partitionable);
    Ok(keys.ok_or_else(|| unknown_size(eqn))?)
}

/// Returns new keys: the hashes of `0, 1, 2, …`. Their shape is that of the keys, followed by
/// `shape`.
///
/// Without `jax_threefry_partitionable`, which used to be the default, there are twice as many
/// numbers, and the hashes of the second half follow those of the first half. This needs a known
/// size.
fn split<'g>(key: Pair<'g>, shape: &[Dim], partitionable: bool) -> Option<Expr<'g>> {
    let builder = key[0].builder;
    if partitionable {
        let beside = key.map(|word| beside(word, shape.len()));
        return Some(stack(hash(beside, counts(builder, shape))));
    }
    let keys = builder.product(shape).known()?;
    let row = halves(key, 2 * keys);
    Some(row.reshape(&[&key[0].shape()[..], shape, &[Dim::Known(2)]].concat()))
}

/// Returns the two words of a key.
fn words(key: Expr<'_>) -> Pair<'_> {
    let axis = key.rank() - 1;
    [0, 1].map(|index| key.slice_axis(axis, index, index + 1).squeeze(&[axis]))
}

/// Joins two words to a key.
fn stack(words: Pair<'_>) -> Expr<'_> {
    let words = words.map(|word| word.unsqueeze(&[word.rank()]));
    Expr::concat(&words, words[0].rank() - 1)
}

/// Adds axes of size one at the end.
fn beside(word: Expr<'_>, axes: usize) -> Expr<'_> {
    let trailing: Vec<usize> = (word.rank()..word.rank() + axes).collect();
    word.unsqueeze(&trailing)
}

fn needs_threefry(eqn: &Eqn<'_, '_>, key: Option<&jaxpr::DType>) -> Result<()> {
    match key {
        Some(jaxpr::DType::Key(implementation)) if &**implementation == "fry" => Ok(()),
        Some(other) => {
            let what = format!("{} of {other}", eqn.primitive);
            Err(Refused::NoCounterpart { what }.into())
        }
        None => Err(eqn.broken("no key").into()),
    }
}

/// Returns JAX's setting `jax_threefry_partitionable`, which changes the bits. It becomes a
/// parameter when the jaxpr is read.
fn is_partitionable(eqn: &Eqn<'_, '_>) -> Result<bool> {
    Ok(eqn.optional("threefry_partitionable")?.unwrap_or(true))
}

fn unknown_size(eqn: &Eqn<'_, '_>) -> Refused {
    let what = format!("{} of unknown size without `jax_threefry_partitionable`", eqn.primitive);
    Refused::NoCounterpart { what }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn a_key_is_its_words() {
        check(
            "jaxpr f(a:u32[3,2], b:i64[]) {
               c:key<fry>[3] = random_wrap{impl=fry} a
               d:key<fry>[3] = rev{dimensions=(0)} c
               e:u32[3,2] = random_unwrap d
               f:key<fry>[] = random_seed{impl=fry} b
               return e, f
             }",
            expect![[r#"
                graph test(in_0:u32[3,2], in_1:i64[]) -> (out_0, out_1)
                out_0:u32[3,2] = Slice(in_0, [-1]:i64, [-9223372036854775808]:i64, [0]:i64, [-1]:i64)
                %0 = Cast(in_1) {to=12}
                %1 = Cast(in_1) {to=13}
                %2 = BitShift(%1, 32:u64) {direction="RIGHT"}
                %3 = Cast(%2) {to=12}
                %4 = Unsqueeze(%3, [0]:i64)
                %5 = Unsqueeze(%0, [0]:i64)
                out_1:u32[2] = Concat(%4, %5) {axis=0}
            "#]],
        );
    }

    #[test]
    fn keys_of_other_generators_are_refused() {
        check(
            "jaxpr f(a:key<rbg>[]) {
               b:u32[3] = random_bits{bit_width=32; shape=(3)} a
               return b
             }",
            expect![[r#"
                refused: `random_bits of key<rbg>` has no ONNX counterpart
            "#]],
        );
        check(
            "jaxpr f(a:key<phx4>[]) {
               b:u32[3] = random_bits{bit_width=32; shape=(3)} a
               return b
             }",
            expect![[r#"
                refused: ONNX has no element type for `key<phx4>`
            "#]],
        );
    }
}
