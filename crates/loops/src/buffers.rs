//! `stack-buffers`: replaces an array that a loop fills entry by entry by a stack of the results of its iterations.
//!
//! For `out = out.at[i].set(y)`, ONNX Runtime copies the whole array in each iteration, because the array is an input
//! of the body. If all indices are known and distinct, the loop returns `y` of each iteration instead. After the
//! loop, one node moves them to their positions, unless they are in order already. An iteration may also read an
//! entry: one that no iteration has written yet, or the one that the previous iteration wrote, which the loop then
//! carries.

use algebra::axis_map::transpose;
use algebra::rewrite::require;
use onnx::edit::for_each_read;
use onnx::{Dim, Edit, Node, Op, OpType, Outcome, Patch, Type, ValueId, known_shape};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Array, Carry, Counted, copy_of, replacing, results_in_place};

/// The maximum number of indices to compare.
const MAX_PLACES: usize = 1 << 20;

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    let index = edit.root();
    let mut counted = Counted::at(edit, index)?;
    require(!counted.is_reverse && counted.keeps_order())?;
    let found = counted.carries.iter().filter_map(|&carry| Buffer::of(edit, &counted, carry));
    let buffers: Vec<Buffer> = found.collect();
    require(!buffers.is_empty())?;
    let mut stacks = Vec::new();
    for buffer in &buffers {
        stacks.push(buffer.take_out(edit, &mut counted)?);
    }
    let iterations = counted.iterations.clone();
    let (op, results) = counted.into_op(edit);
    let made = edit.insert_instead(op, &replacing(&results));
    let mut replaced: FxHashMap<ValueId, ValueId> = results.into_iter().zip(made).collect();
    for (buffer, stack) in buffers.iter().zip(stacks) {
        let whole = buffer.filled(edit, *replaced.get(&stack)?, &iterations)?;
        replaced.insert(buffer.carry.result, whole);
    }
    let results = results_in_place(edit, replaced);
    edit.done(&[], results)
}

/// An array that each iteration writes an entry of.
struct Buffer {
    carry: Carry,
    /// The `ScatterND` in the body, and its position there.
    scatter: Node,
    node: usize,
    /// The indices that all iterations write.
    places: ValueId,
    arrangement: Arrangement,
    /// The type of the entry that an iteration writes.
    element: Type,
    reads: Vec<Read>,
}

/// A node of the body that reads entries of the array.
struct Read {
    node: usize,
    places: ValueId,
    of: Source,
}

/// The origin of the entries that an iteration reads.
#[derive(Clone, Copy)]
enum Source {
    /// The array before the loop.
    Initial,
    /// The entry that the previous iteration wrote. The first iteration reads the array before the loop.
    Previous,
}

/// The positions of the stack's entries in the array.
enum Arrangement {
    /// In the same order, filling the array.
    Same,
    /// With the axes in this order, filling the array.
    Transposed(Vec<usize>),
    Scattered,
}

