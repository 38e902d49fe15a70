#![no_main]

const MODEL: &[u8] = include_bytes!("../../crates/inspect/tests/profiles/loop.onnx");

libfuzzer_sys::fuzz_target!(|data: &[u8]| jax2onnx_fuzz::profile(MODEL, data));
