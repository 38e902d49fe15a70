//! Reads the body of a scan backward from its results.

use std::collections::BTreeSet;

use algebra::rewrite::require;
use onnx::operator::properties::RESHAPES;
use onnx::{Attr, DType, Dim, Edit, Graph, Node, OpType, Tensor, Type, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::form::Form;
use super::moves::Move;

/// The depth of formulas that are read.
const MAX_DEPTH: usize = 48;

/// A body, with the producers of its values.
pub(super) struct Body<'b> {
    pub edit: &'b Edit<'b>,
    graph: &'b Graph,
    /// The results of the loop.
    results: &'b [ValueId],
    makers: FxHashMap<ValueId, &'b Node>,
    /// The entries of arrays in a step, and the arrays.
    elements: FxHashMap<ValueId, ValueId>,
    /// The entries of arrays that are products computed outside of the loop.
    computed: FxHashMap<ValueId, Form>,
    /// The indices of the nodes that compute them.
    outside: FxHashMap<ValueId, Vec<usize>>,
    /// The operands of these products whose first axis is the batch, and not the steps.
    batch_first: FxHashSet<ValueId>,
    /// The sizes of the batch axes.
    batch: Vec<Dim>,
    /// True for the graph around the loop, in which any value may be a source.
    is_outside: bool,
}

/// The elements of a value, after moves, of which the first is the last one of the program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    pub value: ValueId,
    pub moves: Vec<Move>,
}

