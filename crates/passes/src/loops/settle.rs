//! `settle-flags`: replaces a loop that drops entries of an array one after another by a few products.
//!
//! Non-maximum suppression goes from the best box to the worst. Box `i` drops the boxes that it covers, unless a
//! better box dropped it before: `keep = keep & ~(keep[i] & covers[i])`. An iteration has five small nodes, and there
//! are as many iterations as boxes.
//!
//! The active iterations are the solution of `active = candidates & ~(active @ covers)`, in which only earlier
//! iterations count. We start with all candidates and compute the right side until nothing changes. After `k`
//! products, the first `k` iterations are correct, and so are all iterations that depend on a chain of at most `k`
//! others. Boxes that cover each other form chains of 3 to 11, so a few products of a vector with a matrix suffice.
//! The first ones are nodes of the graph, and a loop computes the others. If the chains are even longer, the original
//! loop runs.

mod body;
mod equation;

use algebra::axis_map::transpose;
use algebra::eval::eval;
use algebra::rewrite::require;
use onnx::edit::for_each_read;
use onnx::{
    Attr, DType, Dim, Edit, Graph, Node, Op, OpType, Outcome, Patch, Tensor, ValueId, declined,
    known_shape,
};
use rustc_hash::{FxHashMap, FxHashSet};

use self::body::{Body, Choosing, Effect, numbers};
use self::equation::{Approximation, Equation, beginning, cast, half, reshaped};
use super::batches::Batches;
use super::{Carry, Counted, node_reads, renew, replacing, results_in_place};

/// The name of the original loop, which runs if the products did not find a solution.
const LOOP: &str = "settle-flags/loop";

/// A loop with fewer iterations is unrolled, or fast enough.
const MIN_ITERATIONS: i64 = 16;

/// With more pairs of iterations and entries, a product takes as long as many iterations.
const MAX_PAIRS: i64 = 1 << 20;

/// The maximum number of products in a loop. After them, the original loop runs.
const MAX_PRODUCTS: i64 = 16;

pub(crate) fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    require(edit.node(edit.root()).op == OpType::Scan)?;
    let scan = Counted::at(edit, edit.root()).filter(|scan| &*scan.name != LOOP)?;
    let found = scan.carries.iter().find_map(|&carry| Dropping::of(edit, &scan, carry))?;
    found.settle(edit, scan)
}

/// A loop whose iteration `i` sets entries of its carry to a constant if a flag, which depends on entry `i`, makes it
/// active.
struct Dropping {
    carry: Carry,
    /// The number of iterations, each of which reads the entry with its number.
    iterations: i64,
    /// The shape of the carry. Its last axis has the entries; the other axes are independent of each other.
    shape: Vec<i64>,
    dtype: DType,
    /// The entry of the iteration, and the nodes that compute the flag from it.
    entry: ValueId,
    flag_nodes: Vec<Node>,
    active_flag: ValueId,
    /// The value of the flag for which an iteration is active.
    is_active_if: bool,
    /// The steps that choose the entries that an active iteration sets.
    choosing: Vec<Choosing>,
    effect: Effect,
}

impl Dropping {
    fn of(edit: &Edit<'_>, scan: &Counted, carry: Carry) -> Option<Dropping> {
        let iterations =
            scan.iterations.known().filter(|&iterations| iterations >= MIN_ITERATIONS)?;
        let ty = edit.ty(carry.before)?;
        let shape = known_shape(edit.shape(carry.before)?)?;
        let pairs = shape.iter().product::<i64>().checked_mul(iterations)?;
        require(!scan.is_reverse && pairs <= MAX_PAIRS && iterations <= *shape.last()?)?;
        let mut body = Body::new(edit, scan, carry, shape.len());
        own_nodes(scan, carry)?.into_iter().try_for_each(|node| body.take(node))?;
        let with = |is_active_if| Some((is_active_if, body.effect(is_active_if)?));
        let (is_active_if, effect) = with(true).or_else(|| with(false))?;
        let active_flag = body.active_flag?;
        let flag = edit.ty(active_flag)?;
        let of_iteration = [&ty.shape[..shape.len() - 1], &[Dim::Known(1)]].concat();
        let is_of_iteration =
            flag.shape[..] == of_iteration || (flag.rank() == 0 && shape.len() == 1);
        let is_whole = edit.ty(effect.chosen)?.shape == ty.shape;
        let found = Dropping {
            carry,
            iterations,
            shape,
            dtype: ty.dtype,
            entry: body.entry,
            flag_nodes: body.flag_nodes,
            active_flag,
            is_active_if,
            choosing: body.choosing,
            effect,
        };
        let stays_dropped = !found.active_with(edit, &found.effect.dropped)?.contains(&true);
        (is_of_iteration && is_whole && stays_dropped).then_some(found)
    }

