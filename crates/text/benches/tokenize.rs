//! How long it takes to train tokenizers on invented text, and to encode ten megabytes of it: `cargo bench --bench tokenize`.
//!
//! Fails if encoding takes longer than it may.

use std::time::{Duration, Instant};

use semfocus_core::{Key, Stream};
use semfocus_text::{Kind, Tokenizer};

const BYTES: usize = 10 << 20;
const ALLOWED: Duration = Duration::from_secs(20);

fn main() {
    let units = invented(BYTES);
    let bytes: usize = units.iter().map(|unit| unit.len() + 1).sum();
    for (kind, size) in
        [(Kind::Bpe, Some(4096)), (Kind::Unigram, Some(4096)), (Kind::Word, Some(10_000)), (Kind::Char, None)]
    {
        let began = Instant::now();
        let tokenizer = Tokenizer::train(kind, size, &units).expect("the text has enough pieces");
        let (trained, began) = (began.elapsed(), Instant::now());
        let mut encoder = tokenizer.encoder();
        let pieces: usize = units.iter().map(|unit| encoder.encode(unit).len()).sum();
        let encoded = began.elapsed();
        let name = kind.name();
        println!("{name:8} {bytes} bytes: trained in {trained:.2?}, {pieces} pieces encoded in {encoded:.2?}");
        assert!(encoded < ALLOWED, "encoding with {name} takes longer than {ALLOWED:?}");
    }
}

/// Sentences of invented words: a few are frequent, most are rare.
fn invented(bytes: usize) -> Vec<String> {
    let key = Key::of_stream(1, Stream::Data).named("invented text");
    let word = |number: u64| -> String {
        let key = key.named("words").child(number);
        let syllables =
            ["ka", "ro", "mi", "ten", "sul", "der", "ing", "th", "ar", "ist", "un", "ly", "po", "we", "zo", "qu"];
        (0..2 + key.bits() % 4).map(|at| syllables[key.child(at).bits() as usize % syllables.len()]).collect()
    };
    let (mut units, mut written, mut drawn) = (Vec::new(), 0, 0);
    while written < bytes {
        let mut unit = String::new();
        for _ in 0..20 {
            let share = key.child(drawn).bits() as f64 / u64::MAX as f64;
            drawn += 1;
            if !unit.is_empty() {
                unit.push(' ');
            }
            unit += &word((50_000f64.powf(share)) as u64);
        }
        written += unit.len() + 1;
        units.push(unit);
    }
    units
}
