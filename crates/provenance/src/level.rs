//! How much is written.

use std::str::FromStr;

/// How much of an origin is written into the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    #[default]
    Off,
    Minimal,
    Full,
    Indexed,
}

/// How a file is named in the model.
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
