//! Finds regions of arrays that share an axis order, and chooses the order that needs the fewest transposes.

use algebra::axis_order::AxisOrder;
use onnx::{Dim, Edit, OpType, Type, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::carry::axes_to_add;
use super::role::{Role, data_values, narrow_values, role};

/// The maximum number of passes over all regions.
const MAX_SWEEPS: usize = 4;

/// The maximum number of orders to try for a region.
const MAX_CANDIDATES: usize = 6;

/// The cost of an impossible order.
const NEVER: usize = 1 << 20;

/// Arrays that have the same order, because members read and write them.
#[derive(Default)]
pub(super) struct Region {
    pub(super) order: AxisOrder,
    values: Vec<ValueId>,
    /// The nodes that transpose into the region or out of it.
    transposes: Vec<usize>,
    /// For each sink of the region, the axes that must keep their order.
    sinks: Vec<Vec<usize>>,
    /// The shapes of arrays that broadcast from fewer axes.
    narrow: Vec<Vec<Dim>>,
    /// The products that read or write an array of the region.
    products: Vec<usize>,
}

#[derive(Default)]
pub(super) struct Regions {
    pub(super) roles: Vec<Role>,
    all: Vec<Region>,
    region_of: FxHashMap<ValueId, usize>,
    /// The producer of a value.
    makers: FxHashMap<ValueId, usize>,
    fixed_reads: FxHashMap<ValueId, bool>,
    /// The operand and the result of each `Transpose` and of each product.
    ends: FxHashMap<usize, (ValueId, ValueId)>,
    /// The products that read a value.
    product_reads: FxHashMap<ValueId, Vec<usize>>,
    /// The transposes before and after convolutions.
    beside_convolutions: FxHashSet<usize>,
}

impl Regions {
    pub(super) fn of(edit: &Edit<'_>) -> Regions {
        let roles: Vec<Role> = (0..edit.len()).map(|index| role(edit, index)).collect();
        let mut sets = Sets::default();
        for (index, role) in roles.iter().enumerate() {
            let result = match (role, edit.node(index).outputs.first()) {
                (Role::Member, Some(&result)) => result,
                (&Role::Product { operand }, Some(&result)) => {
                    for value in edit.input(index, operand).into_iter().chain([result]) {
                        sets.join(value, value);
                    }
                    continue;
                }
                _ => continue,
            };
            let others = edit.node(index).outputs[1..].iter().copied();
            for value in others.chain(data_values(edit, index)) {
                sets.join(result, value);
            }
            sets.join(result, result);
        }
        let mut regions = Regions { roles, ..Regions::default() };
        regions.fill(edit, &mut sets);
        regions
    }

    fn fill(&mut self, edit: &Edit<'_>, sets: &mut Sets) {
        let mut by_root: FxHashMap<ValueId, usize> = FxHashMap::default();
        for value in sets.values.clone() {
            let root = sets.root(value);
            let region = *by_root.entry(root).or_insert_with(|| {
                let rank = edit.ty(root).map_or(0, Type::rank);
                self.all.push(Region { order: AxisOrder::identity(rank), ..Region::default() });
                self.all.len() - 1
            });
            self.all[region].values.push(value);
            self.region_of.insert(value, region);
            self.makers.extend(edit.producer(value).map(|index| (value, index)));
        }
        let mut following: FxHashMap<ValueId, usize> = FxHashMap::default();
        for index in 0..edit.len() {
            let operand = edit.input(index, 0);
            match &self.roles[index] {
                Role::Member => {
                    let region = self.region_of[&edit.result(index)];
                    for value in data_values(edit, index) {
                        *following.entry(value).or_default() += 1;
                    }
                    let narrow = narrow_values(edit, index).into_iter();
                    let shapes = narrow.map(|value| edit.ty(value).map(|ty| ty.shape.to_vec()));
                    self.all[region].narrow.extend(shapes.map(Option::unwrap_or_default));
                }
                Role::Transpose(_) => {
                    let (Some(from), to) = (operand, edit.result(index)) else { continue };
                    *following.entry(from).or_default() += 1;
                    self.ends.insert(index, (from, to));
                    if edit.producer(from).is_some_and(|maker| is_convolution(edit, maker)) {
                        self.beside_convolutions.insert(index);
                    }
                    self.makers.insert(to, index);
                    for end in [from, to] {
                        if let Some(&region) = self.region_of.get(&end) {
                            self.all[region].transposes.push(index);
                        }
                    }
                }
                &Role::Product { operand } => {
                    let (from, to) = (edit.input(index, operand), edit.result(index));
                    let Some(from) = from else { continue };
                    *following.entry(from).or_default() += 1;
                    self.ends.insert(index, (from, to));
                    self.product_reads.entry(from).or_default().push(index);
                    let (reading, making) = (self.region_of[&from], self.region_of[&to]);
                    self.all[reading].products.push(index);
                    if making != reading {
                        self.all[making].products.push(index);
                    }
                }
                Role::Sink(axes) => {
                    let Some(from) = operand else { continue };
                    *following.entry(from).or_default() += 1;
                    if let Some(&region) = self.region_of.get(&from) {
                        self.all[region].sinks.push(axes.clone());
                    }
                }
                Role::Source(_) => {}
                Role::Fixed => {
                    if let Some(maker) = operand.and_then(|value| edit.producer(value))
                        && is_convolution(edit, index)
                    {
                        self.beside_convolutions.insert(maker);
                    }
                }
            }
        }
        let known = self.region_of.keys().copied().chain(self.ends.values().map(|&(_, to)| to));
        let is_fixed = |value: ValueId| {
            (value, edit.reads(value) > following.get(&value).copied().unwrap_or(0))
        };
        self.fixed_reads = known.map(is_fixed).collect();
    }

    /// Assigns each region the order with the fewest transposes, if that reduces their number.
    pub(super) fn choose(&mut self) {
        for regions in self.joined_by_products() {
            self.improve_together(&regions);
        }
        self.sweep(&(0..self.all.len()).collect::<Vec<_>>());
    }

    /// Improves regions one after the other until no change is better.
    fn sweep(&mut self, regions: &[usize]) {
        for _ in 0..MAX_SWEEPS {
            let changes = regions.iter().filter(|&&region| self.improve(region)).count();
            if changes == 0 {
                return;
            }
        }
    }

    /// Returns groups of regions that products connect.
    fn joined_by_products(&self) -> Vec<Vec<usize>> {
        let mut is_joined = vec![false; self.all.len()];
        let mut joined = Vec::new();
        for first in 0..self.all.len() {
            if is_joined[first] || self.all[first].products.is_empty() {
                continue;
            }
            is_joined[first] = true;
            let mut regions = vec![first];
            let mut next = 0;
            while let Some(&region) = regions.get(next) {
                next += 1;
                for index in &self.all[region].products {
                    let (from, to) = self.ends[index];
                    for other in [self.region_of[&from], self.region_of[&to]] {
                        if !std::mem::replace(&mut is_joined[other], true) {
                            regions.push(other);
                        }
                    }
                }
            }
            joined.push(regions);
        }
        joined
    }

    /// Switches all of these regions to the order of the other form, then lets each one switch back if that is
    /// better. Keeps the change only if it needs fewer transposes in total. A single region would only move a
    /// transpose to the other side of a product.
    fn improve_together(&mut self, regions: &[usize]) {
        let orders: Vec<AxisOrder> =
            regions.iter().map(|&region| self.all[region].order.clone()).collect();
        let total = |all: &Regions| {
            let costs = regions.iter().map(|&region| all.cost(region));
            costs.fold((0, 0, 0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1, sum.2 + cost.2))
        };
        let before = total(self);
        for &region in regions {
            let order = &mut self.all[region].order;
            *order = order_of_other_form(order.rank());
        }
        self.sweep(regions);
        if total(self) >= before {
            for (&region, order) in regions.iter().zip(orders) {
                self.all[region].order = order;
            }
        }
    }

    fn improve(&mut self, region: usize) -> bool {
        if self.all[region].transposes.is_empty() && self.all[region].products.is_empty() {
            return false;
        }
        let cost = |all: &Regions| {
            let (transposes, beside, reordered) = all.cost(region);
            (transposes + all.cost_beyond_products(region), beside, reordered)
        };
        let before = self.all[region].order.clone();
        let (mut best, mut least) = (before.clone(), cost(self));
        for candidate in self.candidates(region) {
            self.all[region].order = candidate.clone();
            let cost = cost(self);
            if cost < least {
                (best, least) = (candidate, cost);
            }
        }
        let changed = best != before;
        self.all[region].order = best;
        changed
    }

    /// Returns the orders that make a transpose at the border unnecessary.
    fn candidates(&self, region: usize) -> Vec<AxisOrder> {
        let own = &self.all[region];
        let mut candidates = vec![AxisOrder::identity(own.order.rank())];
        for &index in &own.transposes {
            let Some((from, to, order)) = self.transpose(index) else { continue };
            let rank = order.rank();
            let into = || Some(self.stored_order(from, rank).inverse().then(order)?.inverse());
            let out_of = || order.then(&self.wanted_order(to, rank));
            let is_into = self.region_of.get(&to) == Some(&region);
            let is_out_of = self.region_of.get(&from) == Some(&region);
            let found = [is_into.then(into), is_out_of.then(out_of)];
            for candidate in found.into_iter().flatten().flatten() {
                if candidates.len() < MAX_CANDIDATES && !candidates.contains(&candidate) {
                    candidates.push(candidate);
                }
            }
        }
        let other = order_of_other_form(own.order.rank());
        if !own.products.is_empty() && !candidates.contains(&other) {
            candidates.push(other);
        }
        candidates
    }

    /// Returns three costs of a region, the most important one first: the transposes in it and at its border; the
    /// transposes right beside a convolution, which prevent it from taking over scales and shifts; and the products
    /// in their other form.
    fn cost(&self, region: usize) -> (usize, usize, usize) {
        let own = &self.all[region];
        let order = &own.order;
        let left = own.transposes.iter().map(|&index| (index, self.cost_of_transpose(index)));
        let of_transposes: usize = left.clone().map(|(_, cost)| cost).sum();
        let beside = left
            .filter(|(index, cost)| *cost > 0 && self.beside_convolutions.contains(index))
            .count();
        let reordered = own.products.iter().filter(|&&index| self.is_reordered(index)).count();
        if order.is_identity() {
            return (of_transposes, beside, reordered);
        }
        let of_values: usize =
            own.values.iter().map(|&value| self.cost_of_value(value, order)).sum();
        let of_sinks = own.sinks.iter().filter(|axes| !order.keeps_order(axes)).count();
        let of_narrow = |shape: &Vec<Dim>| match axes_to_add(order, shape) {
            Some(added) => usize::from(!added.is_empty()),
            None => NEVER,
        };
        let of_narrow: usize = own.narrow.iter().map(of_narrow).sum();
        (of_transposes + of_values + of_sinks + of_narrow, beside, reordered)
    }

    /// Returns the number of transposes at the other ends of a region's products.
    fn cost_beyond_products(&self, region: usize) -> usize {
        let ends = self.all[region].products.iter().flat_map(|index| {
            let (from, to) = self.ends[index];
            [from, to]
        });
        ends.map(|value| (value, self.region_of[&value]))
            .filter(|&(_, other)| other != region)
            .map(|(value, other)| self.cost_of_value(value, &self.all[other].order))
            .sum()
    }

    fn cost_of_value(&self, value: ValueId, order: &AxisOrder) -> usize {
        if order.is_identity() {
            return 0;
        }
        let fixed = usize::from(self.is_read_as_it_is(value));
        match self.makers.get(&value).map(|&index| (index, &self.roles[index])) {
            Some((index, _)) if self.follows_order(index) => fixed,
            Some((_, Role::Transpose(_))) => 0,
            Some((_, Role::Source(axes))) => fixed + usize::from(!order.keeps_order(axes)),
            _ => 1,
        }
    }

    /// True if a node needs a value in its original order.
    fn is_read_as_it_is(&self, value: ValueId) -> bool {
        let mut products = self.product_reads.get(&value).into_iter().flatten();
        self.fixed_reads.get(&value).copied().unwrap_or(true)
            || products.any(|&index| !self.is_reordered(index))
    }

    fn cost_of_transpose(&self, index: usize) -> usize {
        let Some((from, to, order)) = self.transpose(index) else { return 0 };
        let rank = order.rank();
        let wanted = self.wanted_order(to, rank);
        let whole = self.stored_order(from, rank).inverse().then(order);
        let Some((into, whole)) = whole.and_then(|whole| Some((whole.then(&wanted)?, whole)))
        else {
            return NEVER;
        };
        let is_in_region = self.region_of.contains_key(&to);
        let fixed = self.is_read_as_it_is(to) || !is_in_region;
        let for_region = is_in_region && !into.is_identity();
        let for_others = fixed && !whole.is_identity();
        let is_one = for_region && for_others && wanted.is_identity();
        usize::from(for_region) + usize::from(for_others) - usize::from(is_one)
    }

    pub(super) fn transpose(&self, index: usize) -> Option<(ValueId, ValueId, &AxisOrder)> {
        let &(from, to) = self.ends.get(&index)?;
        match &self.roles[index] {
            Role::Transpose(order) => Some((from, to, order)),
            _ => None,
        }
    }

    pub(super) fn region(&self, value: ValueId) -> Option<&Region> {
        self.region_of.get(&value).map(|&region| &self.all[region])
    }

    /// Returns the node of this graph that computes a value of a region.
    pub(super) fn maker(&self, value: ValueId) -> Option<usize> {
        self.makers.get(&value).copied()
    }

    /// Returns the order in which the producer computes a value.
    pub(super) fn stored_order(&self, value: ValueId, rank: usize) -> AxisOrder {
        let follows = self.maker(value).is_some_and(|index| self.follows_order(index));
        if follows { self.wanted_order(value, rank) } else { AxisOrder::identity(rank) }
    }

    /// True if a node computes its results in the order of their region.
    pub(super) fn follows_order(&self, index: usize) -> bool {
        self.roles[index] == Role::Member || self.is_reordered(index)
    }

    /// True if a product is written in its other form, because both its operand and its result have the order of that
    /// form.
    pub(super) fn is_reordered(&self, index: usize) -> bool {
        let Some(&(from, to)) =
            self.ends.get(&index).filter(|_| matches!(self.roles[index], Role::Product { .. }))
        else {
            return false;
        };
        let order = |value| self.region(value).map(|region| &region.order);
        let is_other = |order: &AxisOrder| *order == order_of_other_form(order.rank());
        order(from) == order(to) && order(from).is_some_and(is_other)
    }

    /// Returns the order in which members read a value.
    fn wanted_order(&self, value: ValueId, rank: usize) -> AxisOrder {
        let order = self.region(value).map(|region| region.order.clone());
        order.unwrap_or_else(|| AxisOrder::identity(rank))
    }
}

/// Returns the axis order of the other form of a product: channels first for an image, transposed for a matrix.
fn order_of_other_form(rank: usize) -> AxisOrder {
    match rank {
        2 => AxisOrder::new([1, 0]),
        _ => AxisOrder::new([0, rank - 1].into_iter().chain(1..rank - 1)),
    }
}

fn is_convolution(edit: &Edit<'_>, index: usize) -> bool {
    let node = edit.node(index);
    matches!(node.op.onnx(), Some(OpType::Conv | OpType::ConvTranspose))
}

/// Disjoint sets of values.
#[derive(Default)]
struct Sets {
    parents: FxHashMap<ValueId, ValueId>,
    /// In the order of their first use.
    values: Vec<ValueId>,
}

impl Sets {
    fn root(&mut self, value: ValueId) -> ValueId {
        self.parents.entry(value).or_insert_with(|| {
            self.values.push(value);
            value
        });
        let mut root = value;
        while self.parents[&root] != root {
            root = self.parents[&root];
        }
        let mut next = value;
        while next != root {
            next = self.parents.insert(next, root).unwrap_or(root);
        }
        root
    }

    fn join(&mut self, a: ValueId, b: ValueId) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents.insert(b, a);
    }
}
