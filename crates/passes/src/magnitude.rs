//! Determines how large the elements of a float can be.

use onnx::operator::properties::{SELECTIONS, VIEW_OPS};
use onnx::{Attr, DType, Edit, OpType, Tensor, ValueId};
use rustc_hash::FxHashMap;

use crate::access::Access;
use crate::pattern::uniform;

/// How many nodes are followed from a value to what it is made of.
const DEPTH: usize = 16;

/// Sums of a few numbers up to this one are still floats.
pub(crate) const LARGEST: f64 = 1e37;

const NORMS: &[OpType] = &[OpType::LayerNormalization, OpType::RMSNormalization];

/// So many numbers of a constant are read at once.
const MAX_READ: usize = 1 << 14;

/// The largest number that is assumed to be in a larger constant.
const ASSUMED: f64 = 1e6;

/// Each element is at most this large, or is NaN where that is possible.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Magnitude {
    pub most: f64,
    pub may_be_nan: bool,
}

impl Magnitude {
    pub(crate) fn finite(most: f64) -> Magnitude {
        Magnitude { most, may_be_nan: false }
    }

    /// Returns the magnitude of what is computed from two, NaN where one of them is.
    fn with(self, other: Magnitude, most: impl Fn(f64, f64) -> f64) -> Magnitude {
        Magnitude {
            most: most(self.most, other.most),
            may_be_nan: self.may_be_nan || other.may_be_nan,
        }
    }

    fn times(self, factor: f64) -> Magnitude {
        Magnitude { most: self.most * factor, ..self }
    }
}

/// The magnitudes of values, as far as they have been asked for.
#[derive(Default)]
pub(crate) struct Magnitudes {
    known: FxHashMap<ValueId, Option<Magnitude>>,
    /// Whether it matters what is normalized. It decides only if the result may be NaN, and is the whole network
    /// before.
    follows_norms: bool,
    /// The large weights of which no magnitude is known.
    assumed: Vec<ValueId>,
    /// Whether large weights are read, instead of assuming that their numbers are of ordinary size.
    reads_weights: bool,
}

impl Magnitudes {
    /// Starts without assumptions: all weights are read, and those of products by column.
    pub(crate) fn of_read_weights() -> Magnitudes {
        Magnitudes { reads_weights: true, ..Magnitudes::default() }
    }

    /// Supposes the magnitude of a value that those asked for next are computed from.
    pub(crate) fn suppose(&mut self, value: ValueId, magnitude: Magnitude) {
        self.known.insert(value, Some(magnitude));
        self.follows_norms = true;
    }

    /// Notes what has been assumed of weights, because it is made use of.
    pub(crate) fn assume(self, edit: &Edit<'_>) {
        let Some(assumptions) = edit.assumptions() else {
            return;
        };
        for tensor in self.assumed.into_iter().filter_map(|value| edit.tensor(value)) {
            assumptions.limit(tensor, ASSUMED);
        }
    }

    /// Returns the magnitude of a value of 32-bit floats, if it has a limit.
    pub(crate) fn of(&mut self, edit: &Edit<'_>, value: ValueId) -> Option<Magnitude> {
        self.follow(edit, value, DEPTH)
    }

    /// Returns the largest magnitude of a value that cannot be NaN.
    pub(crate) fn without_nan(&mut self, edit: &Edit<'_>, value: ValueId) -> Option<f64> {
        self.of(edit, value).filter(|found| !found.may_be_nan).map(|found| found.most)
    }

    fn follow(&mut self, edit: &Edit<'_>, value: ValueId, depth: usize) -> Option<Magnitude> {
        if let Some(known) = self.known.get(&value) {
            return *known;
        }
        let is_single = edit.ty(value)?.dtype == DType::F32;
        let found = match edit.tensor(value) {
            Some(tensor) => Some(Magnitude::finite(self.of_constant(edit, value, tensor))),
            None => self.of_node(edit, edit.producer(value)?, depth.checked_sub(1)?),
        };
        let found = found.filter(|found| is_single && found.most <= LARGEST);
        self.known.insert(value, found);
        found
    }

