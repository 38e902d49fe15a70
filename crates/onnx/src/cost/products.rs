//! The rules of products, attention, transforms and recurrent cells. A product over `k` is `k` multiplications and `k`
//! additions for each element.

use super::rules::levels;
use super::{Count, Counted, NotCounted, Ops, less, product, sum, times};
use crate::infer::Call;
use crate::value::Dim;

const NONE: Dim = Dim::Known(0);

/// Returns the operations of a sum of `k` products for each element.
fn products(elements: &Dim, k: &Dim) -> Result<Dim, NotCounted> {
    times(&times(elements, 2)?, k.clone())
}

/// Returns the size that a matrix product sums over.
fn inner(call: &Call<'_>) -> Result<Dim, NotCounted> {
    let (a, b) = (call.shape(0)?, call.shape(1)?);
    let of_a = a.last().ok_or(NotCounted::Shapes)?;
    let of_b = b.get(b.len().saturating_sub(2)).ok_or(NotCounted::Shapes)?;
    // One of them may be the better known.
    Ok(if of_a.known().is_some() { of_a } else { of_b }.clone())
}

/// `MatMul` and `MatMulInteger`
pub(crate) fn matmul(count: &Count<'_, '_>) -> Counted {
    Ok(Ops(products(&count.written(0)?, &inner(count.call)?)?, NONE))
}

/// `QLinearMatMul`: the product, and a product, a rounding and a sum for each element.
pub(crate) fn quantized_matmul(count: &Count<'_, '_>) -> Counted {
    let (a, b) = (count.call.shape(0)?, count.call.shape(3)?);
    let of_a = a.last().ok_or(NotCounted::Shapes)?;
    let of_b = b.get(b.len().saturating_sub(2)).ok_or(NotCounted::Shapes)?;
    let k = if of_a.known().is_some() { of_a } else { of_b };
    let elements = count.written(0)?;
    Ok(Ops(sum(&[products(&elements, k)?, times(&elements, 3)?])?, NONE))
}

/// `Gemm`: `α · A · B + β · C`
pub(crate) fn gemm(count: &Count<'_, '_>) -> Counted {
    let is_transposed = count.call.int_attr("transA", 0) != 0;
    let k = count.size(0, usize::from(!is_transposed))?;
    let elements = count.written(0)?;
    let has_factor = |name: &str| count.call.float_attr(name, 1.0) != 1.0;
    let mut simple = vec![products(&elements, &k)?];
    if has_factor("alpha") {
        simple.push(elements.clone());
    }
    if count.call.has(2) {
        simple.push(elements);
        if has_factor("beta") {
            simple.push(count.read(2)?);
        }
    }
    Ok(Ops(sum(&simple)?, NONE))
}

/// `Einsum`, which multiplies its operands one after another, and sums over an axis when no later operand has it.
pub(crate) fn einsum(count: &Count<'_, '_>) -> Counted {
    let equation = count.call.str_attr("equation").ok_or(NotCounted::Shapes)?.replace(' ', "");
    let (operands, result) = equation.split_once("->").ok_or(NotCounted::NoRule)?;
    if equation.contains('.') {
        return Err(NotCounted::NoRule);
    }
    let operands: Vec<&str> = operands.split(',').collect();
    let mut sizes: Vec<(char, Dim)> = Vec::new();
    for (operand, letters) in operands.iter().enumerate() {
        for (letter, size) in letters.chars().zip(count.call.shape(operand)?) {
            match sizes.iter_mut().find(|(other, _)| *other == letter) {
                Some((_, known)) if known.is(1) => *known = size.clone(),
                Some(_) => {}
                None => sizes.push((letter, size.clone())),
            }
        }
    }
    let volume = |letters: &[char]| {
        let size = |letter: &char| sizes.iter().find(|(other, _)| other == letter);
        let dims: Vec<Dim> =
            letters.iter().filter_map(size).map(|(_, size)| size.clone()).collect();
        product(&dims)
    };
    let mut current: Vec<char> = Vec::new();
    let mut simple = Vec::new();
    for (operand, letters) in operands.iter().enumerate() {
        letters.chars().for_each(|letter| push_new(&mut current, letter));
        let later = operands[operand + 1..].iter().flat_map(|letters| letters.chars());
        let needed: Vec<char> = later.chain(result.chars()).collect();
        let kept: Vec<char> = current.iter().copied().filter(|it| needed.contains(it)).collect();
        let (all, rest) = (volume(&current)?, volume(&kept)?);
        let is_summed = kept.len() < current.len();
        simple.push(match (operand, is_summed) {
            (0, false) => NONE,
            (0, true) => less(&all, &rest)?,
            (_, false) => all,
            (_, true) => times(&all, 2)?,
        });
        current = kept;
    }
    Ok(Ops(sum(&simple)?, NONE))
}

