//! The Threefry 2×32 block cipher of Salmon, Moraes, Dror and Shaw (2011), in 20 rounds.

use onnx::{Builder, DType, Dim, Expr};

use super::products;

/// Two words of 32 bits.
pub(super) type Pair<'g> = [Expr<'g>; 2];

/// The rotations of four rounds each, in bits. The two rows alternate.
pub(super) const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
/// The constant in the third word of the key.
pub(super) const PARITY: i64 = 0x1BD1_1BDA;

/// Returns the hash of a pair of words under a key; `None` is the word zero.
///
/// A round is `a ← a + b`, `b ← rot(b) ⊕ a`. After every four rounds, two of the three words of the
/// key and the number of the group are added.
pub(super) fn hash<'g>(key: Pair<'g>, words: [Option<Expr<'g>>; 2]) -> Pair<'g> {
    let [key_0, key_1] = key;
    if products::are_better(key, words) {
        return key_0.builder.helper("threefry", || products::hash(key, words));
    }
    key_0.builder.helper("threefry", || {
        let parity = key_0.builder.constant_ints(DType::U32, &[], &[PARITY]);
        let keys = [key_0, key_1, key_0.bitwise_xor(key_1).bitwise_xor(parity)];
        let [a, b] = words;
        let mut a = a.map_or(key_0, |a| a + key_0);
        let mut b = b.map_or(key_1, |b| b + key_1);
        for group in 0..5 {
            for by in ROTATIONS[group % 2] {
                a = a + b;
                b = rotate(b, by).bitwise_xor(a);
            }
            a = a + keys[(group + 1) % 3];
            b = b + (keys[(group + 2) % 3] + (group + 1) as f64);
        }
        [a, b]
    })
}

/// Returns `a ⊕ b` for the two words of a hash.
pub(super) fn folded_hash<'g>(key: Pair<'g>, words: [Option<Expr<'g>>; 2]) -> Expr<'g> {
    if products::are_better(key, words) {
        return key[0].builder.helper("threefry", || products::folded_hash(key, words));
    }
    let [a, b] = hash(key, words);
    a.bitwise_xor(b)
}

fn rotate(x: Expr<'_>, by: u32) -> Expr<'_> {
    x.shift_left(f64::from(by)).bitwise_or(x.shift_right(f64::from(32 - by)))
}

/// `0, 1, 2, …` in the given shape, as 64-bit integers: the high words, or `None` if all are zero,
/// and the low words
pub(super) fn counts<'g>(builder: &'g Builder, shape: &[Dim]) -> [Option<Expr<'g>>; 2] {
    if shape.is_empty() {
        return [None, None];
    }
    let size = builder.product(shape);
    let low = iota(builder, &size).reshape(shape);
    if size.known().is_some_and(|size| size <= 1 << 32) {
        return [None, Some(low)];
    }
    let count = Expr::range(builder, &size).cast(DType::U64);
    let high = count.shift_right(32.0).cast(DType::U32).reshape(shape);
    [Some(high), Some(low)]
}

/// Returns the hashes of `0, 1, … count − 1` along a last axis. The second half is paired with the
/// first half; if the count is odd, the last number is paired with zero.
pub(super) fn halves(key: Pair<'_>, count: i64) -> Expr<'_> {
    let key = key.map(|word| word.unsqueeze(&[word.rank()]));
    let builder = key[0].builder;
    let half = (count + 1) / 2;
    let all = iota(builder, &Dim::Known(count));
    let first = all.slice_axis(0, 0, half);
    let mut second = all.slice_axis(0, half, count);
    if count % 2 == 1 {
        second = Expr::concat(&[second, builder.constant_ints(DType::U32, &[1], &[0])], 0);
    }
    let axis = key[0].rank() - 1;
    let hashes = Expr::concat(&hash(key, [Some(first), Some(second)]), axis);
    hashes.slice_axis(axis, 0, count)
}

/// `0, 1, 2, …`, wrapped to 32 bits
fn iota<'g>(builder: &'g Builder, size: &Dim) -> Expr<'g> {
    match size.known() {
        // A short list is cheaper than the nodes that compute it.
        Some(known @ 0..=256) => {
            let list: Vec<i64> = (0..known).collect();
            builder.constant_ints(DType::U32, &[known], &list)
        }
        _ => Expr::range(builder, size).cast(DType::U32),
    }
}
