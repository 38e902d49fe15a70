//! Chooses the name of a source file in the model.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::level::PathPolicy;
use crate::tier::is_below;

/// Names files by a policy, and caches the names.
///
/// It accesses the disk only through `is_there`, once per folder, so that tests need no disk. Nothing else in this
/// crate accesses it.
pub struct Paths<'a> {
    policy: PathPolicy,
    packages: &'a [String],
    prefixes: &'a [(String, String)],
    is_there: &'a dyn Fn(&Path) -> bool,
    /// The current folder, which is the root of files that are not part of a project.
    directory: Option<PathBuf>,
    roots: FxHashMap<PathBuf, PathBuf>,
}

/// A folder that contains one of these is the root of a project.
const ROOT_MARKERS: &[&str] = &[".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg"];

/// The folders of all users. A path below one of them contains the name of a user.
const FOLDERS_OF_USERS: &[&str] = &["home", "Users"];

impl<'a> Paths<'a> {
    pub fn new(policy: PathPolicy, is_there: &'a dyn Fn(&Path) -> bool) -> Paths<'a> {
        let (directory, roots) = (None, FxHashMap::default());
        Paths { policy, packages: &[], prefixes: &[], is_there, directory, roots }
    }

    /// Sets the current folder. A file below it that is not part of a project is named relative to it, so that the
    /// file is found again from there. A folder that contains `home`, the user's own one, does not count.
    #[must_use]
    pub fn with_directory(self, directory: Option<&Path>, home: Option<&Path>) -> Paths<'a> {
        let is_shared = |folder: &Path| {
            let name = folder.file_name().and_then(|name| name.to_str());
            folder.parent().is_none()
                || name.is_some_and(|name| FOLDERS_OF_USERS.contains(&name))
                || home.is_some_and(|home| home != folder && home.starts_with(folder))
        };
        let directory = directory.filter(|folder| !is_shared(folder)).map(Path::to_owned);
        Paths { directory, ..self }
    }

    /// Sets the folders of packages. A file of such a package is named relative to it, whether it is installed or
    /// in a source tree.
    #[must_use]
    pub fn with_packages(self, packages: &'a [String]) -> Paths<'a> {
        Paths { packages, ..self }
    }

    /// Replaces folders with other names: `/home/x/proj` with `proj`. If several folders contain a file, the
    /// longest one wins.
    #[must_use]
    pub fn with_prefixes(self, prefixes: &'a [(String, String)]) -> Paths<'a> {
        Paths { prefixes, ..self }
    }

    /// Returns the name to write for `file`, with forward slashes. Code without a file keeps its name.
    pub fn shown(&mut self, file: &str) -> String {
        if file.starts_with('<') {
            let is_path = self.policy != PathPolicy::Absolute && file.contains(['/', '\\']);
            return if is_path { format!("<{}", basename(file)) } else { file.to_owned() };
        }
        let file = if self.policy == PathPolicy::Absolute { file } else { without_scheme(file) };
        let path = match self.policy {
            PathPolicy::Absolute => match self.replaced(file) {
                Some(replaced) => return replaced,
                None => file,
            },
            PathPolicy::Basename => basename(file),
            PathPolicy::Relative => match self.below_known(file).or_else(|| below_packages(file)) {
                Some(package) => package,
                None => return self.replaced(file).unwrap_or_else(|| self.below_root(file)),
            },
        };
        path.replace('\\', "/")
    }

    /// Returns `jax2onnx/_api.py` for `…/src/jax2onnx/_api.py` if `…/src/jax2onnx` is a known package.
    fn below_known<'f>(&self, file: &'f str) -> Option<&'f str> {
        let package = self.packages.iter().find(|package| is_below(file, package))?;
        let package = package.trim_end_matches(['/', '\\']);
        file.get(package.len() - basename(package).len()..)
    }

    fn replaced(&self, file: &str) -> Option<String> {
        let fitting = self.prefixes.iter().filter(|(folder, _)| is_below(file, folder));
        let (folder, name) = fitting.max_by_key(|(folder, _)| folder.len())?;
        let rest = file.get(folder.trim_end_matches(['/', '\\']).len()..)?;
        let replaced = format!("{}{rest}", name.trim_end_matches(['/', '\\'])).replace('\\', "/");
        // If a folder is replaced with nothing, only the path below it is left.
        let below = replaced.strip_prefix('/').filter(|_| name.is_empty());
        Some(below.map_or(replaced.clone(), str::to_owned))
    }

    fn below_root(&mut self, file: &str) -> String {
        let path = Path::new(file);
        let Some(folder) = path.parent().filter(|_| path.is_absolute()) else {
            return if leads_out(file) { basename(file).into() } else { file.replace('\\', "/") };
        };
        let root = self.root(folder);
        path.strip_prefix(&root)
            .map_or_else(|_| basename(file).into(), |below| below.to_string_lossy().into_owned())
            .replace('\\', "/")
    }

