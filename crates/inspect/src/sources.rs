//! Finds the source files of nodes, and checks that they are unchanged.

mod notebooks;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use provenance::Tier;
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use crate::document::Recalled;
use crate::{Document, Frame, open_regular};
use notebooks::Cell;

/// The result of a search for a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The file is the exported one.
    Same {
        text: Arc<str>,
        path: Option<PathBuf>,
    },
    /// There is a file with that name, but its contents at the time of the export are unknown.
    Unchecked {
        text: Arc<str>,
        path: PathBuf,
        /// True if it was written after the model, and the model does not contain the text of its lines.
        is_newer: bool,
    },
    /// There is a file with that name, but it differs from the exported one.
    Changed {
        path: PathBuf,
    },
    Missing,
}

impl Source {
    pub fn text(&self) -> Option<&Arc<str>> {
        match self {
            Source::Same { text, .. } | Source::Unchecked { text, .. } => Some(text),
            Source::Changed { .. } | Source::Missing => None,
        }
    }

    pub fn word(&self) -> &'static str {
        match self {
            Source::Same { .. } => "same",
            Source::Unchecked { .. } => "unchecked",
            Source::Changed { .. } => "changed",
            Source::Missing => "missing",
        }
    }
}

/// The maximum size of a source file.
const MAX_BYTES: u64 = 1 << 24;

/// The maximum number of parts at the end of a path to search for.
const MAX_PARTS: usize = 24;

/// Finds source files in the folders that the user names, in the current folder, in the folder of the model, and in the
/// source map.
#[derive(Debug)]
pub struct Sources<'d, 'a> {
    document: &'d Document<'a>,
    roots: Vec<PathBuf>,
    /// The current folder and the folder of the model.
    near: Vec<PathBuf>,
    /// The roots and these folders, with links resolved.
    folders: Vec<PathBuf>,
    /// Returns the text of a cell of a running notebook by its hash.
    cells: fn(&str) -> Option<String>,
    notebooks: OnceCell<Vec<Cell>>,
    found: RefCell<FxHashMap<String, Source>>,
}

impl<'d, 'a> Sources<'d, 'a> {
    pub fn new(roots: Vec<PathBuf>, document: &'d Document<'a>) -> Sources<'d, 'a> {
        let beside = document.path.as_deref().and_then(Path::parent);
        let beside = beside.filter(|folder| *folder != Path::new("")).map(Path::to_owned);
        let near: Vec<PathBuf> = [PathBuf::new()].into_iter().chain(beside).collect();
        let real = |folder: &PathBuf| fs::canonicalize(Path::new(".").join(folder)).ok();
        let folders = roots.iter().chain(&near).filter_map(real).collect();
        let (cells, notebooks) = (|_: &str| None, OnceCell::new());
        Sources { document, roots, near, folders, cells, notebooks, found: RefCell::default() }
    }

    /// Sets a function that returns the text of a cell of a running notebook by its hash.
    #[must_use]
    pub fn with_cells(self, cells: fn(&str) -> Option<String>) -> Sources<'d, 'a> {
        Sources { cells, ..self }
    }

    /// Looks up a file by its name in the model.
    pub fn lookup(&self, file: &str) -> Source {
        if let Some(known) = self.found.borrow().get(file) {
            return known.clone();
        }
        let source = self.search(file);
        self.found.borrow_mut().insert(file.to_owned(), source.clone());
        source
    }

    /// Returns the user's files that were looked up and not found, without cells of notebooks.
    pub fn missing(&self) -> Vec<String> {
        self.files(|source| *source == Source::Missing)
    }

    /// Returns the user's files that were looked up and differ from the exported ones, without cells of notebooks.
    pub fn changed(&self) -> Vec<String> {
        self.files(|source| matches!(source, Source::Changed { .. }))
    }

    /// Returns the user's files with these results, without cells of notebooks.
    fn files(&self, is_wanted: impl Fn(&Source) -> bool) -> Vec<String> {
        let table = self.document.table();
        let found = self.found.borrow();
        let is_wanted = |file: &str| found.get(file).is_some_and(&is_wanted) && !self.is_cell(file);
        let files: BTreeSet<_> = table.all_locations().map(|at| at.file).collect();
        let files = files.into_iter().map(|file| table.get_file(file));
        let mut wanted: Vec<String> = files
            .filter(|file| file.tier == Tier::User && is_python(Path::new(&*file.path)))
            .filter(|file| is_wanted(&file.path))
            .map(|file| file.path.to_string())
            .collect();
        wanted.sort_unstable();
        wanted
    }

    /// True if a file is a cell of a notebook.
    pub fn is_cell(&self, file: &str) -> bool {
        let number = file.strip_prefix("In [").and_then(|rest| rest.split_once(']'));
        number.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
            || self.document.source(file).is_cell
    }

