//! Contents of a tensor that are computed when they are written.

use std::ops::Range;
use std::sync::Arc;

use super::strided::{Axis, copy, grouped, merged};
use super::{Assumptions, Buffer, Contents, Tensor, floats_of};
use crate::dtype::DType;

/// Smaller contents are computed immediately.
const MAX_EAGER_BYTES: usize = 4096;

/// The number of elements to compute at a time as doubles. With fewer, a transposed view would read each cache line
/// several times.
const MAX_ELEMENTS: usize = 1 << 18;

/// The number of factors to compute at a time. They fit into the cache of a processor.
const MAX_FACTORS: usize = 1 << 12;

/// An expression over arrays.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Lazy {
    View(View),
    /// Products of elements and factors in double precision, rounded to the type of the elements. Both have the
    /// shape of the tensor. If it is not known that all products are exact, [`Assumptions`] record whether they
    /// are.
    Product(Tensor, Tensor, Option<Assumptions>),
    /// Floats, each rounded to the type of the tensor.
    Cast(Tensor),
    /// Concatenated parts. All axes before the concatenated one together have this size.
    Joined(Vec<Tensor>, usize),
}

/// The elements of an array in another order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct View {
    source: Buffer,
    /// The index of the first element.
    offset: isize,
    /// The axes in row-major order. Several of them may form one axis of the tensor.
    axes: Vec<Axis>,
}

/// Concatenates parts that were all moved in the same way.
fn of_moved(
    parts: impl Iterator<Item = Option<Tensor>>,
    axis: usize,
    shape: Vec<i64>,
) -> Option<Tensor> {
    let parts: Vec<Tensor> = parts.collect::<Option<_>>()?;
    match &parts[..] {
        [part] => Some(part.clone()),
        parts => Tensor::joined(&parts.iter().collect::<Vec<_>>(), axis, shape),
    }
}

/// Returns the parts that overlap a range along their axis, each with the start and the size of the overlap.
fn parts_of_range(parts: &[Tensor], axis: usize, range: Range<i64>) -> Vec<(&Tensor, i64, i64)> {
    let mut found = Vec::new();
    let mut begin = 0;
    for part in parts {
        let end = begin + part.shape[axis];
        let (first, last) = (range.start.max(begin), range.end.min(end));
        if first < last {
            found.push((part, first - begin, last - first));
        }
        begin = end;
    }
    found
}

/// Moves the axes of an array: given the runs of axes that form each axis, returns the change of the offset, and
/// the axes of the result.
type Move<'a> = dyn Fn(&[Vec<Axis>]) -> Option<(isize, Vec<Axis>)> + 'a;

impl Tensor {
    /// Returns the same elements in row-major order, in another shape.
    #[must_use]
    pub fn with_shape(&self, shape: Vec<i64>) -> Tensor {
        let contents = match self.lazy() {
            Some(Lazy::Product(x, factors, assumptions)) => {
                let [x, factors] = [x, factors].map(|tensor| tensor.with_shape(shape.clone()));
                Contents::Lazy(Arc::new(Lazy::Product(x, factors, assumptions.clone())))
            }
            Some(Lazy::Cast(x)) => {
                Contents::Lazy(Arc::new(Lazy::Cast(x.with_shape(shape.clone()))))
            }
            _ => self.contents.clone(),
        };
        Tensor::of_contents(self.dtype, shape, contents)
    }

    /// Returns the tensor with its axes in another order: axis `i` of the result is axis `perm[i]`. `None` if
    /// elements are not addressable.
    pub fn transposed(&self, perm: &[usize]) -> Option<Tensor> {
        let size = |&axis: &usize| self.shape.get(axis).copied();
        let shape: Vec<i64> = perm.iter().map(size).collect::<Option<_>>()?;
        if let Some((parts, axis)) = self.own_parts() {
            let axis = perm.iter().position(|&other| other == axis)?;
            return of_moved(parts.iter().map(|part| part.transposed(perm)), axis, shape);
        }
        self.viewed(&shape, &|tensor| tensor.transposed(perm), &|groups| {
            Some((0, perm.iter().flat_map(|&axis| groups[axis].clone()).collect()))
        })
    }

    /// Broadcasts the tensor to a shape.
    pub fn broadcast(&self, shape: &[i64]) -> Option<Tensor> {
        let missing = shape.len().checked_sub(self.shape.len())?;
        let fits = |(&own, &size): (&i64, &i64)| own == 1 || own == size;
        if !self.shape.iter().zip(&shape[missing..]).all(fits) {
            return None;
        }
        self.viewed(shape, &|tensor| tensor.broadcast(shape), &|groups| {
            let axes = shape.iter().enumerate().flat_map(|(axis, &size)| {
                match axis.checked_sub(missing) {
                    Some(own) if self.shape[own] != 1 => groups[own].clone(),
                    _ => vec![Axis { size: size as usize, stride: 0 }],
                }
            });
            Some((0, axes.collect()))
        })
    }

