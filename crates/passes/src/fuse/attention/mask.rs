//! The mask of an attention, as the kernel takes it.

use onnx::{DType, Dim, Edit, Op, Tensor, Type, ValueId};

use super::{Attention, LOWEST, Mask, Sizes};
use crate::moves::{Planned, Step, emit, is_move, plan};
use crate::pattern::uniform;
use crate::rewrite::Declined;

/// What takes a score out: far below any, and not the lowest.
const MASKED: f64 = -2.381_976_325_057_654e38;

/// Numbers from here down absorb any score.
const ABSORBING: f64 = -1e30;

/// The mask as the kernel takes it.
pub(super) enum Prepared {
    None,
    Causal,
    /// True where a score is kept.
    Flags(Tensor, ValueId),
    Added(AddedMask),
}

/// What is added to the scores, and how it gets all rows and columns.
pub(super) struct AddedMask {
    source: ValueId,
    /// What to add where the source is true, and where it is not.
    choice: Option<[f64; 2]>,
    shape: Vec<Dim>,
    renamed: Vec<Planned>,
    expanded: Option<(Vec<i64>, Vec<Dim>)>,
}

impl Prepared {
    pub(super) fn of(
        edit: &Edit<'_>,
        found: &Attention,
        sizes: &Sizes,
    ) -> Result<Prepared, Declined> {
        let (source, choice) = match found.mask {
            None => return Ok(Prepared::None),
            Some(Mask::Added(bias)) if !leaves_something(edit, bias) => {
                return Err("a row may be masked as a whole by what is added".into());
            }
            Some(Mask::Added(bias)) => (bias, None),
            Some(Mask::Chosen { flags, keeps, otherwise }) => {
                if let Some(known) = known_flags(edit, found, flags, keeps, sizes) {
                    return Ok(known);
                }
                if otherwise == f64::NEG_INFINITY {
                    return Err("a row may be masked as a whole, which is NaN with −∞".into());
                }
                if otherwise.is_nan() || otherwise > ABSORBING {
                    return Err("what replaces a masked score does not absorb it".into());
                }
                (flags, Some(if keeps { [0.0, MASKED] } else { [MASKED, 0.0] }))
            }
        };
        let shape = edit.ty(source).ok_or("a type is not known")?.shape.to_vec();
        let of_heads = mask_shape(&shape, found, sizes)?;
        let steps =
            if shape == of_heads { Vec::new() } else { vec![Step::Reshape(of_heads.clone())] };
        let renamed = plan(&shape, &steps).ok_or("too many sizes are not known")?;
        let expanded = expansion(&of_heads, sizes)?;
        Ok(Prepared::Added(AddedMask { source, choice, shape, renamed, expanded }))
    }
}

/// A mask that is known, the same for all heads, and leaves something in each row.
fn known_flags(
    edit: &Edit<'_>,
    found: &Attention,
    flags: ValueId,
    keeps: bool,
    sizes: &Sizes,
) -> Option<Prepared> {
    let tensor = without_repeats(edit.tensor(flags)?);
    let (rows, columns) = (sizes.rows.known()?, sizes.columns.known()?);
    let shape: Vec<Dim> = tensor.shape.iter().map(|&size| Dim::Known(size)).collect();
    let shape = mask_shape(&shape, found, sizes).ok()?;
    let all = [1, 1, rows, columns].map(Dim::Known);
    if shape[..] != all || columns == 0 {
        return None;
    }
    let kept: Vec<i64> =
        tensor.ints()?.into_iter().map(|flag| i64::from((flag != 0) == keeps)).collect();
    let mut by_row = kept.chunks_exact(columns as usize);
    if !by_row.clone().all(|row| row.contains(&1)) {
        return None;
    }
    let is_causal = |(row, flags): (usize, &[i64])| {
        flags.iter().enumerate().all(|(column, &flag)| (flag == 1) == (column <= row))
    };
    if by_row.by_ref().enumerate().all(is_causal) && rows == columns {
        return Some(Prepared::Causal);
    }
    Some(Prepared::Flags(Tensor::of_ints(DType::Bool, vec![rows, columns], &kept)?, flags))
}

