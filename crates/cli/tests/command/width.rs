//! Tables on narrow and wide screens.

use std::path::Path;

use cli::Screen;
use provenance::report::excerpt::width;

const INSPECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../inspect/tests");

/// Returns the output and the notes of a command on a screen of this width.
fn printed(line: &str, columns: usize) -> String {
    let fixtures = super::fixtures();
    let file = |word: &str| match word.strip_prefix('@') {
        Some(name) if Path::new(INSPECT).join(name).exists() => format!("{INSPECT}/{name}"),
        Some(name) => fixtures.join(name).display().to_string(),
        None => word.replace('_', " "),
    };
    let arguments = std::iter::once("jax2onnx".to_owned()).chain(line.split(' ').map(file));
    let screen = Screen { color: false, width: columns };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = arguments.map(Into::into).collect();
    cli::run(arguments, &mut out, &mut err, screen, None);
    out.append(&mut err);
    String::from_utf8(out).expect("what is printed is UTF-8")
}

/// Commands that print long names, many operators and long sentences.
const COMMANDS: &[&str] = &[
    "profile @profiles/images.onnx @profiles/images.json",
    "profile @profiles/images.onnx @profiles/images.json --by function",
    "profile @profiles/transformer.onnx @profiles/transformer.json --by node",
    "profile @profiles/transformer.onnx @profiles/transformer.json --by op",
    "cost @indexed.onnx",
    "cost @indexed.onnx --size B=3 --by module",
    "cost @profiles/transformer.onnx",
    "cost @profiles/images.onnx --by node",
    "cost @indexed.onnx --size THERE_IS_NO_SIZE_OF_THIS_NAME=3",
    "blame @indexed.onnx",
    "blame @indexed.onnx mlp.py",
    "blame @profiles/transformer.onnx",
    "inspect @optimised.onnx",
    "inspect @indexed.onnx",
    "where @indexed.onnx tanh",
    "where @indexed.onnx WEIGHT",
    "where @minimal.onnx tanh",
    "diff @off.onnx @optimised.onnx",
    "diff @indexed.onnx @second.onnx",
    "check @optimised.onnx",
    "explain @indexed.onnx -m MatMul_dimension_mismatch",
    "explain @minimal.onnx -m error_in_node_'tanh'",
    "plugins",
    "where @off.onnx tanh",
    "blame @off.onnx",
    "blame @minimal.onnx mlp.py",
    "profile @off.onnx @profiles/images.json",
    "profile @off.onnx @profiles/there_is_no_file_of_this_name_in_this_folder.json",
    "export m:f --input f33[B]",
];

#[test]
fn output_fits_80_columns() {
    for command in COMMANDS {
        let text = printed(command, 80);
        assert!(!text.is_empty(), "{command}");
        // The path of a file that the user named is not wrapped.
        let lines = text.lines().filter(|line| !line.contains(env!("CARGO_MANIFEST_DIR")));
        let wide: Vec<&str> = lines.filter(|line| width(line) > 80).collect();
        assert!(wide.is_empty(), "{command}:\n{}", wide.join("\n"));
    }
}

#[test]
fn a_wide_screen_shows_more() {
    for command in [
        "profile @profiles/images.onnx @profiles/images.json --by function",
        "plugins logistic",
        "explain @indexed.onnx -m MatMul_dimension_mismatch",
    ] {
        let widest = |columns| {
            let text = printed(command, columns);
            text.lines().map(width).max().unwrap_or(0)
        };
        assert!(widest(80) <= 80, "{command}");
        assert!((81..=200).contains(&widest(200)), "{command}: {}", widest(200));
    }
}

#[test]
fn nothing_is_lost_on_a_narrow_screen() {
    for command in ["where @indexed.onnx WEIGHT", "plugins logistic", "check @optimised.onnx"] {
        let words = |columns| {
            let text = printed(command, columns);
            text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words(80), words(200), "{command}");
    }
}

#[test]
fn short_operators_leave_room_for_the_source() {
    let root = super::fixtures().display().to_string();
    let text = printed(&format!("blame @mapped.onnx mlp.py:17 --source-root {root}"), 80);
    assert!(text.contains("return jnp.tanh(carry) * SCALE, None  Tanh, Mul"), "{text}");
}
