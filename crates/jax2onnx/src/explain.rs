//! Describes the rewrites of the passes for people.

use std::fmt::Write;

use indexmap::{IndexMap, IndexSet};
use lowering::DROP_CALLBACKS;
use onnx::Note;
use provenance::{PathPolicy, Paths, Table};

use crate::paths;

/// Describes each rewrite at each line of the user's code: what was fused, what was not, and why.
///
/// ```text
/// fuse-gelu        model.py:12 in mlp    fused, 12 times
/// fuse-layer-norm  model.py:20 in norm   not rewritten: it is not over the last axes
/// ```
pub fn explain(model: &onnx::Model, policy: PathPolicy, packages: &[String]) -> String {
    let mut paths = paths::on_this_machine(policy).with_packages(packages);
    let mut lines: IndexMap<[String; 3], usize> = IndexMap::new();
    for note in &model.notes {
        let outcome = match &note.declined {
            None => note.label.done.to_owned(),
            Some(why) => format!("not rewritten: {why}"),
        };
        let place = place(&model.provenance, note, &mut paths);
        *lines.entry([note.label.name.to_owned(), place, outcome]).or_default() += 1;
    }
    let width = |column: usize| lines.keys().map(|line| line[column].len()).max().unwrap_or(0);
    let (passes, places) = (width(0), width(1));
    let mut text = String::new();
    for ([pass, place, outcome], count) in &lines {
        let times = if *count > 1 { format!(", {count} times") } else { String::new() };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{pass:passes$}  {place:places$}  {outcome}{times}");
    }
    text
}

/// Returns the lines of the callbacks that are not part of the model, as `model.py:12, in mlp`.
pub fn dropped_callbacks(
    model: &onnx::Model,
    policy: PathPolicy,
    packages: &[String],
) -> Vec<String> {
    let mut paths = paths::on_this_machine(policy).with_packages(packages);
    let dropped = model.notes.iter().filter(|note| note.label.name == DROP_CALLBACKS);
    let lines: IndexSet<String> = dropped
        .map(|note| place(&model.provenance, note, &mut paths).replacen(" in ", ", in ", 1))
        .collect();
    lines.into_iter().collect()
}

/// `model.py:12 in mlp`
fn place(table: &Table, note: &Note, paths: &mut Paths<'_>) -> String {
    let stack = table.get_site(note.site).stack;
    let Some(id) = stack.and_then(|stack| table.callsite(stack)) else {
        return "?".to_owned();
    };
    let location = table.get_location(id);
    let file = paths.shown(&table.get_file(location.file).path);
    format!("{file}:{} in {}", location.line, table.get_function(location.function))
}
