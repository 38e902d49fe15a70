//! Threefry without operators on bits, for a device that has none.
//!
//! The bits of the two words are 64 numbers along the last axis, in float64. Bit `k` of a sum is `⌊sum / 2ᵏ⌋ mod 2`, and a
//! rotated word is its bits in another order. With `β` for the bits, a round is therefore `⌊β · M⌋ mod 2` with a constant
//! matrix: the first 32 columns of `β · M` are `(a + b) / 2ᵏ`, and the others add bit `k` of the rotated word to that. All
//! numbers have at most 36 bits, so that no product is rounded.

use onnx::expr::broadcast_shapes;
use onnx::{Attr, DType, Dim, Expr, OpType};

use super::threefry::{PARITY, Pair, ROTATIONS};

/// The most hashes that are computed in this form. Each takes 512 bytes.
const MAX_HASHES: i64 = 1 << 15;
/// The bits of a word.
const BITS: usize = 32;

/// True if the model is for a device that has no operators on bits, and the hashes are few. The runtime computes hashes of
/// constants when it loads the model.
pub(super) fn are_better<'g>(key: Pair<'g>, words: [Option<Expr<'g>>; 2]) -> bool {
    let builder = key[0].builder;
    let target = builder.target();
    if !target.is_default() || target.is_on_device(OpType::BitwiseXor, builder.opset(), DType::U32)
    {
        return false;
    }
    let mut shape = key[0].shape().to_vec();
    for word in words.into_iter().flatten() {
        match broadcast_shapes(&shape, &word.shape()) {
            Some(both) => shape = both,
            None => return false,
        }
    }
    let size = shape.iter().map(Dim::known).product::<Option<i64>>();
    let mut read = key.into_iter().chain(words.into_iter().flatten());
    size.is_some_and(|size| (1..=MAX_HASHES).contains(&size))
        && !read.all(|word| builder.is_computed_from_constants(word.id))
}

/// Returns both words of each hash.
pub(super) fn hash<'g>(key: Pair<'g>, words: [Option<Expr<'g>>; 2]) -> Pair<'g> {
    let rounds = Rounds::run(key, words);
    let weights =
        matrix(rounds.bits, 2 * BITS, 2, |bit, word| (bit / BITS == word).then(|| power(bit)));
    // The first and the middle column of the sums are what is added to the words.
    let columns = rounds.last.builder.ints(&[0, BITS as i64]);
    let last = rounds.last.gather(columns, rounds.last.rank() - 1);
    let sums = rounds.bits.matmul(weights) + last;
    let axis = sums.rank() - 1;
    let whole = sums.fmod((BITS as f64).exp2()).cast_exactly(DType::U32);
    split::<2>(whole, 1).map(|word| word.squeeze(&[axis]))
}

/// Returns `a ⊕ b` for the two words of each hash.
pub(super) fn folded_hash<'g>(key: Pair<'g>, words: [Option<Expr<'g>>; 2]) -> Expr<'g> {
    let rounds = Rounds::run(key, words);
    let width = 2 * BITS;
    let apart = matrix(rounds.bits, width, width, |bit, column| {
        (bit / BITS == column / BITS).then(|| power(bit) / power(column))
    });
    let sums = rounds.bits.matmul(apart) + rounds.last;
    let word = joined(sums).cast_exactly(DType::U32);
    word.squeeze(&[word.rank() - 1])
}

/// Returns `a ⊕ b` for two words, of which `word / 2ᵏ` is given.
fn joined(sums: Expr<'_>) -> Expr<'_> {
    let floors = sums.unary(OpType::Floor);
    let sums = floors
        .matmul(matrix(floors, 2 * BITS, BITS, |from, to| (from % BITS == to).then_some(1.0)));
    let weights = matrix(floors, BITS, 1, |bit, _| Some(power(bit)));
    sums.fmod(2.0).matmul(weights)
}

/// The state after the last round.
struct Rounds<'g> {
    bits: Expr<'g>,
    /// The rest to add to the words, divided by the powers of two.
    last: Expr<'g>,
}

impl<'g> Rounds<'g> {
    fn run(key: Pair<'g>, words: [Option<Expr<'g>>; 2]) -> Rounds<'g> {
        let [first, rest @ .., last] = additions(key);
        let width = 2 * BITS;
        let mut sums = first;
        for (word, is_second) in words.into_iter().zip([false, true]) {
            let Some(word) = word else { continue };
            let word = word.cast_exactly(DType::F64).unsqueeze(&[word.rank()]);
            let share = |column| if is_second || column < BITS { 1.0 / power(column) } else { 0.0 };
            sums = sums + word * row(first, width, share);
        }
        let mut bits = opened(sums, ROTATIONS[0][0]);
        let mut rest = rest.into_iter();
        for (group, rotations) in ROTATIONS.iter().cycle().take(5).enumerate() {
            if group > 0
                && let Some(added) = rest.next()
            {
                let reopen = matrix(bits, width, width, |bit, column| {
                    (bit >= BITS || column < BITS).then(|| power(bit) / power(column))
                });
                bits = opened(bits.matmul(reopen) + added, rotations[0]);
            }
            for &by in &rotations[1..] {
                let round = matrix(bits, width, width, |bit, column| {
                    let is_rotated = column >= BITS && is_source(bit, column, by);
                    Some(power(bit) / power(column) + f64::from(u8::from(is_rotated)))
                });
                bits = bits.matmul(round).unary(OpType::Floor).fmod(2.0);
            }
        }
        Rounds { bits, last }
    }
}

