//! Encodes and decodes the letters of enumerations.

use crate::tier::Tier;

pub(super) const TIERS: &[(Tier, char)] =
    &[(Tier::User, 'u'), (Tier::Library, 'l'), (Tier::Internal, 'i')];

pub(super) fn letter<T: PartialEq>(letters: &[(T, char)], value: &T) -> char {
    letters.iter().find(|(known, _)| known == value).map_or('?', |(_, letter)| *letter)
}

pub(super) fn value<T: Copy>(letters: &[(T, char)], letter: char) -> Option<T> {
    letters.iter().find(|(_, known)| *known == letter).map(|(value, _)| *value)
}