    /// Returns the existing files that a name in the model may refer to.
    pub(crate) fn paths(&self, file: &str) -> Vec<PathBuf> {
        let found = match self.lookup(file) {
            Source::Same { path, .. } => path,
            Source::Unchecked { path, .. } | Source::Changed { path } => Some(path),
            Source::Missing => None,
        };
        let sure = self.candidates(file).into_iter().filter(|(_, is_sure)| *is_sure);
        sure.map(|(path, _)| path).filter(|path| path.is_file()).chain(found).collect()
    }

    /// Returns the line of a frame, and its file. If the file changed, returns the line in the model, if there is
    /// one.
    pub fn line(&self, frame: &Frame<'_>) -> (Source, Option<Arc<str>>) {
        let source = self.lookup(frame.file);
        let index = (frame.line as usize).checked_sub(1);
        let found = source.text().and_then(|text| Some(text.lines().nth(index?)?.into()));
        let recorded = || self.document.recorded_line(frame.file, frame.line).map(Arc::from);
        let line = found.or_else(recorded);
        (source, line)
    }

    fn search(&self, file: &str) -> Source {
        let Recalled { sha256: hash, text, .. } = self.document.source(file);
        if let Some(text) = text {
            return Source::Same { text: text.into(), path: None };
        }
        if self.is_cell(file) {
            return self.search_cell(file, hash);
        }
        let mut other = None;
        for (path, is_sure) in self.candidates(file) {
            let Some(bytes) = self.read(&path) else { continue };
            if let Some(hash) = hash {
                if !is_file(&bytes, hash) {
                    other = other.or(Some(path).filter(|_| is_sure));
                    continue;
                }
                let text = String::from_utf8_lossy(&bytes).into();
                return Source::Same { text, path: Some(path) };
            }
            if is_sure {
                let text = String::from_utf8_lossy(&bytes);
                if !self.fits(file, &text) {
                    return Source::Changed { path };
                }
                // A file that was only copied has a new date and the same lines.
                let is_newer = !self.has_recorded_lines(file) && self.is_newer(&path);
                return Source::Unchecked { text: text.into(), path, is_newer };
            }
        }
        other.map_or(Source::Missing, |path| Source::Changed { path })
    }

    /// Looks up a cell in the running notebook, and in the notebooks of the folders. Its hash decides whether the
    /// text is right, because a notebook can have many cells with the same number.
    fn search_cell(&self, name: &str, hash: Option<&str>) -> Source {
        let Some(hash) = hash else { return Source::Missing };
        if let Some(text) = (self.cells)(hash) {
            return Source::Same { text: text.into(), path: None };
        }
        let cells = self.notebooks.get_or_init(|| notebooks::cells(&self.folders));
        if let Some(cell) = cells.iter().find(|cell| is_hash(cell.text.as_bytes(), hash)) {
            return Source::Same { text: cell.text.as_str().into(), path: Some(cell.path.clone()) };
        }
        let namesake = cells.iter().find(|cell| cell.name.as_deref() == Some(name));
        namesake.map_or(Source::Missing, |cell| Source::Changed { path: cell.path.clone() })
    }

    /// True if a text may be the exported one: it defines every function that the model mentions, every expression
    /// is valid, and every line that the model contains is the same.
    fn fits(&self, file: &str, text: &str) -> bool {
        let lines: Vec<&str> = text.lines().collect();
        let table = self.document.table();
        let here = table.all_locations().filter(|at| &*table.get_file(at.file).path == file);
        for location in here.filter(|location| location.line > 0) {
            let Some(line) = lines.get(location.line as usize - 1) else { return false };
            let before = &lines[..location.line as usize];
            let recorded = self.document.recorded_line(file, location.line);
            let is_same = recorded.is_none_or(|recorded| recorded.trim() == line.trim());
            let one_line = location.span.filter(|span| span.end_line == location.line);
            let is_expression = one_line.is_none_or(|span| {
                is_expression(line, span.column as usize, span.end_column as usize)
            });
            if !is_same || !is_expression || !defines(before, table.get_function(location.function))
            {
                return false;
            }
        }
        true
    }

    /// True if the model contains the text of every line of a file that it mentions.
    fn has_recorded_lines(&self, file: &str) -> bool {
        let table = self.document.table();
        let mut here = table.all_locations().filter(|at| &*table.get_file(at.file).path == file);
        here.all(|at| at.line > 0 && self.document.recorded_line(file, at.line).is_some())
    }

    fn is_newer(&self, path: &Path) -> bool {
        let time = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        let model = self.document.path.as_deref().and_then(time);
        model.zip(time(path)).is_some_and(|(model, source)| source > model)
    }

