//! Splits the matrix of a system into blocks, and computes powers of them.

use algebra::rewrite::{Result, ensure};

use super::coefficients::{Coefficient, Row};

/// A larger block stays in its loop.
const MAX_BLOCK: usize = 128;

/// The largest power of a matrix, relative to the numbers of its diagonal.
const MAX_POWER: f64 = (1u64 << 20) as f64;

/// A square matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Matrix {
    pub size: usize,
    pub entries: Vec<f64>,
}

impl Matrix {
    pub(super) fn identity(size: usize) -> Matrix {
        let entry = |place| if place % (size + 1) == 0 { 1.0 } else { 0.0 };
        Matrix { size, entries: (0..size * size).map(entry).collect() }
    }

    pub(super) fn at(&self, row: usize, column: usize) -> f64 {
        self.entries[row * self.size + column]
    }

    fn times(&self, other: &Matrix) -> Matrix {
        let size = self.size;
        let mut entries = vec![0.0; size * size];
        for row in 0..size {
            for inner in 0..size {
                let factor = self.at(row, inner);
                if factor != 0.0 {
                    for column in 0..size {
                        entries[row * size + column] += factor * other.at(inner, column);
                    }
                }
            }
        }
        Matrix { size, entries }
    }

    /// Returns the powers from 0 to `last`.
    pub(super) fn powers(&self, last: usize) -> Vec<Matrix> {
        let mut powers = vec![Matrix::identity(self.size)];
        for exponent in 0..last {
            let next = powers[exponent].times(self);
            powers.push(next);
        }
        powers
    }

    /// Returns an upper bound of the largest eigenvalue of the magnitudes of all matrices. Units of the states do not
    /// change it.
    fn growth(matrices: &[Matrix]) -> f64 {
        let Some(size) = matrices.first().map(|matrix| matrix.size) else { return 0.0 };
        if !matrices.iter().flat_map(|matrix| &matrix.entries).all(|entry| entry.is_finite()) {
            return f64::INFINITY;
        }
        let largest = |place: usize| {
            matrices.iter().map(|matrix| matrix.entries[place].abs()).fold(0.0, f64::max)
        };
        let most = Matrix { size, entries: (0..size * size).map(largest).collect() };
        let (mut weights, mut bound) = (vec![1.0; size], f64::INFINITY);
        for _ in 0..32 {
            let row =
                |row: usize| (0..size).map(|column| most.at(row, column) * weights[column]).sum();
            let next: Vec<f64> = (0..size).map(row).collect();
            let ratio = next.iter().zip(&weights).map(|(next, weight)| next / weight);
            bound = ratio.fold(0.0, f64::max).min(bound);
            let total: f64 = next.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            // A weight of zero would have no ratio.
            weights = next.iter().map(|next| (next / total).max(1e-12)).collect();
        }
        bound
    }
}

/// The matrices of blocks.
pub(super) enum Matrices {
    /// The matrix of each block, or the one of all blocks.
    Known(Vec<Matrix>),
    /// The model computes one matrix for all blocks, or one for each.
    Computed { is_shared: bool },
}

/// Blocks of one size.
pub(super) struct Blocks {
    /// The number of blocks, and of the states of each.
    pub count: usize,
    pub size: usize,
    /// The states of each block, one block after the other.
    pub order: Vec<usize>,
    pub matrices: Matrices,
}

impl Blocks {
    /// Returns the number of matrices.
    pub(super) fn tables(&self) -> usize {
        match &self.matrices {
            Matrices::Known(all) => all.len(),
            Matrices::Computed { is_shared: true } => 1,
            Matrices::Computed { is_shared: false } => self.count,
        }
    }