    fn of_constant(&mut self, edit: &Edit<'_>, value: ValueId, tensor: &Tensor) -> f64 {
        if self.reads_weights || edit.assumptions().is_none() || tensor.len() <= MAX_READ {
            return tensor.max_magnitude();
        }
        self.assumed.push(value);
        ASSUMED
    }

    fn of_node(&mut self, edit: &Edit<'_>, index: usize, depth: usize) -> Option<Magnitude> {
        let node = edit.node(index);
        let follows_norms = self.follows_norms;
        let mut of = |operand| self.follow(edit, edit.input(index, operand)?, depth);
        // How many elements there are along the axes from this one on.
        let count = |axis: usize| {
            let shape = &edit.ty(edit.input(index, 0)?)?.shape;
            let sizes = shape.get(axis..)?.iter().map(|dim| Some(dim.known()? as f64));
            sizes.product::<Option<f64>>()
        };
        let found = match node.op.onnx()? {
            // A normalized number is at most the root of how many there are.
            op if NORMS.contains(&op) => {
                let root = count(edit.axis(index)?)?.sqrt();
                let bias = if node.inputs.len() > 2 { of(2)? } else { Magnitude::finite(0.0) };
                let is_divisor = matches!(node.attr("epsilon"), Some(Attr::Float(e)) if *e > 0.0);
                let is_finite = |x: Magnitude| !x.may_be_nan && x.most <= SQUARED;
                let is_never_nan = follows_norms && is_divisor && of(0).is_some_and(is_finite);
                let most = |scale: f64, bias: f64| scale * root + bias;
                Magnitude { may_be_nan: !is_never_nan, ..of(1)?.with(bias, most) }
            }
            OpType::MatMul => {
                let rank = edit.ty(edit.input(index, 0)?)?.rank();
                let (x, weights) = (of(0)?, of(1)?);
                let product = x.with(weights, |a, b| a * b).times(count(rank.checked_sub(1)?)?);
                let by_norms = self.reads_weights.then(|| self.of_projection(edit, index, depth));
                let most = by_norms.flatten().map_or(product.most, |most| most.min(product.most));
                Magnitude { most, ..product }
            }
            OpType::Add | OpType::Sub => of(0)?.with(of(1)?, |a, b| a + b),
            OpType::Mul => of(0)?.with(of(1)?, |a, b| a * b),
            OpType::Div => {
                let dividend = of(0)?;
                dividend.times(1.0 / self.least(edit, edit.input(index, 1)?, depth)?)
            }
            OpType::Reciprocal => {
                Magnitude::finite(1.0 / self.least(edit, edit.input(index, 0)?, depth)?)
            }
            OpType::Exp => {
                let exponent = of(0)?;
                Magnitude { most: exponent.most.exp(), ..exponent }
            }
            OpType::Pow => {
                let base = uniform(edit.tensor(edit.input(index, 0)?)?)?;
                let exponent = of(1)?;
                Magnitude { most: base.max(1.0 / base).powf(exponent.most), ..exponent }
            }
            OpType::RotaryEmbedding => {
                let angles = of(1)?.with(of(2)?, f64::max);
                of(0)?.with(angles, |x, angle| 2.0 * x * angle)
            }
            OpType::Cos
            | OpType::Erf
            | OpType::Sigmoid
            | OpType::Sin
            | OpType::Softmax
            | OpType::Tanh => {
                Magnitude { most: 1.0, may_be_nan: of(0).is_none_or(|x| x.may_be_nan) }
            }
            OpType::Where => of(1)?.with(of(2)?, f64::max),
            OpType::Concat => (1..node.inputs.len())
                .try_fold(of(0)?, |most, part| Some(most.with(of(part)?, f64::max)))?,
            OpType::Cast => {
                let from = edit.ty(edit.input(index, 0)?)?.dtype;
                Magnitude::finite((from.is_int() || from == DType::Bool).then_some(MOST_INT)?)
            }
            OpType::Neg | OpType::Abs | OpType::Relu | OpType::Split => of(0)?,
            op if op.is(SELECTIONS) => of(0)?,
            _ => return None,
        };
        Some(found)
    }