    /// Returns the possible paths of a file, each with whether the file there is certainly the right one. A file
    /// that was found by the last parts of its path counts only if it has the right contents, or if the user named
    /// the folder. The same is true for a file in the folder of the model: an untrusted model may be anywhere, but it
    /// cannot know the hash of a file that its author does not have.
    fn candidates(&self, file: &str) -> Vec<(PathBuf, bool)> {
        let path = Path::new(file);
        let parts: Vec<&std::ffi::OsStr> = path
            .components()
            .filter_map(|part| match part {
                Component::Normal(part) => Some(part),
                _ => None,
            })
            .collect();
        let leads_out = path.components().any(|part| part == Component::ParentDir);
        if !is_python(path) || leads_out || parts.is_empty() {
            return Vec::new();
        }
        let mut candidates = Vec::new();
        let named = self.roots.iter().map(|root| (root, true, true));
        let near = self.near.iter().map(|near| (near, false, near.as_os_str().is_empty()));
        for (folder, is_named, is_chosen) in named.chain(near) {
            let first = parts.len().saturating_sub(MAX_PARTS);
            for skipped in first..parts.len() {
                let below: PathBuf = parts[skipped..].iter().collect();
                let is_whole = skipped == 0 && !path.is_absolute() && is_chosen;
                candidates.push((folder.join(below), is_named || is_whole));
            }
        }
        if path.is_absolute() {
            let named = self.roots.len() * parts.len().min(MAX_PARTS);
            candidates.insert(named, (path.to_owned(), true));
        }
        candidates
    }

    /// Reads a Python file, if it is below one of the folders after links are resolved. A model is untrusted, and
    /// must not choose which other files are shown.
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let real = fs::canonicalize(path).ok()?;
        if !is_python(&real) || !self.folders.iter().any(|folder| real.starts_with(folder)) {
            return None;
        }
        read_bytes(&real)
    }
}

/// Reads a file that is not too large.
fn read_bytes(path: &Path) -> Option<Vec<u8>> {
    let (file, size) = open_regular(path).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (size <= MAX_BYTES && bytes.len() as u64 <= MAX_BYTES).then_some(bytes)
}

fn is_python(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("py" | "pyi" | "pyw" | "pyx"))
}

/// True if a file has this hash, or would have it with the line ends of another system, which git may write.
fn is_file(bytes: &[u8], hash: &str) -> bool {
    let is_text = |lines: Vec<u8>| lines != bytes && is_hash(&lines, hash);
    is_hash(bytes, hash) || {
        let unix = without_returns(bytes);
        let windows = unix.split(|&byte| byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]);
        is_text(unix) || is_text(windows)
    }
}

/// Returns a text with `\n` instead of each `\r\n`.
fn without_returns(bytes: &[u8]) -> Vec<u8> {
    let next = bytes.iter().skip(1).copied().chain([0]);
    let pairs = bytes.iter().copied().zip(next);
    pairs.filter(|pair| *pair != (b'\r', b'\n')).map(|(byte, _)| byte).collect()
}

fn is_hash(bytes: &[u8], hash: &str) -> bool {
    let digest = Sha256::digest(bytes);
    hash.len() == 2 * digest.len()
        && digest.iter().enumerate().all(|(i, &byte)| {
            let digits = hash.get(2 * i..2 * i + 2);
            digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) == Some(byte)
        })
}

/// True if these lines define a function.
fn defines(lines: &[&str], function: &str) -> bool {
    let name = function.rsplit('.').next().unwrap_or_default();
    // `<module>`, `<lambda>` and `<listcomp>` have no line of their own.
    if name.is_empty() || name.starts_with('<') {
        return true;
    }
    lines.iter().any(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "));
        let rest = rest.and_then(|rest| rest.trim_start().strip_prefix(name));
        rest.is_some_and(|rest| !rest.starts_with(is_word))
    })
}

/// True if these bytes of a line can be an expression: whole words with balanced brackets.
fn is_expression(line: &str, start: usize, end: usize) -> bool {
    let parts = (line.get(..start), line.get(start..end.max(start)), line.get(end.max(start)..));
    let (Some(before), Some(inner), Some(after)) = parts else { return false };
    let is_cut = |left: &str, right: &str| left.ends_with(is_word) && right.starts_with(is_word);
    if inner.is_empty() || inner.trim() != inner || is_cut(before, inner) || is_cut(inner, after) {
        return false;
    }
    // Brackets in texts need not be balanced.
    if inner.contains(['"', '\'']) {
        return true;
    }
    let mut open = Vec::new();
    for letter in inner.chars() {
        match letter {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(letter) => return false,
            _ => {}
        }
    }
    open.is_empty()
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_defined_before_its_lines() {
        let text = ["import x", "", "@jit", "async def forward (x):", "    return x"];
        assert!(defines(&text, "Net.forward"));
        assert!(!defines(&text[..3], "Net.forward"));
        assert!(!defines(&text, "for"));
        assert!(defines(&text, "f.<locals>.<lambda>"));
    }

    #[test]
    fn an_expression_is_of_whole_words_and_closed_brackets() {
        let line = "    return jnp.cos(c) * 2.0, c.sum()";
        let is = |start, end| is_expression(line, start, end);
        assert!(is(11, 21) && is(11, 27) && is(29, 36));
        assert!(!is(11, 22) && !is(12, 21) && !is(11, 20) && !is(10, 21) && !is(30, 99));
        assert!(is_expression("f(')')", 0, 6));
    }
}
