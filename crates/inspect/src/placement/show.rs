//! Formats a placement for people and for programs.

use std::fmt::Write;

use provenance::report::excerpt::width;
use serde_json::{Value, json};

use super::{Copy, PlacedLine, Placement};
use crate::json::frame_with_source;
use crate::profile::{CPU, Direction};
use crate::show::clean;
use crate::text::{bytes, count};
use crate::{Frame, Sources, Style};

/// The width of the names of providers.
const PROVIDER: usize = 10;
/// The column in which the lines start.
const START: usize = 26;
/// The minimum and maximum width of the operators of a line, in columns.
const MIN_OPS: usize = 8;
const MAX_OPS: usize = 100;
/// The maximum number of copies to list for a line.
const MAX_COPIES: usize = 4;

/// Describes a placement: `36 of 40 nodes run on CUDAExecutionProvider; 2 lines run on the CPU and cost 4 copies`.
pub fn sentence(placement: &Placement<'_>) -> String {
    let Some(main) = placement.main() else {
        return "ONNX Runtime does not say where the nodes run".to_owned();
    };
    let providers = &placement.providers;
    let nodes_of = |wanted: Option<&str>| {
        let found = providers.iter().find(|(provider, _)| provider.as_deref() == wanted);
        found.map_or(0, |(_, nodes)| *nodes)
    };
    let nodes = count(placement.nodes(), "node");
    let mut text = format!("{} of {nodes} run on {main}", nodes_of(Some(main)));
    let is_elsewhere =
        |line: &&PlacedLine<'_>| line.elsewhere(Some(main)).any(|node| node.provider.is_some());
    let elsewhere: Vec<&PlacedLine<'_>> = placement.lines.iter().filter(is_elsewhere).collect();
    let lines = elsewhere.iter().filter(|line| line.frame.is_some()).count();
    let copies = placement.copies().count();
    if elsewhere.is_empty() {
        if copies > 0 {
            let _ = write!(text, ", with {}", cost(placement, copies));
        }
    } else {
        let mut others = providers.iter().filter_map(|(provider, _)| provider.as_deref());
        let is_cpu = others.all(|other| other == main || other == CPU);
        let other = if is_cpu { "the CPU" } else { "other providers" };
        let (lines, verb) = match lines {
            0 => ("nodes without a line run".to_owned(), "cost"),
            1 => ("1 line runs".to_owned(), "costs"),
            lines => (format!("{lines} lines run"), "cost"),
        };
        let _ = write!(text, "; {lines} on {other}");
        let _ = match copies {
            _ if !placement.knows_copies => Ok(()),
            0 => write!(text, ", without copies"),
            copies => write!(text, " and {verb} {}", cost(placement, copies)),
        };
    }
    let unknown = nodes_of(None);
    if unknown > 0 {
        let nodes = count(unknown, "node");
        let _ = write!(text, "; for {nodes}, ONNX Runtime does not say where: profile the model");
    }
    text
}

/// `4 copies`, or `4 copies (96 B in each run)` if all sizes are known.
fn cost(placement: &Placement<'_>, copies: usize) -> String {
    let text = copies_text(copies);
    let size = |copy: &Copy<'_>| copy.bytes?.checked_mul(copy.calls?);
    let mut sizes = placement.copies().map(size);
    match sizes.try_fold(0u64, |all, size| all.checked_add(size?)) {
        Some(total) => format!("{text} ({} in each run)", bytes(total)),
        None => text,
    }
}

fn copies_text(copies: usize) -> String {
    if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") }
}

/// Formats the sentence and the table.
pub fn report(
    placement: &Placement<'_>,
    top: usize,
    sources: &Sources<'_, '_>,
    style: Style,
) -> String {
    let sentence = style.wrapped(&clean(&sentence(placement)), 0, 0).join("\n");
    match text(placement, top, sources, style) {
        table if table.is_empty() => format!("{sentence}\n"),
        table => format!("{sentence}\n\n{table}"),
    }
}

/// Formats a table of at most `top` lines that other providers run or that need copies. Returns an empty text if
/// there are none.
pub fn text(
    placement: &Placement<'_>,
    top: usize,
    sources: &Sources<'_, '_>,
    style: Style,
) -> String {
    let main = placement.main();
    let is_shown =
        |line: &&PlacedLine<'_>| !line.copies.is_empty() || line.elsewhere(main).next().is_some();
    let lines: Vec<&PlacedLine<'_>> = placement.lines.iter().filter(is_shown).collect();
    if lines.is_empty() {
        return String::new();
    }
    let heading = format!("{:>5} {:>6}  {:PROVIDER$}  line", "nodes", "copies", "provider");
    let mut text = format!("{}\n", style.bold(&heading));
    for line in lines.iter().take(top) {
        let _ = writeln!(text, "{}", row(placement, line, style));
        let mut below = |part: &str| {
            let part = style.fit(&clean(part), style.width.saturating_sub(START));
            let _ = writeln!(text, "{:START$}{}", "", style.dim(&part));
        };
        if let Some(frame) = &line.frame
            && let (_, Some(source)) = sources.line(frame)
        {
            below(source.trim());
        }
        line.copies.iter().take(MAX_COPIES).for_each(|copy| below(&describe_copy(copy)));
        if line.copies.len() > MAX_COPIES {
            below(&format!("… {} more", copies_text(line.copies.len() - MAX_COPIES)));
        }
        if let Some(advice) = &line.advice {
            let advice = style.hanging(&format!("help: {}", clean(advice)), START);
            let _ = writeln!(text, "{:START$}{advice}", "");
        }
    }
    if lines.len() > top {
        let _ = writeln!(text, "… {} more", lines.len() - top);
    }
    text
}