    /// Returns the largest magnitude of the projection of rows by a constant matrix. No product of two vectors is larger
    /// than that of their lengths.
    fn of_projection(&mut self, edit: &Edit<'_>, index: usize, depth: usize) -> Option<f64> {
        let matrix = edit.tensor(edit.input(index, 1)?).filter(|matrix| matrix.shape.len() == 2)?;
        let mut squares = vec![0.0; usize::try_from(matrix.shape[1]).ok()?];
        let (mut column, count) = (0, squares.len());
        let are_floats = matrix.all_floats(|number| {
            squares[column] += number * number;
            column = (column + 1) % count;
            true
        });
        let longest = squares.into_iter().fold(0.0, f64::max).sqrt();
        Some(longest * self.length(edit, edit.input(index, 0)?, depth)?).filter(|_| are_floats)
    }

    /// Returns the largest length of a row along the last axis.
    fn length(&mut self, edit: &Edit<'_>, value: ValueId, depth: usize) -> Option<f64> {
        let size = edit.ty(value)?.shape.last()?;
        let root = (size.known()? as f64).sqrt();
        let (source, _) = edit.through(value, VIEW_OPS);
        // If the last axis is as long as before, each row is one of the source.
        let norm = edit.producer(source).filter(|&norm| {
            let is_norm = edit.node(norm).op.is_one_of(NORMS);
            let keeps_rows = edit.walk(value, VIEW_OPS).all(|(index, _)| {
                edit.node(index).op != OpType::Transpose
                    && edit
                        .ty(edit.node(index).outputs[0])
                        .is_some_and(|ty| ty.shape.last() == Some(size))
            });
            let rank = edit.ty(source).map_or(0, |ty| ty.rank());
            is_norm
                && keeps_rows
                && edit.ty(source).is_some_and(|ty| ty.shape.last() == Some(size))
                && edit.axis(norm).is_some_and(|axis| axis + 1 == rank)
        });
        let Some(norm) = norm else {
            return Some(root * self.follow(edit, value, depth)?.most);
        };
        let mut of = |operand| Some(self.follow(edit, edit.input(norm, operand)?, depth)?.most);
        let bias = if edit.node(norm).inputs.len() > 2 { of(2)? } else { 0.0 };
        Some(root * (of(1)? + bias))
    }

    /// Returns a number above zero that no element is below.
    fn least(&mut self, edit: &Edit<'_>, value: ValueId, depth: usize) -> Option<f64> {
        if let Some(tensor) = edit.tensor(value) {
            return Some(uniform(tensor)?.abs());
        }
        // A power that is at most `m` is at least `1 / m`, since its exponent may have either sign.
        let is_power = edit.node(edit.producer(value)?).op.is_one_of(&[OpType::Exp, OpType::Pow]);
        let power =
            self.follow(edit, value, depth).filter(|power| is_power && !power.may_be_nan)?;
        Some(1.0 / power.most)
    }
}

/// The squares of numbers up to this one are floats.
const SQUARED: f64 = 1e18;

/// No integer is larger.
const MOST_INT: f64 = 2e19;

#[cfg(test)]
mod tests {
    use onnx::tensor::Assumptions;
    use onnx::{DType, Tensor};

    use super::{ASSUMED, Magnitude, Magnitudes};

    /// Asserts the largest magnitude of the last value, which the nodes make of `x` and of integers, and whether
    /// it may be NaN. The nodes before are all that is supposed to be known, apart from a finite `u`.
    #[track_caller]
    fn check(nodes: &str, expected: Option<(f64, bool)>) {
        let inputs = "x:f32[2,4], u:f32[2,4], n:i32[2,4], c:bool[2,4]";
        let graph = format!("graph g({inputs}) -> (y)\n{nodes}");
        let mut model = onnx::text::parse_graph(&graph).unwrap();
        let u = model.graph.inputs[1];
        model.edit(&mut |edit| {
            let mut magnitudes = Magnitudes::default();
            magnitudes.suppose(u, Magnitude::finite(3.0));
            let found = magnitudes.of(edit, edit.node(edit.len() - 1).outputs[0]);
            assert_eq!(found.map(|found| (found.most, found.may_be_nan)), expected, "{nodes}");
        });
    }

