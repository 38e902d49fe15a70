//! `RotaryEmbedding`: the halves of each head turned by the angle of its row.
//!
//! The kernel takes the heads side by side, one cosine and sine for each row and pair, and rounds as the
//! formula does but for a fused product and sum. It needs the table of every row of every batch, so
//! that a batch of unknown size is left as it is. Pairs that stand side by side are left in parts.

use onnx::kernels::{Support, support};
use onnx::{Attr, DType, Dim, Edit, Op, Tensor, Type, ValueId};

use crate::rewrite::Declined;

/// How far back a table is looked into.
const DEEPEST: usize = 8;

pub(super) fn run(edit: &mut Edit<'_>) {
    for index in 0..edit.len() {
        if !edit.node(index).domain.is_empty() {
            continue;
        }
        let found = match &*edit.node(index).op {
            "Concat" => by_halves(edit, index),
            "Add" => by_swapping(edit, index),
            _ => None,
        };
        let Some(found) = found else {
            continue;
        };
        let declined = fuse(edit, index, &found).err().map(|Declined(why)| why);
        edit.note("fuse-rotary-embedding", index, declined);
    }
}

/// What is turned, by which tables, and the nodes that do it.
struct Turn {
    x: ValueId,
    cos: ValueId,
    sin: ValueId,
    /// Whether the tables have a number for each element, the same in both halves.
    is_doubled: bool,
    fused: Vec<usize>,
}

/// The node that makes a value which is read once.
fn own(edit: &Edit<'_>, op: &str, value: ValueId) -> Option<usize> {
    let node = edit.producer(value).filter(|_| edit.reads(value) == 1)?;
    (edit.node(node).domain.is_empty() && *edit.node(node).op == *op).then_some(node)
}

/// The other factor of a product with `x`, and the node.
fn factor(edit: &Edit<'_>, value: ValueId, x: ValueId) -> Option<(ValueId, usize)> {
    let node = own(edit, "Mul", value)?;
    let (a, b) = (edit.input(node, 0)?, edit.input(node, 1)?);
    let other = if a == x { b } else { a };
    (a == x || b == x).then_some((other, node))
}

/// The two halves of the last axis of an array, and the node that makes them.
fn halves(edit: &Edit<'_>, value: ValueId) -> Option<(usize, [ValueId; 2])> {
    let node = edit.producer(value).filter(|&node| &*edit.node(node).op == "Split")?;
    let &[first, second] = &edit.node(node).outputs[..] else {
        return None;
    };
    let rank = edit.ty(first)?.rank() as i64;
    let axis = edit.node(node).attr("axis")?;
    let is_last = *axis == Attr::Int(rank - 1) || *axis == Attr::Int(-1);
    (is_last && edit.ty(first)? == edit.ty(second)?).then_some((node, [first, second]))
}

/// The parts that are joined along the last axis.
fn joined(edit: &Edit<'_>, node: usize) -> Option<[ValueId; 2]> {
    let rank = edit.ty(edit.node(node).outputs[0])?.rank() as i64;
    let is_pair = edit.node(node).inputs.len() == 2;
    let is_last = *edit.node(node).attr("axis")? == Attr::Int(rank - 1);
    (is_pair && is_last).then_some(())?;
    Some([edit.input(node, 0)?, edit.input(node, 1)?])
}

/// `[a·cos − b·sin, b·cos + a·sin]` of the halves `a` and `b`
fn by_halves(edit: &Edit<'_>, index: usize) -> Option<Turn> {
    let [left, right] = joined(edit, index)?;
    let (left, right) = (own(edit, "Sub", left)?, own(edit, "Add", right)?);
    let first = own(edit, "Mul", edit.input(left, 0)?)?;
    let halved = |operand| halves(edit, edit.input(first, operand)?);
    let (split, [a, b]) = halved(0).or_else(|| halved(1))?;
    let (cos, _) = factor(edit, edit.input(left, 0)?, a)?;
    let (sin, second) = factor(edit, edit.input(left, 1)?, b)?;
    let (mut third, mut fourth) = (edit.input(right, 0)?, edit.input(right, 1)?);
    if factor(edit, third, b).is_none() {
        std::mem::swap(&mut third, &mut fourth);
    }
    let (third, fourth) = (factor(edit, third, b)?, factor(edit, fourth, a)?);
    if third.0 != cos || fourth.0 != sin || edit.reads(a) != 2 || edit.reads(b) != 2 {
        return None;
    }
    let fused = vec![split, left, right, first, second, third.1, fourth.1];
    Some(Turn { x: edit.input(split, 0)?, cos, sin, is_doubled: false, fused })
}

