//! Which line of one version is which of the other.

use std::collections::BTreeMap;

use super::{Placed, Side};

/// More lines of one function than this are aligned by their numbers alone.
const MOST_CELLS: usize = 1 << 22;

/// Pairs the lines of a function in two versions, in order. Lines that have many operators in common
/// belong together, and of those the ones with the same number; a line without a partner is new or gone.
pub(super) fn align(
    a: &Side<'_, '_>,
    before: &BTreeMap<u32, Vec<usize>>,
    b: &Side<'_, '_>,
    after: &BTreeMap<u32, Vec<usize>>,
) -> Vec<(Option<Placed>, Option<Placed>)> {
    let list = |lines: &BTreeMap<u32, Vec<usize>>| -> Vec<Placed> {
        lines.iter().map(|(&line, nodes)| (line, nodes.clone())).collect()
    };
    let (old, new) = (list(before), list(after));
    let width = new.len() + 1;
    if (old.len() + 1).saturating_mul(width) > MOST_CELLS {
        return by_number(before, after);
    }
    let score = |i: usize, j: usize| likeness(a, &old[i], b, &new[j]);
    // The best score of the lines from here on, for each pair of beginnings.
    let mut best = vec![0.0f64; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            let together = score(i, j).map_or(0.0, |s| s + best[(i + 1) * width + j + 1]);
            best[i * width + j] =
                together.max(best[(i + 1) * width + j]).max(best[i * width + j + 1]);
        }
    }
    let mut pairs = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() && j < new.len() {
        let here = best[i * width + j];
        let together = score(i, j).map(|s| s + best[(i + 1) * width + j + 1]);
        if together == Some(here) {
            pairs.push((Some(old[i].clone()), Some(new[j].clone())));
            (i, j) = (i + 1, j + 1);
        } else if best[(i + 1) * width + j] == here {
            pairs.push((Some(old[i].clone()), None));
            i += 1;
        } else {
            pairs.push((None, Some(new[j].clone())));
            j += 1;
        }
    }
    pairs.extend(old[i..].iter().map(|line| (Some(line.clone()), None)));
    pairs.extend(new[j..].iter().map(|line| (None, Some(line.clone()))));
    pairs
}

fn by_number(
    before: &BTreeMap<u32, Vec<usize>>,
    after: &BTreeMap<u32, Vec<usize>>,
) -> Vec<(Option<Placed>, Option<Placed>)> {
    let mut lines: Vec<u32> = before.keys().chain(after.keys()).copied().collect();
    lines.sort_unstable();
    lines.dedup();
    let of = |side: &BTreeMap<u32, Vec<usize>>, line| side.get(&line).map(|n| (line, n.clone()));
    lines.into_iter().map(|line| (of(before, line), of(after, line))).collect()
}

/// How much two lines have in common; nothing where they have nothing.
fn likeness(a: &Side<'_, '_>, old: &Placed, b: &Side<'_, '_>, new: &Placed) -> Option<f64> {
    let (ops_a, ops_b) = (a.by_op(&old.1), b.by_op(&new.1));
    let common: usize = ops_a
        .iter()
        .map(|(op, nodes)| ops_b.get(op).map_or(0, |others| others.len().min(nodes.len())))
        .sum();
    let is_same_line = old.0 == new.0;
    if common == 0 && !is_same_line {
        return None;
    }
    let share = 2.0 * common as f64 / (old.1.len() + new.1.len()).max(1) as f64;
    // A line at its place wins over an equal one elsewhere; it must not win over a better one.
    Some(share + if is_same_line { 0.25 } else { 0.0 })
}