    /// Returns the blocks of a matrix, by their size.
    pub(super) fn of(rows: &[Row]) -> Result<Vec<Blocks>> {
        let mut parents: Vec<usize> = (0..rows.len()).collect();
        for (row, entries) in rows.iter().enumerate() {
            for &(column, _) in entries {
                let [a, b] = [row, column as usize].map(|state| root(&mut parents, state));
                parents[a.max(b)] = a.min(b);
            }
        }
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
        for state in 0..rows.len() {
            members[root(&mut parents, state)].push(state);
        }
        members.retain(|states| !states.is_empty());
        if let Some(regular) = regular(&members, rows.len()) {
            members = regular;
        }
        let mut sizes: Vec<usize> = Vec::new();
        for states in &members {
            ensure(states.len() <= MAX_BLOCK, "a step mixes more than 128 numbers of the state")?;
            if !sizes.contains(&states.len()) {
                sizes.push(states.len());
            }
        }
        let blocks = |size: usize| {
            let members: Vec<&Vec<usize>> =
                members.iter().filter(|one| one.len() == size).collect();
            let entries = |states: &&Vec<usize>| {
                let mut entries = vec![Coefficient::known(0.0); size * size];
                for (row, &state) in states.iter().enumerate() {
                    for &(column, one) in &rows[state] {
                        if let Ok(column) = states.binary_search(&(column as usize)) {
                            entries[row * size + column] = one;
                        }
                    }
                }
                entries
            };
            let mut all: Vec<Vec<Coefficient>> = members.iter().map(entries).collect();
            let is_shared = all.iter().all(|one| *one == all[0]);
            if is_shared {
                all.truncate(1);
            }
            let known = |entries: &Vec<Coefficient>| {
                let entries = entries.iter().map(|one| one.constant()).collect::<Option<_>>()?;
                Some(Matrix { size, entries })
            };
            Blocks {
                count: members.len(),
                size,
                order: members.into_iter().flatten().copied().collect(),
                matrices: match all.iter().map(known).collect() {
                    Some(all) => Matrices::Known(all),
                    None => Matrices::Computed { is_shared },
                },
            }
        };
        Ok(sizes.into_iter().map(blocks).collect())
    }
}

/// Joins blocks of several sizes to blocks of one size, if each state is in the block of its row or of its column in a
/// table of all states. Examples are poles with and without an imaginary part. The states need not be gathered then.
fn regular(members: &[Vec<usize>], states: usize) -> Option<Vec<Vec<usize>>> {
    let largest = members.iter().map(Vec::len).max()?;
    if members.iter().all(|block| block.len() == largest) {
        return None;
    }
    let sizes =
        (largest..=2 * largest).filter(|size| *size < states && states.is_multiple_of(*size));
    sizes.filter(|&size| size <= MAX_BLOCK).find_map(|size| {
        let count = states / size;
        let by_place = |state: usize| state % count;
        let by_block = |state: usize| state / size;
        let ways: [&dyn Fn(usize) -> usize; 2] = [&by_place, &by_block];
        let keeps = |way: &&dyn Fn(usize) -> usize| {
            let is_whole = |block: &Vec<usize>| block.iter().all(|&one| way(one) == way(block[0]));
            members.iter().all(is_whole)
        };
        let way = ways.into_iter().find(keeps)?;
        let mut blocks = vec![Vec::new(); count];
        (0..states).for_each(|state| blocks[way(state)].push(state));
        Some(blocks)
    })
}

/// Returns the largest power of a matrix that the rounding of steps of the loop permits. Each step of the loop adds up as
/// many products as the matrix has columns.
pub(super) fn max_power(steps: usize, size: usize) -> f64 {
    MAX_POWER.min(4.0 * steps.max(size) as f64)
}

/// Returns the powers of each matrix from 0 to `last`, and those matrices to the power `last`. Declines if they
/// are larger than the rounding of `steps` steps of the loop permits.
///
/// A chunk rounds its sum once, and multiplies it by powers. The loop rounds in each of its steps, and multiplies
/// each of these errors by a power.
pub(super) fn powers_of(
    matrices: &[Matrix],
    last: usize,
    steps: usize,
) -> Result<(Vec<Vec<Matrix>>, Vec<Matrix>)> {
    let mut all = Vec::new();
    for matrix in matrices {
        let limit = max_power(steps, matrix.size);
        let powers = matrix.powers(last);
        ensure(Matrix::growth(&powers) <= limit, "the state may grow with the number of steps")?;
        all.push(powers);
    }
    let next = all.iter().map(|powers| powers[last].clone()).collect();
    Ok((all, next))
}

fn root(parents: &mut [usize], mut state: usize) -> usize {
    while parents[state] != state {
        parents[state] = parents[parents[state]];
        state = parents[state];
    }
    state
}
