//! Checks the metadata: duplicate keys, unknown origins, absolute paths, and changed sources.

use onnx::scan::Pair;
use provenance::{Tier, keys};
use rustc_hash::FxHashSet;

use super::Findings;
use crate::{Document, Frame, Recorded, Source, Sources};

pub(super) fn check(document: &Document<'_>, sources: &Sources<'_, '_>, findings: &mut Findings) {
    let scan = &document.scan;
    let mut leaks = FxHashSet::default();
    pairs("the model", None, &scan.metadata, &mut leaks, findings);
    doc("the model", None, scan.doc, &mut leaks, findings);
    for graph in &scan.graphs {
        pairs("a graph", None, &graph.metadata, &mut leaks, findings);
        doc("a graph", None, graph.doc, &mut leaks, findings);
        for value in graph.inputs.iter().chain(&graph.outputs).chain(&graph.values) {
            pairs("a value", None, &value.metadata, &mut leaks, findings);
            doc("a value", None, value.doc, &mut leaks, findings);
        }
        for tensor in &graph.initializers {
            pairs("a weight", None, &tensor.metadata, &mut leaks, findings);
            doc("a weight", None, tensor.doc, &mut leaks, findings);
        }
    }
    for (number, node) in scan.nodes.iter().enumerate() {
        pairs("a node", Some(number), &node.metadata, &mut leaks, findings);
        doc("a node", Some(number), node.doc, &mut leaks, findings);
    }
    table_paths(document, &mut leaks, findings);
    origins(document, findings);
    stale(document, sources, findings);
}

/// Reports duplicate keys, whose value depends on the reader.
fn pairs<'a>(
    what: &str,
    node: Option<usize>,
    pairs: &[Pair<'a>],
    leaks: &mut FxHashSet<&'a str>,
    findings: &mut Findings,
) {
    for (index, (key, value)) in pairs.iter().enumerate() {
        if index < 64 && pairs[..index].iter().any(|(other, _)| other == key) {
            findings.error("metadata-key", node, format_args!("{what} has the key `{key}` twice"));
        }
        if key.is_empty() {
            findings.warning("metadata-key", node, format_args!("{what} has a key without a name"));
        }
        // The paths of the table are checked separately.
        if *key != keys::PROVENANCE {
            leak(what, node, key, value, leaks, findings);
        }
    }
}

fn doc<'a>(
    what: &str,
    node: Option<usize>,
    doc: &'a str,
    leaks: &mut FxHashSet<&'a str>,
    findings: &mut Findings,
) {
    leak(what, node, "doc_string", doc, leaks, findings);
}

/// Reports each absolute path once.
fn leak<'a>(
    what: &str,
    node: Option<usize>,
    key: &str,
    value: &'a str,
    leaks: &mut FxHashSet<&'a str>,
    findings: &mut Findings,
) {
    if let Some(path) = absolute_path(value)
        && leaks.insert(path)
    {
        let message = format_args!(
            "`{key}` of {what} contains an absolute path from the exporting machine: `{path}`"
        );
        findings.warning("path-leak", node, message);
    }
}

fn table_paths<'d>(
    document: &'d Document<'_>,
    leaks: &mut FxHashSet<&'d str>,
    findings: &mut Findings,
) {
    if document.level != Recorded::Indexed {
        return;
    }
    let table = document.table();
    for id in (0..table.file_count() as u32).map(provenance::FileId) {
        let path = &*table.get_file(id).path;
        if absolute_path(path).is_some() && leaks.insert(path) {
            let message = format_args!(
                "the provenance table contains an absolute path from the exporting machine: `{path}`"
            );
            findings.warning("path-leak", None, message);
        }
    }
}

/// Returns the first absolute path in a text that looks like a user's file.
fn absolute_path(text: &str) -> Option<&str> {
    const ROOTS: [&str; 8] =
        ["/home/", "/Users/", "/root/", "/tmp/", "/mnt/", "/opt/", "/var/", "/content/"];
    let starts = ROOTS.iter().filter_map(|root| text.find(root)).chain(drive(text));
    let is_start = |&at: &usize| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '_' | '-' | '/' | '}'))
    };
    let start = starts.filter(is_start).min()?;
    let rest = &text[start..];
    let end =
        rest.find(|c: char| c.is_control() || matches!(c, '"' | '\'' | ',' | ')' | '(' | ' '));
    let path = &rest[..end.unwrap_or(rest.len())];
    // A line number may follow.
    Some(
        path.rsplit_once(':').filter(|(before, _)| before.len() > 1).map_or(path, |(file, _)| file),
    )
}

/// `C:\Users`
fn drive(text: &str) -> Option<usize> {
    let at = text.find(":\\")?;
    let letter = text[..at].chars().next_back().filter(char::is_ascii_alphabetic)?;
    Some(at - letter.len_utf8())
}

/// Reports origins that are not in the table, and levels that only some nodes have.
fn origins(document: &Document<'_>, findings: &mut Findings) {
    let scan = &document.scan;
    let known = document.origin_count();
    let mut without = 0;
    for (number, node) in scan.nodes.iter().enumerate() {
        if document.level == Recorded::Indexed
            && let Some(found) = node.meta(keys::ORIGIN)
            && !found.parse::<usize>().is_ok_and(|found| found < known)
        {
            let message = format_args!("the origin `{found}` is not in the provenance table");
            findings.error("origin", Some(number), message);
        }
        if document.level != Recorded::Indexed
            && document.level != Recorded::Map
            && node.meta(keys::ORIGIN).is_some()
        {
            let message =
                format_args!("the node has an origin, but the model has no provenance table");
            findings.error("origin", Some(number), message);
        }
        if let Some(callsite) = node.meta(keys::CALLSITE) {
            let line = callsite.rsplit_once(':').map(|(_, line)| line.parse::<u32>());
            if !matches!(line, Some(Ok(_))) {
                let key = keys::CALLSITE;
                let message = format_args!("`{key}` is `{callsite}`, which is not `function:line`");
                findings.error("origin", Some(number), message);
            }
        }
        without += usize::from(document.callsites(number).is_empty());
    }
    if document.level != Recorded::Off && without > 0 {
        findings.warning("coverage", None, format_args!("nodes without a line: {without}"));
    }
}

/// Reports source files that changed since the export.
fn stale(document: &Document<'_>, sources: &Sources<'_, '_>, findings: &mut Findings) {
    let table = document.table();
    let mut files: Vec<&str> = Vec::new();
    for id in (0..table.file_count() as u32).map(provenance::FileId) {
        let file = table.get_file(id);
        if file.tier == Tier::User && &*file.path != Frame::UNKNOWN {
            files.push(&file.path);
        }
    }
    // Limits the work for models with very many files.
    for file in files.into_iter().take(1000) {
        if let Source::Changed { path } = sources.lookup(file) {
            let path = path.display();
            let message = format_args!("`{path}` has changed since the export");
            findings.warning("stale-source", None, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_machines_are_found_in_texts() {
        for (text, path) in [
            ("File \"/home/ann/model.py\", line 3", Some("/home/ann/model.py")),
            ("at C:\\Users\\ann\\m.py", Some("C:\\Users\\ann\\m.py")),
            ("/home/ann/model.py:8 (f)", Some("/home/ann/model.py")),
            ("model.py:3 (f)", None),
            ("https://example.org/home/ann", None),
            ("Transformer/tmp/dot", None),
        ] {
            assert_eq!(absolute_path(text), path, "{text}");
        }
    }
}
