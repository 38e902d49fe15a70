//! The flags of the options of an export, one for each row of their table.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use options::{OptionKind, Row, Value, table};

/// The names and values of the options on the command line.
#[derive(Debug)]
pub(crate) struct Flags {
    pub(crate) given: Vec<(&'static str, Value)>,
}

impl clap::Args for Flags {
    fn augment_args(command: Command) -> Command {
        command.args(table().iter().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

impl clap::FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let given = table().iter().filter_map(|row| Some((row.name, value(row, matches)?)));
        Ok(Flags { given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(row: &'static Row) -> Arg {
    let arg = Arg::new(row.name).long(row.flag).help(row.help).help_heading(row.heading);
    let arg = if let Some(other) = row.requires { arg.requires(other) } else { arg };
    if row.value_name.is_empty() {
        return arg.action(ArgAction::SetTrue);
    }
    let arg = arg.value_name(row.value_name).action(ArgAction::Set);
    match row.kind {
        OptionKind::Flag | OptionKind::Text => arg,
        OptionKind::Number { .. } => arg.value_parser(value_parser!(i64)),
        OptionKind::Word { words, .. } => arg.value_parser(PossibleValuesParser::new(words)),
        OptionKind::Names | OptionKind::Targets => {
            arg.value_delimiter(',').action(ArgAction::Append)
        }
        OptionKind::Positions => arg
            .value_delimiter(',')
            .action(ArgAction::Append)
            .value_parser(value_parser!(i64).range(0..)),
        OptionKind::Path => arg.value_parser(value_parser!(PathBuf)),
        OptionKind::FlagOrPath => arg.num_args(0..=1).value_parser(value_parser!(PathBuf)),
        OptionKind::Code | OptionKind::Prefixes => arg.action(ArgAction::Append),
    }
}

/// Returns the value of an option, if it is on the command line.
fn value(row: &Row, matches: &ArgMatches) -> Option<Value> {
    let name = row.name;
    if row.value_name.is_empty() {
        // If an option is on by default, its flag turns it off.
        return matches.get_flag(name).then(|| Value::Flag(row.default != Value::Flag(true)));
    }
    let text = || matches.get_one::<String>(name).cloned();
    let texts = || Some(matches.get_many::<String>(name)?.cloned().collect());
    match row.kind {
        OptionKind::Flag | OptionKind::Text | OptionKind::Word { .. } => text().map(Value::Text),
        OptionKind::Number { .. } => matches.get_one::<i64>(name).copied().map(Value::Number),
        OptionKind::Names | OptionKind::Targets | OptionKind::Code | OptionKind::Prefixes => {
            texts().map(Value::Texts)
        }
        OptionKind::Positions => {
            matches.get_many::<i64>(name).map(|found| Value::Numbers(found.copied().collect()))
        }
        OptionKind::Path | OptionKind::FlagOrPath if matches.contains_id(name) => {
            let path = matches.get_one::<PathBuf>(name);
            Some(path.map_or(Value::Flag(true), |path| Value::Path(path.clone())))
        }
        OptionKind::Path | OptionKind::FlagOrPath => None,
    }
}
