//! The context of a lowering: what a plugin needs to read an equation and to build nodes.

mod equation;
mod functions;
mod pairs;
mod recipe;
mod recorder;
mod sizes;
mod walk;

use std::cell::RefCell;
use std::sync::Arc;

use jaxpr::Aval;
use onnx::{Builder, Dim, Expr, Label, Note, Type};
use provenance::{SiteId, StackId};
use rustc_hash::FxHashMap;

pub(crate) use self::equation::Eqn;
pub(crate) use self::recorder::Body;
use self::recorder::Recorder;
use crate::element::{self, Element};
use crate::error::{LoweringError, Refused, Result};

/// Lowers one program.
pub(crate) struct Ctx<'g> {
    pub builder: &'g Builder,
    primitives: FxHashMap<&'static str, &'static dyn Primitive>,
    /// The place where the exported function is defined.
    definition: Option<StackId>,
    /// The shape of the arrays when a body of scalars is lowered on each of their elements.
    on_each: RefCell<Option<Arc<[Dim]>>>,
    /// The named axes of the meshes around an equation that have one device.
    axes: RefCell<Vec<Arc<str>>>,
    /// The equations that were refused so far.
    pub(crate) refused: RefCell<Vec<LoweringError>>,
    /// Where a callback was dropped.
    dropped: RefCell<Vec<SiteId>>,
    /// The value that holds each variable, if a listener wants to know.
    recorder: Option<RefCell<Recorder>>,
}

/// A primitive that the lowering supports.
pub(crate) trait Primitive {
    /// Lowers an equation of this primitive.
    fn lower<'g>(&self, ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>>;

    /// True if the primitive is an elementwise formula without parameters.
    fn is_formula(&self) -> bool;

    /// True if several results are correct, so that those of the model are not compared with those of JAX.
    fn is_ambiguous(&self) -> bool;
}

/// The name of the notes on callbacks that are not part of the model.
pub const DROP_CALLBACKS: &str = "drop-callbacks";

impl<'g> Ctx<'g> {
    pub(crate) fn new(
        builder: &'g Builder,
        primitives: impl Iterator<Item = (&'static str, &'static dyn Primitive)>,
        definition: Option<StackId>,
        with_pairs: bool,
    ) -> Ctx<'g> {
        Ctx {
            builder,
            definition,
            primitives: primitives.collect(),
            on_each: RefCell::default(),
            axes: RefCell::default(),
            refused: RefCell::default(),
            dropped: RefCell::default(),
            recorder: with_pairs.then(Recorder::new),
        }
    }

    /// Notes that the equation is not part of the model.
    pub fn note_dropped(&self) {
        self.dropped.borrow_mut().push(self.builder.site());
    }

    /// Returns the notes on equations that are not part of the model.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let label = Label { name: DROP_CALLBACKS, done: "applied" };
        let note = |site| Note { label, site, declined: None };
        self.dropped.take().into_iter().map(note).collect()
    }

    /// True if a named axis is one of a mesh of one device.
    pub fn has_one_device(&self, axis: &str) -> bool {
        self.axes.borrow().iter().any(|name| **name == *axis)
    }

    /// Runs `lower` with more named axes of one device.
    pub fn on_one_device<T>(&self, axes: Vec<Arc<str>>, lower: impl FnOnce() -> T) -> T {
        let before = self.axes.borrow().len();
        self.axes.borrow_mut().extend(axes);
        let result = lower();
        self.axes.borrow_mut().truncate(before);
        result
    }

    /// Keeps a refusal, so that the equations after it are looked at too.
    pub(crate) fn keep_refusal(&self, error: LoweringError) {
        self.refused.borrow_mut().push(error);
    }

    /// Returns the refusals of all equations.
    pub(crate) fn refusals(&self) -> Vec<LoweringError> {
        self.refused.take()
    }

    /// Returns the ONNX type of a value, if the model can compute its sizes.
    pub fn ty(&self, aval: &Aval) -> std::result::Result<Type, Refused> {
        match aval {
            Aval::Array { dtype, shape } => {
                let Element { dtype, parts } = Element::in_opset(dtype, self.builder.opset())?;
                let each = self.on_each.borrow().as_ref().filter(|_| shape.is_empty()).cloned();
                let mut shape = match each {
                    Some(each) => each.to_vec(),
                    None => self.dims(shape)?,
                };
                shape.extend(parts.map(Dim::Known));
                Ok(Type::new(dtype, shape))
            }
            Aval::Other(text) => Err(Refused::NoType { dtype: text.to_string() }),
        }
    }

    /// Adds a constant of the jaxpr as an initializer.
    pub fn constant(&self, constant: &jaxpr::Constant) -> std::result::Result<Expr<'g>, Refused> {
        let tensor = element::tensor(constant)?;
        let is_array = tensor.dtype.is_float() && !tensor.shape.is_empty();
        Ok(match constant.name.is_some() || is_array {
            true => self.builder.weight(tensor, constant.name.clone()),
            false => self.builder.tensor(tensor, None),
        })
    }
}
