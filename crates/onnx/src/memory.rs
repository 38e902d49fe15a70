//! The use of memory by ONNX Runtime's kernels, measured with version 1.31 on a CPU.
//!
//! The properties `ALIASES` and `IN_PLACE` in [the table](crate::operator) say which results take the memory of an
//! operand. This module says what a kernel allocates besides its results. Buffers whose size depends on the number of
//! threads, such as those of convolutions, are not included.

use crate::expr::broadcast_shapes;
use crate::operator::OpType;
use crate::value::{Dim, Type};

/// A node, as far as its memory depends on it.
pub struct Kernel<'k> {
    pub op: OpType,
    /// The types of the operands, if they are known.
    pub operands: &'k [Option<&'k Type>],
    pub results: &'k [Option<&'k Type>],
    /// Returns an attribute that is an integer.
    pub int: &'k dyn Fn(&str) -> Option<i64>,
}

/// The size of an index in a list that a kernel creates, in bytes.
const INDEX: i64 = 8;

/// The number of results after which a variadic operator needs a second buffer.
const MAX_PAIR: usize = 2;

impl Kernel<'_> {
    /// Returns the bytes that the kernel allocates for as long as it runs; `None` if they are not known.
    pub fn workspace(&self) -> Option<Dim> {
        match self.op {
            OpType::Where => self.choices(),
            OpType::GroupNormalization => times(2, &self.result()?),
            OpType::Softmax | OpType::LogSoftmax => match self.is_along_last_axis()? {
                true => Some(NOTHING),
                // The operand and the result are transposed.
                false => times(2, &self.result()?),
            },
            OpType::Sum | OpType::Mean | OpType::Max | OpType::Min
                if self.operands.len() > MAX_PAIR =>
            {
                self.result()
            }
            OpType::Swish | OpType::HardSwish | OpType::Mish | OpType::NonZero => self.result(),
            OpType::ScatterElements => times(INDEX, &elements(self.operand(1)?)?),
            OpType::ConvTranspose => self.columns(),
            OpType::Attention => self.scores(),
            OpType::LSTM | OpType::GRU | OpType::RNN => self.gates(),
            OpType::Einsum => self.arranged(),
            _ => Some(NOTHING),
        }
    }

    fn operand(&self, number: usize) -> Option<&Type> {
        self.operands.get(number).copied().flatten()
    }

    fn bytes(&self, operand: usize) -> Option<Dim> {
        self.operand(operand)?.bytes()
    }

    /// Returns the size of the first result.
    fn result(&self) -> Option<Dim> {
        self.results.first().copied().flatten()?.bytes()
    }

    fn is_along_last_axis(&self) -> Option<bool> {
        let rank = self.operand(0)?.rank() as i64;
        let axis = (self.int)("axis").or(self.op.default_axis()).unwrap_or(-1);
        Some(axis == -1 || axis == rank - 1)
    }

    /// `Where` has a buffer for each of its choices, which is as large as the choice and the condition together.
    fn choices(&self) -> Option<Dim> {
        let condition = self.operand(0)?;
        let [yes, no] = [1, 2].map(|choice| {
            let choice = self.operand(choice)?;
            let chosen = broadcast_shapes(&condition.shape, &choice.shape)?;
            Type::new(choice.dtype, chosen).bytes()
        });
        yes?.checked_add(&no?)
    }

    /// The products of each entry of an image with a filter, before they are added up.
    fn columns(&self) -> Option<Dim> {
        let (image, filters) = (self.operand(0)?, self.operand(1)?);
        let entries = Dim::checked_product(image.shape.get(2..)?)?;
        let filter = Dim::checked_product(filters.shape.get(1..)?)?;
        times(image.dtype.bits() as i64 / 8, &entries.checked_mul(&filter)?)
    }

    /// The scores of attention, and its mask if it is added to them.
    fn scores(&self) -> Option<Dim> {
        let (query, key) = (self.operand(0)?, self.operand(1)?);
        let (heads, length, other) = match (&*query.shape, &*key.shape) {
            ([_, heads, length, _], [_, _, other, _]) => (heads.clone(), length, other),
            ([_, length, _], [_, other, _]) => {
                (Dim::Known((self.int)("q_num_heads")?), length, other)
            }
            _ => return None,
        };
        let other = match self.operand(4).map(|past| &*past.shape) {
            Some([_, _, past, _]) => &other.checked_add(past)?,
            _ => other,
        };
        let scores = Dim::checked_product([query.shape.first()?, &heads, length, other])?;
        let mask = self.operand(3).is_some_and(|mask| mask.dtype == crate::DType::Bool);
        let masked = match mask || (self.int)("is_causal") == Some(1) {
            true => length.checked_mul(other)?,
            false => NOTHING,
        };
        times(query.dtype.bits() as i64 / 8, &scores.checked_add(&masked)?)
    }

    /// The products of all steps of a recurrent cell with its weights.
    fn gates(&self) -> Option<Dim> {
        let (x, weights) = (self.operand(0)?, self.operand(2)?);
        let size = weights.shape.get(1)?;
        let all = Dim::checked_product([x.shape.first()?, x.shape.get(1)?, size])?;
        times(x.dtype.bits() as i64 / 8, &all)
    }

    /// The operands in the order of a product, and the product in that order.
    fn arranged(&self) -> Option<Dim> {
        let last = self.bytes(self.operands.len().checked_sub(1)?)?;
        times(2, &last)?.checked_add(&self.result()?)
    }
}