fn push_new(letters: &mut Vec<char>, letter: char) {
    if !letters.contains(&letter) {
        letters.push(letter);
    }
}

/// `Attention`: `softmax(scale · Q · Kᵀ + mask) · V`
pub(crate) fn attention(count: &Count<'_, '_>) -> Counted {
    let call = count.call;
    let (q, k, v) = (call.shape(0)?, call.shape(1)?, call.shape(2)?);
    // Returns the heads, the length and the width of a head.
    let parts = |shape: &[Dim], attr: &str| match shape {
        [_, heads, length, width] => Ok((heads.clone(), length.clone(), width.clone())),
        [_, length, width] => {
            let heads = Dim::Known(call.int_attr(attr, 0));
            let width = width.divide_exact(&heads).ok_or(NotCounted::Shapes)?;
            Ok((heads, length.clone(), width))
        }
        _ => Err(NotCounted::Shapes),
    };
    let batch = q.first().ok_or(NotCounted::Shapes)?;
    let (heads, length, width) = parts(q, "q_num_heads")?;
    let (_, mut keys, _) = parts(k, "kv_num_heads")?;
    let (_, _, width_of_values) = parts(v, "kv_num_heads")?;
    if call.has(4) {
        keys = sum(&[keys, count.size(4, 2)?])?;
    }
    let rows = product(&[batch.clone(), heads, length])?;
    let scores = times(&rows, keys)?;
    let mut simple = vec![
        products(&scores, &width)?,
        products(&scores, &width_of_values)?,
        // The scale, and the softmax.
        times(&scores, 3)?,
        times(&less(&scores, &rows)?, 2)?,
    ];
    let mut transcendental = vec![scores.clone()];
    if call.has(3) {
        simple.push(scores.clone());
    }
    if call.int_attr("is_causal", 0) != 0 {
        simple.push(scores.clone());
    }
    if call.float_attr("softcap", 0.0) > 0.0 {
        simple.push(times(&scores, 2)?);
        transcendental.push(scores);
    }
    Ok(Ops(sum(&simple)?, sum(&transcendental)?))
}

/// `LSTM`: four gates, the cell and the state.
pub(crate) fn lstm(count: &Count<'_, '_>) -> Counted {
    let has_peepholes = count.call.has(7);
    recurrent(count, 4, if has_peepholes { 19 } else { 13 }, 5)
}

/// `GRU`: three gates and the state.
pub(crate) fn gru(count: &Count<'_, '_>) -> Counted {
    recurrent(count, 3, 11, 3)
}

/// `RNN`: the state.
pub(crate) fn rnn(count: &Count<'_, '_>) -> Counted {
    recurrent(count, 1, 0, 1)
}

