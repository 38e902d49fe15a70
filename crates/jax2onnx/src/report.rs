//! The report on the equations that cannot be exported.

use std::path::Path;

use indexmap::IndexMap;
use lowering::LoweringError;
use provenance::{PathPolicy, Paths, Table};

/// How many operations are shown with their lines.
const MAX_SHOWN: usize = 20;

/// Describes each refused operation once, with its line, how often it is there, and what to do about it.
pub(crate) fn report(
    errors: &[LoweringError],
    table: &Table,
    source: &dyn Fn(&str) -> Option<String>,
) -> String {
    let is_there = |path: &Path| path.exists();
    let mut paths = Paths::new(PathPolicy::Relative, &is_there);
    let mut refused: IndexMap<_, (&LoweringError, usize)> = IndexMap::new();
    for error in errors {
        let stack = table.get_site(error.site).stack;
        let line = stack.and_then(|stack| table.callsite(stack));
        refused.entry((line, error.why.to_string())).or_insert((error, 0)).1 += 1;
    }
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
