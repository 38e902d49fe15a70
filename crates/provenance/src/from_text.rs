//! Reads origins from the texts on nodes that the levels `minimal` and `full` write.
//!
//! The texts contain lines, but neither the expressions on them nor name scopes; `minimal` contains no files.

use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::codec::encode;
use crate::frame::{Emitter, EmitterKind, Location};
use crate::level::PathPolicy;
use crate::origin::{Origin, Site};
use crate::paths::Paths;
use crate::render::plugin_name;
use crate::table::{EmitterId, OriginId, SiteId, StackId, Table};
use crate::tier::Tier;

/// The metadata of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeTexts<'a> {
    pub callsite: Option<&'a str>,
    pub plugin: Option<&'a str>,
    pub stacktrace: Option<&'a str>,
    pub jax_traceback: Option<&'a str>,
    pub fused_from: Option<&'a str>,
}

/// The provenance in the texts of a model.
#[derive(Clone, Debug)]
pub struct FromText {
    /// The table, as the level `indexed` would write it.
    pub table: String,
    /// The number of the origin of each node.
    pub origins: Vec<Option<u32>>,
    /// The information of that level that the texts do not contain.
    pub lost: Vec<&'static str>,
}

/// The file of a frame if only the function and the line are known.
pub const UNKNOWN_FILE: &str = "<unknown>";

/// A frame in a text: file, line, function.
type FrameText<'a> = (&'a str, u32, &'a str);

/// Reads the texts of all nodes; returns `None` if no node has any.
pub fn read(nodes: &[NodeTexts<'_>]) -> Option<FromText> {
    if nodes.iter().all(|node| node.callsite.is_none() && node.plugin.is_none()) {
        return None;
    }
    let mut lost = vec!["the columns of expressions", "name scopes and transformations"];
    if nodes.iter().all(|node| node.jax_traceback.is_none()) {
        lost.extend(["call paths", "the names of files"]);
    }
    let paths: Vec<Vec<FrameText<'_>>> = nodes.iter().map(call_path).collect();
    let mut reader =
        Reader { table: Table::default(), users: users(nodes, &paths), places: places(&paths) };
    let origins: Vec<Option<OriginId>> =
        nodes.iter().zip(&paths).map(|(node, path)| reader.origin(node, path)).collect();
    let known: Vec<OriginId> = origins.iter().copied().flatten().collect();
    let nothing_there = |_: &Path| false;
    // The model already contains the final names of files.
    let mut paths = Paths::new(PathPolicy::Absolute, &nothing_there);
    let document = encode(&reader.table, &known, &mut paths);
    let number = |origin: OriginId| document.numbers.get(&origin).copied();
    let origins = origins.into_iter().map(|origin| origin.and_then(number)).collect();
    Some(FromText { table: document.text, origins, lost })
}

struct Reader<'a> {
    table: Table,
    /// The files of the user.
    users: FxHashSet<&'a str>,
    /// The file of each function and line, if it is unique.
    places: FxHashMap<(u32, &'a str), Option<&'a str>>,
}

impl<'a> Reader<'a> {
    fn origin(&mut self, node: &NodeTexts<'a>, path: &[FrameText<'a>]) -> Option<OriginId> {
        node.callsite.or(node.plugin)?;
        let emitter = self.emitter(node);
        let stack = match (path, node.callsite.and_then(function_and_line)) {
            ([], Some((function, line))) => Some(self.callsite(function, line)),
            _ => self.stack(path),
        };
        let primary = self.table.site(Site { stack, scope: None, emitter });
        let mut origin = Origin::of(primary);
        for other in node.fused_from.unwrap_or_default().lines() {
            if let Some((function, line)) = function_and_line(other) {
                let stack = Some(self.callsite(function, line));
                let site: SiteId = self.table.site(Site { stack, scope: None, emitter: None });
                origin = origin.absorb(&Origin::of(site));
            }
        }
        Some(self.table.origin(origin))
    }

    /// Returns a call path that contains only the user's line.
    fn callsite(&mut self, function: &'a str, line: u32) -> StackId {
        let file = self.places.get(&(line, function)).copied().flatten();
        self.push(None, (file.unwrap_or(UNKNOWN_FILE), line, function), Tier::User)
    }

    fn stack(&mut self, path: &[FrameText<'a>]) -> Option<StackId> {
        path.iter().rev().fold(None, |caller, &place| {
            let is_user = self.users.contains(place.0);
            Some(self.push(caller, place, if is_user { Tier::User } else { Tier::Internal }))
        })
    }

    fn push(&mut self, caller: Option<StackId>, place: FrameText<'a>, tier: Tier) -> StackId {
        let (file, line, function) = place;
        let file = self.table.file(file, tier);
        let function = self.table.function(function);
        let location = self.table.location(Location { file, function, line, span: None });
        self.table.push(caller, location)
    }

    /// Returns the plugin and the functions that it called: the last lines of the stack of the export.
    fn emitter(&mut self, node: &NodeTexts<'a>) -> Option<EmitterId> {
        let (plugin, line) = function_and_line(node.plugin?)?;
        let frames: Vec<FrameText<'_>> =
            node.stacktrace.unwrap_or_default().lines().filter_map(lowering_frame).collect();
        let is_plugin = |&(_, at, name): &FrameText<'_>| (name, at) == (plugin, line);
        let Some(first) = frames.iter().position(is_plugin) else {
            let place = (UNKNOWN_FILE, line, plugin);
            return Some(self.push_emitter(None, place, EmitterKind::PythonPlugin));
        };
        frames[first..].iter().enumerate().fold(None, |parent, (depth, &place)| {
            let kind = match (depth, is_rust(place.0)) {
                (0, _) => EmitterKind::PythonPlugin,
                (_, true) => EmitterKind::Helper,
                (_, false) => EmitterKind::PythonHelper,
            };
            Some(self.push_emitter(parent, place, kind))
        })
    }

    fn push_emitter(
        &mut self,
        parent: Option<EmitterId>,
        (file, line, shown): FrameText<'_>,
        kind: EmitterKind,
    ) -> EmitterId {
        let primitive = primitive(shown).filter(|_| kind == EmitterKind::PythonPlugin);
        let (kind, name) = match primitive {
            Some(primitive) if is_rust(file) || file == UNKNOWN_FILE => {
                (EmitterKind::Plugin, primitive)
            }
            _ => (kind, shown.to_owned()),
        };
        self.table.emitter(Emitter { kind, name: name.into(), file: file.into(), line, parent })
    }
}

/// Returns `reduce_sum` for `ReduceSumPlugin.lower`, if the conversion can be reversed.
fn primitive(shown: &str) -> Option<String> {
    let plugin = shown.strip_suffix(".lower")?;
    let mut primitive = String::new();
    for c in plugin.strip_suffix("Plugin")?.chars() {
        if c.is_ascii_uppercase() && !primitive.is_empty() {
            primitive.push('_');
        }
        primitive.push(c.to_ascii_lowercase());
    }
    (plugin_name(&primitive) == plugin).then_some(primitive)
}

/// True if a file belongs to jax2onnx, and not to a plugin written in Python.
fn is_rust(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|extension| extension == "rs")
}

