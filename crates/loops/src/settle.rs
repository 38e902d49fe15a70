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

use self::body::{Body, Effect};
use self::equation::{Approximation, Equation, cast, half, reshaped};
use super::batches::Batches;
use super::{Carry, Counted, node_reads, renew, replacing, results_in_place};

/// The name of the original loop, which runs if the products did not find a solution.
const LOOP: &str = "settle-flags/loop";

/// A loop with fewer iterations is unrolled, or fast enough.
const MIN_ITERATIONS: i64 = MAX_PRODUCTS + 1;

/// With more pairs of iterations and entries, a product takes as long as many iterations.
const MAX_PAIRS: i64 = 1 << 20;

/// The maximum number of products in a loop. After them, the original loop runs.
const MAX_PRODUCTS: i64 = 16;

pub fn run(edit: &mut Patch<'_, '_>) -> Outcome {
    require(edit.node(edit.root()).op == OpType::Scan)?;
    let scan = Counted::at(edit, edit.root()).filter(|scan| &*scan.name != LOOP)?;
    let found = scan.carries.iter().find_map(|&carry| Dropping::of(edit, &scan, carry))?;
    found.settle(edit, scan)
}

/// A loop whose iteration `i` clears flags of its carry, or sets them, if another flag, which depends on entry `i`, makes
/// it active.
struct Dropping {
    carry: Carry,
    /// The number of iterations and of entries. Each iteration reads the entry with its number.
    iterations: i64,
    /// The shape of the carry. Its last axis has the entries; the other axes are independent of each other.
    shape: Vec<i64>,
    /// The entry of the iteration, and the nodes that compute the flag from it.
    entry: ValueId,
    flag_nodes: Vec<Node>,
    active_flag: ValueId,
    /// The value of the flag for which an iteration is active.
    is_active_if: bool,
    /// The nodes that choose the entries that an active iteration changes.
    choosing: Vec<Node>,
    effect: Effect,
}

impl Dropping {
    fn of(edit: &Edit<'_>, scan: &Counted, carry: Carry) -> Option<Dropping> {
        let iterations =
            scan.iterations.known().filter(|&iterations| iterations >= MIN_ITERATIONS)?;
        let ty = edit.ty(carry.before)?;
        let shape = known_shape(edit.shape(carry.before)?)?;
        let pairs = shape.iter().product::<i64>().checked_mul(iterations)?;
        require(!scan.is_reverse && pairs <= MAX_PAIRS && iterations == *shape.last()?)?;
        let mut body = Body::new(edit, scan, carry, shape.len());
        own_nodes(scan, carry)?.into_iter().try_for_each(|node| body.take(node))?;
        let with = |is_active_if| Some((is_active_if, body.effect(is_active_if)?));
        let (is_active_if, effect) = with(true).or_else(|| with(false))?;
        let active_flag = body.active_flag?;
        let flag = edit.ty(active_flag)?;
        let of_iteration = [&ty.shape[..shape.len() - 1], &[Dim::Known(1)]].concat();
        let is_of_iteration =
            flag.shape[..] == of_iteration || (flag.rank() == 0 && shape.len() == 1);
        let found = Dropping {
            carry,
            iterations,
            shape,
            entry: body.entry,
            flag_nodes: body.flag_nodes,
            active_flag,
            is_active_if,
            choosing: body.choosing,
            effect,
        };
        let stays_dropped = !found.active_with(edit, !found.effect.clears)?.contains(&true);
        (is_of_iteration && stays_dropped).then_some(found)
    }

    /// Returns which iterations are active if all of their entries are this flag.
    fn active_with(&self, edit: &Edit<'_>, entry: bool) -> Option<Vec<bool>> {
        let mut known: FxHashMap<ValueId, Tensor> = FxHashMap::default();
        let entry = Tensor::of_ints(DType::Bool, Vec::new(), &[entry.into()])?;
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
        let flags = known.get(&self.active_flag)?.ints()?;
        Some(flags.iter().map(|&flag| (flag != 0) == self.is_active_if).collect())
    }

