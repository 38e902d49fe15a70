//! Multiplies the costs of nodes with the number of their runs, and sums them.

use onnx::cost::{Cost, NotCounted};
use onnx::sized::{InnerKind, Instance, SizedModel, SymbolUse};
use onnx::{Dim, Total, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Lines, Sizing};
use crate::{Document, Frame, Provenance};

/// The key that costs are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    #[default]
    Line,
    Function,
    /// The path of modules and name scopes.
    Module,
    Operator,
    Node,
}

impl By {
    const ALL: [By; 5] = [By::Line, By::Function, By::Module, By::Operator, By::Node];

    pub fn of_word(word: &str) -> Option<By> {
        By::ALL.into_iter().find(|by| by.word() == word)
    }

    pub fn words() -> Vec<&'static str> {
        By::ALL.iter().map(|by| by.word()).collect()
    }

    pub fn word(self) -> &'static str {
        match self {
            By::Line => "line",
            By::Function => "function",
            By::Module => "module",
            By::Operator => "operator",
            By::Node => "node",
        }
    }
}

/// Sums of costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub flops: Total,
    pub transcendentals: Total,
    pub operations: Total,
    pub bytes_read: Total,
    pub bytes_written: Total,
    /// The bytes of the weights that are read, each counted once.
    pub weights: Total,
}

impl Amounts {
    /// The names of the sums in JSON.
    pub const NAMES: [&'static str; 6] =
        ["flops", "transcendentals", "operations", "bytes_read", "bytes_written", "weights"];

    /// Returns the sums in the order of their names.
    pub fn all(&self) -> [&Total; 6] {
        let Amounts { flops, transcendentals, operations, bytes_read, bytes_written, weights } =
            self;
        [flops, transcendentals, operations, bytes_read, bytes_written, weights]
    }

    /// Adds the cost of a node; `None` if a sum is too large.
    pub(crate) fn add(&mut self, cost: &Cost, runs: &Total) -> Option<()> {
        let Cost { flops, transcendentals, operations, bytes_read, bytes_written } = cost;
        self.flops.add_product(flops, runs)?;
        self.transcendentals.add_product(transcendentals, runs)?;
        self.operations.add_product(operations, runs)?;
        self.bytes_read.add_product(bytes_read, runs)?;
        self.bytes_written.add_product(bytes_written, runs)
    }

    /// Adds the sums of another row. Sums that are too large stay as they are.
    pub(super) fn add_amounts(&mut self, other: &Amounts) {
        let Amounts { flops, transcendentals, operations, bytes_read, bytes_written, weights } =
            self;
        let own = [flops, transcendentals, operations, bytes_read, bytes_written, weights];
        for (own, other) in own.into_iter().zip(other.all()) {
            let _ = own.add_total(other);
        }
    }

    /// Returns the sizes by which costs are ordered: operations first, then bytes.
    pub fn order(&self) -> (f64, f64) {
        let of = |totals: [&Total; 3]| totals.map(Total::at_large_sizes).iter().sum::<f64>();
        let computed = of([&self.flops, &self.transcendentals, &self.operations]);
        (computed, of([&self.bytes_read, &self.bytes_written, &self.weights]))
    }

    /// Returns the operations of every kind.
    pub fn computed(&self) -> Option<i128> {
        let sums = [&self.flops, &self.transcendentals, &self.operations];
        sums.iter().try_fold(0_i128, |all, total| all.checked_add(total.known()?))
    }

    /// Returns the floating-point operations per byte that is read or written.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.bytes_read.known()?.checked_add(self.bytes_written.known()?)?;
        let flops = self.flops.known()?.checked_add(self.transcendentals.known()?)?;
        (bytes > 0).then(|| flops as f64 / bytes as f64)
    }
}

/// The costs of all nodes with the same key.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'d> {
    /// The key of the group; `None` if it is unknown.
    pub key: Option<String>,
    /// The line, or the first line of the function.
    pub frame: Option<Frame<'d>>,
    /// The costs for the sizes of the user. They are numbers if all sizes are known.
    pub numbers: Amounts,
    /// The costs as polynomials.
    pub formulas: Amounts,
    /// The number of nodes.
    pub nodes: usize,
    /// The operators, in the order of their first node.
    pub ops: Vec<String>,
}

/// Nodes whose cost is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncounted {
    pub op: String,
    pub why: NotCounted,
    pub nodes: usize,
    /// The first of them.
    pub first: usize,
}

/// The costs of a model.
#[derive(Clone, Debug)]
pub struct Costs<'d> {
    /// The sums of all nodes.
    pub total: Row<'d>,
    /// The costs of each line, the largest for large sizes first.
    pub lines: Vec<Row<'d>>,
    pub by: By,
    /// The costs by another key than the line.
    pub rows: Option<Vec<Row<'d>>>,
    pub symbols: Vec<SymbolUse>,
    /// The number of branches that were not counted, because the other branch costs more.
    pub branches: usize,
    pub uncounted: Vec<Uncounted>,
    /// A sentence about missing provenance.
    pub missing: Option<&'static str>,
}