/// Returns the bits after a round, from `(a + b) / 2ᵏ` and `b / 2ᵏ`.
fn opened(sums: Expr<'_>, by: u32) -> Expr<'_> {
    let floors = sums.unary(OpType::Floor);
    let width = 2 * BITS;
    let mixed = matrix(floors, width, width, |from, to| {
        (from == to % BITS || to >= BITS && is_source(from, to, by)).then_some(1.0)
    });
    floors.matmul(mixed).fmod(2.0)
}

/// True if a bit of the second word becomes the bit of a column when the word is rotated.
fn is_source(bit: usize, column: usize, by: u32) -> bool {
    bit >= BITS && (bit + by as usize) % BITS == column % BITS
}

/// Returns what is added to the words before the first round and after every four rounds, as `(a + b) / 2ᵏ` and `b / 2ᵏ`;
/// at the end as `a / 2ᵏ` and `b / 2ᵏ`.
fn additions(key: Pair<'_>) -> [Expr<'_>; 6] {
    let axis = key[0].rank().max(key[1].rank());
    let key = key.map(|word| word.cast_exactly(DType::F64).unsqueeze(&[word.rank()]));
    let pair = Expr::concat(&key, axis);
    let width = 2 * BITS;
    let halves =
        matrix(pair, 2, width, |word, column| (word == column / BITS).then(|| 1.0 / power(column)));
    let parity = row(pair, width, |k| if k < BITS { (PARITY >> k & 1) as f64 } else { 0.0 });
    let keys = Expr::concat(&[pair, joined(pair.matmul(halves) + parity)], axis);
    // The word of the key that is added to the column, and the number.
    let words = |group: usize| [group % 3, (group + 1) % 3];
    let counts = |word: usize, column: usize| {
        let (group, column) = (column / width, column % width);
        let [a, b] = words(group);
        let of_a = word == a && column < BITS;
        let of_b = word == b && (column >= BITS || group < 5);
        (of_a || of_b).then(|| 1.0 / power(column))
    };
    let all = 6 * width;
    let numbers = row(keys, all, |at| {
        let (group, column) = (at / width, at % width);
        if column >= BITS || group < 5 { group as f64 / power(column) } else { 0.0 }
    });
    let sums = keys.matmul(matrix(keys, 3, all, counts)) + numbers;
    split(sums, width as i64)
}

/// Splits the last axis into parts of one size.
fn split<const N: usize>(x: Expr<'_>, size: i64) -> [Expr<'_>; N] {
    let axis = x.rank() - 1;
    let mut shape = x.shape().to_vec();
    shape[axis] = Dim::Known(size);
    let sizes = x.builder.ints(&[size; N]);
    let attrs = vec![("axis", Attr::Int(axis as i64))];
    let shapes = vec![&shape[..]; N];
    let parts = x.builder.sized_nodes(OpType::Split, &[Some(x), Some(sizes)], attrs, &shapes);
    std::array::from_fn(|at| parts[at])
}

/// `2ᵏ` for bit `k` of a word
fn power(bit: usize) -> f64 {
    ((bit % BITS) as f64).exp2()
}

/// Returns a constant list.
fn row(like: Expr<'_>, size: usize, entry: impl Fn(usize) -> f64) -> Expr<'_> {
    let entries: Vec<f64> = (0..size).map(entry).collect();
    like.builder.constant(DType::F64, &[size as i64], &entries)
}

/// Returns a constant matrix, in which `None` is zero.
fn matrix(
    like: Expr<'_>,
    rows: usize,
    columns: usize,
    entry: impl Fn(usize, usize) -> Option<f64>,
) -> Expr<'_> {
    let entries: Vec<f64> =
        (0..rows * columns).map(|at| entry(at / columns, at % columns).unwrap_or(0.0)).collect();
    like.builder.constant(DType::F64, &[rows as i64, columns as i64], &entries)
}
