//! The only place where an origin becomes text.

use std::fmt::Write;

use crate::frame::{Emitter, EmitterKind};
use crate::keys;
use crate::level::Level;
use crate::paths::Paths;
use crate::table::{EmitterId, LocationId, OriginId, SiteId, Table};

/// A frame of the Python stack that called the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFrame {
    pub file: String,
    pub line: u32,
    pub function: String,
}

/// Turns origins into metadata, each distinct origin once.
pub struct Renderer<'a> {
    table: &'a Table,
    level: Level,
    paths: Paths<'a>,
    /// The stack that called the export, outermost first, already as text.
    export_stack: String,
}

impl<'a> Renderer<'a> {
    pub fn new(
        table: &'a Table,
        level: Level,
        mut paths: Paths<'a>,
        export_stack: &[ExportFrame],
    ) -> Renderer<'a> {
        let mut text = String::new();
        if level == Level::Full {
            for frame in export_stack {
                push_line(
                    &mut text,
                    format_args!("{}:{} in {}", paths.shown(&frame.file), frame.line, frame.function),
                );
            }
        }
        Renderer {
            table,
            level,
            paths,
            export_stack: text,
        }
    }

    /// The metadata of a node with this origin, in a fixed order.
    pub fn node(&mut self, origin: OriginId) -> Vec<(&'static str, String)> {
        let mut props = Vec::new();
        if self.level == Level::Off {
            return props;
        }
        let primary = self.table.get_origin(origin).primary;
        let callsite = callsite(self.table, primary);
        let site = self.table.get_site(primary);
        if let Some(emitter) = site.emitter.and_then(|id| self.table.plugin_of(id)) {
            props.push((keys::PLUGIN, plugin_line(self.table.get_emitter(emitter))));
        }
        if self.level == Level::Full {
            props.push((keys::STACKTRACE, self.stacktrace(site.emitter)));
            let traceback = site.stack.map(|stack| self.traceback(self.table.frames(stack)));
            props.push((keys::JAX_TRACEBACK, traceback.unwrap_or_default()));
        }
        let fused = self.fused_from(origin, callsite.as_deref());
        if !fused.is_empty() {
            props.push((keys::FUSED_FROM, fused));
        }
        if self.level == Level::Indexed {
            props.push((keys::ORIGIN, origin.0.to_string()));
        }
        if let Some(callsite) = callsite {
            props.insert(0, (keys::CALLSITE, callsite));
        }
        props
    }

    fn stacktrace(&self, emitter: Option<EmitterId>) -> String {
        let mut text = self.export_stack.clone();
        let path = emitter.map_or_else(Vec::new, |id| self.table.emitter_path(id));
        for id in path.into_iter().rev() {
            let emitter = self.table.get_emitter(id);
            push_line(
                &mut text,
                format_args!("{}:{} in {}", emitter.file, emitter.line, emitter_name(emitter)),
            );
        }
        text
    }

    fn traceback(&mut self, frames: impl Iterator<Item = LocationId>) -> String {
        let mut text = String::new();
        for id in frames {
            let location = self.table.get_location(id);
            let file = self.paths.shown(&self.table.get_file(location.file).path);
            let function = self.table.get_function(location.function);
            push_line(&mut text, format_args!("{file}:{} ({function})", location.line));
        }
        text
    }

    /// The other call sites, in the order of their first use, without the one that is shown.
    fn fused_from(&self, origin: OriginId, shown: Option<&str>) -> String {
        let mut others: Vec<String> = Vec::new();
        for &site in &self.table.get_origin(origin).absorbed {
            if let Some(other) = callsite(self.table, site)
                && Some(other.as_str()) != shown
                && !others.contains(&other)
            {
                others.push(other);
            }
        }
        others.join("\n")
    }
}

/// `function:line` of the user's code that a site is about.
pub fn callsite(table: &Table, site: SiteId) -> Option<String> {
    let location = table.get_location(table.callsite(table.get_site(site).stack?)?);
    let function = table.get_function(location.function);
    Some(format!("{function}:{}", location.line))
}

/// `SinPlugin.lower:42`.
pub fn plugin_line(emitter: &Emitter) -> String {
    format!("{}:{}", emitter_name(emitter), emitter.line)
}

/// The name that users meet: `reduce_sum` is `ReduceSumPlugin`.
pub fn plugin_name(primitive: &str) -> String {
    let mut name = String::new();
    for word in primitive.split(['_', '-', ' ', '.']) {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name + "Plugin"
}

fn emitter_name(emitter: &Emitter) -> String {
    match emitter.kind {
        EmitterKind::Plugin => plugin_name(&emitter.name) + ".lower",
        EmitterKind::Helper => emitter.name.to_string(),
    }
}

fn push_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    if !text.is_empty() {
        text.push('\n');
    }
    // Writing into a string cannot fail.
    let _ = text.write_fmt(line);
}
