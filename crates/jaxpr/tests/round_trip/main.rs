//! Checks the law of the text form: parsing a printed program returns the same program.

mod draw;
mod same;

use jaxpr::{check, parse, text};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use draw::Draw;

fn seeded() -> ProptestConfig {
    ProptestConfig {
        cases: 512,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(seeded())]

    #[test]
    fn a_program_is_read_back_as_it_was(choices in prop::collection::vec(any::<u8>(), 0..600)) {
        let program = Draw::new(&choices).program();
        prop_assert_eq!(check(&program.main), Ok(()));
        let printed = text::print(&program);
        let again = match parse(&printed) {
            Ok(again) => again,
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{printed}"))),
        };
        prop_assert_eq!(text::print(&again), printed.clone());
        prop_assert!(same::programs(&program, &again), "{}", printed);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = parse(&text);
        let _ = parse(&format!("x:f32[] -> y:f32[] = f{{p={text}}} x"));
        let _ = parse(&format!("jaxpr f() {{ {text} }}"));
    }

    #[test]
    fn a_damaged_text_is_read_or_refused(
        choices in prop::collection::vec(any::<u8>(), 0..300),
        at in any::<prop::sample::Index>(),
        damage in "[\\[\\]{}()<>\":;,.@#~/=0-9a-z\n é-]{0,3}",
    ) {
        let mut printed: Vec<char> = text::print(&Draw::new(&choices).program()).chars().collect();
        let at = at.index(printed.len() - 1);
        printed.splice(at..at + 2, damage.chars());
        let _ = parse(&printed.into_iter().collect::<String>());
    }
}