    /// Returns the nearest folder that looks like the root of a project, or else the folder that contains the top
    /// package, or the current folder if it contains that one.
    fn root(&mut self, folder: &Path) -> PathBuf {
        if let Some(root) = self.roots.get(folder) {
            return root.clone();
        }
        // The root of the disk does not count, because paths below it contain the names of users.
        let has_marker = |folder: &&Path| {
            folder.parent().is_some()
                && ROOT_MARKERS.iter().any(|marker| (self.is_there)(&folder.join(marker)))
        };
        let is_package = |folder: &&Path| (self.is_there)(&folder.join("__init__.py"));
        let above_packages =
            || folder.ancestors().find(|folder| !is_package(folder)).unwrap_or(folder);
        let project = folder.ancestors().find(has_marker).map(Path::to_path_buf);
        let root = project.unwrap_or_else(|| {
            let top = above_packages();
            let directory = self.directory.as_deref().filter(|around| top.starts_with(around));
            directory.unwrap_or(top).to_path_buf()
        });
        self.roots.insert(folder.to_path_buf(), root.clone());
        root
    }
}

/// Returns the path in a URL: `/home/me/a.py` for `file:///home/me/a.py`. If the file is on another machine,
/// returns only the last part of the path.
fn without_scheme(file: &str) -> &str {
    let Some((scheme, rest)) = file.split_once("://") else { return file };
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    match rest.strip_prefix("localhost").unwrap_or(rest) {
        path if scheme == "file" && path.starts_with('/') => path,
        rest => basename(rest),
    }
}

/// True if a relative path may contain folders outside the project: `../../me/a.py`, `~/a.py`, `C:\Users\me\a.py`,
/// `\\server\share\a.py`.
fn leads_out(file: &str) -> bool {
    let mut letters = file.bytes();
    let has_drive =
        letters.next().is_some_and(|c| c.is_ascii_alphabetic()) && letters.next() == Some(b':');
    has_drive
        || file.starts_with(['/', '\\', '~'])
        || file.split(['/', '\\']).any(|part| part == "..")
}

fn basename(file: &str) -> &str {
    file.rsplit(['/', '\\']).next().unwrap_or(file)
}

