//! The parts of a call path.

use crate::paths::Paths;
use crate::table::{EmitterId, FileId, FunctionId, ScopeId};

/// A location in a Python file: a line of a function, and the expression on it if it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    pub file: FileId,
    pub function: FunctionId,
    /// 1-based; 0 if unknown.
    pub line: u32,
    pub span: Option<Span>,
}

/// The extent of an expression that starts on [`Location::line`].
///
/// As in Python, columns are 0-based UTF-8 byte offsets, and `end_column` is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    pub column: u32,
    pub end_line: u32,
    pub end_column: u32,
}

/// One entry of a name stack, inside the entry that encloses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    pub kind: ScopeKind,
    pub name: Box<str>,
    pub parent: Option<ScopeId>,
}

/// The kind of an entry of a name stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScopeKind {
    /// A `jax.named_scope`, or a module that opened one.
    Name,
    /// A transformation of JAX: `jit(f)`, `vmap`, `scan`.
    Transform,
}

/// A line of the lowering, and the line that called it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Emitter {
    pub kind: EmitterKind,
    /// The primitive of a plugin, or the name of a function.
    pub name: Box<str>,
    pub file: Box<str>,
    pub line: u32,
    pub parent: Option<EmitterId>,
}

/// The kind of a frame of the lowering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmitterKind {
    /// The `lower` of the plugin for a primitive.
    Plugin,
    /// A function that several plugins share.
    Helper,
    /// The `lower` of a plugin written in Python, named `MyPlugin.lower`.
    PythonPlugin,
    /// A Python function that such a plugin called.
    PythonHelper,
}

impl EmitterKind {
    /// True if the frame belongs to a plugin, and not to a function that it called.
    pub fn is_plugin(self) -> bool {
        matches!(self, EmitterKind::Plugin | EmitterKind::PythonPlugin)
    }
}

impl Emitter {
    /// Returns the name to write for the file. A Rust file keeps its name; a Python file is named like any other
    /// path on this machine.
    pub(crate) fn shown_file(&self, paths: &mut Paths<'_>) -> String {
        match self.kind {
            EmitterKind::Plugin | EmitterKind::Helper => self.file.to_string(),
            EmitterKind::PythonPlugin | EmitterKind::PythonHelper => paths.shown(&self.file),
        }
    }
}
