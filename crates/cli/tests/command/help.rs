use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{fixtures, run};

#[test]
fn every_command_has_examples_that_fit_80_columns() {
    let help = String::from_utf8(run("--help", &fixtures()).stdout).expect("help is UTF-8");
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let mut asked = 0;
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        if command == "help" {
            continue;
        }
        asked += 1;
        let output = run(&format!("{command} --help"), &fixtures());
        let help = String::from_utf8(output.stdout).expect("help is UTF-8");
        assert!(output.status.success(), "{command}");
        assert!(help.contains("Examples:\n  jax2onnx "), "{command} has no example:\n{help}");
        let examples = help.lines().skip_while(|line| *line != "Examples:");
        let too_long = examples.filter(|line| line.chars().count() > 80).collect::<Vec<_>>();
        assert!(too_long.is_empty(), "{command}: {too_long:?}");
    }
    assert!(asked >= 11, "{asked}");
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&format!("completions {shell}"), &fixtures());
        let script = String::from_utf8(output.stdout).expect("a script is UTF-8");
        for command in ["blame", "check", "diff", "inspect", "view", "where"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let folder = std::env::temp_dir().join(format!("jax2onnx-man-{}", std::process::id()));
    let output = run(&format!("man --out {}", folder.display()), &fixtures());
    assert!(output.status.success());
    let page = std::fs::read_to_string(folder.join("jax2onnx-where.1")).expect("a page");
    assert!(
        page.contains("jax2onnx where \\- Show the line of Python that a node came from"),
        "{page}"
    );
    std::fs::remove_dir_all(&folder).expect("the pages are removed");
}

/// Returns the output of `where` and `blame` beside a source, without exit codes.
fn asked_beside(source: &str, model: &str) -> String {
    static FOLDERS: AtomicUsize = AtomicUsize::new(0);
    let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let name = format!("jax2onnx-stale-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::copy(fixtures().join(model), folder.join(model)).expect("a file can be copied");
    // One of the models has a map.
    let map = format!("{model}.map");
    let _ = std::fs::copy(fixtures().join(&map), folder.join(&map));
    let exported = std::fs::File::options().write(true).open(folder.join(model));
    exported.and_then(|file| file.set_modified(std::time::UNIX_EPOCH)).expect("an older model");
    std::fs::write(folder.join("mlp.py"), source).expect("a source");
    let asked = ["where", "blame"].map(|command| {
        let what = if command == "where" { "tanh" } else { "mlp.py" };
        let output = run(&format!("{command} {model} {what}"), &folder);
        [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .concat()
    });
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
    asked.concat()
}

#[test]
fn a_source_that_changed_is_not_shown() {
    let source = std::fs::read_to_string(fixtures().join("mlp.py")).expect("the source");
    for model in ["indexed.onnx", "mapped.onnx"] {
        assert!(asked_beside(&source, model).contains("return jnp.tanh(carry) * SCALE"), "{model}");
        let moved = format!("\n{source}");
        let other = source.replace("jnp.tanh(carry)", "jnp.sinh(2 * carry)");
        let renamed = source.replace("def body", "def inner");
        for changed in [moved, other, renamed] {
            let printed = asked_beside(&changed, model);
            assert!(printed.contains("changed since the export"), "{model}: {printed}");
            assert!(!printed.contains("return jnp"), "{model}: {printed}");
        }
    }
    // Only the hash in the map detects this change.
    let comment = source.replace("import jax\n", "import jax  # JAX\n");
    assert!(asked_beside(&comment, "mapped.onnx").contains("changed since the export"));
    let printed = asked_beside(&comment, "indexed.onnx");
    assert!(printed.contains("called from mlp.py"), "{printed}");
    // There is one warning for all frames of the call path.
    let warnings = printed.matches("dated after the model: it may have changed").count();
    assert_eq!(warnings, 1, "{printed}");
}

#[test]
fn a_source_in_the_folder_of_the_model_is_shown_only_if_it_has_the_recorded_hash() {
    let folder = std::env::temp_dir().join(format!("jax2onnx-near-{}", std::process::id()));
    let (away, near) = (folder.join("away"), folder.join("near"));
    std::fs::create_dir_all(&away).expect("a folder");
    std::fs::create_dir_all(&near).expect("a folder");
    for file in ["indexed.onnx", "mapped.onnx", "mapped.onnx.map", "mlp.py"] {
        std::fs::copy(fixtures().join(file), near.join(file)).expect("a file can be copied");
    }
    let asked = |model: &str| {
        let output = run(&format!("where ../near/{model} tanh"), &away);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let line = "return jnp.tanh(carry) * SCALE";
    assert!(asked("mapped.onnx").contains(line), "{}", asked("mapped.onnx"));
    // This model has no hash of the file.
    assert!(!asked("indexed.onnx").contains(line));
    let changed = std::fs::read_to_string(near.join("mlp.py")).expect("the source") + "# end\n";
    std::fs::write(near.join("mlp.py"), changed).expect("the file can be written");
    assert!(!asked("mapped.onnx").contains(line));
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_jax2onnx"))
        .args(["plugins"])
        .current_dir(fixtures())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