    fn settle(&self, edit: &mut Patch<'_, '_>, scan: Counted) -> Outcome {
        let Some(covers) = self.covers(edit, &scan) else {
            return declined("the entries that an iteration changes cannot be computed beforehand");
        };
        let candidates = self.candidates(edit)?;
        edit.fuse_bodies();
        let covers = cast(edit, covers, DType::F32);
        let mut earlier = covers;
        if !self.effect.is_ordered {
            let above = edit.integer(1)?;
            let op = Op::new(OpType::Trilu, &[earlier, above]).attr("upper", 1);
            earlier = edit.insert(op);
        }
        let equation = Equation { candidates, earlier, covers, rows: self.rows() };
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
        let is_active_unless_dropped =
            !self.active_with(edit, self.effect.clears)?.contains(&false);
        if self.effect.is_ordered && is_active_unless_dropped {
            // No entry changes after its iteration. So the entries of active iterations stay, and all others change.
            let op = if self.effect.clears { OpType::Identity } else { OpType::Not };
            let flags = edit.insert(Op::new(op, &[found.flags]));
            return self.without_unit_axis(edit, flags);
        }
        let hits = edit.insert(Op::new(OpType::MatMul, &[found.active, equation.covers]));
        let half = half(edit)?;
        let is_changed = edit.insert(Op::new(OpType::Greater, &[hits, half]));
        let is_changed = self.without_unit_axis(edit, is_changed)?;
        let initial = self.carry.initial;
        let op = if self.effect.clears {
            let is_kept = edit.insert(Op::new(OpType::Not, &[is_changed]));
            Op::new(OpType::And, &[initial, is_kept])
        } else {
            Op::new(OpType::Or, &[initial, is_changed])
        };
        Some(edit.insert(op))
    }

