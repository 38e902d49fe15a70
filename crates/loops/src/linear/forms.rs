//! Reads the body of a loop as sums of products that are linear in one state.
//!
//! The walk follows the values that depend on the state. Each of them is a sum of terms; a term is a product of
//! factors that do not depend on the state, and of the state, of a sum of the state over one of its axes, or of
//! nothing else. Axes are those of the state: a factor says which of them it has, so that layout ops and broadcasts
//! disappear.

use algebra::rewrite::{Result, require};
use onnx::edit::for_each_read;
use onnx::operator::properties::RESHAPES;
use onnx::{Dim, Edit, Node, OpType, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Carry, Counted};

/// The maximum number of nodes to follow from a factor to its own factors.
const MAX_DEPTH: usize = 24;

/// The maximum number of terms of a sum.
const MAX_TERMS: usize = 16;

/// For each axis of a value, the axis of the state that it is. `None` for an axis of size one.
pub(super) type Axes = Vec<Option<usize>>;

/// A factor that does not depend on the state.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Factor {
    Value {
        id: ValueId,
        axes: Axes,
    },
    /// One where a condition is true, or where it is false, and zero elsewhere.
    Mask {
        id: ValueId,
        axes: Axes,
        is_negated: bool,
    },
    /// The sum of a product over an axis of the state.
    Dot {
        factors: Vec<Factor>,
        axis: usize,
    },
}

impl Factor {
    /// True if it contains a [`Factor::Mask`].
    fn is_masked(&self) -> bool {
        match self {
            Factor::Value { .. } => false,
            Factor::Mask { .. } => true,
            Factor::Dot { factors, .. } => factors.iter().any(Factor::is_masked),
        }
    }

    pub(super) fn spans(&self, axis: usize) -> bool {
        match self {
            Factor::Value { axes, .. } | Factor::Mask { axes, .. } => axes.contains(&Some(axis)),
            Factor::Dot { factors, axis: summed } => {
                *summed != axis && factors.iter().any(|factor| factor.spans(axis))
            }
        }
    }
}

/// The factors of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    One,
    State(When),
    /// The result of a [`Read`], by its index.
    Read(usize),
}

/// The state before or after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Before,
    After,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Term {
    pub is_negative: bool,
    pub factors: Vec<Factor>,
    pub of: Of,
}

impl Term {
    /// Separates constant factors, unless they are large: guards add up the numbers without them.
    pub(super) fn scaled(&self, edit: &Edit<'_>) -> Option<(f64, Term)> {
        let number = |factor: &Factor| match factor {
            Factor::Value { id, .. } => edit.tensor(*id)?.number(),
            _ => None,
        };
        let (constants, factors): (Vec<Factor>, Vec<Factor>) =
            self.factors.iter().cloned().partition(|factor| number(factor).is_some());
        let scale: f64 = constants.iter().filter_map(number).product();
        require(!factors.is_empty() && scale.abs() <= 1.0)?;
        Some((scale, Term { factors, ..self.clone() }))
    }
}

/// A value as a sum of terms.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub terms: Vec<Term>,
    pub axes: Axes,
}

impl Form {
    fn of_state(when: When, shape: &[Dim]) -> Form {
        let term = Term { is_negative: false, factors: Vec::new(), of: Of::State(when) };
        Form { terms: vec![term], axes: axes_of(shape) }
    }

    fn reads_state(&self) -> bool {
        self.terms.iter().any(|term| matches!(term.of, Of::State(_)))
    }
}

/// The sum of the product of the state and of factors over an axis of the state.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub when: When,
    pub key: Vec<Factor>,
    pub axis: usize,
}

/// The part of a body that depends on one state.
pub(super) struct Forms<'l> {
    counted: &'l Counted,
    makers: FxHashMap<ValueId, usize>,
    /// The sizes of the state.
    pub shape: Vec<Dim>,
    pub of: FxHashMap<ValueId, Form>,
    /// The values that depend on reads of the state in another way.
    pub later: FxHashSet<ValueId>,
    pub reads: Vec<Read>,
    /// The state after a step.
    pub update: Form,
    /// The first operator that reads the state otherwise than in a sum of products.
    pub other_reader: Option<&'l Node>,
    /// True if a step multiplies the state by a whole matrix, which turns an infinite number into NaN elsewhere.
    pub reflects: bool,
}

