//! Builds the nodes that a plugin written in Python recorded.

use std::sync::Arc;

use jaxpr::{Action, Aval, Jaxpr, Recipe, RecipeAttr, RecipeFrame, Slot, Step};
use onnx::{Attr, Expr, Graph};
use provenance::{Emitter, EmitterId, EmitterKind};
use rustc_hash::FxHashMap;

use crate::bodies::own_results_by;
use crate::ctx::Ctx;
use crate::element::tensor;
use crate::error::{Refused, Result};

/// The values of the slots so far.
#[derive(Clone)]
struct Slots<'g> {
    primitive: Arc<str>,
    values: FxHashMap<Slot, Expr<'g>>,
}

impl<'g> Slots<'g> {
    fn get(&self, slot: Slot) -> Result<Expr<'g>> {
        let outside = || self.wrong("it uses a value from a body outside that body".into());
        Ok(self.values.get(&slot).copied().ok_or_else(outside)?)
    }

    fn fill(&mut self, slots: impl Iterator<Item = Slot>, values: &[Expr<'g>]) {
        self.values.extend(slots.zip(values.iter().copied()));
    }

    fn wrong(&self, what: String) -> Refused {
        Refused::Recipe { primitive: self.primitive.clone(), what, failure: None }
    }
}

impl<'g> Ctx<'g> {
    /// Lowers an equation with the recipe of a plugin outside the table.
    pub(crate) fn recipe(
        &self,
        jaxpr: &Jaxpr,
        eqn: &jaxpr::Eqn,
        recipe: &Recipe,
        values: &[Option<Expr<'g>>],
    ) -> Result<Vec<Expr<'g>>> {
        let operands = self.atoms(jaxpr, &eqn.inputs, values)?;
        let mut slots = Slots { primitive: eqn.primitive.clone(), values: FxHashMap::default() };
        slots.fill((0..).map(Slot), &operands);
        let results = self.steps(recipe, &mut slots)?;
        if results.len() != eqn.outputs.len() {
            let (found, expected) = (results.len(), eqn.outputs.len());
            return Err(slots
                .wrong(format!("it returned {found} results instead of {expected}"))
                .into());
        }
        for (result, &var) in results.iter().zip(&eqn.outputs) {
            let expected = self.ty(jaxpr.aval(var))?;
            match self.builder.known_type(result.id) {
                None => self.builder.set_type(result.id, expected),
                Some(found) if found == expected => {}
                Some(found) => {
                    return Err(slots
                        .wrong(format!("it returned a `{found}` instead of a `{expected}`"))
                        .into());
                }
            }
        }
        Ok(results)
    }

