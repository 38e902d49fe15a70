//! Formats costs for people and for programs.

use std::fmt::Write;

use onnx::sized::{SymbolOf, SymbolUse};
use onnx::{Dim, Total};
use provenance::report::excerpt::width;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value, json};

use super::memory::Peak;
use super::{Amounts, By, Costs, Roofline, Row};
use crate::json::frame_with_source;
use crate::show::clean;
use crate::text::{bytes, count};
use crate::{Document, Sources, Style};

/// The minimum width of the operators in a row, in columns.
const MIN_OPS: usize = 8;
const MAX_OPS: usize = 100;

/// The width of the numbers in a row, with the space after them.
const NUMBERS: usize = 50;

/// Formats a table of at most `top` rows, the largest cost first, and what the costs depend on.
pub fn text(
    costs: &Costs<'_>,
    document: &Document<'_>,
    top: usize,
    sources: &Sources<'_, '_>,
    style: Style,
) -> String {
    let rows = costs.rows.as_ref().unwrap_or(&costs.lines);
    let has_numbers = costs.total.numbers.all().iter().all(|total| total.known().is_some());
    let mut text = String::new();
    if has_numbers {
        table(&mut text, costs, rows, top, sources, style);
    } else {
        formulas(&mut text, costs, rows, top, sources, style);
    }
    for note in notes(costs, document) {
        let _ = writeln!(text, "\nnote: {}", style.hanging(&clean(&note), "note: ".len()));
    }
    if let Some(missing) = costs.missing {
        let _ = writeln!(text, "\nhint: {}", style.hanging(missing, "hint: ".len()));
    }
    text
}

