//! Reports the equations that cannot be exported.

use indexmap::IndexMap;
use lowering::LoweringError;
use provenance::{LocationId, PathPolicy, Table};

use crate::paths;

/// The maximum number of operations to show with their lines.
const MAX_SHOWN: usize = 20;

/// An operation on one line that cannot be exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    /// The number of equations.
    pub count: usize,
    pub hint: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub function: Option<String>,
}

/// Describes each refused operation once, with its line, its count and a hint.
pub(crate) fn report(
    errors: &[LoweringError],
    table: &Table,
    source: &dyn Fn(&str) -> Option<String>,
) -> String {
    let mut paths = paths::on_this_machine(PathPolicy::Relative);
    let refused = grouped(errors, table);
    let mut hints = Vec::new();
    let mut blocks = Vec::new();
    for ((_, message), (error, count)) in refused.iter().take(MAX_SHOWN) {
        let hint = error.why.hint().filter(|hint| !hints.contains(hint));
        hints.extend(hint);
        let message =
            if *count > 1 { format!("{message}, {count} times") } else { message.clone() };
        blocks.push(provenance::report::report(
            table, error.site, &message, hint, &mut paths, source,
        ));
    }
    match refused.len() {
        0 | 1 => {}
        count @ ..=MAX_SHOWN => blocks.push(format!("{count} operations cannot be exported\n")),
        count => blocks.push(format!(
            "{count} operations cannot be exported, of which the first {MAX_SHOWN} are shown\n"
        )),
    }
    blocks.join("\n")
}

/// Returns each refused operation as data.
pub(crate) fn refusals(errors: &[LoweringError], table: &Table) -> Vec<Refusal> {
    let mut paths = paths::on_this_machine(PathPolicy::Relative);
    let refused = grouped(errors, table).into_iter();
    let refusal = |((id, message), (error, count)): ((Option<LocationId>, String), _)| {
        let (error, count): (&LoweringError, usize) = (error, count);
        let location = id.map(|id| table.get_location(id));
        Refusal {
            message,
            count,
            hint: error.why.hint().map(str::to_owned),
            file: location.as_ref().map(|it| paths.shown(&table.get_file(it.file).path)),
            line: location.as_ref().map(|it| it.line),
            function: location.as_ref().map(|it| table.get_function(it.function).to_owned()),
        }
    };
    refused.map(refusal).collect()
}

/// Returns each refused operation of each line once, with its count.
fn grouped<'e>(
    errors: &'e [LoweringError],
    table: &Table,
) -> IndexMap<(Option<LocationId>, String), (&'e LoweringError, usize)> {
    let mut refused: IndexMap<_, (&LoweringError, usize)> = IndexMap::new();
    for error in errors {
        let stack = table.get_site(error.site).stack;
        let line = stack.and_then(|stack| table.callsite(stack));
        refused.entry((line, error.why.to_string())).or_insert((error, 0)).1 += 1;
    }
    refused
}
