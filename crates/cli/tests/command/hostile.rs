//! Malicious inputs.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::fixtures;

/// A folder that is removed after the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("jax2onnx-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("the folder can be made");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until a program ends, and kills one that never would. Returns its exit code and its standard error.
#[track_caller]
fn ended(mut child: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    while child.try_wait().expect("the program can be asked").is_none() {
        let is_late = start.elapsed() > Duration::from_secs(120);
        if is_late {
            let _ = child.kill();
        }
        assert!(!is_late, "the program does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("the program ended");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Every input of every command. `@` is the file to try.
const INPUTS: &[&str] = &[
    "attach @ mapped.onnx.map -o OUT",
    "attach mapped.onnx @ -o OUT",
    "blame @",
    "blame indexed.onnx --map @",
    "check @",
    "cost @",
    "cost indexed.onnx --map @",
    "diff @ indexed.onnx",
    "diff indexed.onnx @",
    "diff indexed.onnx indexed.onnx --map-a @",
    "explain @ -m message",
    "explain indexed.onnx @",
    "inspect @",
    "profile @ mlp.py",
    "profile indexed.onnx @",
    "strip @ -o OUT",
    "view @ -o OUT",
    "view indexed.onnx --profile @ -o OUT",
    "view indexed.onnx --compare @ -o OUT",
    "view indexed.onnx --against @ -o OUT",
    "where @ tanh",
];

#[cfg(unix)]
#[test]
fn inputs_that_are_not_regular_files_are_refused_at_once() {
    let folder = Folder::new("special");
    let pipe = folder.0.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo runs").success());
    let link = folder.0.join("link.onnx");
    std::os::unix::fs::symlink("/dev/zero", &link).expect("a link can be made");
    for special in [&pipe, &link, &PathBuf::from("/dev/zero")] {
        for line in INPUTS {
            let output = folder.0.join("out.onnx");
            let place = |word: &str| match word {
                "@" => special.clone().into_os_string(),
                "OUT" => output.clone().into_os_string(),
                word => word.into(),
            };
            let child = Command::new(env!("CARGO_BIN_EXE_jax2onnx"))
                .args(line.split_whitespace().map(place))
                .current_dir(fixtures())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program runs");
            let (code, err) = ended(child);
            assert_eq!(code, Some(2), "{line}: {err}");
            assert_eq!(err, format!("error: `{}` is not a file\n", special.display()), "{line}");
            assert!(!output.exists());
        }
    }
}

/// Returns the output of `where` for a node of a model, run in a folder.
#[cfg(unix)]
fn excerpt(folder: &Folder, options: &[&str]) -> String {
    let model = fixtures().join("indexed.onnx");
    let output = Command::new(env!("CARGO_BIN_EXE_jax2onnx"))
        .args(["where".into(), model.into_os_string(), "#0".into()])
        .args(options)
        .current_dir(&folder.0)
        .output()
        .expect("the program runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(unix)]
#[test]
fn a_source_file_is_shown_only_below_a_folder_that_the_user_chose() {
    use std::os::unix::fs::symlink;

    let (outside, inside) = (Folder::new("outside"), Folder::new("inside"));
    let source = fixtures().join("mlp.py");
    let secret = outside.0.join("mlp.py");
    fs::copy(&source, &secret).expect("a file can be copied");
    let named = inside.0.join("mlp.py");
    let is_shown = |options: &[&str]| excerpt(&inside, options).contains(" | ");
    assert!(!is_shown(&[]));
    // A link that leads out of the folder, directly or through another folder.
    symlink(&secret, &named).expect("a link can be made");
    assert!(!is_shown(&[]), "{}", excerpt(&inside, &[]));
    assert!(is_shown(&["--source-root", &outside.0.to_string_lossy()]));
    assert!(is_shown(&["--source-root", "/"]));
    // A link to a file that is not Python.
    fs::remove_file(&named).expect("the link can be removed");
    fs::copy(&source, inside.0.join(".env")).expect("a file can be copied");
    symlink(".env", &named).expect("a link can be made");
    assert!(!is_shown(&[]));
    // A link within the folder.
    fs::remove_file(&named).expect("the link can be removed");
    fs::copy(&source, inside.0.join("real.py")).expect("a file can be copied");
    symlink("real.py", &named).expect("a link can be made");
    assert!(is_shown(&[]));
}
