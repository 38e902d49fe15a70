//! A model with its provenance.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onnx::scan::{self, Graph, Scan, Tensor, ValueType};
use provenance::codec::Decoded;
use provenance::outline::Outline;
use provenance::resolve::{Answer, Resolver, Sure};
use provenance::source_map::MapValue;
use provenance::{LocationId, OriginId, ScopeId, ScopeKind, SourceMap, Table};
use rustc_hash::FxHashMap;

use crate::file;
use crate::file::{ModelFile, OpenError};
use crate::foreign::Lines;
use crate::origin::{Frame, Provenance};
use crate::recorded::{self, Recorded};

/// A model with everything needed to answer questions about it.
#[derive(Debug)]
pub struct Document<'a> {
    /// The name of the model in messages.
    pub name: String,
    pub path: Option<PathBuf>,
    /// The size of the file in bytes.
    pub size: u64,
    /// The model, perhaps without the contents of its weights.
    pub bytes: &'a [u8],
    pub scan: Scan<'a>,
    /// True if the contents of all weights were read.
    pub has_weights: bool,
    pub level: Recorded,
    /// The path of the source map, if one is used.
    pub map_path: Option<PathBuf>,
    /// Notes for the user, in addition to the answer.
    pub notes: Vec<String>,
    provenance: Arc<Decoded>,
    origins: Origins,
    /// Maps names to origins; computed on first use.
    resolver: OnceCell<Resolver>,
    outline: OnceCell<Outline>,
    lines: Lines,
    /// The declarations of each name in each graph; computed on first use.
    index: OnceCell<FxHashMap<(usize, &'a str), Declared>>,
    /// The call site of each call path in the table.
    callsites: Vec<LocationId>,
}

impl<'a> Document<'a> {
    pub(crate) fn read(file: &'a ModelFile, map: Option<&Path>) -> Result<Document<'a>, OpenError> {
        let name = file.name();
        let failed = |why| match file::other_kind(file.bytes()) {
            Some(what) => OpenError::Other { name: name.clone(), what },
            None => OpenError::Scan { name: name.clone(), why },
        };
        let scan = scan::scan(file.bytes()).map_err(failed)?;
        let found = recorded::find(&scan, file.path(), &name, map)?;
        let (resolver, outline) = (OnceCell::new(), OnceCell::new());
        let (provenance, origins) = match found.origins {
            recorded::Origins::Own { provenance, numbers } => (provenance, Origins::Own(numbers)),
            recorded::Origins::Export(map) => {
                let provenance = map.provenance.clone();
                let resolver = resolver.get_or_init(|| Resolver::new(map));
                let later = outline.get_or_init(|| scan.outline());
                (provenance, Origins::Resolved(resolver.resolve_model(later)))
            }
        };
        let callsites = provenance.table.callsites();
        Ok(Document {
            callsites,
            path: file.path().map(Path::to_owned),
            size: file.bytes().len() as u64,
            bytes: file.bytes(),
            scan,
            has_weights: file.has_weights(),
            index: OnceCell::new(),
            level: found.level,
            map_path: found.map_path,
            notes: found.notes,
            provenance,
            origins,
            resolver,
            outline,
            lines: found.lines,
            name,
        })
    }

    /// Returns the names of nodes and values, and the readers of each; numbered as in the scan.
    pub fn outline(&self) -> &Outline {
        self.outline.get_or_init(|| self.scan.outline())
    }

    /// Returns the resolver for names that runtimes create.
    pub fn resolver(&self) -> &Resolver {
        self.resolver.get_or_init(|| {
            // Only a model without a separate map reaches this point.
            let origins = match &self.origins {
                Origins::Own(numbers) => numbers.clone(),
                Origins::Resolved(_) => Vec::new(),
            };
            Resolver::new(SourceMap {
                provenance: self.provenance.clone(),
                outline: self.outline().clone(),
                origins,
                ..SourceMap::default()
            })
        })
    }

    /// Returns what the model does not record, and how to export one that records it.
    pub fn missing(&self) -> Option<&'static str> {
        self.level.missing(self.scan.producer)
    }

    pub fn table(&self) -> &Table {
        &self.provenance.table
    }

    /// Returns how a node was found, and its origins in the table, the one to show first at the front.
    pub fn answer(&self, node: usize) -> (Sure, Vec<OriginId>) {
        match &self.origins {
            Origins::Own(numbers) => match numbers.get(node).copied().flatten() {
                Some(number) => (Sure::Exact, self.origins(&[number])),
                None => (Sure::Unknown, Vec::new()),
            },
            Origins::Resolved(answers) => match answers.get(node) {
                Some(answer) => (answer.sure, self.origins(&answer.origins)),
                None => (Sure::Unknown, Vec::new()),
            },
        }
    }