    /// Returns which iterations are active if all of their entries are this number.
    fn active_with(&self, edit: &Edit<'_>, entry: &Tensor) -> Option<Vec<bool>> {
        let mut known: FxHashMap<ValueId, Tensor> = FxHashMap::default();
        known.insert(self.entry, entry.broadcast(&known_shape(edit.shape(self.entry)?)?)?);
        for node in &self.flag_nodes {
            let operands = node.inputs.iter().flatten();
            let operands = operands.map(|id| known.get(id).or_else(|| edit.tensor(*id)));
            let operands: Vec<&Tensor> = operands.collect::<Option<_>>()?;
            let result = node.outputs[0];
            let dtype = edit.dtype(result)?;
            let made = eval(node, &operands, dtype, known_shape(edit.shape(result)?)?)?;
            known.insert(result, made);
        }
        let flags = numbers(known.get(&self.active_flag)?)?;
        Some(flags.iter().map(|&flag| (flag != 0.0) == self.is_active_if).collect())
    }

    fn settle(&self, edit: &mut Patch<'_, '_>, scan: Counted) -> Outcome {
        let Some(covers) = self.covers(edit, &scan) else {
            return declined("the entries that an iteration sets cannot be computed beforehand");
        };
        let candidates = self.candidates(edit)?;
        let (entries, lead) = self.shape.split_last()?;
        let is_square = *entries == self.iterations;
        let is_ordered = is_square && self.effect.is_ordered;
        edit.fuse_bodies();
        let earlier_pairs = [lead, &[self.iterations, self.iterations]].concat();
        let covers = cast(edit, covers, DType::F32);
        let mut earlier = covers;
        if !is_square {
            earlier = beginning(edit, covers, &earlier_pairs)?;
        }
        if !is_ordered {
            let above = edit.integer(1)?;
            let op = Op::new(OpType::Trilu, &[earlier, above]).attr("upper", 1);
            earlier = edit.insert(op);
        }
        let equation =
            Equation { candidates, earlier, covers, is_ordered, rows: self.row(self.iterations) };
        let start = cast(edit, candidates, DType::F32);
        let found = equation.first_products(edit, start)?;
        let solved = edit.branch("settle-flags/solved", |edit| {
            self.result(edit, &equation, &found).into_iter().collect()
        });
        let open = edit.branch("settle-flags/open", |edit| {
            let result = self.result_of_loop(edit, &scan, &equation, found.active);
            result.into_iter().collect()
        });
        let result = choice(edit, found.is_open, open, solved);
        self.replace(edit, scan, result)
    }

    /// Inserts the result of the loop, computed from the active iterations.
    fn result(
        &self,
        edit: &mut Patch<'_, '_>,
        equation: &Equation,
        found: &Approximation,
    ) -> Option<ValueId> {
        if equation.is_ordered && self.is_active_unless_dropped(edit) == Some(true) {
            // No entry is set after its iteration. So the entries of active iterations are not set, and all others
            // are.
            let op = if self.effect.assumed { OpType::Identity } else { OpType::Not };
            let flags = edit.insert(Op::new(op, &[found.flags]));
            return self.without_unit_axis(edit, flags);
        }
        let hits = edit.insert(Op::new(OpType::MatMul, &[found.active, equation.covers]));
        let half = half(edit)?;
        let is_set = edit.insert(Op::new(OpType::Greater, &[hits, half]));
        let is_set = self.without_unit_axis(edit, is_set)?;
        Some(self.with_dropped(edit, is_set))
    }

    /// True if the entries are flags, and each iteration is active unless its entry is set.
    fn is_active_unless_dropped(&self, edit: &Edit<'_>) -> Option<bool> {
        let kept = Tensor::of_ints(self.dtype, Vec::new(), &[i64::from(self.effect.assumed)])?;
        let is_active = self.active_with(edit, &kept)?;
        Some(self.dtype == DType::Bool && !is_active.contains(&false))
    }