/// Returns `flax/nnx/nn.py` for `…/site-packages/flax/nnx/nn.py`, and `runpy.py` for `…/lib/python3.11/runpy.py`.
fn below_packages(file: &str) -> Option<&str> {
    let is_python = |part: &str| {
        part.strip_prefix("python")
            .is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    };
    let parts: Vec<&str> = file.split(['/', '\\']).collect();
    let packages = |&i: &usize| parts[i] == "site-packages" || parts[i] == "dist-packages";
    let library = |&i: &usize| i > 0 && is_python(parts[i]) && parts[i - 1] == "lib";
    let folder =
        (0..parts.len()).rev().find(packages).or_else(|| (0..parts.len()).rev().find(library))?;
    let start: usize = parts[..=folder].iter().map(|part| part.len() + 1).sum();
    file.get(start..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(policy: PathPolicy, there: &[&str], file: &str) -> String {
        Paths::new(policy, &|path| there.iter().any(|known| path == Path::new(known))).shown(file)
    }

    #[test]
    fn a_file_of_a_project_is_named_below_its_root() {
        let there = ["/home/me/net/pyproject.toml"];
        let name = shown(PathPolicy::Relative, &there, "/home/me/net/src/net/model.py");
        assert_eq!(name, "src/net/model.py");
    }

    #[test]
    fn without_a_project_a_file_is_named_from_its_top_package() {
        let there = ["/tmp/x/net/__init__.py", "/tmp/x/net/nn/__init__.py"];
        let name = shown(PathPolicy::Relative, &there, "/tmp/x/net/nn/model.py");
        assert_eq!(name, "net/nn/model.py");
        let name = shown(PathPolicy::Relative, &there, "/tmp/x/script.py");
        assert_eq!(name, "script.py");
    }

    #[test]
    fn without_a_project_a_file_is_named_from_the_current_folder() {
        let there = ["/data/x/net/__init__.py", "/data/x/net/nn/__init__.py"];
        let is_there = |path: &Path| there.iter().any(|known| path == Path::new(known));
        let shown = |folder: &str, file: &str| {
            let paths = Paths::new(PathPolicy::Relative, &is_there);
            let home = Some(Path::new("/export/me"));
            paths.with_directory(Some(Path::new(folder)), home).shown(file)
        };
        assert_eq!(shown("/data", "/data/x/nets/mlp.py"), "x/nets/mlp.py");
        assert_eq!(shown("/data/x", "/data/x/nets/mlp.py"), "nets/mlp.py");
        assert_eq!(shown("/data/x/nets", "/data/x/nets/mlp.py"), "mlp.py");
        assert_eq!(shown("/data/y", "/data/x/nets/mlp.py"), "mlp.py");
        assert_eq!(shown("/data", "/data/x/net/nn/model.py"), "x/net/nn/model.py");
        // The current folder is part of the package.
        assert_eq!(shown("/data/x/net/nn", "/data/x/net/nn/model.py"), "net/nn/model.py");
        // The paths below these folders contain the names of users.
        for folder in ["/", "/home", "/Users", "/export"] {
            assert_eq!(shown(folder, "/home/me/net/mlp.py"), "mlp.py", "{folder}");
            assert_eq!(shown(folder, "/Users/me/net/mlp.py"), "mlp.py", "{folder}");
            assert_eq!(shown(folder, "/export/me/net/mlp.py"), "mlp.py", "{folder}");
        }
        assert_eq!(shown("/export/me", "/export/me/net/mlp.py"), "net/mlp.py");
    }

    #[test]
    fn an_installed_file_is_named_from_its_package() {
        let file = "/venv/lib/python3.11/site-packages/flax/nnx/nn.py";
        assert_eq!(shown(PathPolicy::Relative, &[], file), "flax/nnx/nn.py");
        let file = "/usr/lib/python3.11/runpy.py";
        assert_eq!(shown(PathPolicy::Relative, &[], file), "runpy.py");
    }

    #[test]
    fn a_file_of_a_known_package_is_named_from_it_wherever_it_is() {
        let packages = ["/home/me/jax2onnx/python/jax2onnx".to_owned()];
        let there = |path: &Path| path == Path::new("/home/me/jax2onnx/.git");
        let mut paths = Paths::new(PathPolicy::Relative, &there).with_packages(&packages);
        assert_eq!(paths.shown("/home/me/jax2onnx/python/jax2onnx/_api.py"), "jax2onnx/_api.py");
        assert_eq!(paths.shown("/home/me/jax2onnx/python/tests/a.py"), "python/tests/a.py");
    }

    #[test]
    fn absolute_paths_and_base_names_are_written() {
        let file = "/home/me/net/model.py";
        assert_eq!(shown(PathPolicy::Absolute, &[], file), file);
        assert_eq!(shown(PathPolicy::Basename, &[], file), "model.py");
    }

    #[test]
    fn a_prefix_is_written_as_it_is_mapped() {
        let prefixes = [
            ("/home/x".to_owned(), "home".to_owned()),
            ("/home/x/proj/".to_owned(), "proj".to_owned()),
            ("/build".to_owned(), String::new()),
        ];
        let there = |path: &Path| path == Path::new("/home/x/proj/.git");
        let shown = |policy, file| Paths::new(policy, &there).with_prefixes(&prefixes).shown(file);
        for policy in [PathPolicy::Relative, PathPolicy::Absolute] {
            assert_eq!(shown(policy, "/home/x/proj/src/a.py"), "proj/src/a.py");
            assert_eq!(shown(policy, "/home/x/project/a.py"), "home/project/a.py");
            assert_eq!(shown(policy, "/build/src/a.py"), "src/a.py");
        }
        assert_eq!(shown(PathPolicy::Basename, "/home/x/proj/src/a.py"), "a.py");
        assert_eq!(shown(PathPolicy::Absolute, "/homely/a.py"), "/homely/a.py");
        let installed = "/home/x/venv/lib/python3.11/site-packages/flax/nn.py";
        assert_eq!(shown(PathPolicy::Relative, installed), "flax/nn.py");
    }

    #[test]
    fn no_way_to_write_a_path_names_the_user() {
        for (file, expected) in [
            ("file:///home/me/net/model.py", "model.py"),
            ("file://localhost/home/me/net/model.py", "model.py"),
            ("file://server/me/model.py", "model.py"),
            ("file:///C:/Users/me/model.py", "model.py"),
            ("vscode-notebook-cell://host/home/me/a.ipynb#W0s", "a.ipynb"),
            ("https://me:secret@host/model.py?token=1", "model.py"),
            ("../../me/model.py", "model.py"),
            ("src/../../me/model.py", "model.py"),
            ("~/net/model.py", "model.py"),
            ("C:\\Users\\me\\model.py", "model.py"),
            ("C:/Users/me/model.py", "model.py"),
            ("c:model.py", "c:model.py"),
            ("\\\\server\\me\\model.py", "model.py"),
            ("//server/me/model.py", "model.py"),
            ("..\\me\\model.py", "model.py"),
            ("<cell /home/me/a.ipynb>", "<a.ipynb>"),
            ("src\\net\\model.py", "src/net/model.py"),
            ("src/net/model.py", "src/net/model.py"),
            ("/home/me/app.zip/net/model.py", "model.py"),
            ("/tmp/ipykernel_123/456.py", "456.py"),
        ] {
            let shown = shown(PathPolicy::Relative, &[], file);
            assert_eq!(shown, expected, "{file}");
        }
    }

    #[test]
    fn the_root_folder_is_not_a_project() {
        let file = "/home/me/net/model.py";
        assert_eq!(shown(PathPolicy::Relative, &["/pyproject.toml"], file), "model.py");
        let project = ["/pyproject.toml", "/home/me/net/.git"];
        assert_eq!(shown(PathPolicy::Relative, &project, file), "model.py");
    }

    #[test]
    fn code_without_a_file_keeps_its_name() {
        assert_eq!(shown(PathPolicy::Basename, &[], "<stdin>"), "<stdin>");
    }
}
