//! Files, their errors, and tokenizers that are trained on them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use semfocus_text::{Corpus, Division, Files, Format, Kind, TextError, Tokenizer};

/// An empty folder of this test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("semfocus-text-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn write(folder: &Path, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, contents).unwrap();
    path
}

/// Invented words, each line from the numbers before it.
fn invented(lines: usize) -> Vec<String> {
    let mut state = 1u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let syllables = ["ka", "ro", "mi", "ten", "sul", "der", "ing", "th"];
    let mut word = || (0..=next(3)).map(|_| syllables[(next(8).min(next(8))) as usize]).collect::<String>();
    (0..lines).map(|line| (0..5 + line % 9).map(|_| word()).collect::<Vec<_>>().join(" ")).collect()
}

fn separate(train: &Path, held_out: &Path) -> Files {
    Files::Separate([Some(train.to_owned()), Some(held_out.to_owned()), None])
}

fn error(files: &Files) -> String {
    Corpus::read(files, Division::Lines).unwrap_err().to_string()
}

#[test]
fn separate_files_become_splits() {
    let folder = folder("separate");
    let train = write(&folder, "train.txt", "\u{feff}one two\r\n\r\n three\n");
    fs::create_dir(folder.join("many")).unwrap();
    write(&folder, "many/b.txt", "second");
    write(&folder, "many/a.TXT", "first");
    write(&folder, "many/c.json", "{}");
    let corpus = Corpus::read(&separate(&train, &folder.join("many")), Division::Lines).unwrap();
    assert_eq!(
        corpus.units,
        [vec!["one two", "three"], vec!["first", "second"], vec![]]
            .map(|units: Vec<&str>| { units.into_iter().map(str::to_owned).collect::<Vec<String>>() })
    );
}

#[test]
fn documents_are_shared_out_by_their_contents() {
    let folder = folder("documents");
    let mut text = String::new();
    for (number, line) in invented(400).iter().enumerate() {
        let blank = if number % 2 == 0 { "\n" } else { "\n\n" };
        write!(text, "{line}{blank}").unwrap();
    }
    let file = write(&folder, "all.txt", &text);
    let read = |seed| Corpus::read(&Files::Together(file.clone(), seed), Division::Lines).unwrap().units;
    let [train, held_out, test] = read(0);
    // 200 documents of two lines: 5, 2 and 1 of 8 of them.
    assert_eq!(train.len() + held_out.len() + test.len(), 400);
    assert!((190..310).contains(&train.len()) && (60..140).contains(&held_out.len()) && (20..90).contains(&test.len()));
    assert!(train.chunks(2).all(|pair| text.contains(&pair.join("\n"))), "documents stay whole");
    assert_eq!(read(0)[0], train);
    assert_ne!(read(1)[0], train);
    // Without blank lines every line is a document.
    let file = write(&folder, "lines.txt", invented(50).join("\n"));
    let units = Corpus::read(&Files::Together(file, 0), Division::Lines).unwrap().units;
    assert_eq!(units.iter().map(Vec::len).sum::<usize>(), 50);
}

#[test]
fn files_that_cannot_be_used_are_refused() {
    let folder = folder("refused");
    let good = write(&folder, "good.txt", "a\nb\n");
    let missing = folder.join("missing.txt");
    assert!(error(&separate(&missing, &good)).starts_with(&format!("cannot read {}: ", missing.display())));
    let blank = write(&folder, "blank.txt", " \n\n");
    assert_eq!(error(&separate(&good, &blank)), format!("{} holds no text", blank.display()));
    let latin = write(&folder, "latin.txt", b"abc\nd\xe9f\n");
    let message = error(&separate(&latin, &good));
    assert_eq!(
        message,
        format!("{}, line 2: byte 6 of the file (0xe9) is not UTF-8 text; convert the file to UTF-8", latin.display())
    );
    fs::create_dir(folder.join("none")).unwrap();
    assert!(error(&separate(&folder.join("none"), &good)).ends_with("is a folder without .txt files"));
    let one = write(&folder, "one.txt", "only one line");
    assert!(error(&Files::Together(one, 0)).contains("is one document, which cannot be split"));
    let copies = write(&folder, "copies.txt", "x\nx\nx\n");
    assert!(error(&Files::Together(copies, 0)).contains("has 3 documents, and none of them belongs to the"));
    assert_eq!(error(&Files::Together(blank.clone(), 0)), format!("{} holds no text", blank.display()));
}

