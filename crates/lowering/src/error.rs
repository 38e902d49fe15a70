//! The reason why an equation is refused, and its location.

use std::sync::Arc;

use jaxpr::ParamError;
use provenance::SiteId;

/// The reason why an equation is refused. Tests check the wording, because users see it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    #[error("no plugin for `{primitive}`")]
    NoPlugin { primitive: Arc<str> },
    #[error("no plugin for `{primitive}`, and its definition cannot be used: {why}")]
    NoDefinition { primitive: Arc<str>, why: Arc<str> },
    #[error("the plugin for `{primitive}` does not support the parameter `{param}={value}`")]
    UnreadParam { primitive: Arc<str>, param: String, value: String },
    #[error("`{what}` has no ONNX counterpart")]
    NoCounterpart { what: String },
    #[error("`{what}` has no ONNX counterpart")]
    OfComplex { what: String },
    #[error("`{what}` has no ONNX counterpart")]
    OfKeys { what: String },
    #[error("`{what}` has no ONNX counterpart")]
    NoFactorization { what: String },
    #[error("{runtime} cannot compute `{op}` in `{dtype}`")]
    NoKernel { runtime: String, op: String, dtype: String },
    /// The finished model contains a node that a runtime does not run.
    #[error("{what}")]
    Target { what: String },
    #[error("{what} needs several devices, but a model runs on one")]
    Devices { what: String },
    #[error("ONNX has no element type for `{dtype}`")]
    NoType { dtype: String },
    #[error("the size `{name}` cannot be computed from the shapes of the inputs")]
    NoSize { name: String },
    /// The results of a plugin written in Python do not fit its equation.
    #[error("the plugin for `{primitive}` failed: {what}")]
    Recipe {
        primitive: Arc<str>,
        what: String,
        /// The number of the exception that the plugin raised.
        failure: Option<usize>,
    },
    #[error("`{op}` needs opset {needed}, but the model uses opset {opset}")]
    NeedsOpset { op: String, needed: i64, opset: i64 },
    #[error(
        "loops and branches are nested {depth} levels deep, but protobuf supports at most {most}"
    )]
    Nested { depth: usize, most: usize },
    #[error("functions are nested {depth} levels deep, but jax2onnx supports at most {most}")]
    Deep { depth: usize, most: usize },
    #[error(transparent)]
    Param(#[from] ParamError),
    /// A bug in jax2onnx, not a limit.
    #[error("the plugin for `{primitive}` broke an invariant: {what}")]
    Internal { primitive: Arc<str>, what: String },
}

impl Refused {
    /// True if jax2onnx does not support the equation; false if a plugin or a parameter is wrong.
    pub fn is_limit(&self) -> bool {
        match self {
            Refused::Param(why) => matches!(why, ParamError::Symbolic { .. }),
            Refused::Internal { .. } | Refused::Recipe { .. } => false,
            _ => true,
        }
    }

    /// Returns advice for the user, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Refused::NoPlugin { primitive } if &**primitive == "pallas_call" => Some(
                "a Pallas kernel runs only on its hardware: export the same computation in `jnp`, or write a plugin with `jax2onnx.plugin`",
            ),
            Refused::NoPlugin { primitive } if is_callback(primitive) => Some(
                "a model cannot call Python: compute the same in `jnp`, or write a plugin with `jax2onnx.plugin`",
            ),
            Refused::Devices { .. } => Some(
                "export the function for one device: call it without `pmap` and `shard_map`, or with a mesh of one device",
            ),
            Refused::NoPlugin { .. } | Refused::NoDefinition { .. } => Some(
                "write a plugin with `jax2onnx.plugin`, or move the operation out of the exported function",
            ),
            Refused::UnreadParam { .. } | Refused::NoCounterpart { .. } => {
                Some("leave the argument at its default, or compute the same with other operations")
            }
            Refused::OfComplex { .. } => Some(
                "compute the same with the real and the imaginary part: take `z.real` and `z.imag`, and join the results with `jax.lax.complex`",
            ),
            Refused::OfKeys { .. } => Some(
                "convert the keys to numbers with `jax.random.key_data`, and back with `jax.random.wrap_key_data`",
            ),
            Refused::NoFactorization { .. } => Some(
                "factor a matrix of known size, use `eigh` if the matrix is symmetric, or factor it outside the exported function",
            ),
            Refused::NoKernel { .. } => Some("convert the operands to `float32` or `int32` first"),
            Refused::Target { .. } => Some(
                "write the line in another way, or export without this `target`: `docs/targets.md` says what each runtime lacks",
            ),
            Refused::Recipe { .. } => Some(
                "check the `lower` method of the plugin, which was registered with `jax2onnx.plugin`",
            ),
            Refused::NoType { .. } => Some("convert the array to a type that ONNX supports"),
            Refused::NoSize { .. } => Some("use the symbol as the size of an axis of an input"),
            Refused::NeedsOpset { .. } => Some("pass a higher `opset` to `to_onnx`"),
            Refused::Nested { .. } => Some(
                "merge some of the loops, or write them as Python loops, which JAX unrolls when it traces the function",
            ),
            Refused::Deep { .. } => Some(
                "call the innermost functions without `jit`, `checkpoint` or other transformations around each of them",
            ),
            Refused::Param(ParamError::Symbolic { .. }) => {
                Some("export the function with a number in place of the symbolic size")
            }
            Refused::Param(_) | Refused::Internal { .. } => {
                Some("this is a bug in jax2onnx: please report it with the lines above")
            }
        }
    }
}

fn is_callback(primitive: &str) -> bool {
    matches!(primitive, "pure_callback" | "io_callback")
}

/// A refusal, and the equation that was refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct LoweringError {
    #[source]
    pub why: Refused,
    /// A site in the provenance table of the program.
    pub site: SiteId,
}

/// The error that a plugin returns.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The equation itself is refused.
    Here(Refused),
    /// An equation of a body was refused; the error contains its site.
    Inside(LoweringError),
}

pub(crate) type Result<T> = std::result::Result<T, Stop>;

impl From<Refused> for Stop {
    fn from(why: Refused) -> Stop {
        Stop::Here(why)
    }
}

impl From<ParamError> for Stop {
    fn from(why: ParamError) -> Stop {
        Stop::Here(why.into())
    }
}

impl From<LoweringError> for Stop {
    fn from(error: LoweringError) -> Stop {
        Stop::Inside(error)
    }
}
