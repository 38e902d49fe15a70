//! The table as one versioned text, for the `indexed` level.
//!
//! The text is a JSON object with a list for each kind of entry. An entry refers to another by its position. Texts
//! are lists of texts, and numbers are packed, as `packed.rs` describes. `docs/provenance-format.md` is the
//! specification.

mod decode;
mod encode;
pub mod json;
mod lists;
mod packed;
mod words;

pub(crate) use decode::decode_value;
pub use decode::{DecodeError, Decoded, decode};
pub use encode::{Encoded, Encoder, encode};

/// The version that jax2onnx writes, and the only one that it reads.
pub const VERSION: u64 = 1;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect;
    use proptest::prelude::*;

    use super::packed::Packer;
    use super::*;
    use crate::frame::{Emitter, EmitterKind, Location, ScopeKind};
    use crate::level::PathPolicy;
    use crate::origin::{Origin, Site};
    use crate::paths::Paths;
    use crate::table::{File, FileId, OriginId, Table};
    use crate::testing::{Draw, frame, seeded, stack};
    use crate::tier::Tier;

    fn encoded(table: &Table, roots: &[OriginId]) -> Encoded {
        let nothing_there = |_: &Path| false;
        encode(table, roots, &mut Paths::new(PathPolicy::Absolute, &nothing_there))
    }

    /// Returns every origin as texts, one for each site, with all ids resolved.
    fn spelled_out(table: &Table, origins: &[OriginId]) -> Vec<Vec<String>> {
        let spell = |site: Site| {
            let frames = site.stack.map(|stack| {
                let locations = table.frames(stack).map(|id| table.get_location(id));
                let frame = |location: Location| {
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
        expect![[r#"{"version":1,"files":["model.py","nn.py"],"tiers":"ul","functions":["f","apply"],"locations":"AA0CFAKCClCA","frames":"ACACA","scope_names":["jit(f)"],"scopes":"BA","emitter_files":["sin.rs"],"emitter_names":["sin"],"emitters":"AAADA","places":"EAAC","origins":"AABACABC","fused":"BABAA"}"#]]
        .assert_eq(&document.text);
    }

    #[test]
    fn a_malformed_document_is_described() {
        let refused = |text: &str| decode(text).unwrap_err().to_string();
        assert_eq!(refused("[]"), "the provenance table has no `version`");
        assert_eq!(
            refused(r#"{"version":2}"#),
            "the provenance table has the unknown version 2; update jax2onnx to read it"
        );
        assert_eq!(refused(r#"{"version":1}"#), "the provenance table has no `tiers`");
        let (table, origins) = Draw::new(&[]).table();
        let text = encoded(&table, &origins).text;
        let malformed =
            |list: &str| format!("entry 0 of `{list}` in the provenance table is malformed");
        let places = text.replace(r#""places":"AA""#, r#""places":"CA""#);
        assert_eq!(refused(&places), malformed("places"));
        for (list, right, wrongs) in [
            // Among these are a frame of a location that does not exist, and a frame that calls itself.
            ("frames", "", &["ABA", "ABAA", "B", "A", "é"][..]),
            ("origins", "AABA", &["CABA", "AABC", "AAA", "AB", "A"]),
            ("fused", "", &["AABAA", "BABAA", "AAA", "AB"]),
        ] {
            for wrong in wrongs {
                let (right, wrong) =
                    (format!(r#""{list}":"{right}""#), format!(r#""{list}":"{wrong}""#));
                let changed = text.replace(&right, &wrong);
                assert_ne!(changed, text);
                assert_eq!(refused(&changed), malformed(list), "{wrong}");
            }
        }
    }

    /// Returns a document with these packed lists. The other lists have at most one entry.
    fn document(lists: &[(&str, &str)]) -> String {
        let packed = |name: &str, default: &str| {
            let given = lists.iter().find(|(list, _)| *list == name);
            format!(r#""{name}":"{}""#, given.map_or(default, |(_, text)| text))
        };
        let texts = r#""version":1,"files":["a.py"],"tiers":"u","functions":["f"],"scope_names":[],"emitter_files":[],"emitter_names":[]"#;
        let defaults = [("locations", "AACA"), ("places", "AA"), ("origins", "AABA")];
        let empty = ["frames", "scopes", "emitters", "fused"].map(|name| (name, ""));
        let all = defaults.iter().chain(&empty).map(|(name, default)| packed(name, default));
        format!("{{{texts},{}}}", all.collect::<Vec<_>>().join(","))
    }

    /// Returns a packed list of the numbers in `first`, followed by `count` repetitions of those in `again`.
    fn list(first: &[u32], again: &[u32], count: usize) -> String {
        let mut packer = Packer::default();
        let repeated = std::iter::repeat_n(again, count).flatten();
        first.iter().chain(repeated).for_each(|&number| packer.number(number));
        packer.text
    }

    #[test]
    fn a_list_that_repeats_more_than_its_size_allows_is_refused() {
        let run = [0; 1000];
        let frames = |count| list(&[&[0, 1000], &run[..], &[0]].concat(), &[0, 0, 1000, 1], count);
        let origins = |count| list(&[&[0, 0, 1000], &run[..]].concat(), &[0, 1], count);
        let thousand = origins(1);
        let fused = |count| list(&[1000, 0, 1, 0, 999], &[0, 1], count);
        let ranges = |count| list(&[1000, 0, 1, 0, 999], &[0, 0, 1, 0, 999], count);
        let documents = |count| {
            [
                ("frames", document(&[("frames", &frames(count))])),
                ("origins", document(&[("origins", &origins(count))])),
                ("fused", document(&[("origins", &thousand), ("fused", &fused(count))])),
                ("fused", document(&[("origins", &thousand), ("fused", &ranges(count))])),
            ]
        };
        for (list, document) in documents(20) {
            if let Err(error) = decode(&document) {
                panic!("{list}: {error}");
            }
        }
        for (list, document) in documents(400) {
            let expected =
                format!("`{list}` in the provenance table expands to more than its size allows");
            assert_eq!(decode(&document).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_table_of_very_many_equal_layers_can_be_read_again() {
        let mut table = Table::default();
        let mut roots = Vec::new();
        let places: Vec<_> = (1..=60)
            .map(|line| stack(&mut table, &[frame("model.py", Tier::User, "f", line)]))
            .collect();
        for layer in 0..2000 {
            let scope = Some(table.scope(None, ScopeKind::Name, &format!("layer.{layer}")));
            let sites: Vec<_> = places
                .iter()
                .map(|&stack| table.site(Site { stack: Some(stack), scope, emitter: None }))
                .collect();
            roots.extend(sites.iter().map(|&site| table.origin(Origin::of(site))));
            let fused = sites.iter().map(|&site| Origin::of(site));
            let fused = fused.reduce(|one, other| one.absorb(&other)).unwrap();
            roots.push(table.origin(fused));
        }
        let encoded = encoded(&table, &roots);
        let decoded = decode(&encoded.text).unwrap();
        let last = roots[roots.len() - 1];
        let again = decoded.origins[encoded.numbers[&last] as usize];
        assert_eq!(spelled_out(&decoded.table, &[again]), spelled_out(&table, &[last]));
    }

    #[test]
    fn the_hash_of_a_cell_is_in_the_table() {
        let mut table = Table::default();
        let hash = "0123456789abcdef".repeat(4);
        let cell =
            File { path: "In [3]".into(), tier: Tier::User, cell: Some(hash.as_str().into()) };
        let file = table.add_file(cell.clone());
        let function = table.function("f");
        let location = table.location(Location { file, function, line: 2, span: None });
        let stack = Some(table.push(None, location));
        let site = table.site(Site { stack, scope: None, emitter: None });
        let origin = table.origin(Origin::of(site));
        let text = encoded(&table, &[origin]).text;
        assert!(text.contains(&format!(r#""cells":[[0,"{hash}"]]"#)), "{text}");
        let decoded = decode(&text).unwrap();
        assert_eq!(decoded.table.get_file(FileId(0)), &cell);
        assert_eq!(encoded(&decoded.table, &decoded.origins).text, text);
        for damaged in
            [r#""cells":[[0]]"#, r#""cells":[0]"#, r#""cells":{}"#, r#""cells":[["a","b"]]"#]
        {
            let text = text.replace(&format!(r#""cells":[[0,"{hash}"]]"#), damaged);
            let error = decode(&text).unwrap_err().to_string();
            assert_eq!(error, "entry 0 of `cells` in the provenance table is malformed");
        }
    }

    #[test]
    fn the_hash_of_a_file_is_in_the_table_if_it_is_known() {
        let mut table = Table::default();
        let frames = [frame("b.py", Tier::User, "f", 1), frame("a.py", Tier::User, "g", 2)];
        let site = Site { stack: Some(stack(&mut table, &frames)), scope: None, emitter: None };
        let site = table.site(site);
        let root = table.origin(Origin::of(site));
        let nothing_there = |_: &Path| false;
        let mut encoder = Encoder::new(&table);
        encoder.number(root, &mut Paths::new(PathPolicy::Absolute, &nothing_there));
        let text = encoder.text(&[None, Some("ab".into())]);
        assert!(text.contains(r#""files":["a.py","b.py"]"#), "{text}");
        assert!(text.contains(r#""hashes":[[1,"ab"]]"#), "{text}");
        let decoded = decode(&text).unwrap();
        assert_eq!([0, 1].map(|id| decoded.hash(FileId(id))), [None, Some("ab")]);
        assert!(!encoder.text(&[None, None]).contains("hashes"));
        let unknown = decode(&text.replace("[1,", "[2,")).unwrap();
        assert!(unknown.hashes.is_empty());
        let error = decode(&text.replace(r#"[1,"ab"]"#, "[1]")).unwrap_err().to_string();
        assert_eq!(error, "entry 0 of `hashes` in the provenance table is malformed");
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
