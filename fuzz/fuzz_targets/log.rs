#![no_main]

const MODEL: &[u8] = include_bytes!("../../crates/inspect/tests/failures/in_a_loop_of_a_function.onnx");

libfuzzer_sys::fuzz_target!(|data: &[u8]| jax2onnx_fuzz::log(MODEL, data));
