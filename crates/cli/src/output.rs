//! The output format of a command.

/// The format of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people; may change between versions
    #[default]
    Text,
    /// For programs; stable, with a version number
    Json,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OutputArgs {
    /// The output format
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}