/// The same mask with one of those that stand for each of the leading axes, as far as they are equal.
fn without_repeats(tensor: &Tensor) -> Tensor {
    let mut once = tensor.clone();
    for axis in 0..tensor.shape.len() {
        let size = once.data.len() / (once.shape[axis].max(1) as usize);
        let mut parts = once.data.chunks(size.max(1));
        let first = parts.next();
        if size == 0 || !parts.all(|part| Some(part) == first) {
            break;
        }
        once.data = once.data.slice(..size);
        once.shape[axis] = 1;
    }
    once
}

/// The shape of a mask with the axes batch, head, row and column.
fn mask_shape(shape: &[Dim], found: &Attention, sizes: &Sizes) -> Result<Vec<Dim>, Declined> {
    let rank = found.scores.len();
    let leading = rank.checked_sub(shape.len()).ok_or("the mask has more axes than the scores")?;
    let one = Dim::Known(1);
    let axis = |axis: usize| axis.checked_sub(leading).map_or(&one, |own| &shape[own]);
    let (batch, heads) = (axis(0).clone(), axis(1).clone());
    let (rows, columns) = (axis(2).clone(), axis(rank - 1).clone());
    if rank == 4 {
        return Ok(vec![batch, heads, rows, columns]);
    }
    let differs = (sizes.heads != 1 && !heads.is(1)) || (sizes.group != 1 && !axis(3).is(1));
    if differs {
        return Err("the mask differs between heads of a group".into());
    }
    Ok(vec![batch, one, rows, columns])
}

/// What to expand a mask to that has not all rows and columns, and its shape then.
type Expansion = Option<(Vec<i64>, Vec<Dim>)>;

fn expansion(shape: &[Dim], sizes: &Sizes) -> Result<Expansion, Declined> {
    let [batch, heads, rows, columns] = shape else {
        return Err("the mask has other axes than the scores".into());
    };
    let whole = vec![batch.clone(), heads.clone(), sizes.rows.clone(), sizes.columns.clone()];
    if *rows == sizes.rows && *columns == sizes.columns {
        return Ok(None);
    }
    let size = |own: &Dim, all: &Dim| if own == all { Some(1) } else { all.known() };
    let sizes = (size(rows, &sizes.rows), size(columns, &sizes.columns));
    let (Some(rows), Some(columns)) = sizes else {
        return Err("the mask has not all rows, and their number is not known".into());
    };
    Ok(Some((vec![1, 1, rows, columns], whole)))
}

impl AddedMask {
    pub(super) fn emit(
        self,
        edit: &mut Edit<'_>,
        index: usize,
        fused: &[usize],
    ) -> Option<ValueId> {
        let mut value = self.source;
        if let Some(numbers) = self.choice {
            let mut number = |number: f64| {
                let tensor = Tensor::of_floats(DType::F32, Vec::new(), &[number])?;
                Some(edit.constant(index, fused, tensor, &[]))
            };
            let op = Op::new("Where", &[value, number(numbers[0])?, number(numbers[1])?]);
            value = edit.insert(index, fused, op, Type::new(DType::F32, self.shape));
        }
        value = emit(edit, index, fused, value, &self.renamed)?;
        let Some((sizes, shape)) = self.expanded else {
            return Some(value);
        };
        let sizes = Tensor::of_ints(DType::I64, vec![sizes.len() as i64], &sizes)?;
        let sizes = edit.constant(index, fused, sizes, &[]);
        let op = Op::new("Expand", &[value, sizes]);
        Some(edit.insert(index, fused, op, Type::new(DType::F32, shape)))
    }
}

/// Whether a bias leaves something in each row that is not the lowest number.
fn leaves_something(edit: &Edit<'_>, bias: ValueId) -> bool {
    if let Some(tensor) = edit.tensor(bias) {
        let width = tensor.shape.last().map_or(1, |&size| size.max(1)) as usize;
        let is_left = |row: &[f64]| row.iter().any(|&number| number > LOWEST);
        return tensor.floats().is_some_and(|numbers| numbers.chunks(width).all(is_left));
    }
    let mut bias = bias;
    while let Some(node) = edit.producer(bias).filter(|&node| is_move(edit, node))
        && let Some(source) = edit.input(node, 0)
    {
        bias = source;
    }
    let node = edit.producer(bias).filter(|&node| &*edit.node(node).op == "Where");
    let above = |operand| {
        let number = edit.tensor(edit.input(node?, operand)?).and_then(uniform)?;
        Some(number > LOWEST)
    };
    above(1) == Some(true) && above(2) == Some(true)
}