    /// Returns, along each axis, every `step`-th element from `start` on, as many as `shape` says. `None` if there
    /// are fewer.
    pub fn sliced(&self, starts: &[i64], steps: &[i64], shape: &[i64]) -> Option<Tensor> {
        let rank = self.shape.len();
        let has = |axis: usize, place: i64| (0..self.shape[axis]).contains(&place);
        let is_inside = |axis: usize| {
            let last = starts[axis] + (shape[axis] - 1) * steps[axis];
            has(axis, starts[axis]) && has(axis, last)
        };
        let is_whole = |axis: usize| steps[axis] == 1 && shape[axis] == self.shape[axis];
        if [starts.len(), steps.len(), shape.len()] != [rank; 3]
            || !(shape.contains(&0) || (0..rank).all(is_inside))
        {
            return None;
        }
        let is_some = !shape.contains(&0);
        let parts = self.own_parts().filter(|&(_, axis)| is_some && steps[axis] == 1);
        if let Some((parts, axis)) = parts {
            let cut = parts_of_range(parts, axis, starts[axis]..starts[axis] + shape[axis]);
            let slices = cut.into_iter().map(|(part, start, size)| {
                let [mut starts, mut shape] = [starts, shape].map(<[i64]>::to_vec);
                (starts[axis], shape[axis]) = (start, size);
                part.sliced(&starts, steps, &shape)
            });
            return of_moved(slices, axis, shape.to_vec());
        }
        self.viewed(shape, &|tensor| tensor.sliced(starts, steps, shape), &|groups| {
            let (mut offset, mut axes) = (0, Vec::new());
            for (place, group) in groups.iter().enumerate() {
                match group[..] {
                    _ if is_whole(place) => axes.extend(group),
                    [] => axes.push(Axis { size: shape[place] as usize, stride: 0 }),
                    [axis] => {
                        offset += starts[place] as isize * axis.stride;
                        let stride = axis.stride * steps[place] as isize;
                        axes.push(Axis { size: shape[place] as usize, stride });
                    }
                    _ => return None,
                }
            }
            Some((offset, axes))
        })
    }

    /// Concatenates parts of one type along an axis of the result, which has this shape.
    pub fn joined(parts: &[&Tensor], axis: usize, shape: Vec<i64>) -> Option<Tensor> {
        let (first, rows) = (parts.first()?, shape.get(..axis)?.iter().product::<i64>() as usize);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let is_one_type = parts.iter().all(|part| part.dtype == first.dtype);
        let fits =
            length as i64 == shape.iter().product::<i64>() && first.element_bytes().is_some();
        let parts = parts.iter().filter(|part| !part.is_empty()).map(|&part| part.clone());
        let joined = Lazy::Joined(parts.collect(), rows);
        (is_one_type && fits).then(|| Tensor::of_lazy(first.dtype, shape, joined))
    }

    /// Returns the products with the factors, each rounded once. `None` if a product overflows or loses digits, or
    /// if the elements or the factors are not floats of 32 or 64 bits. If there are many elements, the products are
    /// computed later, and `assumptions` record whether one overflows or loses digits.
    pub fn scaled(&self, factors: &Tensor, assumptions: Option<&Assumptions>) -> Option<Tensor> {
        let is_wide = |tensor: &Tensor| matches!(tensor.dtype, DType::F32 | DType::F64);
        if !is_wide(self) || factors.dtype != DType::F64 || factors.shape != self.shape {
            return None;
        }
        let assumptions = assumptions.filter(|_| self.expected_bytes() > MAX_EAGER_BYTES);
        if assumptions.is_none() && !self.has_exact_products(factors) {
            return None;
        }
        let product = Lazy::Product(self.clone(), factors.clone(), assumptions.cloned());
        Some(Tensor::of_lazy(self.dtype, self.shape.clone(), product))
    }

    /// True if no product with a factor overflows or loses digits.
    fn has_exact_products(&self, factors: &Tensor) -> bool {
        let (least, most) = normal_range(self.dtype);
        let bounds = self.magnitudes().times(factors.magnitudes());
        // The bounds cover all elements, but the smallest element need not have the smallest factor.
        bounds.are_within(least, most)
            || self.all_floats_with(factors, |x, factor| is_exact_product(self.dtype, x, factor))
    }

