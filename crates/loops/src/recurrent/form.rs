//! Affine functions of the inputs of a step and of the state.

use algebra::rewrite::require;
use onnx::{DType, Dim, Tensor, ValueId};

use super::moves::Move;

/// The most entries of an identity matrix.
const MAX_IDENTITY: i64 = 1 << 22;

/// Something that a form depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The number 1: the weights are biases.
    One,
    /// An array that the loop runs over, or the state.
    Value(ValueId),
}

/// A product of a source with weights.
#[derive(Clone, Debug)]
pub(super) struct Term {
    pub source: Source,
    /// One row per feature of the source. The other axes are those of the form without its batch axes.
    pub weights: Tensor,
    /// True if each feature of the source is multiplied with its own number, so that there is a single row.
    pub is_diagonal: bool,
    pub factor: f64,
    /// The constants that the weights are from.
    pub from: Vec<ValueId>,
}

/// A sum of products. Its value has the batch axes of its sources, next to each other, and axes of features.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub terms: Vec<Term>,
    /// The sizes of the axes of features.
    pub features: Vec<i64>,
    /// The index of the first batch axis, if there is one. A constant has none.
    pub at: Option<usize>,
}

impl Form {
    /// A constant.
    pub(super) fn of_constant(value: ValueId, tensor: &Tensor) -> Form {
        let features = tensor.shape.clone();
        let weights = tensor.with_shape([&[1], &features[..]].concat());
        Form {
            terms: vec![Term {
                source: Source::One,
                weights,
                is_diagonal: false,
                factor: 1.0,
                from: vec![value],
            }],
            features,
            at: None,
        }
    }

    /// A source with one axis of features, the last one.
    pub(super) fn of_source(
        value: ValueId,
        depth: i64,
        dtype: DType,
        at: Option<usize>,
    ) -> Option<Form> {
        require(dtype == DType::F32 && depth.checked_mul(depth)? <= MAX_IDENTITY)?;
        let one = 1f32.to_le_bytes();
        let mut bytes = vec![0; (depth * depth) as usize * one.len()];
        for entry in bytes.chunks_exact_mut(one.len()).step_by(depth as usize + 1) {
            entry.copy_from_slice(&one);
        }
        let identity = Tensor::new(dtype, vec![depth, depth], bytes);
        Some(Form::of_product(value, identity, Vec::new(), at))
    }

    /// The product of a source with weights, whose first batch axis is `at`.
    pub(super) fn of_product(
        value: ValueId,
        weights: Tensor,
        from: Vec<ValueId>,
        at: Option<usize>,
    ) -> Form {
        let features = weights.shape[1..].to_vec();
        let source = Source::Value(value);
        let term = Term { source, weights, is_diagonal: false, factor: 1.0, from };
        Form { terms: vec![term], features, at }
    }

    /// The product of each feature of a source with a number.
    pub(super) fn of_diagonal(
        value: ValueId,
        weights: Tensor,
        from: ValueId,
        at: Option<usize>,
    ) -> Form {
        let mut form = Form::of_product(value, weights, vec![from], at);
        form.terms[0].is_diagonal = true;
        form
    }

    pub(super) fn scaled(mut self, factor: f64) -> Form {
        self.terms.iter_mut().for_each(|term| term.factor *= factor);
        self
    }

    /// Returns the sum of two forms, whose value has this shape with this many batch axes.
    pub(super) fn plus(self, other: Form, shape: &[Dim], batch: usize) -> Option<Form> {
        let position = |form: &Form| {
            let rank = form.features.len() + batch;
            form.at.map(|at| Some(at + shape.len().checked_sub(rank)?))
        };
        let at = match (position(&self), position(&other)) {
            (Some(a), Some(b)) => Some(a.filter(|_| a == b)?),
            (a, b) => a.or(b).map_or(Some(None), |at| at.map(Some))?,
        };
        let is_batch = |axis: usize| at.is_some_and(|at| (at..at + batch).contains(&axis));
        let sizes = shape.iter().enumerate().filter(|&(axis, _)| !is_batch(axis));
        let features: Vec<i64> = sizes.map(|(_, dim)| dim.known()).collect::<Option<_>>()?;
        let [mut a, b] =
            [self, other].map(|form| form.broadcast(shape.len(), at, batch, &features));
        let (mut terms, others) = (a.take()?.terms, b?.terms);
        terms.extend(others);
        Some(Form { terms, features, at })
    }

