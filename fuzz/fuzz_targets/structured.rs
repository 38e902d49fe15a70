#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| jax2onnx_fuzz::structured(data));
