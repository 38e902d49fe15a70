//! How an answer is printed.

/// The form of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people; may change.
    #[default]
    Text,
    /// For programs; stable, with a version.
    Json,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// How to print the answer
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