/// The maximum number of terms to add up, so that no file takes long.
const MAX_WORK: usize = 1 << 22;

/// Returns how often each instance runs; `None` if that is too large.
pub fn runs(model: &SizedModel) -> Vec<Option<Total>> {
    let mut runs: Vec<Option<Total>> = vec![Some(Total::default()); model.instances.len()];
    if let Some(main) = runs.last_mut() {
        *main = Total::of(&Dim::Known(1));
    }
    let mut work = MAX_WORK;
    // An instance comes after those that it runs.
    for number in (0..model.instances.len()).rev() {
        let outer = runs[number].clone();
        for inner in model.instances[number].steps.iter().flat_map(|step| &step.inner) {
            let Some(count) = runs.get_mut(inner.instance) else { continue };
            let terms = outer.as_ref().map_or(1, Total::terms);
            work = work.saturating_sub(inner.times.weight().saturating_mul(terms) + 1);
            let added = match (&outer, count.as_mut()) {
                (Some(outer), Some(count)) if work > 0 => count.add_product(&inner.times, outer),
                _ => None,
            };
            if added.is_none() {
                *count = None;
            }
        }
    }
    runs
}

/// Returns the costs of a model.
pub fn costs<'d>(sizing: &Sizing<'d, '_>, lines: &Lines<'d>, by: By) -> Costs<'d> {
    let numbers = Tally::of(sizing.document, sizing.numbers(), lines, by);
    let formulas = match std::ptr::eq(sizing.numbers(), sizing.formulas()) {
        true => None,
        false => Some(Tally::of(sizing.document, sizing.formulas(), lines, by)),
    };
    let of_line = formulas.as_ref().map(|tally| &tally.lines);
    let of_row = formulas.as_ref().map(|tally| &tally.rows);
    let missing = sizing.document.missing().filter(|_| matches!(by, By::Line | By::Function));
    Costs {
        total: Row {
            key: None,
            frame: None,
            formulas: formulas.as_ref().map_or(&numbers, |tally| tally).total.clone(),
            numbers: numbers.total,
            nodes: numbers.nodes,
            ops: Vec::new(),
        },
        lines: numbers.lines.rows(of_line),
        by,
        rows: (by != By::Line).then(|| numbers.rows.rows(of_row)),
        symbols: sizing.numbers().symbols.clone(),
        branches: numbers.branches,
        uncounted: numbers.uncounted,
        missing,
    }
}

/// A constant of the file, whichever instance reads it.
type Weight = (usize, usize);

/// The sums of one model.
struct Tally<'d> {
    total: Amounts,
    nodes: usize,
    lines: Groups<'d>,
    rows: Groups<'d>,
    branches: usize,
    uncounted: Vec<Uncounted>,
    /// The number of terms that may still be added up.
    work: usize,
}

#[derive(Default)]
struct Groups<'d> {
    numbers: FxHashMap<Option<String>, usize>,
    groups: Vec<Group<'d>>,
}

struct Group<'d> {
    key: Option<String>,
    frame: Option<Frame<'d>>,
    amounts: Amounts,
    weights: FxHashSet<Weight>,
    nodes: usize,
    ops: Vec<String>,
}

impl<'d> Groups<'d> {
    fn number(&mut self, key: Option<String>, frame: Option<Frame<'d>>) -> usize {
        let Groups { numbers, groups } = self;
        *numbers.entry(key).or_insert_with_key(|key| {
            groups.push(Group {
                key: key.clone(),
                frame,
                amounts: Amounts::default(),
                weights: FxHashSet::default(),
                nodes: 0,
                ops: Vec::new(),
            });
            groups.len() - 1
        })
    }