impl Buffer {
    fn of(edit: &Edit<'_>, counted: &Counted, carry: Carry) -> Option<Buffer> {
        let node = counted.nodes.iter().position(|node| node.outputs[..] == [carry.after])?;
        let scatter = &counted.nodes[node];
        let &[Some(before), Some(_), Some(value)] = &scatter.inputs[..] else { return None };
        let outputs = |value: ValueId| counted.outputs().filter(|&output| output == value).count();
        let is_alone = outputs(carry.before) == 0 && outputs(carry.after) == 1;
        require(scatter.op == OpType::ScatterND && before == carry.before && is_alone)?;
        let sizes = edit.shape(carry.before)?;
        let written = Places::of(edit, counted, scatter, sizes)?;
        let arrangement = written.arrangement()?;
        let is_set = scatter.attr("reduction").is_none();
        let element = edit.ty(value)?.clone();
        let mut reads = Vec::new();
        for (place, reader) in counted.nodes.iter().enumerate().filter(|&(place, _)| place != node)
        {
            let mut is_read = false;
            for_each_read(reader, &mut |id| is_read |= id == carry.before || id == carry.after);
            if !is_read {
                continue;
            }
            let is_lookup = reader.op == OpType::GatherND
                || (reader.op == OpType::Gather && reader.axis(sizes.len()) == Some(0));
            let &[Some(array), Some(places)] = &reader.inputs[..] else { return None };
            require(
                is_lookup
                    && array == carry.before
                    && reader.attr("batch_dims").is_none_or(|d| *d == 0.into()),
            )?;
            let read = Places::of(edit, counted, reader, sizes)?;
            let is_same = is_set && *edit.ty(reader.outputs[0])? == element;
            reads.push(Read { node: place, places, of: written.source(&read, is_same)? });
        }
        Some(Buffer {
            carry,
            scatter: scatter.clone(),
            node,
            places: written.whole,
            arrangement: if is_set { arrangement } else { Arrangement::Scattered },
            element,
            reads,
        })
    }

    /// Makes the loop return the entries that its iterations write instead of the array. Returns the stack.
    fn take_out(&self, edit: &mut Patch<'_, '_>, counted: &mut Counted) -> Option<ValueId> {
        let value = self.scatter.inputs[2]?;
        for read in &self.reads {
            let node = counted.nodes[read.node].clone();
            let array = counted.arrays.iter().find(|array| array.element == read.places)?;
            let ty = edit.ty(node.outputs[0])?.clone();
            let element = edit.body_input(ty.clone());
            let mut inputs = vec![Some(self.carry.initial), Some(array.whole)];
            match read.of {
                Source::Initial => {
                    let whole = edit.lift(&node, Op::of(&node, inputs));
                    counted.arrays.push(Array { whole, element });
                }
                Source::Previous => {
                    let first = edit.tensor(array.whole)?;
                    let ints = first.ints()?;
                    let shape = first.shape[1..].to_vec();
                    let count = shape.iter().product::<i64>() as usize;
                    let first = onnx::Tensor::of_ints(first.dtype, shape, &ints[..count])?;
                    inputs[1] = Some(edit.constant(first, &[]));
                    let initial = edit.lift(&node, Op::of(&node, inputs));
                    let [after, result] = [(); 2].map(|()| edit.body_input(ty.clone()));
                    counted.nodes.push(copy_of(value, after, &self.scatter));
                    counted.carries.push(Carry { initial, before: element, after, result });
                }
            }
            counted.nodes[read.node] = copy_of(element, node.outputs[0], &node);
        }
        let element = edit.body_input(self.element.clone());
        let result = edit.body_input(self.stack(&counted.iterations));
        counted.nodes[self.node] = copy_of(value, element, &self.scatter);
        counted.carries.retain(|carry| carry.result != self.carry.result);
        counted.stack(element, result);
        Some(result)
    }

    /// Returns the type of the stack.
    fn stack(&self, iterations: &Dim) -> Type {
        let shape = std::iter::once(iterations).chain(&*self.element.shape).cloned();
        Type::new(self.element.dtype, shape.collect::<Vec<_>>())
    }

    /// Inserts the array that the loop filled.
    fn filled(
        &self,
        edit: &mut Patch<'_, '_>,
        stack: ValueId,
        iterations: &Dim,
    ) -> Option<ValueId> {
        let ty = edit.ty(self.carry.result)?.clone();
        let op = match &self.arrangement {
            Arrangement::Same if ty == self.stack(iterations) => return Some(stack),
            Arrangement::Same => {
                let shape = edit.integers(&known_shape(&ty.shape)?)?;
                Op::new(OpType::Reshape, &[stack, shape])
            }
            Arrangement::Transposed(front) => {
                let perm = front.iter().copied().chain(front.len()..ty.rank());
                transpose(stack, &perm.collect::<Vec<_>>())
            }
            Arrangement::Scattered => {
                let inputs = [self.carry.initial, self.places, stack];
                Op::of(&self.scatter, inputs.into_iter().map(Some).collect())
            }
        };
        Some(edit.lift(&self.scatter, op))
    }
}