    #[test]
    fn an_input_has_no_limit() {
        check("y:f32[2,4] = Neg(x)", None);
        check("%0:f32[2,4] = Tanh(u)\ny:f32[2,4] = Add(%0, x)", None);
    }

    #[test]
    fn sums_and_products_are_limited_by_their_operands() {
        check("y:f32[2,4] = Sub(u, 2.0)", Some((5.0, false)));
        check("y:f32[2,4] = Mul(u, u)", Some((9.0, false)));
        check("y:f32[2,4] = Div(u, -0.5)", Some((6.0, false)));
        check(
            "%0:f32[4,2] = Transpose(u) {perm=[1, 0]}\ny:f32[2,2] = MatMul(u, %0)",
            Some((36.0, false)),
        );
        check("y:f32[2,4] = Where(c, u, -7.0)", Some((7.0, false)));
        check("y:f32[2,8] = Concat(u, u) {axis=1}", Some((3.0, false)));
    }

    #[test]
    fn what_overflows_has_no_limit() {
        check("%0:f32[2,4] = Mul(u, 1e20)\ny:f32[2,4] = Mul(%0, 1e20)", None);
        check("y:f32[2,4] = Div(u, 0.0)", None);
        check("%0:f32[2,4] = Mul(u, 100.0)\ny:f32[2,4] = Exp(%0)", None);
        check("y:f32[2,4] = Div(u, u)", None);
    }

    #[test]
    fn a_norm_is_limited_by_its_size_whatever_is_normalized() {
        let norm =
            |x| format!("y:f32[2,4] = LayerNormalization({x}, 5.0, 1.0) {{axis=1, epsilon=1e-5}}");
        check(&norm("x"), Some((11.0, true)));
        check(&norm("u"), Some((11.0, false)));
        check(
            "y:f32[2,4] = RMSNormalization(u, 5.0) {axis=0, epsilon=0.0}",
            Some((5.0 * 8_f64.sqrt(), true)),
        );
    }

    #[test]
    fn a_table_of_angles_is_never_nan() {
        let angle =
            "%0:f32[2,4] = Cast(n) {to=1}\n%1:f32[2,4] = Pow(1e4, u)\n%2:f32[2,4] = Div(%0, %1)";
        check(&format!("{angle}\ny:f32[2,4] = Cos(%2)"), Some((1.0, false)));
        check("y:f32[2,4] = Cos(x)", Some((1.0, true)));
    }

    #[test]
    fn a_large_constant_is_assumed_to_be_ordinary_and_checked_later() {
        for (number, is_wrong) in [(1.0, false), (1e7, true), (f64::NAN, true)] {
            let mut numbers = vec![1.0; 1 << 15];
            numbers[12_345] = number;
            let mut model = onnx::text::parse_graph(
                "graph g(x:f32[32768]) -> (y)\nw:f32[32768] = Neg(x)\ny:f32[32768] = Add(x, w)",
            )
            .unwrap();
            model.assumptions = Some(Assumptions::default());
            let assumptions = model.assumptions.clone().unwrap();
            model.edit(&mut |edit| {
                let tensor = Tensor::of_floats(DType::F32, vec![1 << 15], &numbers).unwrap();
                assert!(edit.fold(0, tensor));
                let weight = edit.input(1, 1).unwrap();
                let mut magnitudes = Magnitudes::default();
                assert_eq!(magnitudes.of(edit, weight).map(|found| found.most), Some(ASSUMED));
                assert!(!assumptions.are_wrong(), "nothing makes use of it yet");
                magnitudes.assume(edit);
                assert_eq!(assumptions.are_wrong(), is_wrong, "{number}");
            });
        }
    }
}
