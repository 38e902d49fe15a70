//! The source files that nodes came from, as far as they can be found and are still the same.

use std::cell::RefCell;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use crate::{Document, Frame};

/// What is known of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The text as it was exported.
    Same {
        text: Arc<str>,
        path: Option<PathBuf>,
    },
    /// A file of that name; nobody knows what was in it then.
    Unchecked {
        text: Arc<str>,
        path: PathBuf,
    },
    /// A file of that name which is not what was exported.
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

/// More is no source that a person wrote.
const MOST_BYTES: u64 = 1 << 24;

/// Finds source files: below the folders that the user names, below the current one, in the source map.
#[derive(Debug)]
pub struct Sources<'d, 'a> {
    document: &'d Document<'a>,
    roots: Vec<PathBuf>,
    found: RefCell<FxHashMap<String, Source>>,
}

impl<'d, 'a> Sources<'d, 'a> {
    pub fn new(roots: Vec<PathBuf>, document: &'d Document<'a>) -> Sources<'d, 'a> {
        Sources { document, roots, found: RefCell::default() }
    }

    /// What is known of the file that the model calls so.
    pub fn lookup(&self, file: &str) -> Source {
        if let Some(known) = self.found.borrow().get(file) {
            return known.clone();
        }
        let source = self.search(file);
        self.found.borrow_mut().insert(file.to_owned(), source.clone());
        source
    }

    /// The line that a frame is about, and how sure that is. What is no longer the same has none.
    pub fn line(&self, frame: &Frame<'_>) -> (Source, Option<Arc<str>>) {
        let recorded = self.document.recorded_line(frame.file, frame.line);
        let source = self.lookup(frame.file);
        let index = (frame.line as usize).checked_sub(1);
        let found = source.text().and_then(|text| Some(text.lines().nth(index?)?.to_owned()));
        match (&source, found, recorded) {
            (Source::Unchecked { path, .. }, found, Some(recorded)) => {
                let is_same = found.as_deref().is_some_and(|found| found.trim() == recorded.trim());
                let changed = Source::Changed { path: path.clone() };
                let line = if is_same { found.unwrap_or_default() } else { recorded.to_owned() };
                (if is_same { source } else { changed }, Some(line.into()))
            }
            (Source::Unchecked { path, text }, found, None) => {
                if found.is_some() && defines(text, frame) {
                    return (source, found.map(Arc::from));
                }
                (Source::Changed { path: path.clone() }, None)
            }
            (_, None, Some(recorded)) => (source, Some(recorded.into())),
            (_, found, _) => (source, found.map(Arc::from)),
        }
    }

    fn search(&self, file: &str) -> Source {
        let known = self.document.source(file);
        let hash = known.and_then(|source| source.sha256.as_deref());
        if let Some(text) = known.and_then(|source| source.text.as_deref()) {
            return Source::Same { text: text.into(), path: None };
        }
        let mut other = None;
        for (path, is_sure) in self.candidates(file) {
            let Some(bytes) = read(&path) else { continue };
            if let Some(hash) = hash {
                if !is_hash(&bytes, hash) {
                    other = other.or(Some(path).filter(|_| is_sure));
                    continue;
                }
                let text = String::from_utf8_lossy(&bytes).into();
                return Source::Same { text, path: Some(path) };
            }
            if is_sure {
                let text = String::from_utf8_lossy(&bytes).into();
                return Source::Unchecked { text, path };
            }
        }
        other.map_or(Source::Missing, |path| Source::Changed { path })
    }

    /// Where the file may be, and whether what is there is surely meant. What is found by the last parts
    /// of its path alone is meant if it has the right contents, or if the user named the folder.
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
        let here = [PathBuf::new()];
        let folders =
            self.roots.iter().map(|root| (root, true)).chain(here.iter().map(|h| (h, false)));
        for (folder, is_named) in folders {
            for skipped in 0..parts.len() {
                let below: PathBuf = parts[skipped..].iter().collect();
                let is_whole = skipped == 0 && !path.is_absolute();
                candidates.push((folder.join(below), is_named || is_whole));
            }
        }
        if path.is_absolute() {
            let named = self.roots.len() * parts.len();
            candidates.insert(named, (path.to_owned(), true));
        }
        candidates
    }
}

fn is_python(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("py" | "pyi" | "pyw" | "pyx"))
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let metadata = fs::metadata(path).ok()?;
    (metadata.is_file() && metadata.len() <= MOST_BYTES).then(|| fs::read(path).ok())?
}

fn is_hash(bytes: &[u8], hash: &str) -> bool {
    let digest = Sha256::digest(bytes);
    hash.len() == 2 * digest.len()
        && digest.iter().enumerate().all(|(i, &byte)| {
            let digits = hash.get(2 * i..2 * i + 2);
            digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) == Some(byte)
        })
}

/// Whether a text defines the function of a frame at or before its line. A file without a hash that does
/// not is another one, or has changed.
fn defines(text: &str, frame: &Frame<'_>) -> bool {
    let name = frame.function.rsplit('.').next().unwrap_or_default();
    // `<module>`, `<lambda>`, `<listcomp>` have no line of their own.
    if name.is_empty() || name.starts_with('<') {
        return true;
    }
    text.lines().take(frame.line as usize).any(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "));
        let rest = rest.and_then(|rest| rest.trim_start().strip_prefix(name));
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests {
    use provenance::Tier;

    use super::*;

    #[test]
    fn a_function_is_defined_before_its_lines() {
        let text = "import x\n\n@jit\nasync def forward (x):\n    return x\n";
        let frame =
            |function, line| Frame { file: "m.py", function, line, span: None, tier: Tier::User };
        assert!(defines(text, &frame("Net.forward", 5)));
        assert!(!defines(text, &frame("Net.forward", 3)));
        assert!(!defines(text, &frame("for", 5)));
        assert!(defines(text, &frame("<lambda>", 5)));
    }
}
