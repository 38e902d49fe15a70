//! The gates of a cell, and their weights in ONNX's layout.

use algebra::rewrite::require;
use onnx::{DType, Edit, Tensor, ValueId};

use super::body::Body;
use super::form::{Form, Source};
use super::polynomial::{self, Atoms, Place};
use super::{Cell, guard};

/// The input of a gate.
pub(super) struct Gate {
    pub form: Form,
    /// The part that the reset gate scales, with its biases.
    pub of_state: Option<Form>,
}

impl Gate {
    /// Reads the input of a gate. `scaled` is another source.
    pub(super) fn of(
        body: &Body<'_>,
        atoms: &Atoms<'_, '_>,
        gate: polynomial::Gate,
        scaled: Option<ValueId>,
    ) -> Option<Gate> {
        let found = Gate::of_atom(body, atoms, gate.atom, scaled)?;
        Some(found.scaled(if gate.is_negated { -1.0 } else { 1.0 }))
    }

    pub(super) fn of_atom(
        body: &Body<'_>,
        atoms: &Atoms<'_, '_>,
        atom: Place,
        scaled: Option<ValueId>,
    ) -> Option<Gate> {
        let atom = atoms.all.get(atom)?;
        let form = body.form_of(&atom.view, scaled)?.scaled(atom.factor);
        Some(Gate { form, of_state: None })
    }

    pub(super) fn scaled(self, factor: f64) -> Gate {
        Gate {
            form: self.form.scaled(factor),
            of_state: self.of_state.map(|form| form.scaled(factor)),
        }
    }

    fn forms(&self) -> impl Iterator<Item = &Form> {
        std::iter::once(&self.form).chain(&self.of_state)
    }
}

/// The weights in ONNX's layout: the gates below each other, one row per number of a gate.
pub(super) struct Weights {
    pub input: Tensor,
    pub state: Tensor,
    pub bias: Tensor,
    pub peepholes: Option<Tensor>,
    /// The constants that they are from.
    pub from: Vec<ValueId>,
}

impl Weights {
    /// True if no gate overflows for inputs that [`guard::fits`] accepts.
    pub(super) fn are_small(&self) -> bool {
        let all = [&self.input, &self.state, &self.bias].into_iter().chain(&self.peepholes);
        all.into_iter().all(guard::is_small)
    }

    /// Computes the weights for the arrays that the cell reads, next to each other.
    pub(super) fn of(
        edit: &Edit<'_>,
        cell: &Cell,
        inputs: &[ValueId],
        size: i64,
    ) -> Option<Weights> {
        let dtype = DType::F32;
        let depths = inputs.iter().map(|&input| edit.shape(input)?.last()?.known());
        let depths: Vec<i64> = depths.collect::<Option<_>>()?;
        let depth: i64 = depths.iter().sum();
        let rows = cell.gates.len() as i64 * size;
        let (mut of_input, mut of_state) = (Vec::new(), Vec::new());
        let (mut biases, mut state_biases) = (Vec::new(), Vec::new());
        for gate in &cell.gates {
            let fits = |form: &Form| form.features[..] == [size];
            require(gate.forms().all(fits))?;
            let of_each = inputs.iter().zip(&depths);
            let of_each = of_each.map(|(&input, &depth)| gate.form.rows(input, dtype, depth));
            let of_each: Vec<Tensor> = of_each.collect::<Option<_>>()?;
            of_input.push(joined(&of_each, 1, vec![size, depth])?);
            let with_state = gate.of_state.as_ref().unwrap_or(&gate.form);
            of_state.push(with_state.rows(cell.state, dtype, size)?);
            biases.extend(gate.form.bias()?);
            match &gate.of_state {
                Some(form) => state_biases.extend(form.bias()?),
                None => state_biases.extend(vec![0.0; usize::try_from(size).ok()?]),
            }
        }
        let peepholes = match cell.peepholes {
            Some(memories) => {
                let gates = cell.gates.iter().zip(memories);
                let numbers = gates.map(|(gate, memory)| gate.form.diagonal(memory));
                let numbers: Vec<Vec<f64>> = numbers.collect::<Option<_>>()?;
                Some(Tensor::of_floats(dtype, vec![1, 3 * size], &numbers.concat())?)
            }
            None => None,
        };
        let below = |gates: &[Tensor], depth: i64| {
            Some(joined(gates, 0, vec![rows, depth])?.with_shape(vec![1, rows, depth]))
        };
        let terms = cell.gates.iter().flat_map(Gate::forms).flat_map(|form| &form.terms);
        Some(Weights {
            input: below(&of_input, depth)?,
            state: below(&of_state, size)?,
            bias: Tensor::of_floats(dtype, vec![1, 2 * rows], &[biases, state_biases].concat())?,
            peepholes,
            from: terms.flat_map(|term| &term.from).copied().collect(),
        })
    }
}

fn joined(parts: &[Tensor], axis: usize, shape: Vec<i64>) -> Option<Tensor> {
    match parts {
        [part] => Some(part.with_shape(shape)),
        _ => Tensor::joined(&parts.iter().collect::<Vec<_>>(), axis, shape),
    }
}

impl Cell {
    /// Returns the arrays that the gates read. `None` if a gate has another term than ONNX's.
    pub(super) fn inputs(&self) -> Option<Vec<ValueId>> {
        let mut inputs = Vec::new();
        for (place, gate) in self.gates.iter().enumerate() {
            let memory = self.peepholes.and_then(|memories| memories.get(place).copied());
            for (form, is_of_state) in std::iter::once((&gate.form, gate.of_state.is_none()))
                .chain(gate.of_state.iter().map(|form| (form, true)))
            {
                for term in &form.terms {
                    let Source::Value(source) = term.source else { continue };
                    if Some(source) == memory {
                        require(term.is_diagonal)?;
                        continue;
                    }
                    require(!term.is_diagonal)?;
                    if source == self.state {
                        require(is_of_state)?;
                    } else if !inputs.contains(&source) {
                        inputs.push(source);
                    }
                }
            }
        }
        Some(inputs)
    }
}