    /// Runs the steps of a recipe, and returns its results.
    fn steps(&self, recipe: &Recipe, slots: &mut Slots<'g>) -> Result<Vec<Expr<'g>>> {
        for step in &recipe.steps {
            let outputs = self.step(step, slots)?;
            slots.fill(step.outputs.iter().copied(), &outputs);
        }
        recipe.results.iter().map(|&slot| slots.get(slot)).collect()
    }

    fn step(&self, step: &Step, slots: &Slots<'g>) -> Result<Vec<Expr<'g>>> {
        let emitter = self.emitter(&step.frames);
        match &step.action {
            Action::Fail { message, failure } => Err(Refused::Recipe {
                primitive: slots.primitive.clone(),
                what: message.to_string(),
                failure: Some(*failure),
            }
            .into()),
            Action::Constant(constant) => Ok(vec![self.constant(constant)?]),
            Action::Inline { jaxpr, inputs } => {
                let inputs = inputs.iter().map(|&slot| slots.get(slot));
                let inputs = inputs.collect::<Result<Vec<_>>>()?;
                for (input, &var) in inputs.iter().zip(&jaxpr.inputs) {
                    self.set_missing_type(*input, jaxpr.aval(var))?;
                }
                let entered = self.builder.enter_foreign_call(emitter);
                let results = self.jaxpr(jaxpr, &inputs, self.builder.place());
                self.builder.leave(entered);
                results
            }
            Action::Node { domain, version, op, inputs, attrs } => {
                let inputs = inputs.iter().map(|slot| slot.map(|slot| slots.get(slot)));
                let inputs = inputs.map(Option::transpose).collect::<Result<Vec<_>>>()?;
                let attrs = attrs.iter();
                let attrs =
                    attrs.map(|(name, attr)| Ok((&**name, self.attr(name, attr, emitter, slots)?)));
                let attrs = attrs.collect::<Result<Vec<_>>>()?;
                let count = step.outputs.len();
                let domain = (domain, *version);
                Ok(self.builder.foreign_node(emitter, domain, op, &inputs, attrs, count))
            }
        }
    }

    fn attr(
        &self,
        name: &str,
        attr: &RecipeAttr,
        emitter: Option<EmitterId>,
        slots: &Slots<'g>,
    ) -> Result<Attr> {
        Ok(match attr {
            RecipeAttr::Int(value) => Attr::Int(*value),
            RecipeAttr::Float(value) => Attr::Float(*value),
            RecipeAttr::Str(value) => Attr::Str(value.clone()),
            RecipeAttr::Ints(values) => Attr::Ints(values.clone()),
            RecipeAttr::Floats(values) => Attr::Floats(values.clone()),
            RecipeAttr::Strs(values) => Attr::Strs(values.clone()),
            RecipeAttr::Tensor(constant) => Attr::Tensor(tensor(constant)?.into()),
            RecipeAttr::Body(body) => self.recipe_body(name, body, emitter, slots)?.into(),
        })
    }

    /// Returns the graph of a body, whose steps may read the values around it.
    fn recipe_body(
        &self,
        name: &str,
        body: &Recipe,
        emitter: Option<EmitterId>,
        slots: &Slots<'g>,
    ) -> Result<Graph> {
        let types = body.inputs.iter().map(|(_, aval)| Ok(self.ty(aval)?));
        let types = types.collect::<Result<Vec<_>>>()?;
        self.builder.body(name, &types, |inputs| {
            let mut slots = slots.clone();
            slots.fill(body.inputs.iter().map(|(slot, _)| *slot), inputs);
            let results = self.steps(body, &mut slots)?;
            Ok(own_results_by(self.builder, results, |result| self.copy(result, emitter)))
        })
    }

    /// Returns a copy whose origin is the line of the Python plugin.
    fn copy(&self, value: Expr<'g>, emitter: Option<EmitterId>) -> Expr<'g> {
        let onnx = (&Arc::default(), 0);
        let copies =
            self.builder.foreign_node(emitter, onnx, "Identity", &[Some(value)], Vec::new(), 1);
        let copy = copies.first().copied().unwrap_or(value);
        if let Some(ty) = self.builder.known_type(value.id) {
            self.builder.set_type(copy.id, ty);
        }
        copy
    }

    /// If the type of a value that is passed to a jaxpr is unknown, sets the type that the jaxpr
    /// states.
    fn set_missing_type(&self, input: Expr<'g>, aval: &Aval) -> Result<()> {
        if self.builder.known_type(input.id).is_none() {
            self.builder.set_type(input.id, self.ty(aval)?);
        }
        Ok(())
    }

    /// Adds the frames of the Python plugin to the origin of the next nodes.
    fn emitter(&self, frames: &[RecipeFrame]) -> Option<EmitterId> {
        let mut kind = EmitterKind::PythonPlugin;
        let mut parent = self.builder.calling();
        for frame in frames {
            let RecipeFrame { file, line, function } = frame;
            let (name, file) = ((&**function).into(), (&**file).into());
            let emitter = Emitter { kind, name, file, line: *line, parent };
            parent = Some(self.builder.table(|table| table.emitter(emitter)));
            kind = EmitterKind::PythonHelper;
        }
        parent
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use options::Options;
    use provenance::render::plugin_line;

    use super::*;
    use crate::lower::{Call, lower};

    fn step(action: Action, outputs: &[u32], line: u32) -> Step {
        let (file, function) = ("plugin.py".into(), "MyPlugin.lower".into());
        let frames = vec![RecipeFrame { file, line, function }];
        Step { action, outputs: outputs.iter().copied().map(Slot).collect(), frames }
    }

    fn node(domain: &str, op: &str, inputs: &[u32]) -> Action {
        Action::Node {
            domain: domain.into(),
            version: 1,
            op: op.into(),
            inputs: inputs.iter().map(|&slot| Some(Slot(slot))).collect(),
            attrs: Vec::new(),
        }
    }

    /// Lowers `twice` by a recipe, and compares the graph, its opsets, and the line of each node.
    #[track_caller]
    fn check(steps: Vec<Step>, results: &[u32], expect: &Expect) {
        let mut program = jaxpr::parse(
            r#"jaxpr main(a:f32[3]) { b:f32[3] = twice a @ "model.py":4 in f  return b }"#,
        )
        .unwrap();
        let results = results.iter().copied().map(Slot).collect();
        let recipe = Recipe { inputs: Vec::new(), steps, results };
        Arc::get_mut(&mut program.main).unwrap().eqns[0].recipe = Some(recipe.into());
        let options = Options { model_name: "test".into(), ..Options::default() };
        let text = match lower(program, &options, &Call::default()) {
            Ok(model) => {
                let table = &model.provenance;
                let line = |node: &onnx::Node| {
                    let site = table.get_site(table.get_origin(model.origin_of(node)).primary);
                    let plugin = site.emitter.and_then(|emitter| table.plugin_of(emitter));
                    let line = plugin.map(|plugin| plugin_line(table.get_emitter(plugin)));
                    line.filter(|line| line.starts_with("MyPlugin"))
                };
                let lines: Vec<_> = model.graph.nodes.iter().filter_map(line).collect();
                format!("{}{:?}\n{}\n", model.text(), model.opsets, lines.join("\n"))
            }
            Err(failure) => format!("refused: {}\n", failure.errors[0]),
        };
        expect.assert_eq(&text);
    }

    #[test]
    fn steps_become_nodes_with_the_lines_of_the_plugin() {
        check(
            vec![step(node("", "Neg", &[0]), &[1], 7), step(node("mine", "Add", &[1, 0]), &[2], 8)],
            &[2],
            &expect![[r#"
                graph test(in_0:f32[3]) -> (out_0)
                %0 = Neg(in_0)
                out_0:f32[3] = mine::Add(%0, in_0)
                [("", 23), ("mine", 1)]
                MyPlugin.lower:7
                MyPlugin.lower:8
            "#]],
        );
    }

    #[test]
    fn a_recipe_may_return_an_operand() {
        check(
            Vec::new(),
            &[0],
            &expect![[r#"
            graph test(in_0:f32[3]) -> (out_0)
            out_0:f32[3] = Identity(in_0)
            [("", 23)]

        "#]],
        );
    }

    #[test]
    fn another_number_of_results_is_refused() {
        check(
            Vec::new(),
            &[0, 0],
            &expect![[r#"
                refused: the plugin for `twice` failed: it returned 2 results instead of 1
            "#]],
        );
    }

    #[test]
    fn a_value_without_a_producer_is_refused() {
        check(
            vec![step(node("", "Neg", &[5]), &[6], 7)],
            &[6],
            &expect![[r#"
                refused: the plugin for `twice` failed: it uses a value from a body outside that body
            "#]],
        );
    }

    #[test]
    fn the_exception_of_a_plugin_is_reported() {
        let action = Action::Fail { message: "ValueError: no".into(), failure: 0 };
        check(
            vec![step(action, &[], 7)],
            &[],
            &expect![[r#"
                refused: the plugin for `twice` failed: ValueError: no
            "#]],
        );
    }
}