    /// Inserts the result of the loop if the first products did not find all active iterations.
    fn result_of_loop(
        &self,
        edit: &mut Patch<'_, '_>,
        scan: &Counted,
        equation: &Equation,
        start: ValueId,
    ) -> Option<ValueId> {
        let found = equation.more_products(edit, start, MAX_PRODUCTS)?;
        let result = self.result(edit, equation, &found)?;
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

    /// Inserts flags of the entries that each iteration changes if it is active, as matrices of iterations and entries.
    fn covers(&self, edit: &mut Patch<'_, '_>, scan: &Counted) -> Option<ValueId> {
        let mut batches = Batches::beside(scan);
        for (value, flag) in
            [(self.carry.before, self.effect.clears), (self.active_flag, self.is_active_if)]
        {
            let shape = known_shape(edit.shape(value)?)?;
            let count = shape.iter().product::<i64>() as usize;
            let tensor = Tensor::of_ints(DType::Bool, shape, &vec![i64::from(flag); count])?;
            batches.lifted.insert(value, edit.constant(tensor, &[]));
        }
        self.choosing.iter().try_for_each(|node| batches.take(edit, node))?;
        let mut covers = *batches.of.get(&self.carry.after)?;
        if self.effect.clears {
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
        let (_, lead) = self.shape.split_last()?;
        let mut first = self.carry.initial;
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
        if lead.is_empty() {
            flags = reshaped(edit, flags, &self.rows())?;
        } else {
            let perm: Vec<usize> = (1..=self.shape.len()).chain([0]).collect();
            flags = edit.insert(transpose(flags, &perm));
        }
        if !self.is_active_if {
            flags = edit.insert(Op::new(OpType::Not, &[flags]));
        }
        Some(flags)
    }

    /// Returns the shape of one row, or of one row per entry of the leading axes.
    fn rows(&self) -> Vec<i64> {
        match &self.shape[..] {
            [lead @ .., size] if !lead.is_empty() => [lead, &[1, *size]].concat(),
            shape => shape.to_vec(),
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

    use testing::{check_all, check_lean, each};

    const ROUNDS: &str = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]:i64";

    #[test]
    fn flags_that_iterations_clear_are_the_solution_of_an_equation() {
        let graph = format!(
            "graph g(k:bool[17], m:bool[17,17]) -> (y)
y:bool[17] = Scan(k, {ROUNDS}, m) {{body={{
  graph b(a:bool[17], i:i64[], r:bool[17]) -> (c)
  %0:bool[] = Gather(a, i) {{axis=0}}
  %1:bool[17] = And(%0, r)
  %2:bool[17] = Not(%1)
  c:bool[17] = And(a, %2)
}}, num_scan_inputs=2}}"
        );
        check_all(
            &[&each(super::run), &passes::canonicalize::everything, &testing::drop_dead],
            &graph,
            expect![[r#"
                graph g(k:bool[17], m:bool[17,17]) -> (y)
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
                y:bool[17] = If(%21) {else_branch={  # 2 4 5 6 7
                  graph `settle-flags/solved`() -> (%25)
                  %22 = MatMul(%18, %0)  # 2 4 5 6 7
                  %23 = Greater(%22, 0.5)  # 2 4 5 6 7
                  %24 = Not(%23)  # 2 4 5 6 7
                  %25:bool[17] = And(k, %24)  # 2 4 5 6 7
                }, then_branch={
                  graph `settle-flags/open`() -> (%32)
                  %26, %27 = Loop(16:i64, true, %18, true) {body={  # 2 4 5 6 7
                    graph `settle-flags`(%33:i64[], %34:bool[], %35:f32[17], %36:bool[]) -> (%43, %40, %44)
                    %37 = MatMul(%35, %1)  # 2 4 5 6 7
                    %38 = Less(%37, 0.5)  # 2 4 5 6 7
                    %39 = And(k, %38)  # 2 4 5 6 7
                    %40:f32[17] = Cast(%39) {to=1}  # 2 4 5 6 7
                    %41 = Sub(%40, %35)  # 2 4 5 6 7
                    %42 = ReduceSumSquare(%41) {keepdims=0}  # 2 4 5 6 7
                    %43:bool[] = Cast(%42) {to=9}  # 2 4 5 6 7
                    %44:bool[] = Identity(%43)  # 2 4 5 6 7
                  }}
                  %28 = MatMul(%26, %0)  # 2 4 5 6 7
                  %29 = Greater(%28, 0.5)  # 2 4 5 6 7
                  %30 = Not(%29)  # 2 4 5 6 7
                  %31 = And(k, %30)  # 2 4 5 6 7
                  %32:bool[17] = If(%27) {else_branch={  # 2 4 5 6 7
                    graph `settle-flags/solved`() -> (%45)
                    %45:bool[17] = Identity(%31)  # 2 4 5 6 7
                  }, then_branch={
                    graph `settle-flags/loop`() -> (%46)
                    %46:bool[17] = Scan(k, const i64[17], m) {body={  # 2 4 5 6 7
                      graph `settle-flags/loop`(%47:bool[17], %48:i64[], %49:bool[17]) -> (%53)
                      %50 = Gather(%47, %48) {axis=0}  # 4
                      %51 = And(%50, %49)  # 5
                      %52 = Not(%51)  # 6
                      %53:bool[17] = And(%47, %52)  # 7
                    }, num_scan_inputs=2}
                  }}
                }}
            "#]],
        );
    }

    #[test]
    fn each_row_of_a_batch_has_an_equation_of_its_own() {
        let graph = format!(
            "graph g(k:bool[2,17], m:bool[17,2,17]) -> (y)
y:bool[2,17] = Scan(k, {ROUNDS}, m) {{body={{
  graph b(a:bool[2,17], i:i64[], r:bool[2,17]) -> (c)
  %0:bool[2] = Gather(a, i) {{axis=1}}
  %1:bool[2] = Not(%0)
  %2:bool[2,1] = Unsqueeze(%1, [1]:i64)
  %3:bool[2,17] = And(%2, r)
  c:bool[2,17] = Or(a, %3)
}}, num_scan_inputs=2}}"
        );
        check_lean(
            each(super::run),
            &graph,
            expect![[r#"
                graph g(k:bool[2,17], m:bool[17,2,17]) -> (y)
                %0 = And([[true], [true]], m)  # 7
                %1 = Or(const bool[2,17], %0)  # 8
                %2 = Transpose(%1) {perm=[1, 0, 2]}  # 2
                %3 = Transpose(k) {perm=[1, 0]}  # 2
                %4 = Not(%3)  # 5
                %5 = Unsqueeze(%4, [2]:i64)  # 6
                %6 = Transpose(%5) {perm=[1, 2, 0]}  # 2
                %7 = Cast(%2) {to=1}  # 2 4 5 6 7 8
                %8 = Trilu(%7, 1:i64) {upper=1}  # 2 4 5 6 7 8
                %9 = Cast(%6) {to=1}  # 2 4 5 6 7 8
                %10 = MatMul(%9, %8)  # 2 4 5 6 7 8
                %11 = Less(%10, 0.5)  # 2 4 5 6 7 8
                %12 = And(%6, %11)  # 2 4 5 6 7 8
                %13 = Cast(%12) {to=1}  # 2 4 5 6 7 8
                %14 = MatMul(%13, %8)  # 2 4 5 6 7 8
                %15 = Less(%14, 0.5)  # 2 4 5 6 7 8
                %16 = And(%6, %15)  # 2 4 5 6 7 8
                %17 = Cast(%16) {to=1}  # 2 4 5 6 7 8
                %18 = MatMul(%17, %8)  # 2 4 5 6 7 8
                %19 = Less(%18, 0.5)  # 2 4 5 6 7 8
                %20 = And(%6, %19)  # 2 4 5 6 7 8
                %21 = Cast(%20) {to=1}  # 2 4 5 6 7 8
                %22 = MatMul(%21, %8)  # 2 4 5 6 7 8
                %23 = Less(%22, 0.5)  # 2 4 5 6 7 8
                %24 = And(%6, %23)  # 2 4 5 6 7 8
                %25 = Cast(%24) {to=1}  # 2 4 5 6 7 8
                %26 = Sub(%25, %21)  # 2 4 5 6 7 8
                %27 = ReduceSumSquare(%26) {keepdims=0}  # 2 4 5 6 7 8
                %28 = Cast(%27) {to=9}  # 2 4 5 6 7 8
                y:bool[2,17] = If(%28) {else_branch={  # 2 4 5 6 7 8
                  graph `settle-flags/solved`() -> (%32)
                  %29 = MatMul(%25, %7)  # 2 4 5 6 7 8
                  %30 = Greater(%29, 0.5)  # 2 4 5 6 7 8
                  %31 = Squeeze(%30, [1]:i64)  # 2 4 5 6 7 8
                  %32:bool[2,17] = Or(k, %31)  # 2 4 5 6 7 8
                }, then_branch={
                  graph `settle-flags/open`() -> (%39)
                  %33, %34 = Loop(16:i64, true, %25, true) {body={  # 2 4 5 6 7 8
                    graph `settle-flags`(%40:i64[], %41:bool[], %42:f32[2,1,17], %43:bool[]) -> (%50, %47, %51)
                    %44 = MatMul(%42, %8)  # 2 4 5 6 7 8
                    %45 = Less(%44, 0.5)  # 2 4 5 6 7 8
                    %46 = And(%6, %45)  # 2 4 5 6 7 8
                    %47:f32[2,1,17] = Cast(%46) {to=1}  # 2 4 5 6 7 8
                    %48 = Sub(%47, %42)  # 2 4 5 6 7 8
                    %49 = ReduceSumSquare(%48) {keepdims=0}  # 2 4 5 6 7 8
                    %50:bool[] = Cast(%49) {to=9}  # 2 4 5 6 7 8
                    %51:bool[] = Identity(%50)  # 2 4 5 6 7 8
                  }}
                  %35 = MatMul(%33, %7)  # 2 4 5 6 7 8
                  %36 = Greater(%35, 0.5)  # 2 4 5 6 7 8
                  %37 = Squeeze(%36, [1]:i64)  # 2 4 5 6 7 8
                  %38 = Or(k, %37)  # 2 4 5 6 7 8
                  %39:bool[2,17] = If(%34) {else_branch={  # 2 4 5 6 7 8
                    graph `settle-flags/solved`() -> (%52)
                    %52:bool[2,17] = Identity(%38)  # 2 4 5 6 7 8
                  }, then_branch={
                    graph `settle-flags/loop`() -> (%53)
                    %53:bool[2,17] = Scan(k, const i64[17], m) {body={  # 2 4 5 6 7 8
                      graph `settle-flags/loop`(%54:bool[2,17], %55:i64[], %56:bool[2,17]) -> (%61)
                      %57 = Gather(%54, %55) {axis=1}  # 4
                      %58 = Not(%57)  # 5
                      %59 = Unsqueeze(%58, [1]:i64)  # 6
                      %60 = And(%59, %56)  # 7
                      %61:bool[2,17] = Or(%54, %60)  # 8
                    }, num_scan_inputs=2}
                  }}
                }}
            "#]],
        );
    }
}