/// `x·cos + [−b, a]·sin` of the halves `a` and `b` of `x`
fn by_swapping(edit: &Edit<'_>, index: usize) -> Option<Turn> {
    let operand = |operand| edit.input(index, operand);
    [(operand(0)?, operand(1)?), (operand(1)?, operand(0)?)].into_iter().find_map(
        |(plain, turned)| {
            let product = own(edit, "Mul", turned)?;
            let swapped = |operand: usize| {
                let value = edit.input(product, operand)?;
                let concat = own(edit, "Concat", value)?;
                let [negated, kept] = joined(edit, concat)?;
                let negated = own(edit, "Neg", negated)?;
                let (split, [a, b]) = halves(edit, kept)?;
                let is_swapped = edit.input(negated, 0)? == b && kept == a;
                let sin = edit.input(product, 1 - operand)?;
                is_swapped.then_some((split, sin, [concat, negated]))
            };
            let (split, sin, nodes) = swapped(0).or_else(|| swapped(1))?;
            let x = edit.input(split, 0)?;
            let (cos, scaled) = factor(edit, plain, x)?;
            let fused = vec![split, product, scaled, nodes[0], nodes[1]];
            Some(Turn { x, cos, sin, is_doubled: true, fused })
        },
    )
}

/// The axes of what is turned.
struct Heads {
    batch: i64,
    rows: Dim,
    count: i64,
    size: i64,
    /// Whether the heads come before the rows.
    is_by_head: bool,
}

fn fuse(edit: &mut Edit<'_>, index: usize, found: &Turn) -> Result<(), Declined> {
    let unknown = || Declined::from("a type is not known");
    let ty = edit.ty(found.x).cloned().ok_or_else(unknown)?;
    let result = edit.ty(edit.node(index).outputs[0]).cloned().ok_or_else(unknown)?;
    let is_supported = support("RotaryEmbedding", edit.opset(), DType::F32);
    if ty.dtype != DType::F32 || !matches!(is_supported, Support::Yes) {
        return Err("RotaryEmbedding needs single precision and opset 23".into());
    }
    let [batch, a, b, size] = &ty.shape[..] else {
        return Err("it has other axes than batch, row, head and element".into());
    };
    let table = edit.ty(found.cos).cloned().ok_or_else(unknown)?;
    if table.shape != edit.ty(found.sin).ok_or_else(unknown)?.shape || result != ty {
        return Err("cosine and sine have different shapes".into());
    }
    let leading = 4_usize.checked_sub(table.rank()).ok_or("the table has more axes")?;
    let axis = |axis: usize| {
        axis.checked_sub(leading).map_or(Dim::Known(1), |own| table.shape[own].clone())
    };
    let is_by_head = axis(1).is(1) && !a.is(1);
    let (rows, count) = if is_by_head { (b, a) } else { (a, b) };
    let (Some(batch), Some(count), Some(size)) = (batch.known(), count.known(), size.known())
    else {
        return Err("the size of the batch or of a head is not known".into());
    };
    let heads = Heads { batch, rows: rows.clone(), count, size, is_by_head };
    let width = if found.is_doubled { size } else { size / 2 };
    let [row_axis, head_axis] = if is_by_head { [2, 1] } else { [1, 2] };
    let fits =
        axis(0).is(1) && axis(row_axis) == *rows && axis(head_axis).is(1) && axis(3).is(width);
    if !fits || size % 2 != 0 {
        return Err("the table is not one number for each row and pair".into());
    }
    let is_twice = |table: ValueId| has_equal_halves(edit, table, DEEPEST);
    if found.is_doubled && ![found.cos, found.sin].into_iter().all(is_twice) {
        return Err("the halves of the table are not known to be equal".into());
    }
    let lost = || Declined::from("a shape has too many sizes that are not known");
    let cos = heads.table(edit, index, found, found.cos).ok_or_else(lost)?;
    let sin = heads.table(edit, index, found, found.sin).ok_or_else(lost)?;
    heads.turn(edit, index, found, [cos, sin]).ok_or_else(lost)
}