    /// Broadcasts the form to a number of axes and to sizes of features.
    fn broadcast(
        mut self,
        rank: usize,
        at: Option<usize>,
        batch: usize,
        features: &[i64],
    ) -> Option<Form> {
        // A constant has axes of size one where the batch axes are.
        if let (None, Some(at)) = (self.at, at) {
            let missing = rank.checked_sub(self.features.len())?;
            let axes = self.features.iter().enumerate().map(|(axis, &size)| (axis + missing, size));
            let (over, own): (Vec<_>, Vec<_>) =
                axes.partition(|&(axis, _)| (at..at + batch).contains(&axis));
            require(over.iter().all(|&(_, size)| size == 1))?;
            let own = own.into_iter().map(|(_, size)| size).collect();
            self = self.with_features(own);
        }
        let missing = features.len().checked_sub(self.features.len())?;
        let padded = [&vec![1; missing][..], &self.features].concat();
        let mut form = self.with_features(padded);
        if form.features != features {
            require(form.terms.iter().all(|term| !term.is_diagonal))?;
            for term in &mut form.terms {
                let shape = [&term.weights.shape[..1], features].concat();
                term.weights = term.weights.broadcast(&shape)?;
            }
            form.features = features.to_vec();
        }
        Some(form)
    }

    fn with_features(mut self, features: Vec<i64>) -> Form {
        if features != self.features {
            for term in &mut self.terms {
                let shape = [&term.weights.shape[..1], &features[..]].concat();
                term.weights = term.weights.with_shape(shape);
            }
            self.features = features;
        }
        self
    }

    /// Returns the form of the moved value, with this many batch axes.
    pub(super) fn moved(self, step: &Move, batch: usize) -> Option<Form> {
        require(self.terms.iter().all(|term| !term.is_diagonal))?;
        let rank = self.features.len() + if self.at.is_some() { batch } else { 0 };
        // The index of an axis among those of features; `None` for a batch axis.
        let at = self.at;
        let feature = |axis: usize| match at {
            Some(at) if axis >= at + batch => Some(axis - batch),
            Some(at) if axis >= at => None,
            _ => Some(axis),
        };
        match step {
            &Move::Slice { axis, start, step, size } => {
                let axis = feature(axis)?;
                let count = self.features.len() + 1;
                let (mut starts, mut steps) = (vec![0; count], vec![1; count]);
                (starts[axis + 1], steps[axis + 1]) = (start, step);
                let mut features = self.features.clone();
                *features.get_mut(axis)? = size;
                self.each(features, |weights, features| {
                    let shape = [&weights.shape[..1], features].concat();
                    weights.sliced(&starts, &steps, &shape)
                })
            }
            Move::Transpose(perm) => {
                require(perm.len() == rank)?;
                let places: Vec<Option<usize>> = perm.iter().map(|&axis| feature(axis)).collect();
                let own: Vec<usize> = places.iter().flatten().copied().collect();
                let at = match at {
                    Some(at) => {
                        let first = perm.iter().position(|&axis| axis == at);
                        // Batch axes stay next to each other and in order.
                        let run = |first: usize| perm.get(first..first + batch);
                        let is_run = first.and_then(run).is_some_and(|run| {
                            run.iter().enumerate().all(|(place, &axis)| axis == at + place)
                        });
                        Some(first.filter(|_| is_run)?)
                    }
                    None => None,
                };
                let features = own.iter().map(|&axis| self.features[axis]).collect();
                let order: Vec<usize> =
                    std::iter::once(0).chain(own.iter().map(|axis| axis + 1)).collect();
                let form = self.each(features, |weights, _| weights.transposed(&order))?;
                Some(Form { at, ..form })
            }
            Move::Reshape { from, to } => {
                let known = |dims: &[Dim]| dims.iter().map(Dim::known).collect::<Option<Vec<_>>>();
                let Some(at) = at else {
                    let features = known(to)?;
                    return Some(self.with_features(features));
                };
                let run = from.get(at..at + batch)?;
                let leading = known(from.get(..at)?)?.iter().product::<i64>();
                let fits = |place: usize| {
                    let (before, rest) = to.split_at_checked(place)?;
                    let is_run = rest.get(..batch)? == run;
                    let before = known(before)?.iter().product::<i64>();
                    (is_run && before == leading).then_some(place)
                };
                let place = (0..to.len()).find_map(fits)?;
                let features = [&to[..place], &to[place + batch..]].concat();
                let features = known(&features)?;
                let count = |features: &[i64]| features.iter().product::<i64>();
                require(count(&features) == count(&self.features))?;
                Some(Form { at: Some(place), ..self.with_features(features) })
            }
        }
    }