impl<'b> Body<'b> {
    /// Reads the body of a scan whose states have one axis of features. The `results` of the scan may be those of the
    /// `If` around it.
    pub(super) fn of(
        edit: &'b Edit<'b>,
        node: &'b Node,
        results: &'b [ValueId],
    ) -> Option<Body<'b>> {
        let Some(&Attr::Int(arrays)) = node.attr("num_scan_inputs") else { return None };
        let graph = node.bodies().next()?;
        let carries = graph.inputs.len().checked_sub(usize::try_from(arrays).ok()?)?;
        let makers = graph.nodes.iter();
        let makers = makers.flat_map(|node| node.outputs.iter().map(move |&output| (output, node)));
        let wholes = node.inputs.get(carries..)?.iter().flatten().copied();
        let elements = graph.inputs.get(carries..)?.iter().copied().zip(wholes).collect();
        let (_, batch) =
            edit.shape(*graph.inputs.first().filter(|_| carries > 0)?)?.split_last()?;
        let mut body = Body {
            edit,
            graph,
            results,
            makers: makers.collect(),
            elements,
            computed: FxHashMap::default(),
            outside: FxHashMap::default(),
            batch_first: FxHashSet::default(),
            batch: batch.to_vec(),
            is_outside: false,
        };
        body.read_products();
        Some(body)
    }

    /// Reads the arrays that are products computed outside of the loop.
    fn read_products(&mut self) {
        let wholes: Vec<(ValueId, ValueId)> = self.graph.inputs[self.carries()..]
            .iter()
            .filter_map(|&element| Some((element, *self.elements.get(&element)?)))
            .collect();
        for (element, whole) in wholes {
            let Some((form, nodes)) = self.product_outside(whole) else { continue };
            let is_batch_first = self.is_exchanged(whole);
            let others = self.computed.values().flat_map(Form::sources);
            let are_read: Vec<ValueId> = self.elements.values().copied().chain(others).collect();
            // A value is read in one order.
            let is_one_order = |source: ValueId| {
                self.batch_first.contains(&source) == is_batch_first || !are_read.contains(&source)
            };
            if form.sources().all(is_one_order) {
                self.batch_first.extend(form.sources().filter(|_| is_batch_first));
                self.computed.insert(element, form);
                self.outside.insert(element, nodes);
            }
        }
    }

    /// Returns the indices of the nodes outside of the loop that compute products of these sources.
    pub(super) fn nodes_outside(&self, sources: &[ValueId]) -> Vec<usize> {
        let is_read = |element: &&ValueId| {
            let form = self.computed.get(element);
            form.is_some_and(|form| form.sources().any(|source| sources.contains(&source)))
        };
        let elements = self.graph.inputs.iter().filter(is_read);
        let nodes = elements.filter_map(|element| self.outside.get(element)).flatten();
        let nodes: BTreeSet<usize> = nodes.copied().collect();
        nodes.into_iter().collect()
    }

    /// True if an array has the axes of the batch and of the steps exchanged.
    fn is_exchanged(&self, whole: ValueId) -> bool {
        let node = self.edit.producer(whole);
        self.batch.len() == 1
            && node.and_then(|index| self.edit.perm(index)).is_some_and(|perm| perm == [1, 0, 2])
    }

    /// Reads an array as products, perhaps with the axes of the batch and of the steps exchanged.
    fn product_outside(&self, whole: ValueId) -> Option<(Form, Vec<usize>)> {
        let steps = self.edit.shape(whole)?.first()?.clone();
        let mut batch: Vec<Dim> =
            std::iter::once(steps).chain(self.batch.iter().cloned()).collect();
        let mut source = whole;
        if self.is_exchanged(whole) {
            batch.reverse();
            source = self.edit.input(self.edit.producer(whole)?, 0)?;
        }
        let outside = Body {
            edit: self.edit,
            graph: self.graph,
            results: self.results,
            makers: FxHashMap::default(),
            elements: FxHashMap::default(),
            computed: FxHashMap::default(),
            outside: FxHashMap::default(),
            batch_first: FxHashSet::default(),
            batch,
            is_outside: true,
        };
        let mut form = outside.form(source, None, MAX_DEPTH).filter(|form| form.at.is_some())?;
        // Without the axis of steps, the first one.
        form.at = form.at.filter(|_| !self.batch.is_empty());
        let ends: Vec<ValueId> = form.sources().collect();
        let mut nodes = Vec::new();
        let mut open = vec![whole];
        while let Some(value) = open.pop() {
            if let Some(index) = self.edit.producer(value).filter(|_| !ends.contains(&value))
                && !nodes.contains(&index)
                && nodes.len() < MAX_DEPTH
            {
                nodes.push(index);
                open.extend(self.edit.operands(index));
            }
        }
        Some((form, nodes))
    }

    /// True if the first axis of an operand of a product outside of the loop is the batch.
    pub(super) fn is_batch_first(&self, source: ValueId) -> bool {
        self.batch_first.contains(&source)
    }

    /// Returns the number of carries.
    pub(super) fn carries(&self) -> usize {
        self.graph.inputs.len() - self.elements.len()
    }

    /// Returns the number of results.
    pub(super) fn outputs(&self) -> usize {
        self.graph.outputs.len()
    }

    /// True if something reads a result of the loop.
    pub(super) fn is_read(&self, number: usize) -> bool {
        self.results.get(number).is_some_and(|&result| self.edit.reads(result) > 0)
    }

    /// True if the condition of a choice between states has one flag per example, which are those of a value.
    pub(super) fn is_per_example(&self, condition: ValueId, flags: ValueId) -> bool {
        let is_flags = |value: ValueId, units: &[usize]| {
            self.ty(value).is_some_and(|ty| {
                let rest = ty.shape.strip_prefix(&self.batch[..]);
                let is_of_units = |rest: &[Dim]| rest.iter().all(|dim| dim.is(1));
                ty.dtype == DType::Bool
                    && rest.is_some_and(|rest| units.contains(&rest.len()) && is_of_units(rest))
            })
        };
        let of_state: &[usize] = if self.batch.is_empty() { &[0, 1] } else { &[1] };
        is_flags(condition, of_state) && is_flags(flags, &[0, 1])
    }

    /// Returns a carry at the start of a step.
    pub(super) fn carry(&self, number: usize) -> ValueId {
        self.graph.inputs[number]
    }

    /// Returns the array of which a value is the entry in a step.
    pub(super) fn array(&self, value: ValueId) -> Option<ValueId> {
        self.elements.get(&self.original(value)).copied()
    }

    /// Returns a result, looking through copies.
    pub(super) fn output(&self, number: usize) -> Option<ValueId> {
        self.graph.outputs.get(number).map(|&output| self.original(output))
    }

    pub(super) fn original(&self, value: ValueId) -> ValueId {
        crate::original(|value| self.makers.get(&value).copied(), value)
    }

    pub(super) fn maker(&self, value: ValueId) -> Option<&'b Node> {
        let inside = self.makers.get(&self.original(value)).copied();
        let outside = || self.edit.producer(value).map(|index| self.edit.node(index));
        let node = if self.is_outside { outside() } else { inside };
        node.filter(|node| node.op.is_onnx())
    }

    /// Returns the operator that computes a value, and its operands.
    pub(super) fn formula(&self, value: ValueId) -> Option<(OpType, Vec<ValueId>)> {
        let node = self.maker(value)?;
        let operands = node.inputs.iter().map(|input| input.map(|id| self.original(id)));
        Some((node.op.onnx()?, operands.collect::<Option<_>>()?))
    }

    /// Returns the value and the moves that a view consists of.
    pub(super) fn view(&self, value: ValueId) -> View {
        self.peel(View { value, moves: Vec::new() })
    }

    /// Looks through the nodes that only move elements.
    pub(super) fn peel(&self, mut view: View) -> View {
        view.value = self.original(view.value);
        while view.moves.len() < MAX_DEPTH
            && let Some(node) = self.maker(view.value)
            && let Some(moves) = Move::of(self.edit, node, view.value)
            && let Some(&Some(operand)) = node.inputs.first()
        {
            view.moves.extend(moves.into_iter().rev());
            view.value = self.original(operand);
        }
        view
    }

    /// Returns the view of an operand of the value of a view. The operand has as many elements, or one number.
    pub(super) fn operand(&self, view: &View, operand: ValueId) -> Option<View> {
        let is_whole = self.edit.shape(operand)? == self.edit.shape(view.value)?;
        let moves = view.moves.clone();
        (is_whole || moves.is_empty()).then(|| self.peel(View { value: operand, moves }))
    }

    /// Reads a view as an affine function. `scaled` takes the place of the state in products, if there is one.
    pub(super) fn form_of(&self, view: &View, scaled: Option<ValueId>) -> Option<Form> {
        let form = self.form(view.value, scaled, MAX_DEPTH)?;
        view.moves.iter().rev().try_fold(form, |form, step| form.moved(step, self.batch.len()))
    }

    /// Returns the sum of two forms of a state.
    pub(super) fn sum(&self, a: Form, b: Form) -> Option<Form> {
        let size = a.features.last().max(b.features.last()).copied()?;
        let shape: Vec<Dim> = self.batch.iter().cloned().chain([Dim::Known(size)]).collect();
        a.plus(b, &shape, self.batch.len())
    }

    fn ty(&self, value: ValueId) -> Option<&'b Type> {
        self.edit.ty(value)
    }

    fn first_batch_axis(&self) -> Option<usize> {
        (!self.batch.is_empty()).then_some(0)
    }

    /// Returns the number of features of a value that may be a source: it has the batch axes, and one of features.
    fn depth(&self, value: ValueId) -> Option<i64> {
        let ty = self.ty(value).filter(|ty| ty.dtype == DType::F32)?;
        let (depth, batch) = ty.shape.split_last()?;
        require(batch == self.batch)?;
        depth.known()
    }

    /// Returns the source that a value is: a state, the entry of an array, or outside the loop any value.
    fn source(&self, value: ValueId, scaled: Option<ValueId>) -> Option<ValueId> {
        let is_carry = || self.graph.inputs[..self.carries()].contains(&value);
        let is_state = !self.is_outside && (is_carry() || scaled == Some(value));
        let source = match self.elements.get(&value) {
            Some(&whole) => Some(whole),
            None => (is_state || self.is_outside).then_some(value),
        };
        self.depth(value)?;
        source.filter(|_| self.edit.tensor(value).is_none())
    }

    fn form(&self, value: ValueId, scaled: Option<ValueId>, depth: usize) -> Option<Form> {
        let value = self.original(value);
        let depth = depth.checked_sub(1)?;
        if let Some(tensor) = self.edit.tensor(value) {
            return Some(Form::of_constant(value, tensor)).filter(|_| tensor.dtype == DType::F32);
        }
        if let Some(form) = self.computed.get(&value) {
            return Some(form.clone());
        }
        // Outside the loop, any value may be a source, if it is not a formula.
        if !self.is_outside
            && let Some(source) = self.source(value, scaled)
        {
            let (width, at) = (self.depth(value)?, self.first_batch_axis());
            return Form::of_source(source, width, DType::F32, at);
        }
        let node = self.maker(value)?;
        let shape = self.edit.shape(value)?;
        if let Some(moves) = Move::of(self.edit, node, value) {
            let form = self.form(node.inputs.first().copied()??, scaled, depth)?;
            return moves.iter().try_fold(form, |form, step| form.moved(step, self.batch.len()));
        }
        let (op, operands) = self.formula(value)?;
        let number = |id: ValueId| self.edit.number(id).filter(|number| number.is_finite());
        match (op, &operands[..]) {
            (OpType::Add | OpType::Sub, &[a, b]) => {
                let sign = if op == OpType::Sub { -1.0 } else { 1.0 };
                let b = self.form(b, scaled, depth)?.scaled(sign);
                self.form(a, scaled, depth)?.plus(b, shape, self.batch.len())
            }
            (OpType::Neg, &[a]) => Some(self.form(a, scaled, depth)?.scaled(-1.0)),
            (OpType::Mul, &[a, b]) => match (number(a), number(b)) {
                (Some(factor), _) => Some(self.form(b, scaled, depth)?.scaled(factor)),
                (_, Some(factor)) => Some(self.form(a, scaled, depth)?.scaled(factor)),
                _ => self.diagonal(a, b, scaled).or_else(|| self.diagonal(b, a, scaled)),
            },
            (OpType::Div, &[a, b]) => {
                let factor = number(b).filter(|number| *number != 0.0)?;
                Some(self.form(a, scaled, depth)?.scaled(factor.recip()))
            }
            (OpType::MatMul, &[a, b]) => self.product(a, b, scaled),
            _ => None,
        }
    }

    /// `s ⊙ p` with a source `s` and a constant `p`
    fn diagonal(&self, source: ValueId, weights: ValueId, scaled: Option<ValueId>) -> Option<Form> {
        let tensor = self.edit.tensor(weights).filter(|tensor| tensor.dtype == DType::F32)?;
        let depth = self.depth(source)?;
        let numbers = tensor.with_shape(vec![1, depth]);
        let is_row = tensor.shape.last() == Some(&depth) && tensor.len() as i64 == depth;
        let source = self.source(source, scaled).filter(|_| is_row && !self.is_outside)?;
        Some(Form::of_diagonal(source, numbers, weights, self.first_batch_axis()))
    }

    /// `x·W`, `W·xᵀ`, or products with several matrices at once
    fn product(&self, a: ValueId, b: ValueId, scaled: Option<ValueId>) -> Option<Form> {
        let weights = |value: ValueId| self.edit.tensor(value).filter(|w| w.dtype == DType::F32);
        let batch = self.batch.len();
        if let Some(matrices) = weights(b) {
            let (operand, missing) = self.without_unit_axes(a)?;
            let rows_first = match matrices.shape[..] {
                [_, _] if missing == 0 => matrices.clone(),
                [_, _, _] if batch <= 1 => matrices.transposed(&[1, 0, 2])?,
                _ => return None,
            };
            let at = self.first_batch_axis().map(|at| at + matrices.shape.len() - 2);
            return self.products(operand, &rows_first, b, at, scaled);
        }
        let matrices = weights(a)?;
        let rank = matrices.shape.len();
        require(rank >= 2 && batch <= 1)?;
        let order: Vec<usize> = std::iter::once(rank - 1).chain(0..rank - 1).collect();
        let rows_first = matrices.transposed(&order)?;
        let (operand, at) = if batch == 0 {
            (b, None)
        } else {
            let node = self.maker(b).filter(|node| node.op == OpType::Transpose)?;
            require(node.perm(2)? == [1, 0])?;
            (self.original(node.inputs.first().copied()??), Some(rank - 1))
        };
        require(self.edit.rank(b)? == batch + 1)?;
        self.products(operand, &rows_first, a, at, scaled)
    }

    /// Returns the operand of a product without leading unit axes, and how many there are.
    fn without_unit_axes(&self, value: ValueId) -> Option<(ValueId, usize)> {
        let missing = self.edit.rank(value)?.checked_sub(self.batch.len() + 1)?;
        if missing == 0 {
            return Some((value, 0));
        }
        let node = self.maker(value)?;
        let operand = self.original(node.inputs.first().copied()??);
        let (shape, own) = (self.edit.shape(value)?, self.edit.shape(operand)?);
        let (units, rest) = shape.split_at(missing);
        (node.op.is(RESHAPES) && rest == own && units.iter().all(|dim| dim.is(1)))
            .then_some((operand, missing))
    }

    /// Returns the product of sources next to each other with weights, whose first axis is that of the features.
    fn products(
        &self,
        operand: ValueId,
        weights: &Tensor,
        from: ValueId,
        at: Option<usize>,
        scaled: Option<ValueId>,
    ) -> Option<Form> {
        let concat = self.maker(operand).filter(|node| node.op == OpType::Concat);
        let parts: Vec<ValueId> = match concat {
            Some(node) if !self.is_outside => {
                let rank = self.edit.rank(operand)?;
                require(node.axis(rank)? + 1 == rank)?;
                node.inputs
                    .iter()
                    .map(|id| id.map(|id| self.original(id)))
                    .collect::<Option<_>>()?
            }
            _ => vec![operand],
        };
        let mut row = 0;
        let mut form: Option<Form> = None;
        for part in parts {
            let (depth, source) = (self.depth(part)?, self.source(part, scaled)?);
            let mut starts = vec![0; weights.shape.len()];
            starts[0] = row;
            let shape = [&[depth], &weights.shape[1..]].concat();
            let rows = weights.sliced(&starts, &vec![1; shape.len()], &shape)?;
            row += depth;
            let product = Form::of_product(source, rows, vec![from], at);
            match &mut form {
                Some(form) => form.terms.extend(product.terms),
                None => form = Some(product),
            }
        }
        require(row == weights.shape[0])?;
        form
    }

    /// Returns the results of all nodes of an operator.
    pub(super) fn results(&self, op: OpType) -> impl Iterator<Item = ValueId> {
        let nodes = self.graph.nodes.iter().filter(move |node| node.op == op);
        nodes.flat_map(|node| node.outputs.iter().copied())
    }
}
