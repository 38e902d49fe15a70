//! The program `jax2onnx`, without Python.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut err = std::io::stderr().lock();
    let arguments = std::env::args_os().collect();
    let code = cli::run(arguments, &mut out, &mut err, cli::Screen::detect(), None);
    // A broken pipe here is one like any other: whoever read has seen enough.
    let _ = out.flush();
    ExitCode::from(u8::try_from(code).unwrap_or(2))
}
