//! Chooses the batch, head and row axes of a rotated array for the kernel.
//!
//! The tables are repeated for every batch entry, so that the rotated array keeps its shape.

use algebra::axis_map::{Step, emit, emit_after, plan};
use algebra::axis_order::AxisOrder;
use algebra::rewrite::{Declined, Result, ensure, require};
use onnx::{DType, Dim, Edit, Op, OpType, Patch, ValueId};

use super::Rotation;
use super::table::Single;

struct Layout {
    /// The shape of the kernel's operand, which has the axes in the order of the array.
    shape: Vec<Dim>,
    /// The number of heads, if they are side by side.
    heads: Option<i64>,
    /// The shape of the tables before and after they are repeated for every batch entry.
    table: Vec<Dim>,
    whole: Vec<Dim>,
}

impl Layout {
    /// Returns the layout of an array whose tables broadcast to it from this shape.
    fn of(shape: &[Dim], table: &[Dim]) -> Option<Layout> {
        let (size, lead) = shape.split_last()?;
        let width = table.last()?.clone();
        let one = Dim::Known(1);
        let varies: Vec<usize> = (0..lead.len()).filter(|&axis| !table[axis].is(1)).collect();
        require(!varies.iter().any(|&axis| table[axis] != shape[axis]))?;
        let rank = shape.len();
        let of_batch = |batch: &Dim, rows: &Dim| vec![batch.clone(), rows.clone(), width.clone()];
        let apart = |batch: &Dim, heads: Dim, rows: &Dim, of_table: &Dim| Layout {
            shape: vec![batch.clone(), heads, rows.clone(), size.clone()],
            heads: None,
            table: of_batch(of_table, rows),
            whole: of_batch(batch, rows),
        };
        let joined = |batch: &Dim, rows: &Dim, heads: &Dim, of_table: &Dim| {
            let (heads, size) = (heads.known()?, size.known()?);
            Some(Layout {
                shape: vec![batch.clone(), rows.clone(), (heads * size).into()],
                heads: Some(heads),
                table: of_batch(of_table, rows),
                whole: of_batch(batch, rows),
            })
        };
        match varies[..] {
            [row] if row + 2 == rank => match &lead[..row] {
                [batch, heads] => Some(apart(batch, heads.clone(), &shape[row], &one)),
                all => Some(apart(&one, Dim::checked_product(all)?, &shape[row], &one)),
            },
            [row] if row + 3 == rank => {
                let batch = Dim::checked_product(&lead[..row])?;
                joined(&batch, &shape[row], &shape[row + 1], &one)
            }
            [0, 1] if rank == 3 => joined(&shape[0], &shape[1], &one, &shape[0]),
            [0, 1] if rank == 4 => joined(&shape[0], &shape[1], &shape[2], &shape[0]),
            [0, 2] if rank == 4 => Some(apart(&shape[0], shape[1].clone(), &shape[2], &shape[0])),
            _ => None,
        }
    }

    /// Returns the steps from a table of this shape to the kernel's operand.
    fn steps_of_table(&self, shape: &[Dim]) -> Vec<Step> {
        let mut steps: Vec<Step> = Step::reshape(shape, &self.table).into_iter().collect();
        if self.table != self.whole {
            steps.push(Step::Broadcast(self.whole.clone()));
        }
        steps
    }
}

pub(super) fn fuse(edit: &mut Patch<'_, '_>, found: &Rotation) -> Result<Op> {
    let unknown = || Declined::from("the type of a value is unknown");
    let ty = edit.ty(found.x).cloned().ok_or_else(unknown)?;
    let result = edit.result_ty(edit.root()).cloned().ok_or_else(unknown)?;
    ensure(
        ty.dtype == DType::F32 && edit.has_kernel(OpType::RotaryEmbedding, DType::F32),
        "RotaryEmbedding needs float32 and opset 23",
    )?;
    let table = |table| Single::of(edit, found, table);
    let (Some(cos), Some(sin)) = (table(found.cos), table(found.sin)) else {
        return Err("the two numbers of a pair may differ".into());
    };
    let half = ty.shape.last().and_then(Dim::known).filter(|size| size % 2 == 0).map(|d| d / 2);
    let is_half = half.is_some() && cos.axes.last().and_then(Dim::known) == half;
    let [Some(axes), Some(of_sin)] = [&cos, &sin].map(|table| of_rank(&table.axes, ty.rank()))
    else {
        return Err("the table has more axes than what is rotated".into());
    };
    ensure(
        axes == of_sin && result == ty && is_half,
        "the table does not have one number for each row and pair",
    )?;
    let mut fused = [&found.fused[..], &cos.passed, &sin.passed].concat();
    let before = transposed_before(edit, found.x);
    let (x, order, layout) = before
        .and_then(|(node, base, order)| {
            let of_base = order.inverse().permuted(&axes)?;
            let layout = Layout::of(edit.shape(base)?, &of_base)?;
            fused.push(node);
            Some((base, Some(order), layout))
        })
        .or_else(|| Some((found.x, None, Layout::of(&ty.shape, &axes)?)))
        .ok_or("the table does not have one number for each row and pair")?;
    let found = Rotation { x, fused, ..*found };
    write(edit, &found, [&cos, &sin], &layout, order.as_ref())
}

/// Adds leading unit axes to a shape up to a rank.
fn of_rank(shape: &[Dim], rank: usize) -> Option<Vec<Dim>> {
    let missing = rank.checked_sub(shape.len())?;
    Some([&vec![Dim::Known(1); missing][..], shape].concat())
}

/// Returns the transpose that computes a value, its operand and its order, if the last axis stays the last.
fn transposed_before(edit: &Edit<'_>, value: ValueId) -> Option<(usize, ValueId, AxisOrder)> {
    let node = edit.producer(value)?;
    let order = AxisOrder::of_node(edit, node)?;
    Some((node, edit.input(node, 0)?, order)).filter(|(_, _, order)| order.keeps_last_axis())
}

fn write(
    patch: &mut Patch<'_, '_>,
    found: &Rotation,
    tables: [&Single; 2],
    layout: &Layout,
    order: Option<&AxisOrder>,
) -> Result<Op> {
    let unknown = "too many sizes of a shape are unknown";
    let shape = patch.ty(found.x).ok_or(unknown)?.shape.clone();
    let before = plan(&shape, Step::reshape(&shape, &layout.shape).as_slice()).ok_or(unknown)?;
    let mut after: Vec<Step> = Step::reshape(&layout.shape, &shape).into_iter().collect();
    if let Some(order) = order {
        after.push(Step::Transpose(order.perm().to_vec()));
    }
    patch.take(&found.fused);
    let mut inputs = vec![emit(patch, &found.fused, found.x, &before)?];
    for table in tables {
        let single = table.emit(patch, &found.fused).ok_or("the table cannot be sliced")?;
        inputs.push(emit(patch, &found.fused, single, &layout.steps_of_table(&table.shape))?);
    }
    let mut op = Op::new(OpType::RotaryEmbedding, &inputs);
    if let Some(heads) = layout.heads {
        op = op.attr("num_heads", heads);
    }
    if found.is_interleaved {
        op = op.attr("interleaved", 1);
    }
    emit_after(patch, op, &after)
}
