//! Splits one array into `q`, `k` and `v` that are picked from an axis of it.
//!
//! Each pick is a contiguous part of an earlier axis, so one `Split` returns all of them, in the order of axes that
//! the product has.

use algebra::axis_map::{AxisMap, Step, emit, plan};
use algebra::rewrite::{Result, require};
use onnx::operator::properties::LAYOUT_OPS;
use onnx::{DType, Dim, Edit, Op, OpType, Patch, Tensor, ValueId};

use crate::layout_ops::products::Side;

/// The maximum number of layout ops before the picks.
const MAX_LINKS: usize = 4;

pub(super) struct Stack {
    source: ValueId,
    /// The layout ops that give the source an axis whose leading factor is the parts, and the index of that axis.
    whole: Vec<Step>,
    axis: usize,
    count: i64,
    /// The shape of a part, and the map from a part to a pick.
    pub part: Vec<Dim>,
    pub map: AxisMap,
    /// The index of the part of each side, if it is one.
    pub places: [Option<usize>; 3],
    pub nodes: Vec<usize>,
}

/// One entry of an axis.
struct Pick {
    node: usize,
    data: ValueId,
    axis: usize,
    place: usize,
}

impl Pick {
    fn of(edit: &Edit<'_>, value: ValueId) -> Option<Pick> {
        let node = edit.made_by(value, OpType::Gather)?;
        let data = edit.input(node, 0)?;
        let (axis, place) = edit.entry(node)?;
        let place = usize::try_from(place).ok()?;
        Some(Pick { node, data, axis, place })
    }
}

impl Stack {
    pub(super) fn of(edit: &Edit<'_>, sides: [&Side; 3]) -> Option<Stack> {
        let picks = sides.map(|side| Pick::of(edit, side.source));
        let Pick { data, axis, .. } = *picks[2].as_ref()?;
        let picks = picks.map(|pick| pick.filter(|pick| pick.data == data && pick.axis == axis));
        let places = picks.each_ref().map(|pick| pick.as_ref().map(|pick| pick.place));
        let count = edit.shape(data)?.get(axis)?.known()?;
        let has = |place: i64| places.contains(&Some(place as usize));
        require(
            count >= 2 && (0..count).all(has) && places.iter().flatten().count() == count as usize,
        )?;
        let mut nodes: Vec<usize> = picks.iter().flatten().map(|pick| pick.node).collect();
        let links = edit.walk(data, LAYOUT_OPS).take(MAX_LINKS);
        let (chain, sources): (Vec<usize>, Vec<ValueId>) = links.unzip();
        let source = sources.last().copied().unwrap_or(data);
        let shape = edit.shape(source)?;
        let map = AxisMap::of_chain(edit, source, &chain)?;
        let (before, map, axis) = map.pick(axis)?;
        let whole = plan(shape, Step::reshape(shape, &before).as_slice())?;
        nodes.extend(chain);
        let part = map.shape_before()?;
        Some(Stack { source, whole, axis, count, part, map, places, nodes })
    }

    /// Returns the number of nodes, not counting the layout ops of each part.
    pub(super) fn cost(&self) -> usize {
        self.whole.len() + 1
    }

    /// Returns the number of nodes that pick the parts.
    pub(super) fn picks(&self) -> usize {
        self.count as usize
    }

    /// Inserts the parts before the replacement and returns them.
    pub(super) fn emit(&self, patch: &mut Patch<'_, '_>) -> Result<Vec<ValueId>> {
        let x = emit(patch, &self.nodes, self.source, &self.whole)?;
        let size = self.part.get(self.axis).and_then(Dim::known).ok_or("a size is unknown")?;
        let sizes = vec![size; self.count as usize];
        let sizes = Tensor::of_ints(DType::I64, vec![self.count], &sizes);
        let sizes = patch.constant_for(&self.nodes, sizes.ok_or("no integers")?, &[]);
        let op = Op::new(OpType::Split, &[x, sizes]).attr("axis", self.axis as i64);
        Ok(patch.insert_all_for(&self.nodes, op, self.count as usize))
    }
}