    /// Returns the groups, the largest first. `formulas` has the same groups with symbols.
    fn rows(self, formulas: Option<&Groups<'d>>) -> Vec<Row<'d>> {
        let other = |key: &Option<String>| {
            let formulas = formulas?;
            Some(formulas.groups[*formulas.numbers.get(key)?].amounts.clone())
        };
        let mut rows: Vec<((f64, f64), Row<'d>)> = Vec::new();
        for group in self.groups {
            let row = Row {
                formulas: other(&group.key).unwrap_or_else(|| group.amounts.clone()),
                key: group.key,
                frame: group.frame,
                numbers: group.amounts,
                nodes: group.nodes,
                ops: group.ops,
            };
            rows.push((row.numbers.order(), row));
        }
        rows.sort_by(|((a, x), _), ((b, y), _)| b.total_cmp(a).then_with(|| y.total_cmp(x)));
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// The groups of a node.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    row: usize,
}

impl<'d> Tally<'d> {
    fn of(document: &Document<'_>, model: &SizedModel, lines: &Lines<'d>, by: By) -> Tally<'d> {
        let mut tally = Tally {
            total: Amounts::default(),
            nodes: document.scan.nodes.len(),
            lines: Groups::default(),
            rows: Groups::default(),
            branches: 0,
            uncounted: Vec::new(),
            work: MAX_WORK,
        };
        let weights = weights(model);
        let mut places: Vec<Option<Place>> = vec![None; document.scan.nodes.len()];
        let mut read: FxHashSet<Weight> = FxHashSet::default();
        let runs = runs(model);
        let mut uncounted: FxHashMap<(&str, NotCounted), (usize, usize)> = FxHashMap::default();
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        for (instance, runs) in model.instances.iter().zip(&runs).rev() {
            let is_run = runs.as_ref().is_none_or(|runs| runs.known() != Some(0));
            for step in &instance.steps {
                let node = &document.scan.nodes[step.node];
                let place = *places[step.node].get_or_insert_with(|| {
                    let origin = lines.origin(step.node).map(|origin| &**origin);
                    tally.place(document, step.node, origin, by)
                });
                let others = step.inner.iter();
                tally.branches +=
                    others.filter(|inner| inner.kind == InnerKind::Alternative).count();
                let added = match (&step.cost, runs) {
                    (Ok(cost), Some(runs)) => tally.add(place, cost, runs),
                    (Err(why), _) => Err(*why),
                    (Ok(_), None) => Err(NotCounted::TooLarge),
                };
                if !is_run {
                    continue;
                }
                if let Err(why) = added
                    && seen.insert(step.node)
                {
                    uncounted.entry((node.op, why)).or_insert((0, step.node)).0 += 1;
                }
                for (weight, bytes) in step.inputs.iter().flatten().filter_map(|id| weights.get(id))
                {
                    tally.read(place, *weight, bytes, &mut read);
                }
            }
        }
        tally.uncounted = uncounted
            .into_iter()
            .map(|((op, why), (nodes, first))| Uncounted { op: op.to_owned(), why, nodes, first })
            .collect();
        tally.uncounted.sort_by_key(|it| it.first);
        tally
    }

    fn place(
        &mut self,
        document: &Document<'_>,
        node: usize,
        origin: Option<&Provenance<'d>>,
        by: By,
    ) -> Place {
        let frame = origin.and_then(|origin| origin.callsite);
        let op = document.scan.nodes[node].op_with_domain();
        let line = frame.map(|frame| frame.to_string());
        // A model without lines has nodes instead.
        let line_key = line.or_else(|| Some(document.node_name(node)).filter(|_| frame.is_none()));
        let line = self.lines.number(line_key, frame);
        let (key, frame) = match by {
            By::Line => (None, None),
            By::Function => {
                (frame.map(|frame| format!("{}, in {}", frame.file, frame.function)), frame)
            }
            By::Module => (origin.map(|origin| origin.scope.join("/")), None),
            By::Operator => (Some(op.clone().into_owned()), None),
            By::Node => (Some(document.node_name(node)), frame),
        };
        let row = self.rows.number(key, frame);
        let place = Place { line, row };
        for group in [&mut self.lines.groups[line], &mut self.rows.groups[row]] {
            group.nodes += 1;
            if group.ops.len() < MAX_OPS && !group.ops.iter().any(|other| **other == *op) {
                group.ops.push(op.clone().into_owned());
            }
        }
        place
    }

    fn add(&mut self, place: Place, cost: &Cost, runs: &Total) -> Result<(), NotCounted> {
        let Cost { flops, transcendentals, operations, bytes_read, bytes_written } = cost;
        let dims = [flops, transcendentals, operations, bytes_read, bytes_written];
        let terms: usize = dims.into_iter().map(Dim::weight).sum();
        self.work = self.work.saturating_sub(terms.saturating_mul(runs.terms()));
        if self.work == 0 {
            return Err(NotCounted::TooLarge);
        }
        let add = |amounts: &mut Amounts| amounts.add(cost, runs);
        let added = [
            add(&mut self.total),
            add(&mut self.lines.groups[place.line].amounts),
            add(&mut self.rows.groups[place.row].amounts),
        ];
        if added.contains(&None) { Err(NotCounted::TooLarge) } else { Ok(()) }
    }

    fn read(&mut self, place: Place, weight: Weight, bytes: &Dim, read: &mut FxHashSet<Weight>) {
        if read.insert(weight) {
            let _ = self.total.weights.add(bytes);
        }
        for group in [&mut self.lines.groups[place.line], &mut self.rows.groups[place.row]] {
            if group.weights.insert(weight) {
                let _ = group.amounts.weights.add(bytes);
            }
        }
    }
}

/// The maximum number of operators to list for a row.
const MAX_OPS: usize = 32;

/// Returns the constants of the file with their sizes in bytes.
fn weights(model: &SizedModel) -> FxHashMap<ValueId, (Weight, Dim)> {
    let mut found = FxHashMap::default();
    let bytes = |id: ValueId| model.values[id].ty.as_ref().and_then(onnx::Type::bytes);
    for instance in &model.instances {
        let Instance { graph, weights, steps, .. } = instance;
        for (place, &id) in weights.iter().enumerate() {
            if let Some(bytes) = bytes(id) {
                found.insert(id, ((*graph, place), bytes));
            }
        }
        for step in steps {
            for id in step.outputs.iter().copied().flatten() {
                if model.values[id].is_weight
                    && let Some(bytes) = bytes(id)
                {
                    found.insert(id, ((usize::MAX, step.node), bytes));
                }
            }
        }
    }
    found
}