    /// Inserts the result of the loop if the first products did not find all active iterations.
    fn result_of_loop(
        &self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        equation: &Equation,
        start: ValueId,
    ) -> Option<ValueId> {
        let most = self.iterations.min(MAX_PRODUCTS);
        let found = equation.more_products(edit, start, most)?;
        let result = self.result(edit, equation, &found)?;
        if most == self.iterations {
            return Some(result);
        }
        let mut own = scan.clone();
        own.carries.retain(|carry| carry.result == self.carry.result);
        own.stacks.clear();
        own.name = LOOP.into();
        let looped = edit.branch(LOOP, |edit| {
            let (mut op, _) = own.into_op(edit);
            if let Some((_, Attr::Graph(body))) = op.attrs.first_mut() {
                renew(edit, body, &mut FxHashMap::default());
            }
            vec![edit.insert(op)]
        });
        let solved = edit.branch("settle-flags/solved", |edit| {
            vec![edit.insert(Op::new(OpType::Identity, &[result]))]
        });
        Some(choice(edit, found.is_open, looped, solved))
    }

    /// Replaces the carry of the loop by its result. The loop stays if it computes anything else.
    fn replace(&self, edit: &mut Patch<'_, '_>, mut scan: Counted, result: ValueId) -> Outcome {
        scan.carries.retain(|carry| carry.result != self.carry.result);
        let mut replaced: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        replaced.insert(self.carry.result, result);
        if scan.outputs().next().is_some() {
            let (op, results) = scan.into_op(edit);
            let made = edit.insert_instead(op, &replacing(&results));
            replaced.extend(results.into_iter().zip(made));
        }
        let results = results_in_place(edit, replaced);
        edit.done(&[], results)
    }

    /// Inserts flags of the entries that each iteration sets if it is active, as matrices of iterations and entries.
    fn covers(&self, edit: &mut Patch<'_, '_>, scan: &Counted) -> Option<ValueId> {
        let mut batches = Batches::beside(scan);
        for (value, flag) in
            [(self.carry.before, self.effect.assumed), (self.active_flag, self.is_active_if)]
        {
            let (shape, dtype) = (known_shape(edit.shape(value)?)?, edit.dtype(value)?);
            let count = shape.iter().product::<i64>() as usize;
            let tensor = Tensor::of_ints(dtype, shape, &vec![i64::from(flag); count])?;
            batches.lifted.insert(value, edit.constant(tensor, &[]));
        }
        for choosing in &self.choosing {
            match choosing {
                Choosing::Node(node) => batches.take(edit, node)?,
                Choosing::Branch { result, on_true, on_false } => {
                    let taken = if self.is_active_if { on_true } else { on_false };
                    batches.note_same(*result, *taken);
                }
            }
        }
        let mut covers = *batches.of.get(&self.effect.chosen)?;
        covers = cast(edit, covers, DType::Bool);
        if self.effect.is_opposite {
            covers = edit.insert(Op::new(OpType::Not, &[covers]));
        }
        let (_, lead) = self.shape.split_last()?;
        if !lead.is_empty() {
            let perm: Vec<usize> = (1..=lead.len()).chain([0, lead.len() + 1]).collect();
            covers = edit.insert(transpose(covers, &perm));
        }
        Some(covers)
    }

    /// Inserts flags of the iterations that would be active if nothing were set before, as rows.
    fn candidates(&self, edit: &mut Patch<'_, '_>) -> Option<ValueId> {
        let (entries, lead) = self.shape.split_last()?;
        let mut first = self.carry.initial;
        if *entries != self.iterations {
            first = beginning(edit, first, &[lead, &[self.iterations]].concat())?;
        }
        if !lead.is_empty() {
            let perm: Vec<usize> = std::iter::once(lead.len()).chain(0..lead.len()).collect();
            first = edit.insert(transpose(first, &perm));
        }
        let entry = known_shape(edit.shape(self.entry)?)?;
        first = reshaped(edit, first, &[&[self.iterations], &entry[..]].concat())?;
        let mut batches = Batches::new(Dim::Known(self.iterations), [(self.entry, first)]);
        for node in &self.flag_nodes {
            batches.take(edit, node)?;
        }
        let mut flags = *batches.of.get(&self.active_flag)?;
        let rows = self.row(self.iterations);
        flags = cast(edit, flags, DType::Bool);
        if lead.is_empty() {
            flags = reshaped(edit, flags, &rows)?;
        } else {
            let perm: Vec<usize> = (1..=self.shape.len()).chain([0]).collect();
            flags = edit.insert(transpose(flags, &perm));
        }
        if !self.is_active_if {
            flags = edit.insert(Op::new(OpType::Not, &[flags]));
        }
        Some(flags)
    }

