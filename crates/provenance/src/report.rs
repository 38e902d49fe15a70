//! Formats an error with its line of Python.

pub mod excerpt;

use crate::frame::Location;
use crate::origin::Site;
use crate::paths::Paths;
use crate::table::{LocationId, SiteId, Table};
use crate::tier::Tier;

/// The maximum number of callers after the line itself.
const MAX_CALLERS: usize = 5;

/// Returns the text of an error about `site`: the message, the location, the name scopes and a hint.
///
/// `source` returns the text of a file by its path. If it does not, the report omits the line.
///
/// ```text
/// error: no plugin for `eigh`
///   --> train/whiten.py:42:12, in whiten
///    |
/// 42 |     w, v = jnp.linalg.eigh(cov)
///    |            ^^^^^^^^^^^^^^^^^^^^
///    = through jit(forward) / scan / eigh
///
/// hint: a constant matrix can be factored before export
/// ```
pub fn report(
    table: &Table,
    site: SiteId,
    message: &str,
    hint: Option<&str>,
    paths: &mut Paths<'_>,
    source: &dyn Fn(&str) -> Option<String>,
) -> String {
    let site = table.get_site(site);
    let callsite = site.stack.and_then(|stack| table.callsite(stack));
    let mut lines = vec![format!("error: {message}")];
    let mut gutter = " ".repeat(2);
    if let Some(id) = callsite {
        let location = table.get_location(id);
        gutter = " ".repeat(location.line.to_string().len().max(gutter.len()));
        lines.extend(place(table, &location, &gutter, paths, source));
    }
    lines.extend(through(table, site).map(|path| format!("{gutter} = through {path}")));
    for caller in callers(table, site, callsite) {
        let location = table.get_location(caller);
        let file = paths.shown(&table.get_file(location.file).path);
        let function = table.get_function(location.function);
        lines.push(format!("{gutter} = called from {file}:{}, in {function}", location.line));
    }
    if let Some(hint) = hint {
        lines.extend([String::new(), format!("hint: {hint}")]);
    }
    lines.join("\n") + "\n"
}

/// Returns the arrow to the file, and the line if the file can be read.
fn place(
    table: &Table,
    location: &Location,
    gutter: &str,
    paths: &mut Paths<'_>,
    source: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let path = &table.get_file(location.file).path;
    let excerpt = source(path).and_then(|text| excerpt::of(&text, location.line, location.span));
    let mut place = paths.shown(path);
    if location.line > 0 {
        place = format!("{place}:{}", location.line);
        // Without the line, the byte offset of the expression is the best guess.
        let column = match &excerpt {
            Some(excerpt) => excerpt.column,
            None => location.span.map(|span| span.column as usize + 1),
        };
        place = column.map_or(place.clone(), |column| format!("{place}:{column}"));
    }
    let function = table.get_function(location.function);
    let mut lines = vec![format!("{gutter}--> {place}, in {function}")];
    if let Some(excerpt) = excerpt {
        let width = gutter.len();
        lines.push(format!("{gutter} |"));
        lines.push(format!("{:>width$} | {}", location.line, excerpt.line));
        lines.extend(excerpt.carets.map(|carets| format!("{gutter} | {carets}")));
    }
    lines
}

/// Returns the name scopes of a site, outermost first, and the primitive if it is known.
fn through(table: &Table, site: Site) -> Option<String> {
    let path = table.scope_path(site.scope?).into_iter().rev();
    let mut names: Vec<&str> = path.map(|id| &*table.get_scope(id).name).collect();
    let plugin = site.emitter.and_then(|emitter| table.plugin_of(emitter));
    names.extend(plugin.map(|id| &*table.get_emitter(id).name));
    Some(names.join(" / "))
}