/// Writes numbers, which are known.
fn table(
    text: &mut String,
    costs: &Costs<'_>,
    rows: &[Row<'_>],
    top: usize,
    sources: &Sources<'_, '_>,
    style: Style,
) {
    let Amounts { flops, transcendentals, operations, bytes_read, bytes_written, weights } =
        &costs.total.numbers;
    let known = |total: &Total| total.known().unwrap_or_default();
    let memory = |total: &Total| bytes(u64::try_from(known(total)).unwrap_or_default());
    let _ = write!(text, "{}flop", number(known(flops)));
    for (total, name) in
        [(transcendentals, "transcendental functions"), (operations, "other operations")]
    {
        if known(total) != 0 {
            let _ = write!(text, ", {} {name}", number(known(total)).trim_end());
        }
    }
    let _ = write!(
        text,
        "\n{} read, {} written, {} of weights",
        memory(bytes_read),
        memory(bytes_written),
        memory(weights)
    );
    if let Some(intensity) = costs.total.numbers.intensity() {
        let _ = write!(text, "; {intensity:.2} flop per byte");
    }
    let _ = writeln!(
        text,
        "\n\n{}",
        style.bold(&format!(
            "{:>8} {:>6} {:>8} {:>8} {:>10}  {}",
            "flop",
            "share",
            "trans.",
            "other",
            "bytes",
            costs.by.word()
        ))
    );
    let whole = costs.total.numbers.computed().unwrap_or_default();
    for row in rows.iter().take(top) {
        let start = numbers(&row.numbers, whole);
        let _ = writeln!(text, "{start}  {}", key(row, costs.by, NUMBERS, style));
        source(text, row, costs.by, NUMBERS + 2, sources, style);
    }
    rest(text, rows, top);
}

/// Returns the numbers of a row. The share is that of all operations.
fn numbers(amounts: &Amounts, whole: i128) -> String {
    let known = |total: &Total| total.known().unwrap_or_default();
    let computed = amounts.computed().unwrap_or_default();
    let share = if whole > 0 { computed as f64 * 100.0 / whole as f64 } else { 0.0 };
    let moved = known(&amounts.bytes_read).saturating_add(known(&amounts.bytes_written));
    format!(
        "{:>8} {:>6} {:>8} {:>8} {:>10}",
        number(known(&amounts.flops)).trim_end(),
        format!("{share:.1} %"),
        number(known(&amounts.transcendentals)).trim_end(),
        number(known(&amounts.operations)).trim_end(),
        bytes(u64::try_from(moved).unwrap_or_default())
    )
}

/// Writes formulas.
fn formulas(
    text: &mut String,
    costs: &Costs<'_>,
    rows: &[Row<'_>],
    top: usize,
    sources: &Sources<'_, '_>,
    style: Style,
) {
    let _ = writeln!(text, "{}", style.bold("total"));
    amounts(text, &costs.total.formulas, style);
    for row in rows.iter().take(top) {
        let _ = writeln!(text, "\n{}", key(row, costs.by, 0, style));
        source(text, row, costs.by, 4, sources, style);
        amounts(text, &row.formulas, style);
    }
    rest(text, rows, top);
}

fn rest(text: &mut String, rows: &[Row<'_>], top: usize) {
    if rows.len() > top {
        let _ = writeln!(text, "… {} more", rows.len() - top);
    }
}

/// Writes the formulas that are not 0.
fn amounts(text: &mut String, amounts: &Amounts, style: Style) {
    const LABELS: [&str; 6] = ["flop", "transcendental", "other", "read", "written", "weights"];
    for (place, (label, total)) in LABELS.iter().zip(amounts.all()).enumerate() {
        let formula = match (total.known(), total.formula()) {
            (Some(0), _) => continue,
            (Some(known), _) if place < 3 => number(known).trim_end().to_owned(),
            (Some(known), _) => bytes(u64::try_from(known).unwrap_or_default()),
            (None, Some(formula)) if place < 3 => formula,
            (None, Some(formula)) => format!("{formula} bytes"),
            (None, None) => "(a very long formula)".to_owned(),
        };
        let _ = writeln!(text, "{label:>18}  {}", style.hanging(&clean(&formula), 20));
    }
}

fn key(row: &Row<'_>, by: By, start: usize, style: Style) -> String {
    let key = match &row.key {
        Some(key) if key.is_empty() => "(no scope)".to_owned(),
        Some(key) => clean(key),
        None => "(not known)".to_owned(),
    };
    let room = style.width.saturating_sub(start);
    // The end of a path is more informative than its start.
    let key = match by {
        By::Module | By::Node => style.fit_end(&key, room),
        _ => style.fit(&key, room),
    };
    let room = room.saturating_sub(width(&key) + "  []".len()).min(MAX_OPS);
    if by == By::Operator || room < MIN_OPS {
        return key;
    }
    let ops: Vec<String> = row.ops.iter().map(|op| clean(op)).collect();
    format!("{key}  {}", style.dim(&format!("[{}]", style.list(&ops, room))))
}

fn source(
    text: &mut String,
    row: &Row<'_>,
    by: By,
    start: usize,
    sources: &Sources<'_, '_>,
    style: Style,
) {
    if let (By::Line, Some(frame)) = (by, &row.frame)
        && let (_, Some(source)) = sources.line(frame)
    {
        let source = style.fit(&clean(source.trim()), style.width.saturating_sub(start));
        let _ = writeln!(text, "{:start$}{}", "", style.dim(&source));
    }
}

/// Formats a number with three digits and a prefix, such as `1.77 G`. A space follows it.
pub(super) fn number(number: i128) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    if number < 1000 {
        return format!("{number} ");
    }
    let (mut size, mut prefix) = (number as f64, 0);
    while size >= 999.5 && prefix + 1 < PREFIXES.len() {
        size /= 1000.0;
        prefix += 1;
    }
    let digits = match size {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{size:.digits$} {}", PREFIXES[prefix])
}

/// Returns sentences about symbols, branches, and nodes without a cost.
fn notes(costs: &Costs<'_>, document: &Document<'_>) -> Vec<String> {
    const MAX: usize = 8;
    let open = costs.symbols.iter().filter(|symbol| symbol.size.is_none());
    let mut notes: Vec<String> = open.filter_map(|symbol| meaning(symbol, document)).collect();
    if notes.len() > MAX {
        let more = notes.len() - MAX;
        notes.truncate(MAX);
        notes.push(format!("… and {}", count(more, "further size")));
    }
    if costs.branches > 0 {
        let branches = count(costs.branches, "branch").replace("branchs", "branches");
        notes.push(format!("an If counts as the branch that costs more: {branches} did not count"));
    }
    for it in costs.uncounted.iter().take(MAX) {
        let nodes = format!("{} `{}`", count(it.nodes, "node"), it.op);
        let first = place(it.first, document);
        let which = if it.nodes == 1 { "at" } else { "the first at" };
        notes.push(format!("{nodes} did not count, {which} {first}: {}", it.why));
    }
    if costs.uncounted.len() > MAX {
        let more = count(costs.uncounted.len() - MAX, "other operator");
        notes.push(format!("nodes of {more} did not count"));
    }
    notes
}

/// Returns the line of a node, or its name.
fn place(node: usize, document: &Document<'_>) -> String {
    match document.callsites(node).first() {
        Some(&line) => document.frame(line).to_string(),
        None => format!("`{}`", document.node_name(node)),
    }
}

/// Returns a sentence about a symbol that the file does not name.
fn meaning(symbol: &SymbolUse, document: &Document<'_>) -> Option<String> {
    let name = &symbol.name;
    Some(match &symbol.of {
        SymbolOf::Axis(text) if text == name => return None,
        SymbolOf::Axis(text) => format!("`{name}` is the size `{text}`"),
        SymbolOf::Input { value, axis } => {
            format!("`{name}` is the size of axis {axis} of the input `{value}`")
        }
        SymbolOf::Steps { node, most } => {
            let at = place(*node, document);
            let most = most.as_ref().and_then(Total::of).and_then(|most| most.formula());
            let most = most.map_or_else(String::new, |most| format!(", at most {most}"));
            format!("`{name}` is the number of steps of the loop at {at}{most}")
        }
        SymbolOf::Value { node, axis } => {
            let at = place(*node, document);
            format!("`{name}` is the size of axis {axis} of a value that is computed at {at}")
        }
    })
}

/// The costs as JSON, which `docs/json-formats.md` describes.
pub struct Json<'s, 'd, 'a> {
    pub costs: &'s Costs<'d>,
    pub peak: &'s Peak<'d>,
    /// The rates in a profile, if there is one.
    pub roofline: Option<&'s Roofline<'d>>,
    pub document: &'s Document<'a>,
    /// The name of the model.
    pub name: &'s str,
    pub sources: &'s Sources<'d, 'a>,
}

impl Serialize for Json<'_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Json { costs, peak, roofline, document, name, sources } = self;
        let symbols = costs.symbols.iter().map(|symbol| describe(symbol, document));
        let uncounted = costs.uncounted.iter().map(|it| {
            json!({
                "op": it.op,
                "why": it.why.to_string(),
                "nodes": it.nodes,
                "node": document.node_name(it.first),
                "place": place(it.first, document),
            })
        });
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &1)?;
        map.serialize_entry("model", name)?;
        map.serialize_entry("symbols", &symbols.collect::<Vec<Value>>())?;
        map.serialize_entry("total", &described(&costs.total))?;
        map.serialize_entry("lines", &Rows(self, &costs.lines))?;
        map.serialize_entry("peak", &peak.json(document, sources))?;
        map.serialize_entry("by", costs.by.word())?;
        if let Some(rows) = &costs.rows {
            map.serialize_entry("rows", &Rows(self, rows))?;
        }
        map.serialize_entry("roofline", &roofline.map(|it| it.json(sources)))?;
        map.serialize_entry("branches", &costs.branches)?;
        map.serialize_entry("uncounted", &uncounted.collect::<Vec<Value>>())?;
        map.end()
    }
}