impl<'l> Forms<'l> {
    /// Reads the body with respect to one state. `None` if the state is not updated linearly. Declines if the update of
    /// another state depends on it.
    pub(super) fn of(
        edit: &Edit<'_>,
        counted: &'l Counted,
        state: Carry,
    ) -> Option<Result<Forms<'l>>> {
        let shape = edit.shape(state.before)?.to_vec();
        let makers = counted.nodes.iter().enumerate();
        let makers =
            makers.flat_map(|(place, node)| node.outputs.iter().map(move |&id| (id, place)));
        let before = Form::of_state(When::Before, &shape);
        let mut forms = Forms {
            counted,
            makers: makers.collect(),
            of: [(state.before, before)].into_iter().collect(),
            later: FxHashSet::default(),
            reads: Vec::new(),
            update: Form { terms: Vec::new(), axes: Vec::new() },
            other_reader: None,
            reflects: false,
            shape,
        };
        for node in &counted.nodes {
            if !forms.depends(node) {
                continue;
            }
            let form = forms.form(edit, node);
            let output = node.outputs[0];
            match form {
                Some(form) if output == state.after => {
                    forms.update = form;
                    let after = Form::of_state(When::After, &forms.shape);
                    forms.of.insert(output, after);
                }
                Some(form) => _ = forms.of.insert(output, form),
                None => {
                    let is_state = |id: &ValueId| forms.of.get(id).is_some_and(Form::reads_state);
                    if node.inputs.iter().flatten().any(is_state) || node.bodies().next().is_some()
                    {
                        forms.other_reader.get_or_insert(node);
                    }
                    forms.later.extend(&node.outputs);
                }
            }
        }
        require(!forms.update.terms.is_empty() && forms.update.axes == axes_of(&forms.shape))?;
        let others = counted.carries.iter().filter(|carry| carry.before != state.before);
        let is_read = |carry: &Carry| {
            forms.of.contains_key(&carry.after) || forms.later.contains(&carry.after)
        };
        if others.clone().any(is_read) {
            return Some(Err("another state depends on it".into()));
        }
        Some(Ok(forms))
    }

    /// True if conditions choose parts of the update. A product with zero does not drop what is infinite or NaN, but a
    /// condition does.
    pub(super) fn is_chosen(&self) -> bool {
        self.update.terms.iter().flat_map(|term| &term.factors).any(Factor::is_masked)
    }

    /// True if a value depends on the state.
    pub(super) fn reaches(&self, value: ValueId) -> bool {
        self.of.contains_key(&value) || self.later.contains(&value)
    }

    /// Returns the exponent of a factor that a step computes with `Exp`.
    pub(super) fn exponent(&self, factor: &Factor) -> Option<Factor> {
        let Factor::Value { id, axes } = factor else { return None };
        let node = &self.counted.nodes[*self.makers.get(id)?];
        require(node.op == OpType::Exp)?;
        Some(Factor::Value { id: node.inputs.first().copied()??, axes: axes.clone() })
    }

    /// Returns the factors of the exponent of a factor that a step computes with `Exp`, and whether it is negated.
    pub(super) fn factors_of_exponent(
        &self,
        edit: &Edit<'_>,
        factor: &Factor,
    ) -> Option<(bool, Vec<Factor>)> {
        let Factor::Value { id, axes } = self.exponent(factor)? else { return None };
        self.factors(edit, id, &axes, MAX_DEPTH)
    }

    fn depends(&self, node: &Node) -> bool {
        let mut depends = false;
        for_each_read(node, &mut |id| depends |= self.reaches(id));
        depends
    }

    fn form(&mut self, edit: &Edit<'_>, node: &Node) -> Option<Form> {
        let inputs: Vec<ValueId> = node.inputs.iter().copied().collect::<Option<_>>()?;
        require(!inputs.iter().any(|id| self.later.contains(id)) && node.outputs.len() == 1)?;
        let form = |forms: &Forms<'_>, id: &ValueId| forms.of.get(id).cloned();
        match (node.op.onnx()?, &inputs[..]) {
            (OpType::Identity, [x]) => form(self, x),
            (OpType::Neg, [x]) => Some(negated(form(self, x)?)),
            (op, [x, ..]) if op.is(RESHAPES) && op != OpType::Identity => {
                let shaped = form(self, x)?;
                let axes = self.axes_in(&shaped.axes, edit.shape(node.outputs[0])?)?;
                Some(Form { axes, ..shaped })
            }
            (OpType::Transpose, [x]) => {
                let form = form(self, x)?;
                let perm = node.perm(form.axes.len())?;
                let axes = perm.iter().map(|&axis| form.axes[axis]).collect();
                Some(Form { axes, ..form })
            }
            (OpType::Add, [x, y]) => self.sum(edit, *x, *y, false),
            (OpType::Sub, [x, y]) => self.sum(edit, *x, *y, true),
            (OpType::Mul, [x, y]) => match (form(self, x), form(self, y)) {
                (Some(form), None) => self.times(edit, form, *y),
                (None, Some(form)) => self.times(edit, form, *x),
                _ => None,
            },
            (OpType::Where, [condition, x, y]) => self.selected(edit, *condition, [*x, *y]),
            (OpType::MatMul, [x, y]) => match (form(self, x), form(self, y)) {
                (Some(form), None) => self.matmul(edit, form, *y, false),
                (None, Some(form)) => self.matmul(edit, form, *x, true),
                _ => None,
            },
            (OpType::ReduceSum, [x, axes]) => {
                let form = form(self, x)?;
                let [axis] = edit.tensor(*axes)?.ints()?[..] else { return None };
                let place = onnx::infer::axes_from_front(&[axis], form.axes.len())?[0];
                let mut summed = self.contracted(&form, &[], form.axes[place]?)?;
                match node.keeps_axes() {
                    true => summed.axes[place] = None,
                    false => _ = summed.axes.remove(place),
                }
                Some(summed)
            }
            _ => None,
        }
    }

    /// Returns the axes of a value with other unit axes.
    fn axes_in(&self, axes: &Axes, shape: &[Dim]) -> Option<Axes> {
        let mut rest = axes.iter().flatten();
        let mut found = Axes::new();
        for dim in shape {
            if dim.is(1) {
                found.push(None);
                continue;
            }
            let &axis = rest.next()?;
            require(self.shape[axis] == *dim)?;
            found.push(Some(axis));
        }
        rest.next().is_none().then_some(found)
    }

    /// Returns the sum or the difference of two operands, at least one of which depends on the state.
    fn sum(&self, edit: &Edit<'_>, x: ValueId, y: ValueId, is_negative: bool) -> Option<Form> {
        let [x, y] = self.operands(edit, [x, y])?;
        let axes = joined(&x.axes, &y.axes)?;
        let y = if is_negative { negated(y) } else { y };
        let terms: Vec<Term> = x.terms.into_iter().chain(y.terms).collect();
        (terms.len() <= MAX_TERMS).then_some(Form { terms, axes })
    }

    /// Returns the operands of an operator that broadcasts, at least one of which depends on the state.
    fn operands(&self, edit: &Edit<'_>, [x, y]: [ValueId; 2]) -> Option<[Form; 2]> {
        match (self.of.get(&x), self.of.get(&y)) {
            (Some(x), Some(y)) => Some([x.clone(), y.clone()]),
            (Some(form), None) => Some([form.clone(), self.free(edit, y, &form.axes)?]),
            (None, Some(form)) => Some([self.free(edit, x, &form.axes)?, form.clone()]),
            (None, None) => None,
        }
    }

    /// Returns what a condition that does not depend on the state selects of two operands.
    fn selected(
        &self,
        edit: &Edit<'_>,
        condition: ValueId,
        operands: [ValueId; 2],
    ) -> Option<Form> {
        let [x, y] = self.operands(edit, operands)?;
        let both = joined(&x.axes, &y.axes)?;
        let own = self.axes_beside(edit, condition, &both)?;
        let masked = |form: Form, is_negated: bool| {
            let mask = Factor::Mask { id: condition, axes: own.clone(), is_negated };
            form.terms.into_iter().map(move |mut term| {
                term.factors.push(mask.clone());
                term
            })
        };
        let axes = joined(&both, &own)?;
        let terms: Vec<Term> = masked(x, false).chain(masked(y, true)).collect();
        (terms.len() <= MAX_TERMS).then_some(Form { terms, axes })
    }

    /// Returns a value that does not depend on the state as the operand of an operator that broadcasts.
    fn free(&self, edit: &Edit<'_>, value: ValueId, beside: &Axes) -> Option<Form> {
        let axes = self.axes_beside(edit, value, beside)?;
        if edit.tensor(value).is_some_and(|tensor| tensor.all_floats(|number| number == 0.0)) {
            return Some(Form { terms: Vec::new(), axes });
        }
        let (is_negative, factors) = self.factors(edit, value, &axes, MAX_DEPTH)?;
        Some(Form { terms: vec![Term { is_negative, factors, of: Of::One }], axes })
    }

    /// Returns the axes of an operand that is broadcast beside axes.
    fn axes_beside(&self, edit: &Edit<'_>, value: ValueId, beside: &Axes) -> Option<Axes> {
        let dims = edit.shape(value)?;
        let rank = dims.len().max(beside.len());
        let axis = |(place, dim): (usize, &Dim)| {
            if dim.is(1) {
                return Some(None);
            }
            let place = place + rank - dims.len();
            let own = place.checked_sub(rank - beside.len()).and_then(|own| beside[own]);
            let axis = own.or((rank == self.shape.len()).then_some(place))?;
            (self.shape[axis] == *dim).then_some(Some(axis))
        };
        dims.iter().enumerate().map(axis).collect()
    }

    fn times(&self, edit: &Edit<'_>, form: Form, by: ValueId) -> Option<Form> {
        let own = self.axes_beside(edit, by, &form.axes)?;
        let axes = joined(&form.axes, &own)?;
        let (is_negative, factors) = self.factors(edit, by, &own, MAX_DEPTH)?;
        let times = |term: Term| Term {
            is_negative: term.is_negative != is_negative,
            factors: [&term.factors[..], &factors[..]].concat(),
            of: term.of,
        };
        Some(Form { terms: form.terms.into_iter().map(times).collect(), axes })
    }

    /// Returns the product of matrices, one of which depends on the state. `is_right` if that is the second one.
    fn matmul(&mut self, edit: &Edit<'_>, form: Form, by: ValueId, is_right: bool) -> Option<Form> {
        let (rank, dims) = (form.axes.len(), edit.shape(by)?.to_vec());
        require(rank >= 2 && dims.len() <= rank && !dims.is_empty())?;
        // The places of the axis that is summed: in the form, and in the other operand.
        let summed = if is_right { rank - 2 } else { rank - 1 };
        let is_vector = dims.len() == 1;
        let own = if is_vector || is_right { dims.len() - 1 } else { dims.len() - 2 };
        let other = if is_right { dims.len().checked_sub(2) } else { Some(dims.len() - 1) };
        let other = other.filter(|_| !is_vector);
        if dims[own].is(1) && form.axes[summed].is_none() {
            // An outer product.
            return self.times(edit, form, by).filter(|_| !is_vector);
        }
        let axis = form.axes[summed]?;
        if let Some(other) = other.filter(|&other| !dims[other].is(1)) {
            return self.reflected(edit, &form, by, axis, [own, other]);
        }
        require(other.is_none_or(|other| dims[other].is(1)) && self.shape[axis] == dims[own])?;
        let mut axes = Axes::new();
        for (place, dim) in dims.iter().enumerate() {
            let lead = place + rank - dims.len();
            axes.push(match dim {
                _ if place == own => Some(axis),
                dim if dim.is(1) => None,
                _ => Some(form.axes[lead].filter(|&axis| self.shape[axis] == *dim)?),
            });
        }
        let (is_negative, factors) = self.factors(edit, by, &axes, MAX_DEPTH)?;
        let mut made = self.contracted(&form, &factors, axis)?;
        if is_vector {
            made.axes.remove(summed);
        } else {
            made.axes[summed] = None;
        }
        Some(if is_negative { negated(made) } else { made })
    }

    /// Returns the product of a form and of the identity plus an outer product, such as `I − β k kᵀ`. The places are those
    /// of the axis of the matrix that is summed, and of its other axis.
    fn reflected(
        &mut self,
        edit: &Edit<'_>,
        form: &Form,
        by: ValueId,
        axis: usize,
        [summed, other]: [usize; 2],
    ) -> Option<Form> {
        let node = &self.counted.nodes[*self.makers.get(&by)?];
        require(node.op == OpType::Sub || node.op == OpType::Add)?;
        let &[Some(identity), Some(outer)] = &node.inputs[..] else { return None };
        let (identity, outer) = match is_identity(edit, identity) {
            true => (identity, outer),
            false if node.op == OpType::Add => (outer, identity),
            false => return None,
        };
        let (dims, rank) = (edit.shape(by)?.to_vec(), form.axes.len());
        require(is_identity(edit, identity) && self.shape[axis] == dims[other])?;
        // The axis that is summed gets a number of its own.
        let own = self.shape.len();
        let lead = rank.checked_sub(dims.len())?;
        let axes = dims.iter().enumerate().map(|(place, dim)| match dim {
            _ if place == summed => Some(Some(own)),
            _ if place == other => Some(Some(axis)),
            dim if dim.is(1) => Some(None),
            _ => form.axes[lead + place].filter(|&axis| self.shape[axis] == *dim).map(Some),
        });
        let axes: Axes = axes.collect::<Option<_>>()?;
        self.shape.push(dims[summed].clone());
        let within = self.axes_within(edit, outer, &axes);
        let factors = within.and_then(|axes| self.factors(edit, outer, &axes, MAX_DEPTH));
        self.shape.pop();
        let (is_negative, factors) = factors?;
        let (inside, outside): (Vec<Factor>, Vec<Factor>) =
            factors.into_iter().partition(|factor| factor.spans(own));
        require(!inside.iter().any(|factor| factor.spans(axis)))?;
        let key: Vec<Factor> =
            inside.into_iter().map(|factor| renamed(factor, own, axis)).collect();
        let is_negative = is_negative != (node.op == OpType::Sub);
        let added = self.contracted(form, &key, axis)?.terms.into_iter().map(|term| Term {
            is_negative: term.is_negative != is_negative,
            factors: [&term.factors[..], &outside[..]].concat(),
            of: term.of,
        });
        let terms: Vec<Term> = form.terms.iter().cloned().chain(added).collect();
        self.reflects = true;
        (terms.len() <= MAX_TERMS).then_some(Form { terms, axes: form.axes.clone() })
    }

    /// Returns the sum of the product of a form and of factors over an axis of the state. The axes are not changed.
    fn contracted(&mut self, form: &Form, by: &[Factor], axis: usize) -> Option<Form> {
        require(form.reads_state())?;
        let mut terms = Vec::new();
        for term in &form.terms {
            let (inside, outside): (Vec<Factor>, Vec<Factor>) =
                term.factors.iter().chain(by).cloned().partition(|factor| factor.spans(axis));
            terms.push(match term.of {
                Of::State(when) => {
                    self.reads.push(Read { when, key: inside, axis });
                    let of = Of::Read(self.reads.len() - 1);
                    Term { is_negative: term.is_negative, factors: outside, of }
                }
                _ if inside.is_empty() => return None,
                Of::Read(read) if self.reads[read].axis != axis => return None,
                of => {
                    let dot = Factor::Dot { factors: inside, axis };
                    let factors = [&outside[..], &[dot]].concat();
                    Term { is_negative: term.is_negative, factors, of }
                }
            });
        }
        Some(Form { terms, axes: form.axes.clone() })
    }

    /// Returns the factors of a value that does not depend on the state, and whether their product is negated.
    fn factors(
        &self,
        edit: &Edit<'_>,
        value: ValueId,
        axes: &Axes,
        depth: usize,
    ) -> Option<(bool, Vec<Factor>)> {
        let leaf = || Some((false, vec![Factor::Value { id: value, axes: axes.clone() }]));
        let node = self.makers.get(&value).map(|&place| &self.counted.nodes[place]);
        let Some(node) = node.filter(|_| depth > 0) else { return leaf() };
        let Some(op) = node.op.onnx() else { return leaf() };
        let operand = |place: usize| node.inputs.get(place).copied().flatten();
        let product = |x: ValueId, y: ValueId| {
            let own = |id: ValueId| self.axes_within(edit, id, axes);
            let (x, y) = ((x, own(x)?), (y, own(y)?));
            let (a, mut factors) = self.factors(edit, x.0, &x.1, depth / 2)?;
            let (b, more) = self.factors(edit, y.0, &y.1, depth / 2)?;
            factors.extend(more);
            Some((a != b, factors))
        };
        let found = match op {
            OpType::Mul => operand(0).zip(operand(1)).and_then(|(x, y)| product(x, y)),
            OpType::MatMul => operand(0).zip(operand(1)).and_then(|(x, y)| {
                let (a, b) = (edit.shape(x)?, edit.shape(y)?);
                require(a.len() == axes.len() && b.len() == axes.len())?;
                require(a.last()?.is(1))?;
                product(x, y)
            }),
            OpType::Neg => operand(0).and_then(|x| {
                let (is_negative, factors) = self.factors(edit, x, axes, depth - 1)?;
                Some((!is_negative, factors))
            }),
            OpType::Expand => operand(0).and_then(|x| {
                let own = self.axes_within(edit, x, axes)?;
                self.factors(edit, x, &own, depth - 1)
            }),
            op if op.is(RESHAPES) => operand(0).and_then(|x| {
                let own = self.axes_in(axes, edit.shape(x)?)?;
                self.factors(edit, x, &own, depth - 1)
            }),
            _ => None,
        };
        found.or_else(leaf)
    }

    /// Returns the axes of an operand that is broadcast to a value with axes.
    fn axes_within(&self, edit: &Edit<'_>, value: ValueId, axes: &Axes) -> Option<Axes> {
        let dims = edit.shape(value)?;
        let lead = axes.len().checked_sub(dims.len())?;
        let axis = |(place, dim): (usize, &Dim)| match axes[lead + place] {
            _ if dim.is(1) => Some(None),
            axis => axis.filter(|&axis| self.shape[axis] == *dim).map(Some),
        };
        dims.iter().enumerate().map(axis).collect()
    }
}