/// Returns the products of all steps with the weights, their sums with each other and with two biases, and so many
/// operations for each element of the state in each step.
fn recurrent(count: &Count<'_, '_>, gates: i64, simple: i64, transcendental: i64) -> Counted {
    let [steps, batch, features] = count.call.shape(0)? else { return Err(NotCounted::Shapes) };
    let [directions, _, units] = count.call.shape(2)? else { return Err(NotCounted::Shapes) };
    let states = product(&[steps.clone(), batch.clone(), directions.clone(), units.clone()])?;
    let sums = times(&states, gates)?;
    let biases = if count.call.has(3) { 2 } else { 0 };
    let simple = [
        products(&sums, &sum(&[features.clone(), units.clone()])?)?,
        times(&sums, 1 + biases)?,
        times(&states, simple)?,
    ];
    Ok(Ops(sum(&simple)?, times(&states, transcendental)?))
}

/// `CausalConvWithState`: a product and a sum for each entry of the window.
pub(crate) fn causal_conv(count: &Count<'_, '_>) -> Counted {
    let window = count.call.shape(1)?.last().cloned().ok_or(NotCounted::Shapes)?;
    Ok(Ops(products(&count.written(0)?, &window)?, NONE))
}

/// `Det`: the products and quotients of an elimination, `n (n - 1) (4n + 1) / 6`, and of the diagonal.
pub(crate) fn determinant(count: &Count<'_, '_>) -> Counted {
    let [batch @ .., n, _] = count.call.shape(0)? else { return Err(NotCounted::Shapes) };
    let before = sum(&[n.clone(), Dim::Known(-1)])?;
    let factors = [n.clone(), before.clone(), sum(&[times(n, 4)?, Dim::Known(1)])?];
    let elimination = product(&factors)?.checked_floordiv(&Dim::Known(6));
    let each = sum(&[elimination.ok_or(NotCounted::TooLarge)?, before])?;
    Ok(Ops(times(&product(batch)?, each)?, NONE))
}

/// `DFT`: `5 · n · log₂(n)` operations for each transform of complex numbers, and half of them for real numbers.
pub(crate) fn dft(count: &Count<'_, '_>) -> Counted {
    let call = count.call;
    let (from, to) = (call.shape(0)?, &count.result(0)?.shape);
    let is_operand = call.opset >= 20;
    let axis = match is_operand && call.has(2) {
        true => call.ints(2)?.first().copied().ok_or(NotCounted::Shapes)?,
        false if is_operand => -2,
        false => call.int_attr("axis", 1),
    };
    let axis = call.axis_at(axis, from.len())?;
    let length = match call.has(1) {
        true => call.ints(1)?.first().copied(),
        false => from[axis].known(),
    };
    let length = length.ok_or(NotCounted::NoRule)?;
    let others = (0..from.len() - 1).filter(|&other| other != axis).map(|axis| from[axis].clone());
    let transforms = product(&others.collect::<Vec<Dim>>())?;
    let is_real =
        from.last().is_some_and(|parts| parts.is(1)) || to.last().is_some_and(|it| it.is(1));
    fourier(&transforms, length, is_real)
}

/// `STFT`: a product with the window, and a transform, for each frame.
pub(crate) fn stft(count: &Count<'_, '_>) -> Counted {
    let [batch, frames, _, _] = &*count.result(0)?.shape else { return Err(NotCounted::Shapes) };
    let transforms = product(&[batch.clone(), frames.clone()])?;
    let length = match (count.call.has(3), count.call.has(2)) {
        (true, _) => count.call.ints(3)?.first().copied(),
        (false, true) => count.size(2, 0)?.known(),
        (false, false) => None,
    };
    let length = length.ok_or(NotCounted::NoRule)?;
    let is_real = count.call.shape(0)?.last().is_some_and(|parts| parts.is(1));
    let Ops(simple, _) = fourier(&transforms, length, is_real)?;
    let windowed = if count.call.has(2) { times(&transforms, length)? } else { NONE };
    Ok(Ops(sum(&[simple, windowed])?, NONE))
}

fn fourier(transforms: &Dim, length: i64, is_real: bool) -> Counted {
    let each = length.checked_mul(5 * levels(length)).ok_or(NotCounted::TooLarge)?;
    Ok(Ops(times(transforms, if is_real { each / 2 } else { each })?, NONE))
}
