use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::codec::{decode, encode};
use crate::level::PathPolicy;
use crate::outline::{GraphPlace, OutlineBuilder};
use crate::paths::Paths;
use crate::testing::{Draw, seeded};

/// The nodes of a generated model: for each its number, whether it begins a body, and its operands.
type Steps = Vec<(u8, bool, Vec<u8>)>;

fn steps() -> impl Strategy<Value = Steps> {
    prop::collection::vec(
        (any::<u8>(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..3)),
        0..9,
    )
}

fn outline(steps: &Steps) -> Outline {
    let mut builder = OutlineBuilder::default();
    let mut around = builder.graph(GraphPlace::Main, None);
    for (number, (op, begins, inputs)) in steps.iter().enumerate() {
        if *begins && number > 0 {
            let place = match op % 2 {
                0 => GraphPlace::Function(format!("local::f{number}").into()),
                _ => GraphPlace::Body { node: number as u32 - 1, attribute: "body".into() },
            };
            around = builder.graph(place, Some(around));
        }
        let inputs: Vec<String> = inputs.iter().map(|input| format!("v{}", input % 9)).collect();
        let (name, op) = (format!("n{number} \"é\""), ["Sin", "Add", "If"][usize::from(op % 3)]);
        let outputs = match number % 3 {
            0 => vec![name.clone()],
            1 => vec![format!("v{number}")],
            _ => vec![format!("v{number}"), format!("w{number}")],
        };
        builder.node(
            &name,
            if number % 4 == 0 { "my" } else { "" },
            op,
            inputs.iter().map(String::as_str),
            outputs.iter().map(String::as_str),
        );
    }
    builder.finish()
}

fn with_map<T>(choices: &[u8], steps: &Steps, use_it: impl FnOnce(&Draft<'_>) -> T) -> T {
    let (table, roots) = Draw::new(choices).table();
    let nothing_there = |_: &Path| false;
    let table = encode(&table, &roots, &mut Paths::new(PathPolicy::Absolute, &nothing_there)).text;
    let decoded = decode(&table).unwrap();
    let outline = outline(steps);
    let count = decoded.origins.len();
    let origins: Vec<Option<u32>> =
        (0..outline.nodes.len()).map(|i| (i % 3 > 0).then_some((i % count) as u32)).collect();
    let sources: Vec<Source> = (0..decoded.table.file_count())
        .map(|i| Source {
            sha256: (i % 2 == 0).then(|| format!("{i:064x}")),
            text: (i % 3 == 0).then(|| "a = \"é\"\n".into()),
        })
        .collect();
    let values = [MapValue { name: "w".into(), origin: Some(0), paths: vec!["a.b".into()] }];
    let (table, outline, origins) = (table.as_str(), &outline, origins.as_slice());
    use_it(&Draft { table, outline, origins, values: &values, sources: &sources, more: &[] })
}

proptest! {
    #![proptest_config(seeded())]

    #[test]
    fn reading_undoes_writing(choices in Draw::choices(), steps in steps()) {
        with_map(&choices, &steps, |draft| {
            let (text, id) = draft.finish();
            let map = SourceMap::read(&text).unwrap();
            prop_assert_eq!(&*map.debug_id, &*id);
            prop_assert_eq!(&map.outline, draft.outline);
            prop_assert_eq!(&map.origins, draft.origins);
            prop_assert_eq!(&map.values, draft.values);
            prop_assert_eq!(&map.sources, draft.sources);
            prop_assert_eq!(&map.provenance.origins, &decode(draft.table).unwrap().origins);
            Ok(())
        })?;
    }

    #[test]
    fn a_damaged_map_is_read_or_refused(
        choices in Draw::choices(),
        steps in steps(),
        at in any::<prop::sample::Index>(),
        damage in "[\\[\\]{}\",0-9a-z-]{0,3}",
    ) {
        let text = with_map(&choices, &steps, |draft| draft.finish().0);
        let mut text: Vec<char> = text.chars().collect();
        let at = at.index(text.len());
        text.splice(at..=at, damage.chars());
        if let Ok(map) = SourceMap::read(&text.into_iter().collect::<String>()) {
            let later = map.outline.clone();
            crate::resolve::Resolver::new(map).resolve_model(&later);
        }
    }
}

#[test]
fn the_id_is_that_of_the_model_and_not_of_the_sources() {
    let steps = vec![(0, false, vec![])];
    with_map(&[3; 40], &steps, |draft| {
        let (_, id) = draft.finish();
        assert_eq!(Draft { sources: &[], ..draft.clone() }.finish().1, id);
        assert_eq!(Draft { origins: &[None], ..draft.clone() }.finish().1, id);
        assert_ne!(
            Draft { outline: &outline(&vec![(1, false, vec![])]), ..draft.clone() }.finish().1,
            id
        );
    });
}

#[test]
fn a_map_of_another_model_is_refused() {
    let map = SourceMap { debug_id: "12".into(), ..SourceMap::default() };
    assert_eq!(map.check("12"), Ok(()));
    assert_eq!(
        map.check("34").unwrap_err().to_string(),
        "this is the source map of another model: its debug id is `12`, and the debug id of the model is `34`"
    );
}

#[test]
fn a_malformed_map_is_described() {
    let refused = |text: &str| SourceMap::read(text).unwrap_err().to_string();
    assert_eq!(refused("{}"), "this is not a source map, because it has no `debug_id`");
    let start = r#"{"debug_id":"","version":"#;
    assert_eq!(
        refused(&format!("{start}2}}")),
        "the source map has the unknown version 2; update jax2onnx to read it"
    );
    assert_eq!(
        refused(&format!("{start}1}}")),
        "this is not a source map, because it has no `provenance`"
    );
    let text = with_map(&[], &vec![(0, false, vec![])], |draft| draft.finish().0);
    let text = text.replace("null,[]]", "9,[]]");
    assert_eq!(refused(&text), "entry 0 of `graphs` in the source map is malformed");
}
