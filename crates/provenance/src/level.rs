//! Provenance levels and path policies.

use std::str::FromStr;

/// The amount of provenance that is written into the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    #[default]
    Off,
    Minimal,
    Full,
    Indexed,
}

/// The way that files are named in the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathPolicy {
    /// Below the root of its project, or below the folder that packages are installed in.
    #[default]
    Relative,
    Absolute,
    Basename,
}

/// A word that is not one of the allowed ones.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {what}: use {}", .allowed.join(", "))]
pub struct UnknownWord {
    pub what: &'static str,
    pub found: String,
    pub allowed: &'static [&'static str],
}

impl Level {
    pub const NAMES: &[&str] = &["off", "minimal", "full", "indexed"];
}

impl FromStr for Level {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Level, UnknownWord> {
        match word {
            "off" => Ok(Level::Off),
            "minimal" => Ok(Level::Minimal),
            "full" => Ok(Level::Full),
            "indexed" => Ok(Level::Indexed),
            _ => Err(UnknownWord {
                what: "a provenance level",
                found: word.into(),
                allowed: Level::NAMES,
            }),
        }
    }
}

impl PathPolicy {
    pub const NAMES: &[&str] = &["relative", "absolute", "basename"];
}

impl FromStr for PathPolicy {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<PathPolicy, UnknownWord> {
        match word {
            "relative" => Ok(PathPolicy::Relative),
            "absolute" => Ok(PathPolicy::Absolute),
            "basename" => Ok(PathPolicy::Basename),
            _ => Err(UnknownWord {
                what: "a path policy",
                found: word.into(),
                allowed: PathPolicy::NAMES,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_word_of_its_type() {
        let levels = Level::NAMES.iter().map(|name| name.parse::<Level>().unwrap());
        let expected = [Level::Off, Level::Minimal, Level::Full, Level::Indexed];
        assert!(levels.eq(expected));
        let policies = PathPolicy::NAMES.iter().map(|name| name.parse::<PathPolicy>().unwrap());
        let expected = [PathPolicy::Relative, PathPolicy::Absolute, PathPolicy::Basename];
        assert!(policies.eq(expected));
    }

    #[test]
    fn another_word_is_refused_with_the_allowed_ones() {
        assert_eq!(
            "Full".parse::<Level>().unwrap_err().to_string(),
            "`Full` is not a provenance level: use off, minimal, full, indexed"
        );
        assert_eq!(
            "".parse::<PathPolicy>().unwrap_err().to_string(),
            "`` is not a path policy: use relative, absolute, basename"
        );
    }

    #[test]
    fn the_default_level_is_off() {
        assert_eq!(Level::default(), Level::Off);
    }
}
