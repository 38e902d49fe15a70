//! The words of the enumerations, in both directions.

use crate::frame::EmitterKind;
use crate::tier::Tier;

pub(super) const TIERS: &[(Tier, &str)] =
    &[(Tier::User, "user"), (Tier::Library, "library"), (Tier::Internal, "internal")];

/// What marks a scope that is a transformation and not a name.
pub(super) const TRANSFORM: &str = "transform";

pub(super) const EMITTERS: &[(EmitterKind, &str)] = &[
    (EmitterKind::Plugin, "plugin"),
    (EmitterKind::Helper, "helper"),
    (EmitterKind::PythonPlugin, "python plugin"),
    (EmitterKind::PythonHelper, "python helper"),
];

pub(super) fn word<T: PartialEq>(words: &[(T, &'static str)], value: &T) -> &'static str {
    words.iter().find(|(known, _)| known == value).map_or("", |(_, word)| word)
}

pub(super) fn value<T: Copy>(words: &[(T, &str)], word: &str) -> Option<T> {
    words.iter().find(|(_, known)| *known == word).map(|(value, _)| *value)
}