/// Whether the last axis is some array twice: a constant that is, what `Concat` makes of one array, and
/// what is computed of such arrays element by element.
fn has_equal_halves(edit: &Edit<'_>, value: ValueId, depth: usize) -> bool {
    if let Some(tensor) = edit.tensor(value) {
        let row = tensor.shape.last().map_or(0, |&size| size as usize) * tensor.dtype.bits() / 8;
        let is_twice = |row: &[u8]| row[..row.len() / 2] == row[row.len() / 2..];
        return row > 0 && tensor.data.chunks_exact(row).all(is_twice);
    }
    let Some(node) = edit.producer(value).filter(|_| depth > 0) else {
        return false;
    };
    let last = |value| edit.ty(value).and_then(|ty| ty.shape.last().cloned());
    let is_one = |value| last(value).is_none_or(|dim| dim.is(1));
    let is_twice = |operand| {
        let source = edit.input(node, operand);
        source.is_some_and(|source| is_one(source) || has_equal_halves(edit, source, depth - 1))
    };
    match &*edit.node(node).op {
        "Concat" => joined(edit, node).is_some_and(|[a, b]| a == b),
        "Cos" | "Sin" | "Cast" | "Identity" => is_twice(0),
        "Add" | "Sub" | "Mul" | "Div" => is_twice(0) && is_twice(1),
        "Expand" | "Reshape" | "Squeeze" | "Unsqueeze" => {
            let keeps_last = edit.input(node, 0).and_then(last) == last(value);
            keeps_last && is_twice(0)
        }
        _ => false,
    }
}

impl Heads {
    /// A table with the axes batch, row and pair.
    fn table(
        &self,
        edit: &mut Edit<'_>,
        index: usize,
        found: &Turn,
        table: ValueId,
    ) -> Option<ValueId> {
        let mut table = table;
        if found.is_doubled {
            let mut shape = edit.ty(table)?.shape.to_vec();
            let axis = shape.len() as i64 - 1;
            *shape.last_mut()? = Dim::Known(self.size / 2);
            let bounds = [[0], [self.size / 2], [axis]].map(|bound| ints(edit, index, &bound));
            let [Some(start), Some(end), Some(axis)] = bounds else {
                return None;
            };
            let op = Op::new("Slice", &[table, start, end, axis]);
            table = edit.insert(index, &found.fused, op, Type::new(DType::F32, shape));
        }
        let one = [Dim::Known(1), self.rows.clone(), Dim::Known(self.size / 2)];
        table = reshape(edit, index, found, table, &one)?;
        if self.batch == 1 {
            return Some(table);
        }
        let sizes = ints(edit, index, &[self.batch, 1, 1])?;
        let shape = [Dim::Known(self.batch), self.rows.clone(), Dim::Known(self.size / 2)];
        let op = Op::new("Expand", &[table, sizes]);
        Some(edit.insert(index, &found.fused, op, Type::new(DType::F32, shape)))
    }

    fn turn(
        &self,
        edit: &mut Edit<'_>,
        index: usize,
        found: &Turn,
        [cos, sin]: [ValueId; 2],
    ) -> Option<()> {
        let (batch, rows) = (Dim::Known(self.batch), self.rows.clone());
        let mut x = found.x;
        let apart = [batch.clone(), rows.clone(), self.count.into(), self.size.into()];
        let order: &[i64] = &[0, 2, 1, 3];
        if self.is_by_head {
            let op = Op::new("Transpose", &[x]).attr("perm", order);
            x = edit.insert(index, &found.fused, op, Type::new(DType::F32, apart.clone()));
        }
        let joined = [batch, rows, (self.count * self.size).into()];
        x = reshape(edit, index, found, x, &joined)?;
        let op = Op::new("RotaryEmbedding", &[x, cos, sin]).attr("num_heads", self.count);
        x = edit.insert(index, &found.fused, op, Type::new(DType::F32, joined));
        let sizes = sizes_of(&apart)?;
        if self.is_by_head {
            x = reshape(edit, index, found, x, &apart)?;
            edit.rewrite(index, &found.fused, Op::new("Transpose", &[x]).attr("perm", order));
        } else {
            let sizes = ints(edit, index, &sizes)?;
            edit.rewrite(index, &found.fused, Op::new("Reshape", &[x, sizes]));
        }
        Some(())
    }
}

fn ints(edit: &mut Edit<'_>, index: usize, values: &[i64]) -> Option<ValueId> {
    let tensor = Tensor::of_ints(DType::I64, vec![values.len() as i64], values)?;
    Some(edit.constant(index, &[], tensor, &[]))
}

/// A shape for `Reshape`; one size may be left over.
fn sizes_of(shape: &[Dim]) -> Option<Vec<i64>> {
    let sizes: Vec<i64> = shape.iter().map(|dim| dim.known().unwrap_or(-1)).collect();
    let is_clear = sizes.iter().filter(|&&size| size == -1).count() <= 1 && !sizes.contains(&0);
    is_clear.then_some(sizes)
}

