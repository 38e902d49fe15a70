//! Compiles `onnx.proto` of the first folder into `onnx.rs` of the second.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut folders = std::env::args().skip(1);
    let (Some(from), Some(to)) = (folders.next(), folders.next()) else {
        return Err("usage: generate-proto FOLDER_OF_ONNX_PROTO OUT_FOLDER".into());
    };
    let files = protox::compile(["onnx.proto"], [from])?;
    std::fs::create_dir_all(&to)?;
    prost_build::Config::new()
        .bytes([".onnx.TensorProto.raw_data"])
        .disable_comments(["."])
        .out_dir(&to)
        .compile_fds(files)?;
    Ok(())
}
