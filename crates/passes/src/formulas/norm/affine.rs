//! Finds the scale and the bias of a norm.

use algebra::rewrite::{Match, Result, ensure};
use onnx::{DType, Dim, Op, OpType, Tensor, Type, ValueId, known_shape};

/// The maximum number of elements of a constant that repeats one number, such as a scale of ones.
pub(super) const MAX_EQUAL: i64 = 4096;

/// The scale and the bias of a norm, which are both optional.
#[derive(Default)]
pub(super) struct Affine {
    pub scale: Option<Vector>,
    pub bias: Option<Vector>,
}

/// An array of some axes of the operand.
pub(super) enum Vector {
    /// A value, and the shape that it should have.
    Given(ValueId, Vec<Dim>),
    /// A shape, a number that all elements are equal to, and the constants from which the number comes.
    Filled(Vec<i64>, f64, Vec<ValueId>),
}

impl Affine {
    /// Returns scale and bias as arrays of these axes of `x`. Declines if one of them varies along other axes.
    pub(super) fn over(found: &Match<'_, '_, '_>, x: ValueId, axes: &[usize]) -> Result<Affine> {
        let scale = Vector::over(found, "scale", x, axes)?;
        Ok(Affine { scale, bias: Vector::over(found, "bias", x, axes)? })
    }

    pub(super) fn is_none(&self) -> bool {
        self.scale.is_none() && self.bias.is_none()
    }
}

impl Vector {
    /// Returns the value of a name as an array of these axes of `x`. Declines if it varies along other axes.
    pub(super) fn over(
        found: &Match<'_, '_, '_>,
        name: &str,
        x: ValueId,
        axes: &[usize],
    ) -> Result<Option<Vector>> {
        let Some(value) = found.maybe(name) else { return Ok(None) };
        let Type { shape, dtype } = found.ty(x)?;
        let given = found.ty(value)?;
        ensure(given.dtype == dtype, "the type of the scale differs")?;
        let missing = shape
            .len()
            .checked_sub(given.rank())
            .ok_or("the scale has more axes than the operand")?;
        let size = |axis: usize| axis.checked_sub(missing).map(|axis| &given.shape[axis]);
        let wanted: Vec<Dim> = axes.iter().map(|&axis| shape[axis].clone()).collect();
        let is_unit = |axis: usize| size(axis).is_none_or(|size| size.is(1));
        let others = (0..shape.len()).filter(|axis| !axes.contains(axis));
        let is_over = axes
            .iter()
            .zip(&wanted)
            .all(|(&axis, dim)| size(axis) == Some(dim) || (dim.is(1) && is_unit(axis)));
        if others.clone().all(is_unit) && is_over {
            return Ok(Some(Vector::Given(value, wanted)));
        }
        let number = found.edit.number(value);
        match number.filter(|_| given.shape.iter().all(|size| size.is(1))) {
            Some(number) => Ok(Some(Vector::filled(&shape, axes, number, MAX_EQUAL, vec![value])?)),
            None => Err("the scale varies along axes that are not normalized".into()),
        }
    }

    /// Returns an array of equal numbers with some axes of a shape. Declines if it has more than `max` elements.
    pub(super) fn filled(
        shape: &[Dim],
        axes: &[usize],
        number: f64,
        max: i64,
        from: Vec<ValueId>,
    ) -> Result<Vector> {
        let sizes = axes.iter().map(|&axis| shape[axis].known()).collect::<Option<Vec<_>>>();
        let sizes = sizes.ok_or("the size of the normalized axes is unknown")?;
        ensure(
            sizes.iter().product::<i64>() <= max,
            "there is no scale, and a scale of ones would be too large",
        )?;
        Ok(Vector::Filled(sizes, number, from))
    }

    /// Returns the same numbers in another shape with as many elements.
    pub(super) fn reshaped(self, shape: &[i64]) -> Vector {
        match self {
            Vector::Given(value, _) => {
                Vector::Given(value, shape.iter().map(|&size| Dim::Known(size)).collect())
            }
            Vector::Filled(_, number, from) => Vector::Filled(shape.to_vec(), number, from),
        }
    }

    /// Returns the array. It is a constant if its numbers are known.
    pub(super) fn emit(self, found: &mut Match<'_, '_, '_>, dtype: DType) -> Result<ValueId> {
        let (value, shape) = match self {
            Vector::Given(value, shape) => (value, shape),
            Vector::Filled(shape, number, from) => {
                let count = shape.iter().product::<i64>() as usize;
                let tensor = Tensor::of_floats(dtype, shape, &vec![number; count]);
                return Ok(
                    found.constant(tensor.ok_or("the type cannot represent the number")?, &from)
                );
            }
        };
        if found.ty(value)?.shape[..] == shape[..] {
            return Ok(value);
        }
        let sizes = known_shape(&shape).ok_or("the size of the normalized axes is unknown")?;
        if let Some(tensor) = found.tensor(value) {
            let reshaped = tensor.with_shape(sizes);
            return Ok(found.constant(reshaped, &[value]));
        }
        let sizes = found.ints(&sizes)?;
        let op = Op::new(OpType::Reshape, &[value, sizes]);
        Ok(found.insert(op))
    }
}