/// Formats the numbers, the providers and the operators of a line.
fn row(placement: &Placement<'_>, line: &PlacedLine<'_>, style: Style) -> String {
    let main = placement.main();
    let nodes = line.elsewhere(main).count();
    let copies = match placement.knows_copies {
        true => line.copies.len().to_string(),
        false => "?".to_owned(),
    };
    let mut providers: Vec<&str> = Vec::new();
    let mut ops: Vec<String> = Vec::new();
    for node in line.elsewhere(main) {
        providers.push(node.provider.as_deref().map_or("not known", short));
        ops.push(clean(&node.op));
    }
    providers.sort_unstable();
    providers.dedup();
    ops.sort_unstable();
    ops.dedup();
    let providers = style.fit(&clean(&providers.join(", ")), PROVIDER);
    let pad = PROVIDER.saturating_sub(width(&providers));
    let room = style.width.saturating_sub(START);
    let key = line.frame.map_or_else(|| "(not known)".to_owned(), |it| clean(&it.to_string()));
    let key = style.fit(&key, room);
    let room = room.saturating_sub(width(&key) + "  []".len()).min(MAX_OPS);
    let ops = match room < MIN_OPS || ops.is_empty() {
        true => String::new(),
        false => format!("  {}", style.dim(&format!("[{}]", style.list(&ops, room)))),
    };
    format!("{nodes:>5} {copies:>6}  {providers}{:pad$}  {key}{ops}", "")
}

/// Describes a copy: `copies tanh, f32[8,8], to the CPU, 3 times in each run`.
pub fn describe_copy(copy: &Copy<'_>) -> String {
    let value = copy.value.as_deref().unwrap_or("a value");
    let ty = copy.ty.as_ref().map(|ty| format!(", {ty},")).unwrap_or_default();
    let direction = match copy.direction {
        Direction::ToCpu => "to",
        Direction::FromCpu => "from",
    };
    let calls = match copy.calls {
        Some(calls) if calls > 1 => format!(", {calls} times in each run"),
        _ => String::new(),
    };
    format!("copies {value}{ty} {direction} the CPU{calls}")
}

/// Returns the name of a provider without its ending: `CUDA`.
fn short(provider: &str) -> &str {
    provider.strip_suffix("ExecutionProvider").filter(|it| !it.is_empty()).unwrap_or(provider)
}

/// Returns a placement as JSON, which `docs/profile.md` describes.
pub fn json(placement: &Placement<'_>, sources: &Sources<'_, '_>) -> Value {
    let frame = |frame: &Option<Frame<'_>>| frame.map(|it| frame_with_source(&it, sources));
    let copy = |copy: &Copy<'_>| {
        let to = copy.to.iter().map(|it| frame_with_source(it, sources));
        json!({
            "node": copy.node,
            "direction": copy.direction.word(),
            "value": copy.value,
            "type": copy.ty,
            "bytes": copy.bytes,
            "calls": copy.calls,
            "from": frame(&copy.from),
            "to": to.collect::<Vec<_>>(),
        })
    };
    let line = |line: &PlacedLine<'_>| {
        let known = line.nodes.iter().filter_map(|node| node.provider.as_deref());
        let mut providers: Vec<&str> = known.collect();
        providers.sort_unstable();
        providers.dedup();
        let nodes = line.nodes.iter().map(|node| {
            json!({ "node": &*node.name, "op": &*node.op, "provider": node.provider.as_deref() })
        });
        json!({
            "line": frame(&line.frame),
            "providers": providers,
            "nodes": nodes.collect::<Vec<_>>(),
            "copies": line.copies.iter().map(copy).collect::<Vec<_>>(),
            "advice": line.advice,
        })
    };
    let providers = placement
        .providers
        .iter()
        .map(|(provider, nodes)| json!({ "provider": provider.as_deref(), "nodes": nodes }));
    json!({
        "summary": sentence(placement),
        "source": placement.source.word(),
        "providers": providers.collect::<Vec<_>>(),
        "copies": placement.knows_copies.then(|| placement.copies().count()),
        "lines": placement.lines.iter().map(line).collect::<Vec<_>>(),
    })
}