/// Returns the axes of a value with the shape of the state.
fn axes_of(shape: &[Dim]) -> Axes {
    shape.iter().enumerate().map(|(axis, dim)| (!dim.is(1)).then_some(axis)).collect()
}

/// Returns a factor with another axis.
fn renamed(factor: Factor, from: usize, to: usize) -> Factor {
    let axis = |axis: Option<usize>| axis.map(|axis| if axis == from { to } else { axis });
    let moved = |axes: Axes| axes.into_iter().map(axis).collect();
    match factor {
        Factor::Value { id, axes } => Factor::Value { id, axes: moved(axes) },
        Factor::Mask { id, axes, is_negated } => Factor::Mask { id, axes: moved(axes), is_negated },
        dot @ Factor::Dot { .. } => dot,
    }
}

/// True for a constant identity matrix.
fn is_identity(edit: &Edit<'_>, value: ValueId) -> bool {
    let Some(tensor) = edit.tensor(value) else { return false };
    let &[.., rows, columns] = &tensor.shape[..] else { return false };
    let is_square = rows == columns && tensor.len() as i64 == rows * columns;
    let mut place = 0;
    let mut is_entry = |number: f64| {
        let expected = if place % (rows + 1) == 0 { 1.0 } else { 0.0 };
        place += 1;
        number == expected
    };
    is_square && tensor.all_floats(&mut is_entry)
}

fn negated(mut form: Form) -> Form {
    form.terms.iter_mut().for_each(|term| term.is_negative = !term.is_negative);
    form
}

/// Returns the axes of the result of an operator that broadcasts.
fn joined(x: &Axes, y: &Axes) -> Option<Axes> {
    let rank = x.len().max(y.len());
    let axis =
        |axes: &Axes, place: usize| place.checked_sub(rank - axes.len()).and_then(|own| axes[own]);
    let join = |place| match (axis(x, place), axis(y, place)) {
        (Some(a), Some(b)) => (a == b).then_some(Some(a)),
        (a, b) => Some(a.or(b)),
    };
    let axes: Axes = (0..rank).map(join).collect::<Option<_>>()?;
    let mut seen = FxHashSet::default();
    axes.iter().flatten().all(|axis| seen.insert(*axis)).then_some(axes)
}
