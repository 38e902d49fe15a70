//! The context of a lowering: walks over the equations of a program, and provides what a plugin
//! needs to read an equation and to build nodes.

mod equation;
mod functions;
mod halves;
mod pairs;
mod recipe;
mod recorder;
mod sizes;
mod walk;

use std::cell::{Cell, RefCell};
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

/// The state of the lowering of one program.
pub(crate) struct Ctx<'g> {
    pub builder: &'g Builder,
    primitives: FxHashMap<&'static str, &'static dyn Primitive>,
    /// The location of the definition of the exported function.
    definition: Option<StackId>,
    /// While a body of scalars is lowered on each element of some arrays: the shape of these
    /// arrays.
    on_each: RefCell<Option<Arc<[Dim]>>>,
    /// True if float16 and bfloat16 are computed in float32, without JAX's rounding.
    widens_halves: Cell<bool>,
    /// The type that was computed in float32 instead; bfloat16 if there are both, because it has fewer digits.
    widened: Cell<Option<onnx::DType>>,
    /// The named axes with one device, from all meshes that enclose the current equation.
    axes: RefCell<Vec<Arc<str>>>,
    /// The refusals of equations so far.
    pub(crate) refused: RefCell<Vec<LoweringError>>,
    /// The locations of dropped callbacks.
    dropped: RefCell<Vec<SiteId>>,
    /// Records the value that holds each variable, if the caller wants this information.
    recorder: Option<RefCell<Recorder>>,
}

/// A primitive that the lowering supports.
pub(crate) trait Primitive {
    /// Lowers an equation of this primitive.
    fn lower<'g>(&self, ctx: &Ctx<'g>, eqn: &Eqn<'g, '_>) -> Result<Vec<Expr<'g>>>;

    /// True if the primitive is an elementwise formula without parameters.
    fn is_formula(&self) -> bool;

    /// True if several results are correct. `compare` then does not compare the results of the model
    /// with those of JAX.
    fn is_ambiguous(&self) -> bool;
}

/// The name of the notes on callbacks that the model leaves out.
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
            widens_halves: Cell::default(),
            widened: Cell::default(),
            axes: RefCell::default(),
            refused: RefCell::default(),
            dropped: RefCell::default(),
            recorder: with_pairs.then(Recorder::new),
        }
    }

    /// Notes that the model leaves out the current equation.
    pub fn note_dropped(&self) {
        self.dropped.borrow_mut().push(self.builder.site());
    }

    /// Returns the notes on equations that the model leaves out.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let label = Label { name: DROP_CALLBACKS, done: "applied" };
        let note = |site| Note { label, site, declined: None };
        self.dropped.take().into_iter().map(note).collect()
    }

    /// True if an enclosing mesh has the named axis `axis`, with one device.
    pub fn has_one_device(&self, axis: &str) -> bool {
        self.axes.borrow().iter().any(|name| **name == *axis)
    }

    /// Runs `lower` with additional named axes that have one device.
    pub fn on_one_device<T>(&self, axes: Vec<Arc<str>>, lower: impl FnOnce() -> T) -> T {
        let before = self.axes.borrow().len();
        self.axes.borrow_mut().extend(axes);
        let result = lower();
        self.axes.borrow_mut().truncate(before);
        result
    }

    /// Stores a refusal, so that the lowering continues and finds the refusals of later equations.
    pub(crate) fn keep_refusal(&self, error: LoweringError) {
        self.refused.borrow_mut().push(error);
    }

    /// Takes the refusals of all equations.
    pub(crate) fn refusals(&self) -> Vec<LoweringError> {
        self.refused.take()
    }

    /// Returns the ONNX type of a value. Refuses a type whose sizes the model cannot compute.
    pub fn ty(&self, aval: &Aval) -> std::result::Result<Type, Refused> {
        match aval {
            Aval::Array { dtype, shape } => {
                let dtype = self.computed(dtype);
                let Element { dtype, parts } = Element::for_model(dtype, self.builder)?;
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
