//! Decides whose code a file is: the user's, a library's, or internal.

/// The owner of the code that a frame runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// JAX and this package.
    Internal,
    /// Installed packages and the standard library.
    Library,
    /// All other code.
    User,
}

/// The rules that sort files into tiers by name.
///
/// An entry is a file, or a folder with everything below it. The user's additions take precedence.
#[derive(Clone, Debug, Default)]
pub struct Tiers {
    pub added_user: Vec<String>,
    pub added_library: Vec<String>,
    pub internal: Vec<String>,
    pub library: Vec<String>,
    /// Names of the modules of the standard library, to recognize frozen ones.
    pub frozen_library: Vec<String>,
}

impl Tiers {
    /// Returns the tier of a file.
    pub fn of(&self, file: &str) -> Tier {
        let below = |folders: &[String]| folders.iter().any(|folder| is_below(file, folder));
        if below(&self.added_user) {
            Tier::User
        } else if below(&self.added_library) {
            Tier::Library
        } else if below(&self.internal) {
            Tier::Internal
        } else if below(&self.library) || is_installed(file) || self.is_generated(file) {
            Tier::Library
        } else {
            Tier::User
        }
    }

    /// True if code without a file belongs to a library: frozen modules of the standard library, and wrappers that
    /// a type checker generated. False for `<stdin>`, `<string>` and notebook cells.
    fn is_generated(&self, file: &str) -> bool {
        if let Some(module) = file.strip_prefix("<frozen ").and_then(|m| m.strip_suffix('>')) {
            let top = module.split('.').next().unwrap_or(module);
            return self.frozen_library.iter().any(|name| name == top);
        }
        file.starts_with("<@")
    }
}

/// True if `file` is `folder` itself or is below it.
pub(crate) fn is_below(file: &str, folder: &str) -> bool {
    let folder = folder.trim_end_matches(['/', '\\']);
    !folder.is_empty()
        && file
            .strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '\\']))
}

fn is_installed(file: &str) -> bool {
    file.split(['/', '\\']).any(|part| part == "site-packages" || part == "dist-packages")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiers() -> Tiers {
        Tiers {
            internal: vec!["/opt/jax".into()],
            library: vec!["/usr/lib/python3.11".into()],
            frozen_library: vec!["runpy".into()],
            ..Tiers::default()
        }
    }

    #[test]
    fn a_file_belongs_to_the_folder_above_it_and_not_to_a_namesake() {
        let tiers = tiers();
        assert_eq!(tiers.of("/opt/jax/_src/core.py"), Tier::Internal);
        assert_eq!(tiers.of("/opt/jax_models/core.py"), Tier::User);
        assert_eq!(tiers.of("/usr/lib/python3.11/functools.py"), Tier::Library);
        assert_eq!(tiers.of("/srv/site-packages/flax/nnx/nn.py"), Tier::Library);
        assert_eq!(tiers.of("/srv/my-site-packages-fork/nn.py"), Tier::User);
    }

    #[test]
    fn code_without_a_file_is_the_users_unless_it_was_generated_for_a_library() {
        let tiers = tiers();
        for file in ["<stdin>", "<string>", "<ipython-input-3-abc>", "<frozen my_app>"] {
            assert_eq!(tiers.of(file), Tier::User, "{file}");
        }
        assert_eq!(tiers.of("<frozen runpy>"), Tier::Library);
        assert_eq!(tiers.of("<@beartype(model.f)>"), Tier::Library);
    }

    #[test]
    fn folders_that_the_user_adds_take_precedence() {
        let tiers = Tiers {
            added_user: vec!["/srv/site-packages/our_models".into()],
            added_library: vec!["/home/me/vendored".into()],
            ..tiers()
        };
        assert_eq!(tiers.of("/srv/site-packages/our_models/net.py"), Tier::User);
        assert_eq!(tiers.of("/home/me/vendored/flax/nn.py"), Tier::Library);
    }
}