/// Returns the files that contain call sites but no frame that a call site called.
fn users<'a>(nodes: &[NodeTexts<'a>], paths: &[Vec<FrameText<'a>>]) -> FxHashSet<&'a str> {
    let mut users = FxHashSet::default();
    let mut others = FxHashSet::default();
    for (node, path) in nodes.iter().zip(paths) {
        let Some((function, line)) = node.callsite.and_then(function_and_line) else { continue };
        let is_callsite = |place: &FrameText<'_>| (place.2, place.1) == (function, line);
        if let Some(found) = path.iter().position(is_callsite) {
            users.insert(path[found].0);
            others.extend(path[..found].iter().map(|place| place.0));
        }
    }
    users.retain(|file| !others.contains(file));
    users
}

fn places<'a>(paths: &[Vec<FrameText<'a>>]) -> FxHashMap<(u32, &'a str), Option<&'a str>> {
    let mut places = FxHashMap::default();
    for &(file, line, function) in paths.iter().flatten() {
        places
            .entry((line, function))
            .and_modify(|known: &mut Option<&str>| *known = known.filter(|&known| known == file))
            .or_insert(Some(file));
    }
    places
}

/// `path:line (function)`, innermost first.
fn call_path<'a>(node: &NodeTexts<'a>) -> Vec<FrameText<'a>> {
    let frame = |text: &'a str| {
        let (place, function) = text.strip_suffix(')')?.split_once(" (")?;
        let (file, line) = place.rsplit_once(':')?;
        Some((file, line.parse().ok()?, function))
    };
    node.jax_traceback.unwrap_or_default().lines().filter_map(frame).collect()
}

/// `path:line in function`
fn lowering_frame(text: &str) -> Option<FrameText<'_>> {
    let (place, function) = text.split_once(" in ")?;
    let (file, line) = place.rsplit_once(':')?;
    Some((file, line.parse().ok()?, function))
}

/// `function:line`
fn function_and_line(text: &str) -> Option<(&str, u32)> {
    let (function, line) = text.rsplit_once(':')?;
    Some((function, line.parse().ok()?))
}
