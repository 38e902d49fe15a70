//! Reads the provenance that torch.onnx writes.
//!
//! The exporter of torch 2.5 and later writes metadata: the user's stack trace, and the names and classes of the
//! modules. The older exporter optionally writes frames into the doc string, and names nodes by the path of their
//! module.

use std::path::Path;
use std::sync::Arc;

use onnx::scan::{Node, Scan};
use provenance::codec::Decoded;
use provenance::{
    Emitter, EmitterKind, Location, Origin, ScopeId, ScopeKind, Site, StackId, Table, Tiers,
};
use rustc_hash::FxHashMap;

const STACK_TRACE: &str = "pkg.torch.onnx.stack_trace";
const NAME_SCOPES: &str = "pkg.torch.onnx.name_scopes";
const CLASSES: &str = "pkg.torch.onnx.class_hierarchy";
const NAMESPACE: &str = "namespace";

/// Source lines that the model contains, by file and line.
pub(crate) type Lines = FxHashMap<(Arc<str>, u32), Box<str>>;

/// The provenance in the texts of a model.
pub(crate) struct Foreign {
    pub(crate) provenance: Decoded,
    /// The number of the origin of each node.
    pub(crate) origins: Vec<Option<u32>>,
    pub(crate) lines: Lines,
}

/// A frame in a text.
#[derive(Debug, PartialEq, Eq)]
struct Written<'a> {
    file: &'a str,
    line: u32,
    function: &'a str,
    source: Option<&'a str>,
}

/// Reads the texts of all nodes; returns `None` if no node has any.
pub(crate) fn read(scan: &Scan<'_>) -> Option<Foreign> {
    let mut reader = Reader::default();
    let origins: Vec<Option<u32>> = scan.nodes.iter().map(|node| reader.origin(node)).collect();
    origins.iter().any(Option::is_some).then_some(Foreign {
        provenance: reader.provenance,
        origins,
        lines: reader.lines,
    })
}

#[derive(Default)]
struct Reader {
    provenance: Decoded,
    tiers: Tiers,
    lines: Lines,
    numbers: FxHashMap<Site, u32>,
}

impl Reader {
    fn origin(&mut self, node: &Node<'_>) -> Option<u32> {
        let stack = self.stack(node);
        let classes = node.meta(CLASSES).map(python_list).unwrap_or_default();
        let scope = self.scope(node);
        let emitter = classes.last().filter(|class| !class.is_empty()).map(|&class| {
            self.table().emitter(Emitter {
                kind: EmitterKind::PythonPlugin,
                name: class.into(),
                file: "".into(),
                line: 0,
                parent: None,
            })
        });
        if stack.is_none() && scope.is_none() && emitter.is_none() {
            return None;
        }
        let site = Site { stack, scope, emitter };
        if let Some(&known) = self.numbers.get(&site) {
            return Some(known);
        }
        let id = self.table().site(site);
        let origin = self.table().origin(Origin::of(id));
        let number = self.provenance.origins.len() as u32;
        self.provenance.origins.push(origin);
        self.numbers.insert(site, number);
        Some(number)
    }

    fn table(&mut self) -> &mut Table {
        &mut self.provenance.table
    }

    /// Returns the call path: a traceback of Python, or the frames of a doc string.
    fn stack(&mut self, node: &Node<'_>) -> Option<StackId> {
        let mut frames = node.meta(STACK_TRACE).map(traceback).unwrap_or_default();
        if frames.is_empty() {
            frames = doc_frames(node.doc);
            // Doc strings start with the innermost frame.
            frames.reverse();
        }
        frames.into_iter().fold(None, |caller, frame| {
            let tier = self.tiers.of(frame.file);
            if let Some(source) = frame.source {
                self.lines.insert((frame.file.into(), frame.line), source.into());
            }
            let table = self.table();
            let file = table.file(frame.file, tier);
            let function = table.function(frame.function);
            let location = Location { file, function, line: frame.line, span: None };
            let location = table.location(location);
            Some(table.push(caller, location))
        })
    }

    /// Returns the enclosing modules of the node. The last scope is the node itself.
    fn scope(&mut self, node: &Node<'_>) -> Option<ScopeId> {
        let named = node.meta(NAME_SCOPES).map(python_list);
        let mut names = match (&named, node.meta(NAMESPACE)) {
            (Some(names), _) => names.clone(),
            // `name: class/name: class`
            (None, Some(namespace)) if node.meta(STACK_TRACE).is_some() => namespace
                .split('/')
                .map(|part| part.split_once(": ").map_or(part, |(name, _)| name))
                .collect(),
            _ => return None,
        };
        names.pop();
        names.retain(|name| !name.is_empty());
        let mut outer: Option<(&str, ScopeId)> = None;
        for name in names {
            // `blocks.0.attn` inside `blocks.0` becomes `attn`.
            let within = outer.and_then(|(around, _)| name.strip_prefix(around)?.strip_prefix('.'));
            let parent = outer.map(|(_, id)| id);
            let id = self.table().scope(parent, ScopeKind::Name, within.unwrap_or(name));
            outer = Some((name, id));
        }
        outer.map(|(_, id)| id)
    }
}

/// Returns the frames of a Python traceback, outermost first.
fn traceback(text: &str) -> Vec<Written<'_>> {
    let mut frames: Vec<Written<'_>> = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(frame) = traceback_line(line) {
            frames.push(frame);
        } else if let Some(last) = frames.last_mut()
            && last.source.is_none()
            && !line.is_empty()
        {
            last.source = Some(line);
        }
    }
    frames
}

/// `File "model.py", line 12, in forward`
fn traceback_line(line: &str) -> Option<Written<'_>> {
    let (file, rest) = line.strip_prefix("File \"")?.split_once("\", line ")?;
    let (number, function) = rest.split_once(", in ").unwrap_or((rest, ""));
    // The source may follow on the same line.
    let (function, source) = match function.split_once(", code: ") {
        Some((function, source)) => (function, Some(source)),
        None => (function, None),
    };
    Some(Written { file, line: number.trim().parse().ok()?, function: function.trim(), source })
}

/// Reads frames like `/home/u/model.py(12): forward`, innermost first. Only lines with a Python file are frames.
fn doc_frames(doc: &str) -> Vec<Written<'_>> {
    fn frame(text: &str) -> Option<Written<'_>> {
        let (place, function) = text.trim().rsplit_once("): ")?;
        let (file, line) = place.rsplit_once('(')?;
        let is_python = Path::new(file).extension().is_some_and(|extension| extension == "py");
        let line = line.parse().ok()?;
        is_python.then_some(Written { file, line, function, source: None })
    }
    doc.lines().filter_map(frame).collect()
}

/// Returns the texts in a list that Python printed: `['', 'fc1', "it's"]`.
fn python_list(text: &str) -> Vec<&str> {
    let Some(mut rest) = text.trim().strip_prefix('[') else { return Vec::new() };
    let mut entries = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) else { break };
        let Some(end) = rest[1..].find(quote) else { break };
        entries.push(&rest[1..=end]);
        rest = &rest[end + 2..];
    }
    entries
}