fn reshape(
    edit: &mut Edit<'_>,
    index: usize,
    found: &Turn,
    value: ValueId,
    shape: &[Dim],
) -> Option<ValueId> {
    if edit.ty(value)?.shape[..] == *shape {
        return Some(value);
    }
    let sizes = ints(edit, index, &sizes_of(shape)?)?;
    let op = Op::new("Reshape", &[value, sizes]);
    Some(edit.insert(index, &found.fused, op, Type::new(DType::F32, shape)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::check;

    #[test]
    fn halves_that_are_turned_are_one_node() {
        check(
            crate::fuse::rotary,
            "graph g(x:f32[1,T,2,4], c:f32[T,1,2], s:f32[T,1,2]) -> (y)
a:f32[1,T,2,2], b:f32[1,T,2,2] = Split(x, [2, 2]:i64) {axis=3}
%0:f32[1,T,2,2] = Mul(a, c)
%1:f32[1,T,2,2] = Mul(s, b)
%2:f32[1,T,2,2] = Sub(%0, %1)
%3:f32[1,T,2,2] = Mul(a, s)
%4:f32[1,T,2,2] = Mul(b, c)
%5:f32[1,T,2,2] = Add(%3, %4)
y:f32[1,T,2,4] = Concat(%2, %5) {axis=3}",
            expect![[r#"
                graph g(x:f32[1,T,2,4], c:f32[T,1,2], s:f32[T,1,2]) -> (y)
                a, b = Split(x, [2, 2]:i64) {axis=3}  # 2
                %0 = Mul(a, c)  # 3
                %1 = Mul(s, b)  # 4
                %2 = Sub(%0, %1)  # 5
                %3 = Mul(a, s)  # 6
                %4 = Mul(b, c)  # 7
                %5 = Add(%3, %4)  # 8
                %6 = Reshape(c, [1, -1, 2]:i64)  # 9 2 3 4 5 6 7 8
                %7 = Reshape(s, [1, -1, 2]:i64)  # 9 2 3 4 5 6 7 8
                %8 = Reshape(x, [1, -1, 8]:i64)  # 9 2 3 4 5 6 7 8
                %9 = RotaryEmbedding(%8, %6, %7) {num_heads=2}  # 9 2 3 4 5 6 7 8
                y:f32[1,T,2,4] = Reshape(%9, [1, -1, 2, 4]:i64)  # 9 2 3 4 5 6 7 8
            "#]],
        );
    }

    #[test]
    fn a_turn_the_other_way_is_not() {
        check(
            crate::fuse::rotary,
            "graph g(x:f32[1,5,2,4], c:f32[5,1,2], s:f32[5,1,2]) -> (y)
a:f32[1,5,2,2], b:f32[1,5,2,2] = Split(x, [2, 2]:i64) {axis=3}
%0:f32[1,5,2,2] = Mul(a, c)
%1:f32[1,5,2,2] = Mul(s, b)
%2:f32[1,5,2,2] = Sub(%0, %1)
%3:f32[1,5,2,2] = Mul(a, c)
%4:f32[1,5,2,2] = Mul(b, s)
%5:f32[1,5,2,2] = Add(%3, %4)
y:f32[1,5,2,4] = Concat(%2, %5) {axis=3}",
            expect![[r#"
                graph g(x:f32[1,5,2,4], c:f32[5,1,2], s:f32[5,1,2]) -> (y)
                a, b = Split(x, [2, 2]:i64) {axis=3}  # 2
                %0 = Mul(a, c)  # 3
                %1 = Mul(s, b)  # 4
                %2 = Sub(%0, %1)  # 5
                %3 = Mul(a, c)  # 6
                %4 = Mul(b, s)  # 7
                %5 = Add(%3, %4)  # 8
                y:f32[1,5,2,4] = Concat(%2, %5) {axis=3}  # 9
            "#]],
        );
    }

    #[test]
    fn a_table_whose_halves_differ_is_not() {
        check(
            crate::fuse::rotary,
            "graph g(x:f32[1,1,2,2], s:f32[1,1,1,2]) -> (y)
a:f32[1,1,2,1], b:f32[1,1,2,1] = Split(x, [1, 1]:i64) {axis=3}
%0:f32[1,1,2,2] = Mul(x, [[[[0.5, 0.5]]]])
%1:f32[1,1,2,1] = Neg(b)
%2:f32[1,1,2,2] = Concat(%1, a) {axis=3}
%3:f32[1,1,2,2] = Mul(%2, s)
y:f32[1,1,2,2] = Add(%0, %3)",
            expect![[r#"
                graph g(x:f32[1,1,2,2], s:f32[1,1,1,2]) -> (y)
                a, b = Split(x, [1, 1]:i64) {axis=3}  # 2
                %0 = Mul(x, [[[[0.5, 0.5]]]])  # 3
                %1 = Neg(b)  # 4
                %2 = Concat(%1, a) {axis=3}  # 5
                %3 = Mul(%2, s)  # 6
                y:f32[1,1,2,2] = Add(%0, %3)  # 7
            "#]],
        );
    }
}
