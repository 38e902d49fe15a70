//! Why an equation was refused, and where.

use std::sync::Arc;

use provenance::SiteId;

/// Says why an equation was refused. The wording is part of the interface: tests hold it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    #[error("no plugin for `{primitive}`")]
    NoPlugin { primitive: Arc<str> },
    #[error("no plugin for `{primitive}`, and its `impl` cannot be used: {why}")]
    NoDefinition { primitive: Arc<str>, why: Arc<str> },
    #[error(
        "parameter `{param}={value}` of `{primitive}` would be dropped: the plugin does not read it"
    )]
    UnreadParam { primitive: Arc<str>, param: String, value: String },
    #[error("`{what}` has no ONNX counterpart")]
    NoCounterpart { what: String },
    #[error("`{op}` cannot be computed in `{dtype}` by the runtime")]
    NoKernel { op: String, dtype: String },
    #[error("{what} needs several devices, and a model runs on one")]
    Devices { what: String },
    #[error("`{dtype}` has no ONNX element type")]
    NoType { dtype: String },
    #[error("the size `{name}` cannot be computed from the shapes of the inputs")]
    NoSize { name: String },
    /// The results of a plugin written in Python do not fit its equation.
    #[error("the plugin for `{primitive}` failed: {what}")]
    Recipe {
        primitive: Arc<str>,
        what: String,
        /// The number of the exception that it raised.
        failure: Option<usize>,
    },
    #[error("`{op}` needs opset {needed}, and the model is for opset {opset}")]
    NeedsOpset { op: String, needed: i64, opset: i64 },
    #[error("loops and branches are nested {depth} deep, and protobuf reads at most {most}")]
    Nested { depth: usize, most: usize },
    #[error(transparent)]
    Param(#[from] jaxpr::ParamError),
    /// A broken invariant of ours, not a limit.
    #[error("the plugin for `{primitive}` broke an invariant: {what}")]
    Internal { primitive: Arc<str>, what: String },
}

impl Refused {
    /// True if the equation is beyond what jax2onnx does, false if something is wrong with a plugin.
    pub(crate) fn is_limit(&self) -> bool {
        !matches!(self, Refused::Internal { .. } | Refused::Param(_) | Refused::Recipe { .. })
    }

    /// Returns advice for the user, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Refused::NoPlugin { primitive } if &**primitive == "pallas_call" => Some(
                "a kernel of Pallas is written for one kind of hardware: export the same in `jnp`, or write a plugin for it with `jax2onnx.plugin`",
            ),
            Refused::NoPlugin { primitive } if is_callback(primitive) => Some(
                "a model cannot call Python: compute the same in `jnp`, or write a plugin for it with `jax2onnx.plugin`",
            ),
            Refused::NoPlugin { primitive } if primitive.starts_with("ragged_dot") => Some(
                "multiply with every group and choose with a mask in `jnp`, or write a plugin for it with `jax2onnx.plugin`",
            ),
            Refused::Devices { .. } => Some(
                "export the function of one device: call it without `pmap` and `shard_map`, or with a mesh of one device",
            ),
            Refused::NoPlugin { .. } | Refused::NoDefinition { .. } => Some(
                "write a plugin for it with `jax2onnx.plugin`, or move the operation out of the exported function",
            ),
            Refused::UnreadParam { .. } | Refused::NoCounterpart { .. } => {
                Some("leave the argument at its default, or compute the same with other operations")
            }
            Refused::NoKernel { .. } => {
                Some("convert the operands to `float32` or `int32` before it")
            }
            Refused::Recipe { .. } => Some(
                "look at the `lower` of the plugin, which was registered with `jax2onnx.plugin`",
            ),
            Refused::NoType { .. } => Some("convert the array to a type that ONNX has"),
            Refused::NoSize { .. } => Some("make the symbol the size of an axis of some input"),
            Refused::NeedsOpset { .. } => Some("pass a higher `opset` to `to_onnx`"),
            Refused::Nested { .. } => Some(
                "write some of the loops as one, or as Python loops, which are unrolled when JAX traces them",
            ),
            Refused::Param(_) | Refused::Internal { .. } => {
                Some("this is a bug in jax2onnx: please report it with the lines above")
            }
        }
    }
}

fn is_callback(primitive: &str) -> bool {
    matches!(primitive, "pure_callback" | "io_callback")
}

/// A refusal, and the equation it is about.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct LoweringError {
    #[source]
    pub why: Refused,
    /// In the table of the program that was lowered.
    pub site: SiteId,
}

/// The error that a plugin returns.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The equation itself is refused.
    Here(Refused),
    /// An equation of a body was refused, and knows its place.
    Inside(LoweringError),
}

pub(crate) type Result<T> = std::result::Result<T, Stop>;

impl From<Refused> for Stop {
    fn from(why: Refused) -> Stop {
        Stop::Here(why)
    }
}

impl From<jaxpr::ParamError> for Stop {
    fn from(why: jaxpr::ParamError) -> Stop {
        Stop::Here(why.into())
    }
}

impl From<LoweringError> for Stop {
    fn from(error: LoweringError) -> Stop {
        Stop::Inside(error)
    }
}
