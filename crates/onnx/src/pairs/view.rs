//! Describes values that hold the elements of a variable in another order.

use crate::attr::Attr;
use crate::model::Node;
use crate::operator::OpType;
use crate::operator::properties::RESHAPES;
use crate::value::{Type, ValueId, Values, known_shape};

/// The steps from a value to the variable that it holds; empty if they are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View(pub Vec<ViewStep>);

/// A step that moves all elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewStep {
    /// Reorders the axes.
    Transpose(Vec<usize>),
    /// Changes the shape.
    Reshape(Vec<i64>),
}

/// A value that is more steps away does not count as a holder.
const MAX_STEPS: usize = 3;

impl View {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the view of a value that is one step away from the viewed one, where `ty` is its type. `None` if
    /// there are too many steps.
    pub(super) fn after(&self, step: &ViewStep, ty: Option<&Type>) -> Option<View> {
        let mut steps = vec![step.clone()];
        for next in &self.0 {
            match (steps.last_mut(), next) {
                (Some(ViewStep::Transpose(first)), ViewStep::Transpose(second)) => {
                    *first = second
                        .iter()
                        .map(|&axis| first.get(axis).copied())
                        .collect::<Option<_>>()?;
                }
                (Some(ViewStep::Reshape(first)), ViewStep::Reshape(second)) => {
                    first.clone_from(second);
                }
                _ => steps.push(next.clone()),
            }
            if steps.last().is_some_and(ViewStep::is_nothing) {
                steps.pop();
            }
        }
        let shape = ty.and_then(|ty| known_shape(&ty.shape));
        if matches!((&steps[..], shape), ([ViewStep::Reshape(to)], Some(from)) if *to == from)
            || matches!(&steps[..], [step] if step.is_nothing())
        {
            steps.clear();
        }
        (steps.len() <= MAX_STEPS).then_some(View(steps))
    }
}

impl ViewStep {
    /// Returns the step from the operand of a node to its result, if the node only moves elements.
    pub(crate) fn of(node: &Node, values: &Values) -> Option<ViewStep> {
        let result = *node.outputs.first()?;
        match node.op.onnx()? {
            OpType::Transpose => {
                let rank = values[result].ty.as_ref()?.rank();
                let perm = match node.attr("perm") {
                    Some(Attr::Ints(perm)) => perm
                        .iter()
                        .map(|&axis| usize::try_from(axis).ok())
                        .collect::<Option<_>>()?,
                    _ => (0..rank).rev().collect(),
                };
                Some(ViewStep::Transpose(perm))
            }
            op if op == OpType::Flatten || op.is(RESHAPES) => ViewStep::to_shape_of(result, values),
            _ => None,
        }
    }

    /// Returns the step back to an operand.
    pub(crate) fn back(self, operand: ValueId, values: &Values) -> Option<ViewStep> {
        match self {
            ViewStep::Transpose(perm) => {
                let mut back = vec![0; perm.len()];
                for (place, axis) in perm.into_iter().enumerate() {
                    *back.get_mut(axis)? = place;
                }
                Some(ViewStep::Transpose(back))
            }
            ViewStep::Reshape(_) => ViewStep::to_shape_of(operand, values),
        }
    }

    /// Returns the step to the shape of a value.
    pub(crate) fn to_shape_of(value: ValueId, values: &Values) -> Option<ViewStep> {
        values[value].ty.as_ref().and_then(|ty| known_shape(&ty.shape)).map(ViewStep::Reshape)
    }

    fn is_nothing(&self) -> bool {
        match self {
            ViewStep::Transpose(perm) => {
                perm.iter().enumerate().all(|(place, &axis)| place == axis)
            }
            ViewStep::Reshape(_) => false,
        }
    }
}