/// Returns the user's frames that called the one that is shown.
fn callers(table: &Table, site: Site, callsite: Option<LocationId>) -> Vec<LocationId> {
    let Some(stack) = site.stack else {
        return Vec::new();
    };
    let is_user = |id: &LocationId| table.get_file(table.get_location(*id).file).tier == Tier::User;
    let outside = table.frames(stack).skip_while(|&id| Some(id) != callsite).skip(1);
    outside.filter(is_user).take(MAX_CALLERS).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::{Expect, expect};

    use super::*;
    use crate::frame::{Emitter, EmitterKind, ScopeKind};
    use crate::level::PathPolicy;
    use crate::testing::{Frame, frame, stack};

    /// Reports a site with these frames, in a file with this text.
    #[track_caller]
    fn check(text: &str, frames: &[Frame<'_>], expect: &Expect) {
        let mut table = Table::default();
        let stack = Some(stack(&mut table, frames));
        let site = table.site(Site { stack, scope: None, emitter: None });
        expect.assert_eq(&reported(&table, site, text, None));
    }

    fn reported(table: &Table, site: SiteId, text: &str, hint: Option<&str>) -> String {
        let nothing_there = |_: &Path| false;
        let mut paths = Paths::new(PathPolicy::Relative, &nothing_there);
        let source = |path: &str| (path == "model.py").then(|| text.to_owned());
        report(table, site, "no plugin for `eigh`", hint, &mut paths, &source)
    }

    fn user(line: u32) -> Frame<'static> {
        frame("model.py", Tier::User, "whiten", line)
    }

    #[test]
    fn an_error_shows_the_line_the_scopes_and_the_hint() {
        let mut table = Table::default();
        let frames =
            [frame("/opt/jax/eigh.py", Tier::Internal, "eigh", 7), user(42).span(11, 42, 31)];
        let stack = Some(stack(&mut table, &frames));
        let scope = table.scope(None, ScopeKind::Transform, "jit(forward)");
        let scope = Some(table.scope(Some(scope), ScopeKind::Name, "scan"));
        let emitter = Some(table.emitter(Emitter {
            kind: EmitterKind::Plugin,
            name: "eigh".into(),
            file: "eigh.rs".into(),
            line: 3,
            parent: None,
        }));
        let site = table.site(Site { stack, scope, emitter });
        let text = "\n".repeat(41) + "    w, v = jnp.linalg.eigh(cov)\n";
        expect![[r"
            error: no plugin for `eigh`
              --> model.py:42:12, in whiten
               |
            42 |     w, v = jnp.linalg.eigh(cov)
               |            ^^^^^^^^^^^^^^^^^^^^
               = through jit(forward) / scan / eigh

            hint: factor it before
        "]]
        .assert_eq(&reported(&table, site, &text, Some("factor it before")));
    }

    #[test]
    fn callers_are_the_users_frames_further_out() {
        let frames: Vec<_> = [user(1).span(0, 1, 1), frame("nn.py", Tier::Library, "apply", 2)]
            .into_iter()
            .chain((3..10).map(user))
            .collect();
        check(
            "x\n",
            &frames,
            &expect![[r"
                error: no plugin for `eigh`
                  --> model.py:1:1, in whiten
                   |
                 1 | x
                   | ^
                   = called from model.py:3, in whiten
                   = called from model.py:4, in whiten
                   = called from model.py:5, in whiten
                   = called from model.py:6, in whiten
                   = called from model.py:7, in whiten
            "]],
        );
    }

    #[test]
    fn an_expression_over_several_lines_is_underlined_to_the_end_of_the_first() {
        check(
            "y = f(a,  \n      b)\n",
            &[user(1).span(4, 2, 8)],
            &expect![[r"
                error: no plugin for `eigh`
                  --> model.py:1:5, in whiten
                   |
                 1 | y = f(a,
                   |     ^^^^ ...
            "]],
        );
    }

    #[test]
    fn tabs_and_wide_letters_keep_the_carets_in_place() {
        check(
            "\té = 漢(x)\n",
            &[user(1).span(6, 1, 12)],
            &expect![[r"
                error: no plugin for `eigh`
                  --> model.py:1:6, in whiten
                   |
                 1 |     é = 漢(x)
                   |         ^^^^^
            "]],
        );
    }

    #[test]
    fn a_line_without_a_span_has_no_carets() {
        check(
            "x = 1\n",
            &[user(1)],
            &expect![[r"
                error: no plugin for `eigh`
                  --> model.py:1, in whiten
                   |
                 1 | x = 1
            "]],
        );
    }

    #[test]
    fn a_span_that_is_not_in_the_line_has_no_carets() {
        check(
            "é\n",
            &[user(1).span(1, 1, 40)],
            &expect![[r"
                error: no plugin for `eigh`
                  --> model.py:1, in whiten
                   |
                 1 | é
            "]],
        );
    }

    #[test]
    fn a_line_that_cannot_be_read_is_not_shown() {
        let silent = expect![[r"
            error: no plugin for `eigh`
              --> model.py:3:5, in whiten
        "]];
        check("one\ntwo\n", &[user(3).span(4, 3, 5)], &silent);
        check("one\ntwo\n   \n", &[user(3).span(4, 3, 5)], &silent);
        check(
            "",
            &[frame("gone.py", Tier::User, "f", 12345).span(0, 12345, 2)],
            &expect![[r"
                error: no plugin for `eigh`
                     --> gone.py:12345:1, in f
            "]],
        );
        check(
            "x",
            &[user(0)],
            &expect![[r"
                error: no plugin for `eigh`
                  --> model.py, in whiten
            "]],
        );
    }

    #[test]
    fn without_frames_there_is_only_the_message() {
        let mut table = Table::default();
        let scope = Some(table.scope(None, ScopeKind::Name, "attn"));
        let site = table.site(Site { stack: None, scope, emitter: None });
        expect![[r"
            error: no plugin for `eigh`
               = through attn
        "]]
        .assert_eq(&reported(&table, site, "", None));
    }
}
