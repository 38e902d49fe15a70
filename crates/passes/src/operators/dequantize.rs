//! `dequantize`: rewrites `(cast(whole) − zero) · scale` with constant whole numbers as `DequantizeLinear`.
//!
//! Both round once. ONNX Runtime computes a `Cast` and a `Mul` of constants when it loads the model, and a
//! `DequantizeLinear` in each run, or as a part of the product that reads it.
//!
//! <https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html>

use algebra::rewrite::{Result, ensure, expect_kernel, require, run_each};
use onnx::operator::properties::RESHAPES;
use onnx::{DType, Edit, Op, OpType, Outcome, Patch, Tensor, ValueId, declined, known_shape};

/// The first opset with scales of blocks.
const BLOCKS_SINCE: i64 = 21;

pub(crate) fn run(edit: &mut Edit<'_>) {
    if edit.dequantizes() {
        run_each(edit, dequantize);
        run_each(edit, merge_blocks);
    }
}

/// Constant whole numbers as floats.
struct Whole {
    numbers: ValueId,
    /// The zero points to subtract from the numbers.
    zero: Option<ValueId>,
    /// All nodes from the numbers to the floats.
    nodes: Vec<usize>,
}

impl Whole {
    fn at(edit: &Edit<'_>, value: ValueId) -> Option<Whole> {
        let mut whole = Whole { numbers: value, zero: None, nodes: Vec::new() };
        let mut is_reshaped = false;
        while edit.tensor(whole.numbers).is_none() {
            let index = edit.producer(whole.numbers)?;
            let node = edit.node(index);
            let op = node.op.onnx()?;
            let is_wide = edit.dtype(whole.numbers).is_some_and(holds_differences);
            match op {
                OpType::Cast => require(edit.dtype(whole.numbers)?.bits() > 8)?,
                OpType::Sub => {
                    require(is_wide && whole.zero.is_none())?;
                    whole.zero = edit.input(index, 1);
                    // The shapes of the zeros and of the scales have to be comparable.
                    let is_one = whole.zero.and_then(|zero| edit.number(zero)).is_some();
                    require(is_one || !is_reshaped)?;
                }
                _ if op.is(RESHAPES) => is_reshaped = true,
                _ => return None,
            }
            whole.nodes.push(index);
            whole.numbers = edit.input(index, 0)?;
        }
        let dtype = edit.dtype(whole.numbers)?;
        require(dtype.is_int() && dtype.bits() <= 8)?;
        Some(whole)
    }
}

/// True if a type represents every difference of two numbers of 8 bits.
fn holds_differences(dtype: DType) -> bool {
    dtype.bits() > 8 && dtype != DType::Bf16 && (dtype.is_float() || dtype.is_signed_int())
}

/// The axis along which scales differ, and the number of elements with the same scale. Without an axis, there is one
/// scale.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Blocks {
    axis: Option<usize>,
    size: Option<i64>,
}

impl Blocks {
    /// Reads the blocks from the shape of the numbers and from that of their scales.
    fn of(numbers: &[i64], scales: &[i64]) -> Option<Blocks> {
        let differs: Vec<usize> = (0..numbers.len()).filter(|&axis| scales[axis] != 1).collect();
        let shared: Vec<usize> =
            (0..numbers.len()).filter(|&axis| scales[axis] != numbers[axis]).collect();
        match (&differs[..], &shared[..]) {
            ([], _) => Some(Blocks { axis: None, size: None }),
            (&[axis], _) if numbers[axis] == scales[axis] => {
                Some(Blocks { axis: Some(axis), size: None })
            }
            (_, &[axis]) if numbers[axis] > 0 && numbers[axis] % scales[axis] == 0 => {
                Some(Blocks { axis: Some(axis), size: Some(numbers[axis] / scales[axis]) })
            }
            _ => None,
        }
    }

    /// Returns the shape of the operand with the scales.
    fn shape(self, scales: &[i64]) -> Vec<i64> {
        match self {
            Blocks { axis: None, .. } => Vec::new(),
            Blocks { axis: Some(axis), size: None } => vec![scales[axis]],
            _ => scales.to_vec(),
        }
    }

