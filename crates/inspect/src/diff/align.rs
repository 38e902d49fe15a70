//! Matches the lines of two versions of a function.

use std::collections::BTreeMap;

use super::{Placed, Side};

/// If the product of the numbers of lines is larger, lines are aligned by number only.
const MAX_CELLS: usize = 1 << 20;

/// Pairs the lines of two versions of a function, in order. Lines with many common operators are paired, preferably
/// those with the same number. A line without a partner is new or removed.
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
    if (old.len() + 1).saturating_mul(width) > MAX_CELLS {
        return by_number(before, after);
    }
    let counts = |side: &'_ Side<'_, '_>, lines: &[Placed]| -> Vec<Counts> {
        lines.iter().map(|(line, nodes)| Counts::of(side, *line, nodes)).collect()
    };
    let (old_counts, new_counts) = (counts(a, &old), counts(b, &new));
    let score = |i: usize, j: usize| old_counts[i].likeness(&new_counts[j]);
    // The best score of the remaining lines, for each pair of starting lines.
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

/// The operators of a line and their counts.
struct Counts {
    line: u32,
    nodes: usize,
    ops: BTreeMap<String, usize>,
}

impl Counts {
    fn of(side: &Side<'_, '_>, line: u32, nodes: &[usize]) -> Counts {
        let ops = side.by_op(nodes).into_iter().map(|(op, nodes)| (op.to_owned(), nodes.len()));
        Counts { line, nodes: nodes.len(), ops: ops.collect() }
    }

    /// Returns the similarity of two lines; `None` if they have nothing in common.
    fn likeness(&self, other: &Counts) -> Option<f64> {
        let in_both = |(op, &count): (&String, &usize)| {
            other.ops.get(op).map_or(0, |&others| others.min(count))
        };
        let common: usize = self.ops.iter().map(in_both).sum();
        let is_same_line = self.line == other.line;
        if common == 0 && !is_same_line {
            return None;
        }
        let share = 2.0 * common as f64 / (self.nodes + other.nodes).max(1) as f64;
        // A line with the same number wins over an equally similar one elsewhere, but not over a more similar one.
        Some(share + if is_same_line { 0.25 } else { 0.0 })
    }
}
