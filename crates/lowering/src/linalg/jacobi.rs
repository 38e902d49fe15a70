//! Rotates pairs of columns, all columns at a time.

use onnx::{Builder, DType, Expr};

use super::batch::axes;
use super::matrix::Matrix;

/// The order of the rotations: a round-robin tournament. In each step, entry `i` of the first half
/// is paired with entry `i` of the second half. Then all entries except the first move on by one
/// place, around both halves. After `size − 1` steps, every pair has met once, and each entry is
/// back at its place.
pub(super) struct Tournament {
    /// An even number.
    pub size: i64,
}

/// The rotation of each pair by an angle `φ`.
pub(super) struct Rotation<'g> {
    /// `1 − cos φ = sin² φ / (1 + cos φ)`. For a small angle, this number and its rounding error
    /// are small.
    loss: Expr<'g>,
    sine: Expr<'g>,
}

impl Tournament {
    /// Returns a tournament of `columns` columns, and one more if the number is odd.
    pub fn of(columns: i64) -> Tournament {
        Tournament { size: columns + columns % 2 }
    }

    pub fn half(&self) -> i64 {
        self.size / 2
    }

    pub fn steps(&self) -> i64 {
        self.size - 1
    }

    /// Returns, for each place, the previous place of the entry that moves there.
    pub fn sources(&self) -> Vec<i64> {
        let half = self.half();
        let source = |place: i64| match place {
            _ if half == 1 => place,
            0 => 0,
            1 => half,
            _ if place < half => place - 1,
            _ if place + 1 < self.size => place + 1,
            _ => half - 1,
        };
        (0..self.size).map(source).collect()
    }

    fn partner(&self, place: i64) -> i64 {
        (place + self.half()) % self.size
    }

    /// Rotates each pair along an axis, `(c · x − s · y, s · x + c · y)`, and moves the entries on.
    #[track_caller]
    pub fn rotate<'g>(&self, x: Expr<'g>, axis: usize, rotation: &Rotation<'g>) -> Expr<'g> {
        let builder = x.builder;
        builder.helper("rotate", || {
            let sources = self.sources();
            let partners: Vec<i64> = sources.iter().map(|&place| self.partner(place)).collect();
            let (_, column_axis) = axes(x);
            let other = if axis == column_axis { column_axis - 1 } else { column_axis };
            let along = |factor: Expr<'g>| factor.unsqueeze(&[other]);
            let own = x.gather(builder.ints(&sources), axis);
            let gain = x.gather(builder.ints(&partners), axis) * along(rotation.sine);
            own + (gain - own * along(rotation.loss))
        })
    }

    /// Returns the rotation for each place after the step, from the tangent `t` of the angle of
    /// each pair.
    #[track_caller]
    pub fn rotation<'g>(&self, t: Expr<'g>) -> Rotation<'g> {
        let builder = t.builder;
        builder.helper("turn", || {
            let sources = self.sources();
            let half = self.half();
            let pairs: Vec<i64> = sources.iter().map(|&place| place % half).collect();
            let signs: Vec<f64> =
                sources.iter().map(|&place| if place < half { -1.0 } else { 1.0 }).collect();
            let axis = t.rank() - 1;
            let cosine = (t * t + 1.0).sqrt().recip().gather(builder.ints(&pairs), axis);
            let sine = t.gather(builder.ints(&pairs), axis) * cosine;
            let signs = builder.constant(t.dtype(), &[self.size], &signs);
            Rotation { loss: sine * sine / (cosine + 1.0), sine: sine * signs }
        })
    }

    /// Returns a mask of the entries of a matrix that belong to a pair of the last step.
    #[track_caller]
    pub fn met<'g>(&self, builder: &'g Builder) -> Expr<'g> {
        let sources = self.sources();
        let partners: Vec<i64> = sources.iter().map(|&place| self.partner(place)).collect();
        let partners = builder.constant_ints(DType::I64, &[self.size, 1], &partners);
        partners.equal(builder.ints(&sources))
    }
}

/// Returns the absolute value of the number of each pair, or the number itself if it is real. For
/// complex numbers, also returns the phase for each place that makes them real. The phase of the
/// first entry of a pair is 1.
#[track_caller]
pub(super) fn phases<'g>(numbers: Matrix<'g>) -> (Expr<'g>, Option<Matrix<'g>>) {
    if !numbers.is_complex() {
        return (numbers.re, None);
    }
    let (length, phase) = numbers.polar();
    let axis = length.rank() - 1;
    let ones = numbers.constant(1.0).map(|part| part.expand(&length.shape()));
    let join = |one: Expr<'g>, other: Expr<'g>| Expr::concat(&[one, other], axis);
    let im = ones.im.zip(phase.im).map(|(one, other)| join(one, other));
    (length, Some(Matrix { re: join(ones.re, phase.re), im }))
}

/// Multiplies the entries along an axis by phases, if there are any.
#[track_caller]
pub(super) fn with_phases<'g>(
    x: Matrix<'g>,
    axis: usize,
    phases: Option<Matrix<'g>>,
) -> Matrix<'g> {
    let (row_axis, column_axis) = axes(x.re);
    let other = if axis == column_axis { row_axis } else { column_axis };
    phases.map_or(x, |phases| x * phases.map(|part| part.unsqueeze(&[other])))
}

/// `t = tan φ` with `t² + 2 · ζ · t = 1` and `ζ = difference / (2 · product)`, the smaller one of
/// the two solutions; zero where `is_idle`
#[track_caller]
pub(super) fn tangent<'g>(difference: Expr<'g>, product: Expr<'g>, is_idle: Expr<'g>) -> Expr<'g> {
    let builder = product.builder;
    builder.helper("tangent", || {
        let one = product.constant(1.0);
        let zeta = difference / (is_idle.select(one, product) * 2.0);
        let length = zeta.abs() + (zeta * zeta + 1.0).sqrt();
        let t = zeta.less(0.0).select(product.constant(-1.0), one) / length;
        is_idle.select(product.constant(0.0), t)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_meets_once_and_all_entries_return() {
        for size in [2, 4, 6, 10] {
            let tournament = Tournament::of(size);
            let mut places: Vec<i64> = (0..size).collect();
            let mut pairs = Vec::new();
            for _ in 0..tournament.steps() {
                let half = usize::try_from(tournament.half()).expect("small");
                let met = places[..half].iter().zip(&places[half..]);
                pairs.extend(met.map(|(&a, &b)| (a.min(b), a.max(b))));
                let at = |&source: &i64| places[usize::try_from(source).expect("small")];
                places = tournament.sources().iter().map(at).collect();
            }
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len() as i64, size * (size - 1) / 2);
            assert!(places.is_sorted());
        }
    }
}