#[test]
fn the_same_text_trains_the_same_tokenizer() {
    let (units, mut backwards) = (invented(2000), invented(2000));
    backwards.reverse();
    for (kind, size) in [(Kind::Bpe, Some(200)), (Kind::Unigram, Some(200)), (Kind::Word, Some(80)), (Kind::Char, None)]
    {
        let train = |units: &[String]| Tokenizer::train(kind, size, units).unwrap();
        let tokenizer = train(&units);
        assert_eq!(tokenizer.contents(), train(&units).contents(), "{kind:?}");
        assert_eq!(tokenizer.contents(), train(&backwards).contents(), "{kind:?}: the order of lines does not matter");
        assert_eq!(size.unwrap_or(tokenizer.names().len()), tokenizer.names().len());
        assert_eq!(tokenizer.names()[0], "<unk>");
        // What was stored is the same tokenizer, and no piece of the text is lost.
        let stored = Tokenizer::parse("stored", tokenizer.contents().to_vec(), Format::Json).unwrap();
        assert_eq!(stored.checksum(), tokenizer.checksum());
        let mut encoder = stored.encoder();
        for unit in units.iter().take(100).filter(|_| kind != Kind::Word) {
            let pieces: String =
                encoder.encode(unit).iter().map(|&id| stored.names()[usize::from(id)].as_str()).collect();
            let text =
                if kind == Kind::Char { unit.clone() } else { format!("\u{2581}{}", unit.replace(' ', "\u{2581}")) };
            assert_eq!(pieces, text);
        }
    }
}

#[test]
fn vocabularies_that_do_not_fit_the_text_are_refused() {
    let units = ["ab ab ac".to_owned()];
    let message = |kind, size| Tokenizer::train(kind, Some(size), &units).unwrap_err().to_string();
    assert_eq!(
        message(Kind::Bpe, 50),
        "a vocabulary of 50 pieces is larger than the text allows: `bpe` finds 8; write `vocabulary=8` or less, \
         as in `text:vocabulary=8`"
    );
    assert!(Tokenizer::train(Kind::Bpe, Some(8), &units).is_ok());
    assert!(message(Kind::Unigram, 50).contains("`unigram` finds 8;"));
    assert!(message(Kind::Word, 4).contains("`word` finds 3;"));
    assert_eq!(
        message(Kind::Bpe, 4),
        "the text has 4 different characters, and with <unk> each needs a piece of its own; write `vocabulary=5` or \
         more, as in `text:vocabulary=5`"
    );
    assert!(message(Kind::Bpe, 65_536).contains("at most 65535 are possible because tokens and labels have two bytes"));
    let many: Vec<String> = (0..70_000).map(|number| format!("w{number}")).collect();
    let message = Tokenizer::train(Kind::Word, None, &many).unwrap_err().to_string();
    assert!(message.contains("has 70001 pieces") && message.contains("smaller `vocabulary`"), "{message}");
}

#[test]
fn tokenizers_that_cannot_be_read_are_refused() {
    let folder = folder("tokenizers");
    let reason = |name: &str, contents: &str| match Tokenizer::read(&write(&folder, name, contents)).unwrap_err() {
        TextError::Tokenizer { reason, .. } => reason,
        other => other.to_string(),
    };
    assert!(reason("a.txt", "").ends_with("a.txt ends in neither .model (SentencePiece) nor .json (Hugging Face)"));
    assert!(reason("a.model", "<html>").starts_with("it "));
    assert!(reason("a.json", "{").starts_with("it is not valid JSON: "));
    assert_eq!(reason("a.json", "{}"), "it has no `model`");
    assert_eq!(reason("a.json", r#"{"model": {"type": "Magic", "vocab": {}}}"#), "its model `Magic` is not supported");
    let word_level = |rest: &str| {
        reason(
            "a.json",
            &format!(r#"{{"model": {{"type": "WordLevel", "vocab": {{"a": 0}}, "unk_token": "a"}}{rest}}}"#),
        )
    };
    let scripts = r#", "pre_tokenizer": {"type": "UnicodeScripts"}"#;
    assert_eq!(word_level(scripts), "its pre_tokenizer `UnicodeScripts` is not supported");
    assert!(word_level(r#", "normalizer": {"type": "Precompiled"}"#).contains("give the .model file itself"));
    let ahead = r#", "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a(?=b)"}, "behavior": "Isolated"}"#;
    assert!(word_level(ahead).starts_with("its pattern `a(?=b)` is not supported: "), "{}", word_level(ahead));
    let merges = r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}}"#;
    assert_eq!(reason("a.json", merges), "a merge needs `ab`, which is no piece");
    let wide = r#"{"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 65535}, "unk_token": "a"}}"#;
    assert!(reason("a.json", wide).contains("has 65536 pieces, and at most 65535"), "{}", reason("a.json", wide));
    let unknown = r#"{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "b"}}"#;
    assert_eq!(reason("a.json", unknown), "its piece for what is unknown, `b`, is not in its `vocab`");
}

#[test]
fn pieces_are_readable() {
    let json = r#"{"model": {"type": "BPE", "vocab": {"Ġ": 0, "Ġa": 1, "Ã©": 2, "Ċ": 3, "Ã": 4}, "merges": []}}"#;
    let tokenizer = Tokenizer::parse("x.json", json.as_bytes().to_vec(), Format::Json).unwrap();
    assert_eq!(tokenizer.readable_names(), ["▁", "▁a", "é", "\\n", "Ã"]);
    let tokenizer = Tokenizer::train(Kind::Char, None, &["a b\tĠ".to_owned()]).unwrap();
    assert_eq!(tokenizer.readable_names(), ["<unk>", "\\t", "▁", "a", "b", "Ġ"]);
}