    /// Inserts the result of the loop, computed from flags of the entries that it sets.
    fn with_dropped(&self, edit: &mut Patch<'_, '_>, is_set: ValueId) -> ValueId {
        let initial = self.carry.initial;
        let op = if self.dtype != DType::Bool {
            let dropped = edit.constant(self.effect.dropped.clone(), &[]);
            Op::new(OpType::Where, &[is_set, dropped, initial])
        } else if self.effect.assumed {
            let is_kept = edit.insert(Op::new(OpType::Not, &[is_set]));
            Op::new(OpType::And, &[initial, is_kept])
        } else {
            Op::new(OpType::Or, &[initial, is_set])
        };
        edit.insert(op)
    }

    /// Returns the shape of one row, or of one row per entry of the leading axes.
    fn row(&self, size: i64) -> Vec<i64> {
        match &self.shape[..] {
            [lead @ .., _] if !lead.is_empty() => [lead, &[1, size]].concat(),
            _ => vec![size],
        }
    }

    /// Drops the unit axis of rows that have leading axes.
    fn without_unit_axis(&self, edit: &mut Patch<'_, '_>, rows: ValueId) -> Option<ValueId> {
        let lead = self.shape.len() - 1;
        if lead == 0 {
            return Some(rows);
        }
        let axes = edit.integers(&[lead as i64])?;
        Some(edit.insert(Op::new(OpType::Squeeze, &[rows, axes])))
    }
}

/// Inserts an `If`. Its branches are canonicalized like the rest of the graph.
fn choice(edit: &mut Patch<'_, '_>, is_open: ValueId, open: Graph, solved: Graph) -> ValueId {
    let op = Op::new(OpType::If, &[is_open]).attr("else_branch", solved);
    edit.insert(op.attr("then_branch", open))
}

