//! The program `jax2onnx`, without Python.

use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr().lock());
    let arguments = std::env::args_os().collect();
    let code = cli::run(arguments, &mut out, &mut err, cli::Screen::detect(), None);
    ExitCode::from(u8::try_from(code).unwrap_or(2))
}
