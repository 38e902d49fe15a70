//! The operator of a node. Operators are compared by name and domain, never by name alone.

use std::fmt;
use std::sync::Arc;

/// Declares the operators of ONNX, in the order of their names.
macro_rules! operators {
    ($($name:ident),* $(,)?) => {
        /// An operator of ONNX's own domain, of any opset.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum OpType {
            $($name),*
        }

        impl OpType {
            /// All operators, in the order of their names.
            pub const ALL: &[OpType] = &[$(OpType::$name),*];

            const NAMES: &[&str] = &[$(stringify!($name)),*];

            pub fn name(self) -> &'static str {
                OpType::NAMES[self as usize]
            }

            pub fn from_name(name: &str) -> Option<OpType> {
                OpType::NAMES.binary_search(&name).ok().map(|index| OpType::ALL[index])
            }
        }
    };
}

mod generated;
pub mod properties;
mod table;

pub use generated::OpType;
pub use properties::Properties;

impl fmt::Display for OpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The operator of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// An operator of ONNX's own domain.
    Onnx(OpType),
    /// Several nodes that passes treat as one, until the nodes replace it.
    Composite(Arc<str>),
    /// Any other operator: a function of the model, an operator of another domain, or an operator of ONNX that
    /// jax2onnx does not know.
    Foreign(Arc<Foreign>),
}

/// An operator by its domain and its name.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Foreign {
    domain: Arc<str>,
    name: Arc<str>,
}

impl Operator {
    /// The domain of composites in the text form. Files never contain them.
    const COMPOSITE: &str = "jax2onnx.composite";

    /// Returns the operator with a name in a domain. The domain of ONNX is the empty text. The result is never a
    /// composite, whatever the domain.
    pub fn new(domain: &str, name: &str) -> Operator {
        let known = OpType::from_name(name).filter(|_| domain.is_empty());
        known.map_or_else(
            || Operator::Foreign(Arc::new(Foreign { domain: domain.into(), name: name.into() })),
            Operator::Onnx,
        )
    }

    /// Returns the operator for a domain and a name in the text form.
    pub(crate) fn of_text(domain: &str, name: &str) -> Operator {
        match domain {
            Operator::COMPOSITE => Operator::Composite(name.into()),
            _ => Operator::new(domain, name),
        }
    }

    /// Returns the operator of ONNX, if it is one.
    pub fn onnx(&self) -> Option<OpType> {
        match self {
            Operator::Onnx(op) => Some(*op),
            Operator::Composite(_) | Operator::Foreign(_) => None,
        }
    }

    pub fn is_onnx(&self) -> bool {
        self.onnx().is_some()
    }

    pub fn is_composite(&self) -> bool {
        matches!(self, Operator::Composite(_))
    }

    pub fn is_one_of(&self, ops: &[OpType]) -> bool {
        self.onnx().is_some_and(|op| ops.contains(&op))
    }

    /// True if it is an operator of ONNX with one of these properties.
    pub fn is(&self, properties: Properties) -> bool {
        self.onnx().is_some_and(|op| op.is(properties))
    }

    /// Returns the domain, for files and messages.
    pub fn domain(&self) -> &str {
        match self {
            Operator::Onnx(_) => "",
            Operator::Composite(_) => Operator::COMPOSITE,
            Operator::Foreign(foreign) => &foreign.domain,
        }
    }

    /// Returns the name, for files and messages.
    pub fn name(&self) -> &str {
        match self {
            Operator::Onnx(op) => op.name(),
            Operator::Composite(name) => name,
            Operator::Foreign(foreign) => &foreign.name,
        }
    }
}

impl From<OpType> for Operator {
    fn from(op: OpType) -> Operator {
        Operator::Onnx(op)
    }
}

impl PartialEq<OpType> for Operator {
    fn eq(&self, op: &OpType) -> bool {
        self.onnx() == Some(*op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_of_onnx_is_found_by_its_name() {
        assert!(OpType::ALL.len() > 200);
        for &op in OpType::ALL {
            assert_eq!(OpType::from_name(op.name()), Some(op));
            assert_eq!(Operator::new("", op.name()), op);
        }
    }

    #[test]
    fn an_operator_of_another_domain_is_not_the_one_of_onnx() {
        for (domain, name) in [("custom", "Expand"), ("jax2onnx.composite", "Expand"), ("", "New")]
        {
            let operator = Operator::new(domain, name);
            assert_eq!((operator.domain(), operator.name()), (domain, name));
            assert_eq!(operator.onnx(), None);
            assert_ne!(operator, OpType::Expand);
        }
        assert_ne!(Operator::new("custom", "Expand"), Operator::new("other", "Expand"));
    }

    #[test]
    fn an_operator_is_smaller_than_two_texts() {
        assert!(size_of::<Operator>() < size_of::<(Arc<str>, Arc<str>)>());
    }
}