    /// Returns the origins with these numbers.
    pub(crate) fn origins(&self, numbers: &[u32]) -> Vec<OriginId> {
        let known = &self.provenance.origins;
        numbers.iter().filter_map(|&number| known.get(number as usize).copied()).collect()
    }

    /// Returns the number of origins.
    pub fn origin_count(&self) -> usize {
        self.provenance.origins.len()
    }

    /// Returns the origin of a node.
    pub fn provenance(&self, node: usize) -> Option<Provenance<'_>> {
        let (sure, origins) = self.answer(node);
        Provenance::of(self.table(), &self.callsites, sure, &origins)
    }

    /// Returns the provenance of the origin with this number.
    pub fn provenance_of_origin(&self, number: u32) -> Option<Provenance<'_>> {
        let origins = self.origins(&[number]);
        Provenance::of(self.table(), &self.callsites, Sure::Exact, &origins)
    }

    /// True if the graph `inner` can read values of the graph `outer`.
    pub fn sees(&self, inner: usize, outer: usize) -> bool {
        let around = |&graph: &usize| self.graph(graph).and_then(|graph| graph.around);
        std::iter::successors(Some(inner), around).any(|graph| graph == outer)
    }

    /// Returns the nodes that call a function, `domain::name`.
    pub fn callers(&self, function: &str) -> Vec<usize> {
        let (domain, name) = function.rsplit_once("::").unwrap_or(("", function));
        let nodes = self.scan.nodes.iter().enumerate();
        let calls = nodes.filter(|(_, node)| node.op == name && node.domain == domain);
        calls.map(|(number, _)| number).collect()
    }

    /// Resolves the name of a node or a value. A runtime may have created the name.
    pub fn resolve_name(&self, name: &str) -> Option<Provenance<'_>> {
        let (sure, origins) = self.answer_of_name(name);
        Provenance::of(self.table(), &self.callsites, sure, &origins)
    }

    /// Resolves a name to origins in the table, the one to show first at the front.
    pub fn answer_of_name(&self, name: &str) -> (Sure, Vec<OriginId>) {
        self.answer_of_run(name, &|_| false)
    }

    /// Resolves the name of a node that a runtime ran. [`Resolver::resolve_run`] describes `has_run`.
    pub(crate) fn answer_of_run(
        &self,
        name: &str,
        has_run: &dyn Fn(u32) -> bool,
    ) -> (Sure, Vec<OriginId>) {
        let answer = self.resolver().resolve_run(name, has_run);
        (answer.sure, self.origins(&answer.origins))
    }

    /// Returns the call sites of a node, the one to show first at the front.
    pub fn callsites(&self, node: usize) -> Vec<LocationId> {
        let (_, origins) = self.answer(node);
        crate::origin::callsites(self.table(), &self.callsites, &origins)
    }

    /// Returns the scope of a node.
    pub fn scope(&self, node: usize) -> Option<ScopeId> {
        let (_, origins) = self.answer(node);
        let table = self.table();
        table.get_site(table.get_origin(*origins.first()?).primary).scope
    }

    /// Returns the names in a scope, joined: `blocks.0/attn`. If there are very many, omits the innermost ones.
    pub fn scope_name(&self, scope: ScopeId) -> String {
        const MAX: usize = 100;
        let table = self.table();
        let path = table.scope_path(scope).into_iter().rev().map(|id| table.get_scope(id));
        let named = path.filter(|scope| scope.kind == ScopeKind::Name).map(|scope| &*scope.name);
        named.take(MAX).collect::<Vec<_>>().join("/")
    }

    /// Returns the call site of each call path of the table.
    pub(crate) fn known_callsites(&self) -> &[LocationId] {
        &self.callsites
    }

    /// Returns the frame at a location.
    pub fn frame(&self, location: LocationId) -> Frame<'_> {
        Frame::of(self.table(), location)
    }

    /// True if the origins contain files.
    pub fn has_files(&self) -> bool {
        let table = self.table();
        let mut files = (0..table.file_count() as u32).map(provenance::FileId);
        files.all(|id| &*table.get_file(id).path != Frame::UNKNOWN)
    }

    /// Returns the hash and the text of a source file, as far as the model and the map contain them.
    pub(crate) fn source(&self, file: &str) -> Recalled<'_> {
        let table = self.table();
        let files = (0..table.file_count() as u32).map(provenance::FileId).enumerate();
        let mut files = files.filter(|(_, id)| &*table.get_file(*id).path == file);
        let Some((number, id)) = files.next() else { return Recalled::default() };
        let map = self.resolver.get().and_then(|resolver| resolver.map().sources.get(number));
        let recorded = self.provenance.hash(id).filter(|_| files.next().is_none());
        Recalled {
            sha256: recorded.or_else(|| map?.sha256.as_deref()),
            text: map.and_then(|map| map.text.as_deref()),
            is_cell: table.get_file(id).cell.is_some(),
        }
    }

    /// Returns the inputs, weights and outputs in the map.
    pub(crate) fn map_values(&self) -> &[MapValue] {
        self.resolver.get().map_or(&[], |resolver| &resolver.map().values)
    }

    /// Returns a line of source that the model contains.
    pub(crate) fn recorded_line(&self, file: &str, line: u32) -> Option<&str> {
        self.lines.get(&(file.into(), line)).map(AsRef::as_ref)
    }

    /// Returns the graph with a number.
    pub fn graph(&self, number: usize) -> Option<&Graph<'a>> {
        self.scan.graphs.get(number)
    }

    /// Returns the type of a value as seen from a graph: `f32[B,10]`.
    pub fn value_type(&self, graph: usize, name: &str) -> Option<String> {
        let declared = self.declared_type(graph, name).map(ToString::to_string);
        declared.or_else(|| self.initializer(graph, name).map(Tensor::type_text))
    }

    /// Returns the declared type of a value that is not an initializer, as seen from a graph.
    pub fn declared_type(&self, graph: usize, name: &str) -> Option<&ValueType<'a>> {
        self.graphs_seen_from(graph).find_map(|(number, graph)| {
            let value = self.index().get(&(number, name))?.value?;
            graph.typed_values().nth(value)?.ty.as_ref()
        })
    }

    /// Returns the initializer with a name, as seen from a graph.
    pub fn initializer(&self, graph: usize, name: &str) -> Option<&Tensor<'a>> {
        self.graphs_seen_from(graph).find_map(|(number, graph)| {
            graph.initializers.get(self.index().get(&(number, name))?.initializer?)
        })
    }

    /// Returns a graph and the enclosing ones, innermost first.
    fn graphs_seen_from(&self, graph: usize) -> impl Iterator<Item = (usize, &Graph<'a>)> {
        let numbered = |number: usize| Some((number, self.graph(number)?));
        let around = move |(_, graph): &(usize, &Graph<'a>)| numbered(graph.around?);
        std::iter::successors(numbered(graph), around)
    }

    fn index(&self) -> &FxHashMap<(usize, &'a str), Declared> {
        self.index.get_or_init(|| {
            let mut index: FxHashMap<_, Declared> = FxHashMap::default();
            for (number, graph) in self.scan.graphs.iter().enumerate() {
                for (at, value) in graph.typed_values().enumerate() {
                    if value.ty.is_some() {
                        index.entry((number, value.name)).or_default().value.get_or_insert(at);
                    }
                }
                for (at, tensor) in graph.initializers.iter().enumerate() {
                    let declared = index.entry((number, tensor.name)).or_default();
                    declared.initializer.get_or_insert(at);
                }
            }
            index
        })
    }

    /// Returns the name of a node, or its number if it has no name.
    pub fn node_name(&self, node: usize) -> String {
        match self.scan.nodes.get(node).map(|node| node.name) {
            Some(name) if !name.is_empty() => name.to_owned(),
            _ => format!("#{node}"),
        }
    }
}

/// The recorded facts about a source file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recalled<'a> {
    pub(crate) sha256: Option<&'a str>,
    pub(crate) text: Option<&'a str>,
    /// True for a cell of a notebook.
    pub(crate) is_cell: bool,
}

/// The first declarations of a name in a graph.
#[derive(Debug, Default)]
struct Declared {
    /// The position in the typed values of the graph.
    value: Option<usize>,
    /// The position in the initializers.
    initializer: Option<usize>,
}

/// The origins of nodes, by their numbers in the table.
#[derive(Debug)]
enum Origins {
    /// Stored in the model.
    Own(Vec<Option<u32>>),
    /// Resolved with the source map of an earlier form of the model.
    Resolved(Vec<Answer>),
}