impl Json<'_, '_, '_> {
    fn row(&self, row: &Row<'_>) -> Value {
        let frame = row.frame.as_ref();
        let mut map = described(row);
        let source = frame.map(|frame| frame_with_source(frame, self.sources));
        let part = |name: &str| source.as_ref().map_or(Value::Null, |it| it[name].clone());
        map.insert("key".to_owned(), json!(row.key));
        for name in ["file", "line", "function", "text"] {
            map.insert(name.to_owned(), part(name));
        }
        map.insert("nodes".to_owned(), json!(row.nodes));
        map.insert("ops".to_owned(), json!(row.ops));
        Value::Object(map)
    }
}

/// Returns the sums of a row as numbers and as formulas.
fn described(row: &Row<'_>) -> Map<String, Value> {
    let mut map = Map::new();
    let mut formulas = Map::new();
    let totals = row.numbers.all().into_iter().zip(row.formulas.all());
    for (name, (number, formula)) in Amounts::NAMES.into_iter().zip(totals) {
        map.insert(name.to_owned(), number.known().map_or(Value::Null, integer));
        formulas.insert(name.to_owned(), json!(formula.formula()));
    }
    map.insert("intensity".to_owned(), json!(row.numbers.intensity()));
    map.insert("formulas".to_owned(), Value::Object(formulas));
    map
}

/// Returns a number as JSON; one of more than 64 bits is rounded.
pub(super) fn integer(number: i128) -> Value {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => number.into(),
        (_, Ok(number)) => number.into(),
        _ => (number as f64).into(),
    }
}

fn describe(symbol: &SymbolUse, document: &Document<'_>) -> Value {
    let most = |most: &Option<Dim>| most.as_ref().and_then(Total::of)?.formula();
    let mut value = match &symbol.of {
        SymbolOf::Axis(text) => json!({"kind": "name", "text": **text}),
        SymbolOf::Input { value, axis } => json!({"kind": "input", "input": **value, "axis": axis}),
        SymbolOf::Steps { node, most: limit } => {
            json!({"kind": "steps", "place": place(*node, document), "most": most(limit)})
        }
        SymbolOf::Value { node, axis } => {
            json!({"kind": "value", "place": place(*node, document), "axis": axis})
        }
    };
    value["name"] = json!(*symbol.name);
    value["size"] = json!(symbol.size);
    value
}

struct Rows<'j, 's, 'd, 'a>(&'j Json<'s, 'd, 'a>, &'j [Row<'d>]);

impl Serialize for Rows<'_, '_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.1.iter().map(|row| self.0.row(row)))
    }
}
