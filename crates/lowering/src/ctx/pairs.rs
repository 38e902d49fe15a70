//! Records the value that holds each variable of the program.

use jaxpr::{Aval, Jaxpr, VarId};
use onnx::Expr;
use onnx::pairs::{Definition, Pairs, Step, Variable};
use provenance::SiteId;

use super::Ctx;
use super::recorder::{Body, Recorder};
use crate::element::Element;

impl<'g> Ctx<'g> {
    /// Records the value that holds a variable.
    pub(crate) fn note_variable(
        &self,
        jaxpr: &Jaxpr,
        var: VarId,
        (definition, position): (Definition, usize),
        value: Expr<'g>,
        site: Option<SiteId>,
    ) {
        let Some(recorder) = &self.recorder else { return };
        let Aval::Array { dtype, .. } = jaxpr.aval(var) else { return };
        // A body of scalars that is lowered on arrays has no values of its own.
        if self.on_each.borrow().is_some() {
            return;
        }
        let Recorder { pairs, path, rounds, .. } = &mut *recorder.borrow_mut();
        let primitive = match definition {
            Definition::Equation(index) => jaxpr.eqns.get(index).map(|eqn| &*eqn.primitive),
            _ => None,
        };
        let primitive = primitive.and_then(|primitive| self.primitives.get(primitive));
        let variable = Variable {
            path: path.clone(),
            definition,
            position,
            has_parts: Element::has_parts(dtype),
            is_ambiguous: primitive.is_some_and(|primitive| primitive.is_ambiguous()),
            site,
        };
        pairs.add(variable, value.id, rounds);
    }

    /// Records the index of the equation that is being lowered.
    pub(crate) fn note_equation(&self, index: usize) {
        if let Some(recorder) = self.recorder.as_ref().filter(|_| self.on_each.borrow().is_none()) {
            recorder.borrow_mut().eqn = index;
        }
    }

    /// Runs `lower` on a body of the current equation.
    pub(super) fn in_body<T>(&self, body: Body, lower: impl FnOnce() -> T) -> T {
        let Some(recorder) = &self.recorder else {
            return lower();
        };
        let (path, loops, eqn) = {
            let mut recorder = recorder.borrow_mut();
            let (eqn, loops) = (recorder.eqn, recorder.rounds.len());
            let step = Step { eqn, param: body.param, index: body.index };
            let inner = recorder.path.iter().cloned().chain([step]).collect();
            recorder.rounds.extend(body.round);
            (std::mem::replace(&mut recorder.path, inner), loops, eqn)
        };
        let result = lower();
        let mut recorder = recorder.borrow_mut();
        recorder.path = path;
        recorder.rounds.truncate(loops);
        recorder.eqn = eqn;
        result
    }

    /// Returns the number of recorded variables, for [`Ctx::note_call`].
    pub(crate) fn noted_variables(&self) -> usize {
        self.recorder.as_ref().map_or(0, |recorder| recorder.borrow().pairs.len())
    }

    /// Records that all variables from index `first` on are inside a function. `result` is the
    /// first result of the call.
    pub(crate) fn note_call(&self, first: usize, result: Option<Expr<'g>>) {
        if let Some(recorder) = &self.recorder {
            let Recorder { pairs, rounds, .. } = &mut *recorder.borrow_mut();
            pairs.add_call(first, result.map(|result| result.id), rounds.len());
        }
    }

    /// Takes the recorded pairs.
    pub(crate) fn take_pairs(&self) -> Option<Box<Pairs>> {
        let recorder = self.recorder.as_ref()?;
        Some(Box::new(std::mem::take(&mut recorder.borrow_mut().pairs)))
    }
}