/// The indices that each iteration reads or writes.
struct Places {
    whole: ValueId,
    /// The shape of the indices, without the last axis, and the sizes of the indexed axes of the array.
    axes: Vec<i64>,
    sizes: Vec<i64>,
    /// The index along each axis.
    parts: Vec<i64>,
    /// The linear index of each entry, in the order of the iterations.
    numbers: Vec<i64>,
}

impl Places {
    /// Reads the indices of a `ScatterND`, a `GatherND` or a `Gather` along the first axis.
    fn of(edit: &Edit<'_>, counted: &Counted, node: &Node, sizes: &[Dim]) -> Option<Places> {
        let places = node.inputs[1]?;
        let Array { whole, .. } = *counted.arrays.iter().find(|array| array.element == places)?;
        let shape = &edit.tensor(whole)?.shape;
        if node.op == OpType::Gather {
            return Places::new(edit, whole, shape.clone(), &sizes[..1]);
        }
        let (&depth, axes) = shape.split_last()?;
        Places::new(edit, whole, axes.to_vec(), sizes.get(..depth as usize)?)
    }

    /// `None` if an index is out of bounds.
    fn new(edit: &Edit<'_>, whole: ValueId, axes: Vec<i64>, sizes: &[Dim]) -> Option<Places> {
        let sizes: Vec<i64> = known_shape(sizes)?;
        let tensor = edit.tensor(whole).filter(|tensor| tensor.len() <= MAX_PLACES)?;
        let parts = tensor.ints()?;
        let number = |place: &[i64]| {
            place.iter().zip(&sizes).try_fold(0, |number, (&at, &size)| {
                let at = if at < 0 { at + size } else { at };
                (0..size).contains(&at).then_some(number * size + at)
            })
        };
        let numbers = parts.chunks(sizes.len()).map(number).collect::<Option<_>>()?;
        Some(Places { whole, axes, sizes, parts, numbers })
    }

    /// Returns the arrangement of the entries in the array. `None` if two have the same index.
    fn arrangement(&self) -> Option<Arrangement> {
        let Places { axes, sizes, parts, numbers, .. } = self;
        require(numbers.iter().collect::<FxHashSet<_>>().len() >= numbers.len())?;
        let is_full = numbers.len() as i64 == sizes.iter().product::<i64>();
        if is_full && numbers.is_sorted() {
            return Some(Arrangement::Same);
        }
        // Each index along an axis of the array must be the index along an axis of the stack.
        let coordinate = |entry: usize, axis: usize| {
            let behind: i64 = axes[axis + 1..].iter().product();
            entry as i64 / behind % axes[axis]
        };
        let source = |depth: usize| {
            (0..axes.len()).find(|&axis| {
                let along = parts.iter().skip(depth).step_by(sizes.len()).enumerate();
                let mut along = along.map(|(entry, &at)| coordinate(entry, axis) == at);
                axes[axis] == sizes[depth] && along.all(|is_same| is_same)
            })
        };
        let front: Option<Vec<usize>> = (0..sizes.len()).map(source).collect();
        let front = front.filter(|front| is_full && front.len() == axes.len());
        Some(front.map_or(Arrangement::Scattered, Arrangement::Transposed))
    }

