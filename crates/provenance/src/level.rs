//! Provenance levels and path policies.

/// A word that is not one of the allowed ones.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {what}: use {}", .allowed.join(", "))]
pub struct UnknownWord {
    pub what: &'static str,
    pub found: String,
    pub allowed: &'static [&'static str],
}

/// Defines an enum whose values are words that users write.
#[macro_export]
macro_rules! words {
    (
        $(#[$about:meta])*
        $type:ident, $what:literal { $($(#[$note:meta])* $variant:ident = $word:literal,)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type {
            $($(#[$note])* $variant,)+
        }

        impl $type {
            /// The noun for a value in messages.
            pub const WHAT: &str = $what;
            pub const NAMES: &[&str] = &[$($word),+];

            /// Returns the word for a value.
            pub fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $word,)+
                }
            }
        }

        impl ::std::str::FromStr for $type {
            type Err = $crate::level::UnknownWord;

            fn from_str(word: &str) -> ::std::result::Result<$type, Self::Err> {
                match word {
                    $($word => Ok($type::$variant),)+
                    _ => Err($crate::level::UnknownWord {
                        what: $type::WHAT,
                        found: word.into(),
                        allowed: $type::NAMES,
                    }),
                }
            }
        }
    };
}

words! {
    /// The amount of provenance in the model.
    Level, "a provenance level" {
        #[default]
        Off = "off",
        Minimal = "minimal",
        Full = "full",
        Indexed = "indexed",
    }
}

words! {
    /// The form of file names in the model.
    PathPolicy, "a path policy" {
        /// Relative to the root of the project, or to the folder of installed packages.
        #[default]
        Relative = "relative",
        Absolute = "absolute",
        Basename = "basename",
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
