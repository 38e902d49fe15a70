use std::process::{Command, Stdio};

use super::{fixtures, run};

#[test]
fn every_command_has_an_example() {
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
    }
    assert!(asked >= 11, "{asked}");
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&format!("completions {shell}"), &fixtures());
        let script = String::from_utf8(output.stdout).expect("a script is UTF-8");
        for command in ["blame", "check", "diff", "inspect", "where"] {
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
        page.contains("jax2onnx where \\- Show which line of Python a node came from"),
        "{page}"
    );
    std::fs::remove_dir_all(&folder).expect("the pages are removed");
}

#[test]
fn who_closes_the_pipe_has_seen_enough() {
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