    fn attributes(self, op: Op) -> Op {
        let op = match self.axis {
            Some(axis) => op.attr("axis", axis as i64),
            None => op,
        };
        match self.size {
            Some(size) => op.attr("block_size", size),
            None => op,
        }
    }
}

fn dequantize(patch: &mut Patch<'_, '_>) -> Outcome {
    let index = patch.root();
    require(patch.node(index).op == OpType::Mul)?;
    let (a, b) = patch.pair(index)?;
    for (floats, scale) in [(a, b), (b, a)] {
        if let Some(whole) = Whole::at(patch, floats) {
            let result = patch.result(index);
            require(patch.shape(floats)? == patch.shape(result)?)?;
            if patch.readers(result).any(|reader| patch.node(reader).op == OpType::Cast) {
                return declined("a cast would run each time, too");
            }
            let shape = known_shape(patch.shape(floats)?)?;
            let scales = Scales::at(patch, scale, &shape);
            let op = whole.scaled(patch, scales, &shape);
            return patch.settle(op);
        }
        if let Some(product) = patch.made_by(floats, OpType::MatMul)
            && patch.reads(floats) == 1
            && let weight = patch.input(product, 1)?
            && let Some(whole) = Whole::at(patch, weight)
        {
            let shape = known_shape(patch.shape(weight)?)?;
            let scales = Scales::of_columns(patch, scale, &shape)?;
            let op = whole.scaled(patch, Some(scales), &shape).map(|op| {
                let dequantized = patch.insert_for(&whole.nodes, op);
                patch.op_with(product, 1, dequantized)
            });
            patch.take(&[product]);
            return patch.settle(op);
        }
    }
    None
}

impl Whole {
    /// Returns the operator that multiplies the numbers by scales.
    fn scaled(
        &self,
        patch: &mut Patch<'_, '_>,
        scales: Option<Scales>,
        shape: &[i64],
    ) -> Result<Op> {
        let dtype = patch.dtype(self.numbers).ok_or("the type of the numbers is unknown")?;
        let is_right = patch.target().is_ordinary(OpType::DequantizeLinear, dtype);
        ensure(is_right, "a runtime computes `DequantizeLinear` differently")?;
        expect_kernel(patch, OpType::DequantizeLinear, dtype)?;
        let scales = scales.ok_or("the scales differ along several axes")?;
        let mut sizes = scales.sizes.clone();
        let zero = match self.zero {
            None => None,
            Some(zero) => {
                let tensor = zeros(patch, zero, dtype, shape.len());
                let tensor = tensor.ok_or("a zero point is not a constant of the type")?;
                if scales.known.is_some() {
                    sizes.iter_mut().zip(&tensor.shape).for_each(|(a, &b)| *a = (*a).max(b));
                }
                Some((tensor, zero))
            }
        };
        let blocks = Blocks::of(shape, &sizes).ok_or("the scales differ along several axes")?;
        let has_blocks = patch.opset() >= BLOCKS_SINCE && patch.target().is_default();
        ensure(blocks.size.is_none() || has_blocks, "no operator takes scales of blocks")?;
        let shapes = "the shapes do not fit";
        let numbers = patch
            .tensor(self.numbers)
            .filter(|it| it.len() as i64 == shape.iter().product::<i64>());
        let numbers = match numbers.ok_or(shapes)? {
            tensor if tensor.shape == shape => self.numbers,
            tensor => {
                let tensor = tensor.with_shape(shape.to_vec());
                patch.constant(tensor, &[self.numbers])
            }
        };
        let operand_shape = blocks.shape(&sizes);
        let mut inputs =
            vec![numbers, scales.operand(patch, &sizes, &operand_shape).ok_or(shapes)?];
        if let Some((tensor, from)) = zero {
            let tensor = tensor.broadcast(&sizes).ok_or(shapes)?.with_shape(operand_shape);
            inputs.push(patch.constant(tensor, &[from]));
        }
        patch.take(&self.nodes);
        patch.take(&scales.nodes);
        Ok(blocks.attributes(Op::new(OpType::DequantizeLinear, &inputs)))
    }
}