    /// Returns the origin of the entries that iterations read. `is_same` says that an iteration reads entries of the
    /// type that it writes, and overwrites them.
    fn source(&self, read: &Places, is_same: bool) -> Option<Source> {
        let iterations = *self.axes.first()? as usize;
        let per_iteration = |places: &Places| places.numbers.len() / iterations.max(1);
        let (wrote, reads) = (per_iteration(self), per_iteration(read));
        require(self.sizes == read.sizes && wrote != 0 && reads != 0)?;
        let written: FxHashMap<i64, usize> =
            self.numbers.iter().enumerate().map(|(entry, &at)| (at, entry / wrote)).collect();
        let is_initial = |(entry, at): (usize, &i64)| {
            written.get(at).is_none_or(|&iteration| iteration >= entry / reads)
        };
        if read.numbers.iter().enumerate().all(is_initial) {
            return Some(Source::Initial);
        }
        let last = self.numbers.len() - wrote;
        (is_same && read.numbers[reads..] == self.numbers[..last]).then_some(Source::Previous)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use testing::{check, check_lean, each};

    #[test]
    fn entries_in_order_are_a_stack() {
        check_lean(
            each(super::run),
            "graph g(x:f32[2], o:f32[3,2], b:f32[6,2]) -> (y, ys, zs)
y:f32[2], ys:f32[3,2], zs:f32[6,2] = Scan(x, o, b, [[0], [1], [2]]:i64, [[[0], [1]], [[2], [3]], [[4], [5]]]:i64) {body={
  graph b(v:f32[2], a:f32[3,2], c:f32[6,2], i:i64[1], j:i64[2,1]) -> (w, d, e)
  w:f32[2] = Sin(v)
  d:f32[3,2] = ScatterND(a, i, w)
  %0:f32[2,2] = Expand(w, [2, 2]:i64)
  e:f32[6,2] = ScatterND(c, j, %0)
}, num_scan_inputs=2}",
            expect![[r#"
                graph g(x:f32[2], o:f32[3,2], b:f32[6,2]) -> (y, ys, zs)
                y:f32[2], ys:f32[3,2], %0 = Scan(x, [[0], [1], [2]]:i64) {body={  # 2
                  graph b(v:f32[2], i:i64[1]) -> (w, %1, %3)
                  w:f32[2] = Sin(v)  # 4
                  %1:f32[2] = Identity(w)  # 5
                  %2 = Expand(w, [2, 2]:i64)  # 6
                  %3:f32[2,2] = Identity(%2)  # 7
                }, num_scan_inputs=1}
                zs:f32[6,2] = Reshape(%0, [6, 2]:i64)  # 7
            "#]],
        );
    }

    #[test]
    fn entries_of_another_axis_are_transposed_and_others_are_put_in_place() {
        check_lean(
            each(super::run),
            "graph g(x:f32[2], o:f32[2,3], b:f32[9,2]) -> (ys, zs)
%0:f32[2], ys:f32[2,3], zs:f32[9,2] = Scan(x, o, b, [[[0, 0], [1, 0]], [[0, 1], [1, 1]], [[0, 2], [1, 2]]]:i64, [[4], [8], [1]]:i64) {body={
  graph b(v:f32[2], a:f32[2,3], c:f32[9,2], i:i64[2,2], j:i64[1]) -> (w, d, e)
  w:f32[2] = Sin(v)
  d:f32[2,3] = ScatterND(a, i, w)
  e:f32[9,2] = ScatterND(c, j, w) {reduction=\"add\"}
}, num_scan_inputs=2}",
            expect![[r#"
                graph g(x:f32[2], o:f32[2,3], b:f32[9,2]) -> (ys, zs)
                %0, %1, %2 = Scan(x, const i64[3,2,2]) {body={  # 2
                  graph b(v:f32[2], i:i64[2,2]) -> (w, %3, %4)
                  w:f32[2] = Sin(v)  # 4
                  %3:f32[2] = Identity(w)  # 5
                  %4:f32[2] = Identity(w)  # 6
                }, num_scan_inputs=1}
                ys:f32[2,3] = Transpose(%1) {perm=[1, 0]}  # 5
                zs:f32[9,2] = ScatterND(b, [[4], [8], [1]]:i64, %2) {reduction="add"}  # 6
            "#]],
        );
    }

    #[test]
    fn entries_of_the_previous_iteration_are_carried_and_others_are_inputs() {
        check_lean(
            each(super::run),
            "graph g(o:f32[3,2], b:f32[4]) -> (ys, zs)
ys:f32[3,2], zs:f32[4] = Scan(o, b, [[0], [1], [2]]:i64, [2, 0, 1]:i64, [[1], [2], [3]]:i64) {body={
  graph b(a:f32[3,2], c:f32[4], i:i64[1], j:i64[], k:i64[1]) -> (d, e)
  %0:f32[2] = Gather(a, j) {axis=0}
  %1:f32[2] = Sin(%0)
  d:f32[3,2] = ScatterND(a, i, %1)
  %2:f32[] = GatherND(c, k)
  %3:f32[] = ReduceSum(%1, [0]:i64) {keepdims=0}
  %4:f32[] = Max(%2, %3)
  e:f32[4] = ScatterND(c, k, %4)
}, num_scan_inputs=3}",
            expect![[r#"
                graph g(o:f32[3,2], b:f32[4]) -> (ys, zs)
                %0 = Gather(o, 2:i64) {axis=0}  # 4
                %1 = GatherND(b, [[1], [2], [3]]:i64)  # 7
                %2, ys:f32[3,2], %3 = Scan(%0, %1) {body={  # 2
                  graph b(%4:f32[2], %5:f32[]) -> (%13, %8, %12)
                  %6 = Identity(%4)  # 4
                  %7 = Sin(%6)  # 5
                  %8:f32[2] = Identity(%7)  # 6
                  %9 = Identity(%5)  # 7
                  %10 = ReduceSum(%7, [0]:i64) {keepdims=0}  # 8
                  %11 = Max(%9, %10)  # 9
                  %12:f32[] = Identity(%11)  # 10
                  %13:f32[2] = Identity(%7)  # 6
                }, num_scan_inputs=1}
                zs:f32[4] = ScatterND(b, [[1], [2], [3]]:i64, %3)  # 10
            "#]],
        );
    }

    #[test]
    fn an_array_that_is_read_or_has_two_entries_at_one_place_is_carried() {
        check(
            each(super::run),
            "graph g(x:f32[2], o:f32[3,2], b:f32[3,2]) -> (ys, zs)
%0:f32[2], ys:f32[3,2], zs:f32[3,2] = Scan(x, o, b, [[0], [1], [2]]:i64, [[0], [1], [0]]:i64) {body={
  graph b(v:f32[2], a:f32[3,2], c:f32[3,2], i:i64[1], j:i64[1]) -> (w, d, e)
  %1:f32[1,2] = Gather(a, [0]:i64) {axis=0}
  %2:f32[2] = Squeeze(%1, [0]:i64)
  w:f32[2] = Add(v, %2)
  d:f32[3,2] = ScatterND(a, i, w)
  e:f32[3,2] = ScatterND(c, j, w)
}, num_scan_inputs=2}",
            expect![[r#"
                graph g(x:f32[2], o:f32[3,2], b:f32[3,2]) -> (ys, zs)
                %0, ys:f32[3,2], zs:f32[3,2] = Scan(x, o, b, [[0], [1], [2]]:i64, [[0], [1], [0]]:i64) {body={  # 2
                  graph b(v:f32[2], a:f32[3,2], c:f32[3,2], i:i64[1], j:i64[1]) -> (w, d, e)
                  %1 = Gather(a, [0]:i64) {axis=0}  # 4
                  %2 = Squeeze(%1, [0]:i64)  # 5
                  w:f32[2] = Add(v, %2)  # 6
                  d:f32[3,2] = ScatterND(a, i, w)  # 7
                  e:f32[3,2] = ScatterND(c, j, w)  # 8
                }, num_scan_inputs=2}
            "#]],
        );
    }
}