const NOTHING: Dim = Dim::Known(0);

fn elements(ty: &Type) -> Option<Dim> {
    Dim::checked_product(&*ty.shape)
}

fn times(factor: i64, size: &Dim) -> Option<Dim> {
    size.checked_mul(&Dim::Known(factor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    fn ty(shape: &str) -> Type {
        let sizes = shape.split(',').map(|size| size.parse().unwrap()).collect::<Vec<Dim>>();
        Type::new(DType::F32, sizes)
    }

    fn workspace(op: OpType, operands: &[&str], result: &str, axis: Option<i64>) -> String {
        let types: Vec<Type> = operands.iter().map(|shape| ty(shape)).collect();
        let operands: Vec<Option<&Type>> = types.iter().map(Some).collect();
        let result = ty(result);
        let int = |name: &str| axis.filter(|_| name == "axis");
        let kernel = Kernel { op, operands: &operands, results: &[Some(&result)], int: &int };
        kernel.workspace().unwrap().to_string()
    }

    #[test]
    fn a_kernel_needs_what_was_measured_for_it() {
        let image = "2,8,32,32";
        assert_eq!(workspace(OpType::Add, &["64,128"; 2], "64,128", None), "0");
        assert_eq!(workspace(OpType::Where, &["64,128"; 3], "64,128", None), "65536");
        assert_eq!(workspace(OpType::Where, &["64,1", "64,128", "1"], "64,128", None), "33024");
        assert_eq!(workspace(OpType::Where, &["1,128", "64,1", "1"], "64,128", None), "33280");
        assert_eq!(workspace(OpType::Max, &["64,128"; 2], "64,128", None), "0");
        assert_eq!(workspace(OpType::Max, &["64,128"; 3], "64,128", None), "32768");
        assert_eq!(workspace(OpType::Softmax, &["64,128"], "64,128", Some(-1)), "0");
        assert_eq!(workspace(OpType::Softmax, &["64,128"], "64,128", Some(0)), "65536");
        let filters = workspace(OpType::ConvTranspose, &[image, "8,16,2,2"], "2,16,64,64", None);
        assert_eq!(filters, "262144");
        let heads = ["2,4,32,16"; 3];
        assert_eq!(workspace(OpType::Attention, &heads, "2,4,32,16", None), "32768");
        let cell = ["20,4,16", "1,128,16", "1,128,32"];
        assert_eq!(workspace(OpType::LSTM, &cell, "20,1,4,32", None), "40960");
    }

    #[test]
    fn the_workspace_of_a_symbolic_size_is_a_formula() {
        let heads = ["B,4,T,16"; 3];
        let scores = workspace(OpType::Attention, &heads, "B,4,T,16", None);
        assert_eq!(scores.parse(), "16*B*T^2".parse::<Dim>());
    }
}
