//! Renders origins as text. No other module does this.

use std::fmt::Write;

use crate::codec::Encoder;
use crate::frame::{Emitter, EmitterKind};
use crate::keys;
use crate::level::Level;
use crate::paths::Paths;
use crate::table::{EmitterId, File, LocationId, OriginId, SiteId, Table};
use crate::tier::Tier;

/// A frame of the Python stack that called the export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportFrame {
    pub file: String,
    pub line: u32,
    pub function: String,
}

/// Renders origins as metadata, each distinct origin once.
pub struct Renderer<'a> {
    table: &'a Table,
    level: Level,
    paths: Paths<'a>,
    /// The stack that called the export as text, outermost first.
    export_stack: String,
    /// The origins that nodes refer to by number.
    encoder: Encoder<'a>,
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
                    format_args!(
                        "{}:{} in {}",
                        paths.shown(&frame.file),
                        frame.line,
                        frame.function
                    ),
                );
            }
        }
        Renderer { table, level, paths, export_stack: text, encoder: Encoder::new(table) }
    }

    /// Returns the metadata of a node with this origin, in a fixed order.
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
        if self.level == Level::Indexed
            && let Some(number) = self.made_number(origin)
        {
            props.push((keys::ORIGIN, number.to_string()));
        }
        if let Some(callsite) = callsite {
            props.insert(0, (keys::CALLSITE, callsite));
        }
        props
    }

    /// Returns the metadata of the model: at `indexed`, the table that all rendered nodes refer to. `hash` returns
    /// the hash of a file by its number. The files of JAX and jax2onnx have none, because the versions determine
    /// them.
    pub fn model(
        &self,
        hash: &dyn Fn(usize, &File) -> Option<String>,
    ) -> Option<(&'static str, String)> {
        if self.level != Level::Indexed {
            return None;
        }
        let files = self.files().iter().enumerate();
        let hash = |(number, file): (usize, &Option<File>)| {
            let is_recorded = |file: &&File| file.tier != Tier::Internal && file.cell.is_none();
            hash(number, file.as_ref().filter(is_recorded)?)
        };
        let hashes: Vec<Option<String>> = files.map(hash).collect();
        Some((keys::PROVENANCE, self.encoder.text(&hashes)))
    }

    /// Returns the number of an origin with a plugin. The origin of an input or a weight consists of the lines of
    /// its readers, which have their own numbers.
    pub fn made_number(&mut self, origin: OriginId) -> Option<u32> {
        let primary = self.table.get_origin(origin).primary;
        self.table.get_site(primary).emitter?;
        Some(self.number(origin))
    }

    /// Returns the number of an origin in [`Renderer::table`], at any level.
    pub fn number(&mut self, origin: OriginId) -> u32 {
        self.encoder.number(origin, &mut self.paths)
    }

    /// Returns the table of the origins that have a number, without the hashes of files.
    pub fn table(&self) -> String {
        self.encoder.text(&[])
    }

    /// Returns the files of that table, in its order, with their names on this machine; `None` if several files
    /// have the same name in the table.
    pub fn files(&self) -> &[Option<File>] {
        self.encoder.files()
    }

    fn stacktrace(&mut self, emitter: Option<EmitterId>) -> String {
        let mut text = self.export_stack.clone();
        let path = emitter.map_or_else(Vec::new, |id| self.table.emitter_path(id));
        for id in path.into_iter().rev() {
            let emitter = self.table.get_emitter(id);
            let file = emitter.shown_file(&mut self.paths);
            let name = emitter_name(emitter);
            push_line(&mut text, format_args!("{file}:{} in {name}", emitter.line));
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

    /// Returns the other call sites, in the order of their first use, without the one that is shown.
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

/// Returns the user's `function:line` of a site.
pub fn callsite(table: &Table, site: SiteId) -> Option<String> {
    let location = table.get_location(table.callsite(table.get_site(site).stack?)?);
    let function = table.get_function(location.function);
    Some(format!("{function}:{}", location.line))
}

/// `SinPlugin.lower:42`.
pub fn plugin_line(emitter: &Emitter) -> String {
    format!("{}:{}", emitter_name(emitter), emitter.line)
}

/// Returns the name of a plugin for users: `ReduceSumPlugin` for `reduce_sum`.
pub fn plugin_name(primitive: &str) -> String {
    let mut name = String::new();
    for word in primitive.split(['_', '-', ' ', '.']) {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name + "Plugin"
}

/// Returns the name of a frame of the lowering: `ReduceSumPlugin.lower`.
pub fn emitter_name(emitter: &Emitter) -> String {
    match emitter.kind {
        EmitterKind::Plugin => plugin_name(&emitter.name) + ".lower",
        _ => emitter.name.to_string(),
    }
}

fn push_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    if !text.is_empty() {
        text.push('\n');
    }
    // Writing to a string cannot fail.
    let _ = text.write_fmt(line);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use super::*;
    use crate::codec;
    use crate::frame::ScopeKind;
    use crate::level::PathPolicy;
    use crate::origin::{Origin, Site};
    use crate::testing::{Frame, frame, stack};

    /// Adds a helper that the plugin for `reduce_sum` called.
    fn helper(table: &mut Table) -> EmitterId {
        let plugin = table.emitter(Emitter {
            kind: EmitterKind::Plugin,
            name: "reduce_sum".into(),
            file: "lowering/reduce.rs".into(),
            line: 42,
            parent: None,
        });
        table.emitter(Emitter {
            kind: EmitterKind::Helper,
            name: "broadcast".into(),
            file: "lowering/shape.rs".into(),
            line: 7,
            parent: Some(plugin),
        })
    }

    fn site(table: &mut Table, frames: &[Frame<'_>]) -> SiteId {
        let stack = Some(stack(table, frames));
        let scope = Some(table.scope(None, ScopeKind::Transform, "jit(f)"));
        let emitter = Some(helper(table));
        table.site(Site { stack, scope, emitter })
    }

    /// Adds the origin of a node on the user's line 12 that absorbed line 13, line 12 again, and line 13 again.
    fn fused(table: &mut Table) -> OriginId {
        let jax = frame("/venv/site-packages/jax/numpy.py", Tier::Internal, "sum", 900);
        let main = frame("main.py", Tier::User, "<module>", 3);
        let line = |line| frame("model.py", Tier::User, "Net.__call__", line);
        let sites = [
            site(table, &[jax, line(12), main]),
            site(table, &[line(13), main]),
            site(table, &[line(12), main]),
            site(table, &[jax, line(13), main]),
        ];
        let [primary, absorbed @ ..] = sites.map(Origin::of);
        table.origin(absorbed.iter().fold(primary, |joined, other| joined.absorb(other)))
    }

    fn internal_only(table: &mut Table) -> OriginId {
        let frames = [5, 6]
            .map(|line| frame("/venv/site-packages/jax/core.py", Tier::Internal, "bind", line));
        let stack = Some(stack(table, &frames));
        let site = table.site(Site { stack, scope: None, emitter: None });
        table.origin(Origin::of(site))
    }

    fn without_frames(table: &mut Table) -> OriginId {
        let emitter = Some(helper(table));
        let site = table.site(Site { stack: None, scope: None, emitter });
        table.origin(Origin::of(site))
    }

    #[track_caller]
    fn check(level: Level, origin: impl FnOnce(&mut Table) -> OriginId, expect: &Expect) {
        let mut table = Table::default();
        let origin = origin(&mut table);
        let nothing_there = |_: &Path| false;
        let paths = Paths::new(PathPolicy::Relative, &nothing_there);
        let export = [ExportFrame {
            file: "/home/me/export.py".into(),
            line: 9,
            function: "<module>".into(),
        }];
        let mut text = String::new();
        for (key, value) in Renderer::new(&table, level, paths, &export).node(origin) {
            let key = key.strip_prefix(keys::PREFIX).unwrap();
            push_line(&mut text, format_args!("{key}: {value:?}"));
        }
        if !text.is_empty() {
            text.push('\n');
        }
        expect.assert_eq(&text);
    }

    #[test]
    fn off_is_nothing() {
        check(Level::Off, fused, &expect![[""]]);
    }

    #[test]
    fn minimal_is_the_line_the_plugin_and_the_lines_that_were_joined() {
        check(
            Level::Minimal,
            fused,
            &expect![[r#"
            callsite: "Net.__call__:12"
            plugin: "ReduceSumPlugin.lower:42"
            fused_from: "Net.__call__:13"
        "#]],
        );
    }

    #[test]
    fn full_adds_both_stacks() {
        check(
            Level::Full,
            fused,
            &expect![[r#"
            callsite: "Net.__call__:12"
            plugin: "ReduceSumPlugin.lower:42"
            stacktrace: "export.py:9 in <module>\nlowering/reduce.rs:42 in ReduceSumPlugin.lower\nlowering/shape.rs:7 in broadcast"
            jax_traceback: "jax/numpy.py:900 (sum)\nmodel.py:12 (Net.__call__)\nmain.py:3 (<module>)"
            fused_from: "Net.__call__:13"
        "#]],
        );
    }

    #[test]
    fn indexed_adds_a_number() {
        check(
            Level::Indexed,
            fused,
            &expect![[r#"
                callsite: "Net.__call__:12"
                plugin: "ReduceSumPlugin.lower:42"
                fused_from: "Net.__call__:13"
                origin: "3"
            "#]],
        );
    }

    #[test]
    fn without_a_user_the_outermost_frame_is_shown() {
        check(
            Level::Full,
            internal_only,
            &expect![[r#"
            callsite: "bind:6"
            stacktrace: "export.py:9 in <module>"
            jax_traceback: "jax/core.py:5 (bind)\njax/core.py:6 (bind)"
        "#]],
        );
    }

    #[test]
    fn without_frames_there_is_no_callsite() {
        check(
            Level::Full,
            without_frames,
            &expect![[r#"
            plugin: "ReduceSumPlugin.lower:42"
            stacktrace: "export.py:9 in <module>\nlowering/reduce.rs:42 in ReduceSumPlugin.lower\nlowering/shape.rs:7 in broadcast"
            jax_traceback: ""
        "#]],
        );
    }

    #[test]
    fn the_numbers_of_the_nodes_are_entries_of_the_models_table() {
        let mut table = Table::default();
        let unused = internal_only(&mut table);
        let origin = fused(&mut table);
        let nothing_there = |_: &Path| false;
        let paths = || Paths::new(PathPolicy::Relative, &nothing_there);
        let mut renderer = Renderer::new(&table, Level::Indexed, paths(), &[]);
        assert!(origin > unused);
        for _ in 0..2 {
            let props = renderer.node(origin);
            assert_eq!(props.last(), Some(&(keys::ORIGIN, "3".to_owned())));
        }
        let (key, text) = renderer.model(&|_, _| None).unwrap();
        assert_eq!(key, keys::PROVENANCE);
        let decoded = codec::decode(&text).unwrap();
        assert_eq!(decoded.origins.len(), 4, "the fused one, and the three that it absorbed");
        let primary = decoded.table.get_origin(decoded.origins[3]).primary;
        assert_eq!(callsite(&decoded.table, primary).as_deref(), Some("Net.__call__:12"));
        assert_eq!(Renderer::new(&table, Level::Full, paths(), &[]).model(&|_, _| None), None);
    }

    #[test]
    fn a_plugin_is_called_after_its_primitive() {
        assert_eq!(plugin_name("sin"), "SinPlugin");
        assert_eq!(plugin_name("reduce_sum"), "ReduceSumPlugin");
        assert_eq!(plugin_name("random-bits"), "RandomBitsPlugin");
    }
}
