#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| semfocus_fuzzing::checkpoint(input));