    fn each(
        mut self,
        features: Vec<i64>,
        change: impl Fn(&Tensor, &[i64]) -> Option<Tensor>,
    ) -> Option<Form> {
        for term in &mut self.terms {
            term.weights = change(&term.weights, &features)?;
        }
        self.features = features;
        Some(self)
    }

    /// True if a source is a term by itself, so that its weights are from the identity matrix.
    pub(super) fn has_identity(&self) -> bool {
        let is_own = |term: &Term| matches!(term.source, Source::Value(_)) && !term.is_diagonal;
        self.terms.iter().any(|term| is_own(term) && term.from.is_empty())
    }

    /// True if a term is a product with the source.
    pub(super) fn reads(&self, source: ValueId) -> bool {
        self.terms.iter().any(|term| term.source == Source::Value(source))
    }

    /// True if it only has products with the source, and biases.
    pub(super) fn is_of(&self, source: ValueId) -> bool {
        self.reads(source) && self.sources().all(|other| other == source)
    }

    /// Returns the sources of its products.
    pub(super) fn sources(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.terms.iter().filter_map(|term| match term.source {
            Source::Value(value) => Some(value),
            Source::One => None,
        })
    }

    /// Writes the products of a source with diagonal matrices as such.
    pub(super) fn find_diagonals(&mut self, source: ValueId) -> Option<()> {
        let is_meant = |term: &&mut Term| term.source == Source::Value(source) && !term.is_diagonal;
        for term in self.terms.iter_mut().filter(is_meant) {
            let &[rows, columns] = &term.weights.shape[..] else { return None };
            let (numbers, stride) = (term.weights.floats()?, columns as usize + 1);
            let is_zero = |(place, &number): (usize, &f64)| place % stride == 0 || number == 0.0;
            require(rows == columns && numbers.iter().enumerate().all(is_zero))?;
            let diagonal: Vec<f64> = numbers.iter().copied().step_by(stride).collect();
            term.weights = Tensor::of_floats(DType::F32, vec![1, columns], &diagonal)?;
            term.is_diagonal = true;
        }
        Some(())
    }

    /// Replaces a source by another one.
    pub(super) fn rename(&mut self, source: ValueId, other: ValueId) {
        for term in &mut self.terms {
            if term.source == Source::Value(source) {
                term.source = Source::Value(other);
            }
        }
    }

    /// Returns the sum of the weights of a source, transposed: one row of `depth` numbers per feature. All are zero
    /// if there is no such source.
    pub(super) fn rows(&self, source: ValueId, dtype: DType, depth: i64) -> Option<Tensor> {
        let &[size] = &self.features[..] else { return None };
        let source = Source::Value(source);
        let terms: Vec<&Term> = self.terms.iter().filter(|term| term.source == source).collect();
        let fits = |term: &&Term| term.weights.shape[..] == [depth, size] && !term.is_diagonal;
        require(terms.iter().all(fits))?;
        if let [term] = terms[..]
            && term.factor == 1.0
        {
            return term.weights.transposed(&[1, 0]).filter(|tensor| tensor.dtype == dtype);
        }
        let weights =
            terms.iter().map(|term| Some((term.weights.transposed(&[1, 0])?, term.factor)));
        let sum = summed(weights, (size * depth) as usize)?;
        Tensor::of_floats(dtype, vec![size, depth], &sum)
    }

    /// Returns the sum of the numbers by which each feature of a source is multiplied.
    pub(super) fn diagonal(&self, source: ValueId) -> Option<Vec<f64>> {
        self.sum_of(|term| term.source == Source::Value(source) && term.is_diagonal)
    }

    /// Returns the sum of the biases.
    pub(super) fn bias(&self) -> Option<Vec<f64>> {
        self.sum_of(|term| term.source == Source::One)
    }

    fn sum_of(&self, is_meant: impl Fn(&Term) -> bool) -> Option<Vec<f64>> {
        let &[size] = &self.features[..] else { return None };
        let terms = self.terms.iter().filter(|term| is_meant(term));
        let weights = terms.map(|term| Some((term.weights.broadcast(&[1, size])?, term.factor)));
        summed(weights, usize::try_from(size).ok()?)
    }
}

/// Returns the sum of products of arrays of one length with factors.
fn summed(arrays: impl Iterator<Item = Option<(Tensor, f64)>>, length: usize) -> Option<Vec<f64>> {
    let mut sum = vec![0.0; length];
    for array in arrays {
        let (array, factor) = array?;
        let numbers = array.floats()?;
        require(numbers.len() == length)?;
        sum.iter_mut().zip(numbers).for_each(|(total, number)| *total += factor * number);
    }
    Some(sum)
}