/// The scales, with one size per axis of the numbers.
struct Scales {
    value: ValueId,
    sizes: Vec<i64>,
    /// The scales, if they are constant.
    known: Option<Tensor>,
    /// The nodes that repeat each scale.
    nodes: Vec<usize>,
}

impl Scales {
    fn at(edit: &Edit<'_>, value: ValueId, shape: &[i64]) -> Option<Scales> {
        Scales::repeated(edit, value, shape).or_else(|| {
            let sizes = aligned(&known_shape(edit.shape(value)?)?, shape.len())?;
            let known = edit.tensor(value).map(|tensor| without_repeats(tensor, &sizes));
            let sizes = known.as_ref().map_or(sizes, |known| known.shape.clone());
            Some(Scales { value, sizes, known, nodes: Vec::new() })
        })
    }

    /// Reads the scales of the columns of a matrix, by which its product is multiplied.
    fn of_columns(edit: &Edit<'_>, value: ValueId, shape: &[i64]) -> Option<Scales> {
        let own = &edit.tensor(value)?.shape;
        let (last, others) = own.split_last().unwrap_or((&1, &[]));
        require(others.iter().all(|&size| size == 1) && [1, *shape.last()?].contains(last))?;
        let mut sizes = vec![1; shape.len()];
        *sizes.last_mut()? = *last;
        let known = Some(edit.tensor(value)?.with_shape(sizes.clone()));
        Some(Scales { value, sizes, known, nodes: Vec::new() })
    }

    /// Reads `jnp.repeat(scales, size, axis)`: an expanded axis after the axis of the scales, merged with it.
    fn repeated(edit: &Edit<'_>, value: ValueId, shape: &[i64]) -> Option<Scales> {
        let reshape = edit.made_by(value, OpType::Reshape)?;
        require(known_shape(edit.shape(value)?)? == shape)?;
        let expand = edit.made_by(edit.input(reshape, 0)?, OpType::Expand)?;
        let expanded = known_shape(edit.shape(edit.result(expand))?)?;
        let value = edit.input(expand, 0)?;
        let own = aligned(&known_shape(edit.shape(value)?)?, expanded.len())?;
        let [axis] =
            (0..own.len()).filter(|&axis| own[axis] != expanded[axis]).collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let before = axis.checked_sub(1)?;
        let mut merged = expanded.clone();
        merged[before] *= merged.remove(axis);
        require(own[axis] == 1 && merged == shape)?;
        let mut sizes = own;
        sizes.remove(axis);
        let known = edit.tensor(value).map(|tensor| tensor.with_shape(sizes.clone()));
        Some(Scales { value, sizes, known, nodes: vec![reshape, expand] })
    }

    /// Returns the operand for scales of these sizes.
    fn operand(&self, patch: &mut Patch<'_, '_>, sizes: &[i64], shape: &[i64]) -> Option<ValueId> {
        if let Some(known) = &self.known {
            let tensor = known.broadcast(sizes)?;
            return Some(patch.constant(tensor.with_shape(shape.to_vec()), &[self.value]));
        }
        let own = known_shape(patch.shape(self.value)?)?;
        if own == shape {
            return Some(self.value);
        }
        let shape = patch.integers(shape)?;
        Some(patch.insert(Op::new(OpType::Reshape, &[self.value, shape])))
    }
}