    /// Returns the nearest floats of another type. `None` if either type is not one of the four common ones.
    pub fn cast(&self, dtype: DType) -> Option<Tensor> {
        let is_common = |dtype| matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::Bf16);
        let cast = || Tensor::of_lazy(dtype, self.shape.clone(), Lazy::Cast(self.clone()));
        (is_common(self.dtype) && is_common(dtype)).then(cast)
    }

    /// Returns the concatenated parts of this tensor and their axis, if it was not reshaped since.
    fn own_parts(&self) -> Option<(&[Tensor], usize)> {
        let (parts, axis, shape) = self.parts()?;
        (shape == self.shape).then_some((parts, axis))
    }

    /// Returns a tensor of lazy contents. Computes them if there are few, or if they are in memory already.
    fn of_lazy(dtype: DType, shape: Vec<i64>, lazy: Lazy) -> Tensor {
        let mut tensor = Tensor::of_contents(dtype, shape, Contents::Lazy(Arc::new(lazy)));
        if tensor.is_empty() || tensor.expected_bytes() <= MAX_EAGER_BYTES {
            tensor.contents = Contents::Bytes(Buffer(tensor.bytes()));
        } else if let Some(Lazy::View(View { source, offset: 0, axes })) = tensor.lazy()
            && let [Axis { stride: 1, .. }] = axes[..]
            && source.0.len() == tensor.expected_bytes()
        {
            tensor.contents = Contents::Bytes(source.clone());
        }
        tensor
    }

    fn lazy(&self) -> Option<&Lazy> {
        match &self.contents {
            Contents::Lazy(lazy) => Some(lazy),
            Contents::Bytes(_) => None,
        }
    }

    /// Returns the size of an element in bytes. `None` if elements share a byte or have no fixed size.
    fn element_bytes(&self) -> Option<usize> {
        matches!(self.dtype.bits(), 8 | 16 | 32 | 64 | 128).then(|| self.dtype.bits() / 8)
    }

    /// Returns the view after a move of axes. `again` applies the same move to another tensor.
    fn viewed(
        &self,
        shape: &[i64],
        again: &dyn Fn(&Tensor) -> Option<Tensor>,
        change: &Move<'_>,
    ) -> Option<Tensor> {
        self.element_bytes()?;
        let viewed = |lazy| Some(Tensor::of_lazy(self.dtype, shape.to_vec(), lazy));
        if shape.contains(&0) {
            return Some(Tensor::new(self.dtype, shape.to_vec(), Vec::new()));
        }
        let (source, start, axes) = match &self.contents {
            Contents::Bytes(bytes) => (bytes, 0, vec![Axis { size: self.len(), stride: 1 }]),
            Contents::Lazy(lazy) => match &**lazy {
                Lazy::View(view) => (&view.source, view.offset, view.axes.clone()),
                Lazy::Product(x, factors, assumptions) => {
                    return viewed(Lazy::Product(again(x)?, again(factors)?, assumptions.clone()));
                }
                Lazy::Cast(x) => return viewed(Lazy::Cast(again(x)?)),
                Lazy::Joined(..) => return again(&self.computed()),
            },
        };
        match grouped(axes, &self.shape).and_then(|groups| change(&groups)) {
            Some((offset, axes)) => {
                let (offset, axes) = (start + offset, merged(axes));
                viewed(Lazy::View(View { source: source.clone(), offset, axes }))
            }
            None if self.lazy().is_some() => again(&self.computed()),
            None => None,
        }
    }

    /// Returns the tensor with its contents computed.
    fn computed(&self) -> Tensor {
        Tensor::new(self.dtype, self.shape.clone(), self.bytes())
    }

    /// Fills `out` with the elements from index `start` on.
    pub(super) fn fill(&self, start: usize, out: &mut [u8]) {
        let width = self.dtype.bits() / 8;
        match &self.contents {
            _ if out.is_empty() => {}
            Contents::Bytes(bytes) => {
                out.copy_from_slice(&bytes.0[start * width..][..out.len()]);
            }
            Contents::Lazy(lazy) => match &**lazy {
                Lazy::View(view) => match width {
                    1 => view.fill::<1>(start, out),
                    2 => view.fill::<2>(start, out),
                    4 => view.fill::<4>(start, out),
                    8 => view.fill::<8>(start, out),
                    _ => view.fill::<16>(start, out),
                },
                Lazy::Product(x, factors, assumptions) => {
                    let is_exact = fill_product(x, factors, start, out);
                    if let Some(assumptions) = assumptions.as_ref().filter(|_| !is_exact) {
                        assumptions.note_loss();
                    }
                }
                Lazy::Cast(x) => fill_cast(x, self.dtype, start, out),
                Lazy::Joined(parts, rows) => fill_joined(parts, *rows, width, start, out),
            },
        }
    }
}

impl View {
    pub(super) fn source(&self) -> &[u8] {
        &self.source.0
    }

    /// Returns the index of the first element, and the axes.
    pub(super) fn axes(&self) -> (isize, &[Axis]) {
        (self.offset, &self.axes)
    }

