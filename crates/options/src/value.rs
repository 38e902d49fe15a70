//! Values of options, for code that does not know the types of the options.

use std::path::PathBuf;

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The option is not set.
    Nothing,
    Flag(bool),
    Number(i64),
    Text(String),
    Path(PathBuf),
    Texts(Vec<String>),
    Numbers(Vec<i64>),
    Pairs(Vec<(String, String)>),
}

/// Converts between a type and the variant of [`Value`] that represents it.
macro_rules! represented {
    ($($type:ty: $variant:ident, $into:expr, $from:expr;)*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Value {
                Value::$variant($into(value))
            }
        }

        impl TryFrom<Value> for $type {
            type Error = ();

            fn try_from(value: Value) -> Result<$type, ()> {
                match value {
                    Value::$variant(value) => $from(value).map_err(|_| ()),
                    _ => Err(()),
                }
            }
        }
    )*};
}

represented! {
    bool: Flag, bool::from, bool::try_from;
    i64: Number, i64::from, i64::try_from;
    // A count that does not fit into `i64` becomes the largest one, which has the same effect.
    usize: Number, |count| i64::try_from(count).unwrap_or(i64::MAX), usize::try_from;
    String: Text, String::from, String::try_from;
    Vec<String>: Texts, Vec::from, Vec::try_from;
    Vec<(String, String)>: Pairs, Vec::from, Vec::try_from;
}

/// Represents words as text.
macro_rules! represented_by_words {
    ($($type:ty),* $(,)?) => {$(
        impl From<$type> for $crate::Value {
            fn from(value: $type) -> $crate::Value {
                $crate::Value::Text(value.name().into())
            }
        }

        impl TryFrom<$crate::Value> for $type {
            type Error = ();

            fn try_from(value: $crate::Value) -> Result<$type, ()> {
                match value {
                    $crate::Value::Text(word) => word.parse().map_err(|_| ()),
                    _ => Err(()),
                }
            }
        }
    )*};
}
pub(crate) use represented_by_words;
