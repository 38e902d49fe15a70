//! The table as one versioned text, for the `indexed` level.
//!
//! A JSON object with a list for each kind of entry; an entry refers to another by its position.
//! `docs/provenance-format.md` is its specification.
//!
//! | list | entry |
//! | --- | --- |
//! | `files` | path, tier |
//! | `functions` | qualified name |
//! | `locations` | file, function, line; where known column, last line if it is another, end column |
//! | `frames` | a run: the frame that called the first or null, then the location of each, each called from the one before |
//! | `scopes` | name, enclosing scope or null; `"transform"` where it is none of the user's |
//! | `emitter_files` | path |
//! | `emitters` | kind, name, emitter file, line, emitter that called it or null |
//! | `places` | frame, emitter, each or null |
//! | `origins` | a run: scope or null, then the place of each |
//! | `fused` | an origin, then the origins before it that it stands for as well |

mod decode;
mod encode;
pub mod json;
mod words;

pub(crate) use decode::decode_value;
pub use decode::{DecodeError, Decoded, decode};
pub use encode::{Encoded, Encoder, encode};

/// The version that is written, and the only one that is read.
pub const VERSION: u64 = 1;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;
    use proptest::prelude::*;

    use super::*;
    use crate::frame::{Emitter, EmitterKind, ScopeKind};
    use crate::level::PathPolicy;
    use crate::origin::{Origin, Site};
    use crate::paths::Paths;
    use crate::table::{OriginId, Table};
    use crate::testing::{Draw, frame, seeded, stack};
    use crate::tier::Tier;

    fn encoded(table: &Table, roots: &[OriginId]) -> Encoded {
        let nothing_there = |_: &Path| false;
        encode(table, roots, &mut Paths::new(PathPolicy::Absolute, &nothing_there))
    }

    /// Every origin with all that its ids stand for, as one text each.
    fn spelled_out(table: &Table, origins: &[OriginId]) -> Vec<Vec<String>> {
        let spell = |site: Site| {
            let frames = site.stack.map(|stack| {
                let locations = table.frames(stack).map(|id| table.get_location(id));
                let frame = |location: crate::Location| {
                    let file = table.get_file(location.file);
                    let function = table.get_function(location.function);
                    format!("{file:?} {function:?} {} {:?}", location.line, location.span)
                };
                locations.map(frame).collect::<Vec<_>>()
            });
            let scopes = site.scope.map(|scope| {
                let entries = table.scope_path(scope).into_iter().map(|id| table.get_scope(id));
                entries
                    .map(|scope| format!("{:?} {:?}", scope.kind, scope.name))
                    .collect::<Vec<_>>()
            });
            let emitters = site.emitter.map(|emitter| {
                let entries =
                    table.emitter_path(emitter).into_iter().map(|id| table.get_emitter(id));
                let spell = |Emitter { kind, name, file, line, .. }: &Emitter| {
                    format!("{kind:?} {name:?} {file:?} {line}")
                };
                entries.map(spell).collect::<Vec<_>>()
            });
            format!("{frames:?} {scopes:?} {emitters:?}")
        };
        let origins = origins.iter().map(|&id| {
            let mut sites = table.get_origin(id).sites().map(|site| spell(table.get_site(site)));
            let primary = sites.next();
            let mut absorbed: Vec<_> = sites.collect();
            absorbed.sort();
            primary.into_iter().chain(absorbed).collect()
        });
        origins.collect()
    }

    #[test]
    fn only_what_is_reached_is_written_in_the_order_of_first_use() {
        let mut table = Table::default();
        stack(&mut table, &[frame("unused.py", Tier::User, "unused", 1)]);
        let frames = [
            frame("nn.py", Tier::Library, "apply", 7),
            frame("model.py", Tier::User, "f", 42).span(4, 42, 9),
        ];
        let stack = Some(stack(&mut table, &frames));
        let scope = Some(table.scope(None, ScopeKind::Transform, "jit(f)"));
        let emitter = Some(table.emitter(Emitter {
            kind: EmitterKind::Plugin,
            name: "sin".into(),
            file: "sin.rs".into(),
            line: 3,
            parent: None,
        }));
        let bare = table.site(Site { stack, scope: None, emitter: None });
        let full = table.site(Site { stack, scope, emitter });
        let unused = table.origin(Origin::of(bare));
        let origin = table.origin(Origin::of(full).absorb(&Origin::of(bare)));
        let document = encoded(&table, &[origin, origin]);
        assert_eq!(document.numbers.get(&origin), Some(&1));
        assert_eq!(document.numbers.get(&unused), None);
        expect![[r#"{"version":1,"files":[["model.py","user"],["nn.py","library"]],"functions":["f","apply"],"locations":[[0,0,42,4,9],[1,1,7]],"frames":[[null,0,1]],"scopes":[["jit(f)",null,"transform"]],"emitter_files":["sin.rs"],"emitters":[["plugin","sin",0,3,null]],"places":[[1,null],[1,0]],"origins":[[null,0],[0,1]],"fused":[[1,0]]}"#]]
        .assert_eq(&document.text);
    }

    #[test]
    fn a_wrong_document_says_what_is_wrong() {
        let refused = |text: &str| decode(text).unwrap_err().to_string();
        assert_eq!(refused("[]"), "the provenance table has no `version`");
        assert_eq!(refused(r#"{"version":2}"#), "version 2 of the provenance table is unknown");
        assert_eq!(refused(r#"{"version":1}"#), "the provenance table has no `files`");
        let (table, origins) = Draw::new(&[]).table();
        let text = encoded(&table, &origins).text;
        let cyclic = text.replace(r#""frames":[]"#, r#""frames":[[0,0]]"#);
        assert_eq!(refused(&cyclic), "entry 0 of `frames` in the provenance table is malformed");
        let origins = r#""origins":[[null,0]]"#;
        let malformed =
            |list: &str| format!("entry 0 of `{list}` in the provenance table is malformed");
        for wrong in ["[null,9]", "[0,0]", "[null]", "[]", "0"] {
            let text = text.replace(origins, &format!(r#""origins":[{wrong}]"#));
            assert_eq!(refused(&text), malformed("origins"), "{wrong}");
        }
        for wrong in ["[0,0]", "[1,0]", "[0]"] {
            let text = text.replace(r#""fused":[]"#, &format!(r#""fused":[{wrong}]"#));
            assert_eq!(refused(&text), malformed("fused"), "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(seeded())]

        #[test]
        fn decode_undoes_encode(choices in Draw::choices()) {
            let (table, origins) = Draw::new(&choices).table();
            let document = encoded(&table, &origins);
            let decoded = decode(&document.text).unwrap();
            let again = origins.map(|id| decoded.origins[document.numbers[&id] as usize]);
            prop_assert_eq!(spelled_out(&decoded.table, &again), spelled_out(&table, &origins));
            prop_assert_eq!(encoded(&decoded.table, &decoded.origins).text, document.text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = decode(&text);
        }

        #[test]
        fn a_damaged_document_is_read_or_refused(
            choices in Draw::choices(),
            at in any::<prop::sample::Index>(),
            damage in "[\\[\\]{}\",0-9a-z-]{0,3}",
        ) {
            let (table, origins) = Draw::new(&choices).table();
            let mut text: Vec<char> = encoded(&table, &origins).text.chars().collect();
            let at = at.index(text.len());
            text.splice(at..=at, damage.chars());
            let text: String = text.into_iter().collect();
            if let Ok(decoded) = decode(&text) {
                encoded(&decoded.table, &decoded.origins);
                spelled_out(&decoded.table, &decoded.origins);
            }
        }
    }
}