    fn fill<const WIDTH: usize>(&self, start: usize, out: &mut [u8]) {
        let (source, out) = (self.source.0.as_chunks().0, out.as_chunks_mut().0);
        copy::<WIDTH>(source, &self.axes, self.offset, start, out);
    }
}

/// Returns the smallest and the largest normal number of a type.
fn normal_range(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F32 => (f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)),
        _ => (f64::MIN_POSITIVE, f64::MAX),
    }
}

fn is_exact_product(dtype: DType, x: f64, factor: f64) -> bool {
    let (least, most) = normal_range(dtype);
    let product = (x * factor).abs();
    let is_zero = product == 0.0 && (x == 0.0 || factor == 0.0);
    is_zero || (least..=most).contains(&product)
}

/// Computes products. Returns true if all are exact. Factors are computed a few at a time because they are doubles.
/// Elements are computed together, because transposing one large block is faster than transposing many small ones.
fn fill_product(x: &Tensor, factors: &Tensor, start: usize, out: &mut [u8]) -> bool {
    let width = x.dtype.bits() / 8;
    let mut is_exact = true;
    let mut numbers = vec![0; (out.len() / width).min(MAX_FACTORS) * 8];
    let mut elements = Vec::with_capacity(out.len().min(MAX_FACTORS * width));
    x.fill(start, out);
    for (number, out) in out.chunks_mut(MAX_FACTORS * width).enumerate() {
        let start = start + number * MAX_FACTORS;
        let numbers = &mut numbers[..out.len() / width * 8];
        factors.fill(start, numbers);
        // Another thread may change the array, so it is read only once.
        elements.clear();
        elements.extend_from_slice(out);
        if !multiply(x.dtype, out, numbers) {
            is_exact &= are_exact_products(x.dtype, &elements, numbers);
        }
    }
    is_exact
}

/// Multiplies elements in place. Returns true if all products are normal, which implies that they are exact. This
/// is faster than checking the elements too.
fn multiply(dtype: DType, elements: &mut [u8], factors: &[u8]) -> bool {
    let factors = factors.as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes));
    let mut others = 0_u32;
    if dtype == DType::F64 {
        for (element, factor) in elements.as_chunks_mut().0.iter_mut().zip(factors) {
            let product = f64::from_le_bytes(*element) * factor;
            others += u32::from(!product.is_normal());
            *element = product.to_le_bytes();
        }
    } else {
        for (element, factor) in elements.as_chunks_mut().0.iter_mut().zip(factors) {
            let product = (f64::from(f32::from_le_bytes(*element)) * factor) as f32;
            others += u32::from(!product.is_normal());
            *element = product.to_le_bytes();
        }
    }
    others == 0
}

fn are_exact_products(dtype: DType, elements: &[u8], factors: &[u8]) -> bool {
    let pairs = floats_of(dtype, elements).zip(floats_of(DType::F64, factors));
    pairs.is_some_and(|(elements, factors)| {
        elements.into_iter().zip(factors).all(|(x, factor)| is_exact_product(dtype, x, factor))
    })
}

/// Computes floats of another type, a few at a time because they are doubles in between.
fn fill_cast(x: &Tensor, dtype: DType, start: usize, out: &mut [u8]) {
    let (before, after) = (x.dtype.bits() / 8, dtype.bits() / 8);
    let mut start = start;
    for out in out.chunks_mut(MAX_ELEMENTS * after) {
        let mut elements = vec![0; out.len() / after * before];
        x.fill(start, &mut elements);
        start += out.len() / after;
        let numbers = floats_of(x.dtype, &elements).unwrap_or_default();
        if let Some(cast) = Tensor::of_floats(dtype, vec![numbers.len() as i64], &numbers) {
            out.copy_from_slice(&cast.bytes());
        }
    }
}

/// Computes elements of concatenated parts.
fn fill_joined(parts: &[Tensor], rows: usize, width: usize, start: usize, out: &mut [u8]) {
    let end = start + out.len() / width;
    let whole = parts.iter().map(Tensor::len).sum::<usize>() / rows;
    let mut before = 0;
    for part in parts {
        let own = part.len() / rows;
        // Returns the number of elements of this part before an index.
        let count =
            |place: usize| place / whole * own + (place % whole).saturating_sub(before).min(own);
        let (mut next, last) = (count(start), count(end));
        let mut elements = vec![0; (last - next) * width];
        part.fill(next, &mut elements);
        let mut rest = &elements[..];
        while next < last {
            let length = (own - next % own).min(last - next);
            let place = next / own * whole + before + next % own - start;
            let (row, following) = rest.split_at(length * width);
            out[place * width..][..row.len()].copy_from_slice(row);
            rest = following;
            next += length;
        }
        before += own;
    }
}
