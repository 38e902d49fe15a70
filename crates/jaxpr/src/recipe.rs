//! The steps that a plugin written in Python recorded for an equation.
//!
//! A recipe is plain data, recorded when the jaxpr is read, so that lowering needs no Python. It is not part of the
//! text form, which contains what JAX traced.

use std::sync::Arc;

use crate::aval::Aval;
use crate::constant::Constant;
use crate::jaxpr::Jaxpr;

/// A value of a recipe. The operands of the equation come first, numbered from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(pub u32);

/// Steps in order, from inputs to results.
///
/// The recipe of an equation has no inputs, because its operands are slots already. A nested body may read the
/// slots of the enclosing recipe.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    pub inputs: Vec<(Slot, Aval)>,
    pub steps: Vec<Step>,
    pub results: Vec<Slot>,
}

impl Recipe {
    /// Returns the depth of jaxprs and bodies in the recipe.
    pub fn depth(&self) -> usize {
        let of_action = |action: &Action| match action {
            Action::Inline { jaxpr, .. } => jaxpr.depth + 1,
            Action::Node { attrs, .. } => {
                let bodies = attrs.iter().map(|(_, attr)| match attr {
                    RecipeAttr::Body(body) => body.depth() + 1,
                    _ => 0,
                });
                bodies.max().unwrap_or(0)
            }
            Action::Constant(_) | Action::Fail { .. } => 0,
        };
        self.steps.iter().map(|step| of_action(&step.action)).max().unwrap_or(0)
    }
}

#[derive(Clone, Debug)]
pub struct Step {
    pub action: Action,
    pub outputs: Vec<Slot>,
    /// The Python frames of the plugin that recorded the step, outermost first.
    pub frames: Vec<RecipeFrame>,
}

#[derive(Clone, Debug)]
pub enum Action {
    Node {
        domain: Arc<str>,
        /// The version of the domain that the model needs.
        version: i64,
        op: Arc<str>,
        /// `None` is an omitted optional operand.
        inputs: Vec<Option<Slot>>,
        attrs: Vec<(Arc<str>, RecipeAttr)>,
    },
    Constant(Constant),
    /// Inlines the equations of a jaxpr.
    Inline {
        jaxpr: Arc<Jaxpr>,
        inputs: Vec<Slot>,
    },
    /// The plugin raised an exception: its message, and its number in the program.
    Fail {
        message: Arc<str>,
        failure: usize,
    },
}

/// An attribute of a node.
#[derive(Clone, Debug)]
pub enum RecipeAttr {
    Int(i64),
    Float(f32),
    Str(Arc<str>),
    Ints(Arc<[i64]>),
    Floats(Arc<[f32]>),
    Strs(Arc<[Arc<str>]>),
    Tensor(Constant),
    Body(Recipe),
}

/// A line of Python in a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeFrame {
    pub file: Arc<str>,
    pub line: u32,
    /// `MyPlugin.lower`, or the name of a function that it called.
    pub function: Arc<str>,
}