/// Returns one scale for each block of equal ones along each axis.
fn without_repeats(tensor: &Tensor, sizes: &[i64]) -> Tensor {
    let mut scales = tensor.with_shape(sizes.to_vec());
    for axis in 0..sizes.len() {
        let Some(floats) = scales.floats().filter(|floats| !floats.is_empty()) else { break };
        let bits: Vec<u64> = floats.into_iter().map(f64::to_bits).collect();
        let after: usize = sizes[axis + 1..].iter().product::<i64>() as usize;
        let count = sizes[axis] as usize;
        let differ = |&place: &usize| {
            bits.chunks(after * count).any(|each| {
                let (before, here) = ((place - 1) * after, place * after);
                each[before..here] != each[here..here + after]
            })
        };
        let block = (1..count).filter(differ).fold(count, gcd) as i64;
        let mut steps = vec![1; sizes.len()];
        steps[axis] = block;
        let mut shape = scales.shape.clone();
        shape[axis] /= block;
        match scales.sliced(&vec![0; sizes.len()], &steps, &shape) {
            Some(sliced) if block > 1 => scales = sliced,
            _ => {}
        }
    }
    scales
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns zero points as constants of the type of the numbers, with one size per axis.
fn zeros(edit: &Edit<'_>, value: ValueId, dtype: DType, rank: usize) -> Option<Tensor> {
    let cast = edit.made_by(value, OpType::Cast).and_then(|cast| edit.input(cast, 0));
    let tensor = edit.tensor(cast.unwrap_or(value))?;
    let ints = match tensor.floats().filter(|_| tensor.dtype.is_float()) {
        Some(floats) => {
            require(floats.iter().all(|float| float.fract() == 0.0 && float.abs() < 1e3))?;
            floats.iter().map(|&float| float as i64).collect()
        }
        None => tensor.ints()?,
    };
    let steps = 1 << dtype.bits();
    let least = if dtype.is_signed_int() { -steps / 2 } else { 0 };
    require(ints.iter().all(|int| (least..least + steps).contains(int)))?;
    Tensor::of_ints(dtype, aligned(&tensor.shape, rank)?, &ints)
}

/// Returns a shape with leading axes of size 1.
fn aligned(shape: &[i64], rank: usize) -> Option<Vec<i64>> {
    let missing = rank.checked_sub(shape.len())?;
    Some([&vec![1; missing][..], shape].concat())
}

/// Merges the axes of the blocks and of their elements before the scales are applied, so that the product reads
/// the result itself.
fn merge_blocks(patch: &mut Patch<'_, '_>) -> Outcome {
    let index = patch.root();
    require(patch.node(index).op == OpType::Reshape)?;
    let source = patch.made_by(patch.input(index, 0)?, OpType::DequantizeLinear)?;
    let axis = patch.axis(source)?;
    let node = patch.node(source);
    require(node.attr("block_size").is_some())?;
    let shape = known_shape(patch.shape(patch.result(source))?)?;
    let before = axis.checked_sub(1)?;
    let mut merged = shape.clone();
    merged[before] *= merged.remove(axis);
    require(known_shape(patch.shape(patch.result(index))?)? == merged)?;
    let mut inputs = Vec::new();
    for operand in 0..node.inputs.len() {
        let value = patch.input(source, operand)?;
        let mut sizes = known_shape(patch.shape(value)?)?;
        sizes[before] *= sizes.remove(axis);
        let known = patch.tensor(value).map(|tensor| tensor.with_shape(sizes.clone()));
        inputs.push(if let Some(tensor) = known {
            patch.constant(tensor, &[value])
        } else {
            let sizes = patch.integers(&sizes)?;
            patch.insert(Op::new(OpType::Reshape, &[value, sizes]))
        });
    }
    let inputs = inputs.into_iter().map(Some).collect();
    let op = Op::of(patch.node(source), inputs).attr("axis", before as i64);
    patch.done(&[source], op)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::check_dequantizing;

    #[test]
    fn whole_numbers_times_scales_are_dequantized() {
        check_dequantizing(
            super::run,
            "graph g() -> (rows, columns, all, whole)
%0:f32[2,3] = Cast([[1, 2, 3], [4, 5, 6]]:i8) {to=1}
rows:f32[2,3] = Mul(%0, [[0.5], [0.25]])
columns:f32[2,3] = Mul([0.5, 0.25, 2.0], %0)
%1:f32[2,3] = Sub(%0, 3.0)
all:f32[2,3] = Mul(%1, 0.5)
%2:i32[2,3] = Cast([[1, 2, 3], [4, 5, 6]]:u8) {to=6}
%3:i32[2,3] = Sub(%2, [1, 2, 3]:i32)
%4:f32[2,3] = Cast(%3) {to=1}
whole:f32[2,3] = Mul(%4, 0.5)",
            expect![[r#"
                graph g() -> (rows, columns, all, whole)
                rows:f32[2,3] = DequantizeLinear([[1, 2, 3], [4, 5, 6]]:i8, [0.5, 0.25]) {axis=0}  # 3 2
                columns:f32[2,3] = DequantizeLinear([[1, 2, 3], [4, 5, 6]]:i8, [0.5, 0.25, 2.0]) {axis=1}  # 4 2
                all:f32[2,3] = DequantizeLinear([[1, 2, 3], [4, 5, 6]]:i8, 0.5, 3:i8)  # 6 2 5
                whole:f32[2,3] = DequantizeLinear([[1, 2, 3], [4, 5, 6]]:u8, [0.5, 0.5, 0.5], [1, 2, 3]:u8) {axis=1}  # 10 7 8 9
            "#]],
        );
    }

    #[test]
    fn scales_of_blocks_are_dequantized_before_their_axes_are_merged() {
        check_dequantizing(
            super::run,
            "graph g(s:f32[2,1,3]) -> (merged, repeated)
%0:f32[2,2,3] = Cast(const i4[2,2,3]) {to=1}
%1:f32[2,2,3] = Mul(%0, s)
merged:f32[4,3] = Reshape(%1, [4, 3]:i64)
%2:f32[4,3] = Cast(const i4[4,3]) {to=1}
%3:f32[2,2,3] = Expand(s, [2, 2, 3]:i64)
%4:f32[4,3] = Reshape(%3, [4, 3]:i64)
repeated:f32[4,3] = Mul(%2, %4)",
            expect![[r#"
                graph g(s:f32[2,1,3]) -> (merged, repeated)
                %0 = Reshape(s, [2, 3]:i64)  # 4
                merged:f32[4,3] = DequantizeLinear(const i4[4,3], %0) {axis=0, block_size=2}  # 3 2 4
                %1 = Reshape(s, [2, 3]:i64)  # 8
                repeated:f32[4,3] = DequantizeLinear(const i4[4,3], %1) {axis=0, block_size=2}  # 8 5 6 7
            "#]],
        );
    }

    #[test]
    fn scales_after_a_product_are_those_of_its_columns() {
        check_dequantizing(
            super::run,
            "graph g(x:f32[B,2], r:f32[B,1]) -> (y, z)
%0:f32[2,3] = Cast([[1, 2, 3], [4, 5, 6]]:i8) {to=1}
%1:f32[B,3] = MatMul(x, %0)
y:f32[B,3] = Mul(%1, [0.5, 0.25, 2.0])
%2:f32[B,3] = MatMul(x, %0)
z:f32[B,3] = Mul(%2, r)",
            expect![[r#"
                graph g(x:f32[B,2], r:f32[B,1]) -> (y, z)
                %0 = Cast([[1, 2, 3], [4, 5, 6]]:i8) {to=1}  # 2
                %1 = DequantizeLinear([[1, 2, 3], [4, 5, 6]]:i8, [0.5, 0.25, 2.0]) {axis=1}  # 4 2
                y:f32[B,3] = MatMul(x, %1)  # 3 2 4
                %2 = MatMul(x, %0)  # 5
                z:f32[B,3] = Mul(%2, r)  # 6
            "#]],
        );
    }

    #[test]
    fn other_scales_and_numbers_are_left() {
        for line in [
            "%1:f32[4,6] = Mul(%0, const f32[4,6])",
            "%1:f32[4,6] = Mul(%0, const f32[1,4,6])",
            "%2:f32[4,6] = Sub(%0, 0.5)\n%1:f32[4,6] = Mul(%2, 0.5)",
            "%2:f32[4,6] = Sub(%0, 128.0)\n%1:f32[4,6] = Mul(%2, 0.5)",
            "%2:f32[4,6] = Add(%0, 1.0)\n%1:f32[4,6] = Mul(%2, 0.5)",
        ] {
            let text =
                format!("graph g() -> (%1)\n%0:f32[4,6] = Cast(const i8[4,6]) {{to=1}}\n{line}");
            let mut model = onnx::text::parse_graph(&text).unwrap();
            model.dequantizes = true;
            assert!(!model.edit(&mut super::run), "{line}");
        }
    }
}