/// Returns the nodes that compute a carry, in topological order. `None` if they read another carry, or if another
/// node reads their results.
fn own_nodes(scan: &Counted, carry: Carry) -> Option<Vec<&Node>> {
    let mut needed: FxHashSet<ValueId> = std::iter::once(carry.after).collect();
    let mut own: Vec<&Node> = Vec::new();
    for node in scan.nodes.iter().rev() {
        if node.outputs.iter().any(|output| needed.contains(output)) {
            for_each_read(node, &mut |id| _ = needed.insert(id));
            own.push(node);
        }
    }
    own.reverse();
    let mut of_carry: FxHashSet<ValueId> = std::iter::once(carry.before).collect();
    for node in &own {
        if of_carry.iter().any(|&value| node_reads(node, value)) {
            of_carry.extend(&node.outputs);
        }
    }
    let is_own = |node: &Node| own.iter().any(|other| other.outputs == node.outputs);
    let reads_it = |node: &Node| of_carry.iter().any(|&value| node_reads(node, value));
    let is_read = scan.nodes.iter().any(|node| !is_own(node) && reads_it(node))
        || scan.outputs().filter(|output| of_carry.contains(output)).count() > 1;
    let is_alone = scan
        .carries
        .iter()
        .all(|other| other.result == carry.result || !needed.contains(&other.before));
    (!is_read && is_alone).then_some(own)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use crate::testing::{check_all, check_lean, each};

    const ROUNDS: &str = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]:i64";

    #[test]
    fn flags_that_iterations_clear_are_the_solution_of_an_equation() {
        let graph = format!(
            "graph g(k:bool[16], m:bool[16,16]) -> (y)
y:bool[16] = Scan(k, {ROUNDS}, m) {{body={{
  graph b(a:bool[16], i:i64[], r:bool[16]) -> (c)
  %0:bool[] = Gather(a, i) {{axis=0}}
  %1:bool[16] = And(%0, r)
  %2:bool[16] = Not(%1)
  c:bool[16] = And(a, %2)
}}, num_scan_inputs=2}}"
        );
        check_all(
            &[&each(super::run), &crate::canonicalize::everything, &crate::testing::drop_dead],
            &graph,
            expect![[r#"
                graph g(k:bool[16], m:bool[16,16]) -> (y)
                %0 = Cast(m) {to=1}  # 2 4 5 6 7
                %1 = Trilu(%0, 1:i64) {upper=1}  # 2 4 5 6 7
                %2 = Cast(k) {to=1}  # 2 4 5 6 7
                %3 = MatMul(%2, %1)  # 2 4 5 6 7
                %4 = Less(%3, 0.5)  # 2 4 5 6 7
                %5 = And(k, %4)  # 2 4 5 6 7
                %6 = Cast(%5) {to=1}  # 2 4 5 6 7
                %7 = MatMul(%6, %1)  # 2 4 5 6 7
                %8 = Less(%7, 0.5)  # 2 4 5 6 7
                %9 = And(k, %8)  # 2 4 5 6 7
                %10 = Cast(%9) {to=1}  # 2 4 5 6 7
                %11 = MatMul(%10, %1)  # 2 4 5 6 7
                %12 = Less(%11, 0.5)  # 2 4 5 6 7
                %13 = And(k, %12)  # 2 4 5 6 7
                %14 = Cast(%13) {to=1}  # 2 4 5 6 7
                %15 = MatMul(%14, %1)  # 2 4 5 6 7
                %16 = Less(%15, 0.5)  # 2 4 5 6 7
                %17 = And(k, %16)  # 2 4 5 6 7
                %18 = Cast(%17) {to=1}  # 2 4 5 6 7
                %19 = Sub(%18, %14)  # 2 4 5 6 7
                %20 = ReduceSumSquare(%19) {keepdims=0}  # 2 4 5 6 7
                %21 = Cast(%20) {to=9}  # 2 4 5 6 7
                y:bool[16] = If(%21) {else_branch={  # 2 4 5 6 7
                  graph `settle-flags/solved`() -> (%25)
                  %22 = MatMul(%18, %0)  # 2 4 5 6 7
                  %23 = Greater(%22, 0.5)  # 2 4 5 6 7
                  %24 = Not(%23)  # 2 4 5 6 7
                  %25:bool[16] = And(k, %24)  # 2 4 5 6 7
                }, then_branch={
                  graph `settle-flags/open`() -> (%31)
                  %26, %27 = Loop(16:i64, true, %18, true) {body={  # 2 4 5 6 7
                    graph `settle-flags`(%32:i64[], %33:bool[], %34:f32[16], %35:bool[]) -> (%42, %39, %43)
                    %36 = MatMul(%34, %1)  # 2 4 5 6 7
                    %37 = Less(%36, 0.5)  # 2 4 5 6 7
                    %38 = And(k, %37)  # 2 4 5 6 7
                    %39:f32[16] = Cast(%38) {to=1}  # 2 4 5 6 7
                    %40 = Sub(%39, %34)  # 2 4 5 6 7
                    %41 = ReduceSumSquare(%40) {keepdims=0}  # 2 4 5 6 7
                    %42:bool[] = Cast(%41) {to=9}  # 2 4 5 6 7
                    %43:bool[] = Identity(%42)  # 2 4 5 6 7
                  }}
                  %28 = MatMul(%26, %0)  # 2 4 5 6 7
                  %29 = Greater(%28, 0.5)  # 2 4 5 6 7
                  %30 = Not(%29)  # 2 4 5 6 7
                  %31:bool[16] = And(k, %30)  # 2 4 5 6 7
                }}
            "#]],
        );
    }

    #[test]
    fn each_row_of_a_batch_has_an_equation_of_its_own() {
        let graph = format!(
            "graph g(k:f32[2,20], m:bool[16,2,20]) -> (y)
y:f32[2,20] = Scan(k, {ROUNDS}, m) {{body={{
  graph b(a:f32[2,20], i:i64[], r:bool[2,20]) -> (c)
  %0:f32[2] = Gather(a, i) {{axis=1}}
  %1:bool[2] = Greater(%0, 0.0)
  %2:bool[2,1] = Unsqueeze(%1, [1]:i64)
  %3:bool[2,20] = And(%2, r)
  c:f32[2,20] = Where(%3, -1.0, a)
}}, num_scan_inputs=2}}"
        );
        check_lean(
            each(super::run),
            &graph,
            expect![[r#"
                graph g(k:f32[2,20], m:bool[16,2,20]) -> (y)
                %0 = And([[true], [true]], m)  # 7
                %1 = Transpose(%0) {perm=[1, 0, 2]}  # 2
                %2 = Slice(k, [0]:i64, [16]:i64, [1]:i64)  # 2
                %3 = Transpose(%2) {perm=[1, 0]}  # 2
                %4 = Greater(%3, 0.0)  # 5
                %5 = Unsqueeze(%4, [2]:i64)  # 6
                %6 = Transpose(%5) {perm=[1, 2, 0]}  # 2
                %7 = Cast(%1) {to=1}  # 2 4 5 6 7 8
                %8 = Slice(%7, [0]:i64, [16]:i64, [2]:i64)  # 2 4 5 6 7 8
                %9 = Trilu(%8, 1:i64) {upper=1}  # 2 4 5 6 7 8
                %10 = Cast(%6) {to=1}  # 2 4 5 6 7 8
                %11 = MatMul(%10, %9)  # 2 4 5 6 7 8
                %12 = Less(%11, 0.5)  # 2 4 5 6 7 8
                %13 = And(%6, %12)  # 2 4 5 6 7 8
                %14 = Cast(%13) {to=1}  # 2 4 5 6 7 8
                %15 = MatMul(%14, %9)  # 2 4 5 6 7 8
                %16 = Less(%15, 0.5)  # 2 4 5 6 7 8
                %17 = And(%6, %16)  # 2 4 5 6 7 8
                %18 = Cast(%17) {to=1}  # 2 4 5 6 7 8
                %19 = MatMul(%18, %9)  # 2 4 5 6 7 8
                %20 = Less(%19, 0.5)  # 2 4 5 6 7 8
                %21 = And(%6, %20)  # 2 4 5 6 7 8
                %22 = Cast(%21) {to=1}  # 2 4 5 6 7 8
                %23 = MatMul(%22, %9)  # 2 4 5 6 7 8
                %24 = Less(%23, 0.5)  # 2 4 5 6 7 8
                %25 = And(%6, %24)  # 2 4 5 6 7 8
                %26 = Cast(%25) {to=1}  # 2 4 5 6 7 8
                %27 = Sub(%26, %22)  # 2 4 5 6 7 8
                %28 = ReduceSumSquare(%27) {keepdims=0}  # 2 4 5 6 7 8
                %29 = Cast(%28) {to=9}  # 2 4 5 6 7 8
                y:f32[2,20] = If(%29) {else_branch={  # 2 4 5 6 7 8
                  graph `settle-flags/solved`() -> (%33)
                  %30 = MatMul(%26, %7)  # 2 4 5 6 7 8
                  %31 = Greater(%30, 0.5)  # 2 4 5 6 7 8
                  %32 = Squeeze(%31, [1]:i64)  # 2 4 5 6 7 8
                  %33:f32[2,20] = Where(%32, -1.0, k)  # 2 4 5 6 7 8
                }, then_branch={
                  graph `settle-flags/open`() -> (%39)
                  %34, %35 = Loop(16:i64, true, %26, true) {body={  # 2 4 5 6 7 8
                    graph `settle-flags`(%40:i64[], %41:bool[], %42:f32[2,1,16], %43:bool[]) -> (%50, %47, %51)
                    %44 = MatMul(%42, %9)  # 2 4 5 6 7 8
                    %45 = Less(%44, 0.5)  # 2 4 5 6 7 8
                    %46 = And(%6, %45)  # 2 4 5 6 7 8
                    %47:f32[2,1,16] = Cast(%46) {to=1}  # 2 4 5 6 7 8
                    %48 = Sub(%47, %42)  # 2 4 5 6 7 8
                    %49 = ReduceSumSquare(%48) {keepdims=0}  # 2 4 5 6 7 8
                    %50:bool[] = Cast(%49) {to=9}  # 2 4 5 6 7 8
                    %51:bool[] = Identity(%50)  # 2 4 5 6 7 8
                  }}
                  %36 = MatMul(%34, %7)  # 2 4 5 6 7 8
                  %37 = Greater(%36, 0.5)  # 2 4 5 6 7 8
                  %38 = Squeeze(%37, [1]:i64)  # 2 4 5 6 7 8
                  %39:f32[2,20] = Where(%38, -1.0, k)  # 2 4 5 6 7 8
                }}
            "#]],
        );
    }
}
