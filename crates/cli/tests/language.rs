//! Language models on a text of the user's: the task `text` from its files to its predictions.

mod common;

use std::path::{Path, PathBuf};

use common::{Output, Scratch, epochs, semfocus, semfocus_with_input, trials};

/// Invented sentences of 6 to 14 words, other ones for every seed.
fn sentences(count: usize, seed: u32) -> String {
    let mut state = seed;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let syllables = ["ka", "ro", "mi", "ten", "sul", "der", "ing", "th"];
    let mut word = || (0..=next(3)).map(|_| syllables[next(8).min(next(8)) as usize]).collect::<String>();
    let line = |line: usize| (0..6 + line % 9).map(|_| word()).collect::<Vec<_>>().join(" ") + " .\n";
    (0..count).map(line).collect()
}

/// A small experiment on a text.
const SMALL: &str = r#"
claim = "Nothing: it is small."
task = "text:vocabulary=60"
mechanisms = ["full", "topk:3"]
seeds = 2
data.train_file = "train.txt"
data.held_out_file = "held-out.txt"
data.train = 300
data.held_out = 80
model.blocks = 1
model.d_model = 8
model.d_mlp = 8
training.epochs = 2
"#;

/// A folder with a text and the small experiment.
fn scratch(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    scratch.file("train.txt", &sentences(120, 1));
    scratch.file("held-out.txt", &sentences(40, 2));
    scratch.file("small.toml", SMALL);
    scratch
}

fn run(scratch: &Scratch, dir: &str, more: &[&str]) -> Output {
    let (file, dir) = (scratch.path("small.toml"), scratch.path(dir));
    semfocus(&[&["run", &file, "-o", &dir], more].concat())
}

fn tokenizers(dir: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(dir).join("tokenizers")).expect("the run keeps a tokenizer");
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn settings(trial: &Path) -> toml::Table {
    std::fs::read_to_string(trial.join("trial.toml")).unwrap().parse().unwrap()
}

#[test]
fn a_run_makes_its_tokenizer_once_and_workers_read_it() {
    let scratch = scratch("language-run");
    let dry = run(&scratch, "run", &["--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert!(!Path::new(&scratch.path("run")).exists(), "nothing is written");
    assert!(dry.stdout.contains("60 different pieces"), "{}", dry.stdout);
    let output = run(&scratch, "run", &["--epochs", "1", "--quiet"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let dir = scratch.path("run");
    assert_eq!(trials(&dir).len(), 4);
    let [kept] = &tokenizers(&dir)[..] else { panic!("there is one tokenizer") };
    let (name, contents) = (kept.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read(kept).unwrap());
    for trial in trials(&dir) {
        let data = settings(&trial)["data"].clone();
        assert_eq!(data["tokenizer_checksum"].as_str(), name.split_once('-').map(|(_, checksum)| checksum));
        assert_eq!((data["train"].as_integer(), data["held_out"].as_integer()), (Some(300), Some(80)));
        assert_eq!(epochs(&trial).len(), 2, "the untrained model and one epoch");
        let status = std::fs::read_to_string(trial.join("status.json")).unwrap();
        let facts = serde_json::from_str::<serde_json::Value>(&status).unwrap()["facts"].clone();
        let characters = ["train", "held_out"].map(|split| facts[split]["characters"].as_f64().unwrap());
        assert!(characters.iter().all(|characters| (1.0..5.0).contains(characters)), "{facts}");
    }
    // The same again in another folder: the same bytes.
    assert_eq!(run(&scratch, "again", &["--epochs", "1", "--quiet"]).code, 0);
    let again = &tokenizers(&scratch.path("again"))[0];
    assert_eq!((again.file_name(), std::fs::read(again).unwrap()), (kept.file_name(), contents.clone()));
    // More epochs, and workers, use what is kept.
    assert_eq!(run(&scratch, "run", &["--quiet"]).code, 0);
    let worked = semfocus(&["work", &dir, "--quiet"]);
    assert_eq!(worked.code, 0, "{}", worked.stderr);
    assert!(trials(&dir).iter().all(|trial| epochs(trial).len() == 3));
    assert_eq!(tokenizers(&dir), std::slice::from_ref(kept));
    assert_eq!(semfocus(&["verify", &dir]).code, 0);
    // Another tokenizer is refused, and made again by `run`.
    std::fs::write(kept, [&contents[..], b" "].concat()).unwrap();
    for arguments in [&["work", &dir][..], &["verify", &dir], &["predict", trials(&dir)[0].to_str().unwrap()]] {
        let refused = semfocus_with_input(arguments, "ka ro\n");
        assert_ne!(refused.code, 0, "{arguments:?}");
        let text = refused.stdout + &refused.stderr;
        assert!(text.contains("its contents have the checksum"), "{arguments:?}: {text}");
    }
    let repaired = semfocus(&["verify", "--repair", &dir]);
    assert!(repaired.stdout.contains("is kept as"), "{}{}", repaired.stdout, repaired.stderr);
    assert_eq!(std::fs::read(kept).unwrap(), contents);
    std::fs::remove_file(kept).unwrap();
    let lost = semfocus(&["work", &dir]);
    assert!(lost.code != 0 && lost.stderr.contains("has no tokenizer for this text"), "{}", lost.stderr);
    assert_eq!(semfocus(&["verify", &dir]).code, 3);
    assert_eq!(run(&scratch, "run", &["--quiet"]).code, 0);
    assert_eq!(std::fs::read(kept).unwrap(), contents);
}

#[test]
fn causal_models_answer_everywhere_and_predict_what_follows() {
    let scratch = scratch("language-causal");
    let causal = "task=text:form=causal,vocabulary=60,window=12";
    let refused = run(&scratch, "run", &["-s", causal]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("add `model.visibility = \"causal\"`"), "{}", refused.stderr);
    let output = run(&scratch, "run", &["-s", causal, "-s", "model.visibility=causal", "--quiet"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let trial = trials(&scratch.path("run")).swap_remove(0);
    let predict = |more: &[&str]| {
        let arguments = [&["predict", trial.to_str().unwrap()], more].concat();
        let output = semfocus_with_input(&arguments, "ka ro mi\nten\n");
        assert_eq!(output.code, 0, "{}", output.stderr);
        output.stdout
    };
    let answers: serde_json::Value = serde_json::from_str(&predict(&["--json", "--top", "60"])).unwrap();
    let answers = answers["list"].as_array().unwrap();
    assert_eq!((answers.len(), answers[1]["line"].as_u64()), (2, Some(2)));
    for answer in answers {
        let next = answer["next"].as_array().unwrap();
        let shares: Vec<f64> = next.iter().map(|next| next["probability"].as_f64().unwrap()).collect();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6 && shares.is_sorted_by(|a, b| a >= b), "{shares:?}");
    }
    let lines = predict(&["--per-token", "--top", "1"]);
    let first: Vec<&str> = lines.lines().filter(|line| line.starts_with("line 1, after ")).collect();
    assert!(first.len() >= 3 && lines.lines().count() % 2 == 0, "{lines}");
    // What a later piece is changes nothing before it.
    let whole = semfocus_with_input(&["predict", trial.to_str().unwrap(), "--per-token"], "ka ro\n").stdout;
    assert!(predict(&["--per-token"]).starts_with(whole.as_str()), "{whole}");
}

#[test]
fn windows_are_predicted_from_and_shown() {
    let scratch = scratch("language-window");
    assert_eq!(run(&scratch, "run", &["--quiet", "--seeds", "1", "--mechanisms", "topk:3"]).code, 0);
    let trial = trials(&scratch.path("run")).swap_remove(0);
    let text = sentences(1, 3);
    let output = semfocus_with_input(&["predict", trial.to_str().unwrap(), "--top", "2"], &format!("{text}ka\n"));
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(output.stdout.lines().count(), 6, "{}", output.stdout);
    assert!(output.stderr.contains("with fewer pieces than a window"), "{}", output.stderr);
    let refused = semfocus_with_input(&["predict", trial.to_str().unwrap(), "--per-token"], "ka\n");
    assert!(refused.code != 0 && refused.stderr.contains("form=causal"), "{}", refused.stderr);
    let (train, held_out) = (scratch.path("train.txt"), scratch.path("held-out.txt"));
    let files = ["--train-file", &train, "--held-out-file", &held_out];
    let shown = semfocus(&[&["data", "show", "text:vocabulary=60,window=4", "-n", "2"][..], &files].concat());
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.contains("Example 2, 4 tokens") && shown.stdout.contains("Followed by "), "{}", shown.stdout);
    let audit = semfocus(&[&["data", "audit", "text:vocabulary=60,window=4"][..], &files].concat());
    assert_eq!(audit.code, 0, "{}", audit.stderr);
    assert!(audit.stdout.contains("60 classes, 61 token ids"), "{}", audit.stdout);
    let refused = semfocus(&["data", "generate", "text"]);
    assert!(refused.code != 0 && refused.stderr.contains("which has its examples"), "{}", refused.stderr);
}

#[test]
fn a_single_text_is_shared_out_and_the_order_of_files_can_be_kept() {
    let scratch = scratch("language-one");
    let text = SMALL.replace("data.held_out_file = \"held-out.txt\"\n", "").replace("seeds = 2", "seeds = 1");
    scratch.file("small.toml", &text);
    let output = run(&scratch, "run", &["-s", "training.shuffle=false", "--mechanisms", "full", "--quiet"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let trial = trials(&scratch.path("run")).swap_remove(0);
    assert_eq!(settings(&trial)["training"]["shuffle"].as_bool(), Some(false));
    assert_eq!(run(&scratch, "other", &["--mechanisms", "full", "--quiet"]).code, 0);
    let other = trials(&scratch.path("other")).swap_remove(0);
    assert!(!settings(&other)["training"].as_table().unwrap().contains_key("shuffle"), "left out at its default");
    assert_ne!(trial.file_name(), other.file_name());
    assert_ne!(epochs(&trial)[1], epochs(&other)[1]);
}

#[test]
fn a_given_tokenizer_is_kept_by_the_run() {
    let scratch = scratch("language-given");
    let pieces: Vec<String> =
        ["<unk>", "ka", "ro", "mi", "ten", "."].iter().enumerate().map(|(id, p)| format!("\"{p}\": {id}")).collect();
    let json = format!(
        r#"{{"model": {{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "<unk>"}}, "pre_tokenizer": {{"type": "Whitespace"}}}}"#,
        pieces.join(", ")
    );
    let file = scratch.file("tokenizer.json", &json);
    let given = format!("data.tokenizer_file={file}");
    let two = run(&scratch, "run", &["-s", &given]);
    assert!(two.code == 2 && two.stderr.contains("both say what cuts the text"), "{}", two.stderr);
    let words: String = (0..60).map(|line| "ka ro mi ten . ".repeat(2 + line % 3) + "\n").collect();
    scratch.file("train.txt", &words);
    scratch.file("held-out.txt", &words.replace("ka ro", "ro ka"));
    let task = ["-s", "task=text:window=4", "-s", &given];
    let french = scratch.file("french.txt", "un deux trois quatre cinq six\n");
    let unfit = run(&scratch, "run", &[&task[..], &["-s", &format!("data.held_out_file={french}")]].concat());
    assert!(unfit.code == 2 && unfit.stderr.contains("it knows only 0 % of the held-out pieces"), "{}", unfit.stderr);
    let output = run(&scratch, "run", &[&task[..], &["--quiet"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    // Workers do not need the file, and refuse another one in its place.
    let dir = scratch.path("run");
    std::fs::rename(&file, scratch.path("away.json")).unwrap();
    assert_eq!(semfocus(&["work", &dir, "--quiet"]).code, 0);
    scratch.file("tokenizer.json", &json.replace("\"ten\": 4, \".\": 5", "\"ten\": 5, \".\": 4"));
    let refused = semfocus(&["work", &dir, "--quiet"]);
    assert!(refused.code != 0 && refused.stderr.contains("is not the tokenizer with which"), "{}", refused.stderr);
    let foreign = scratch.file("foreign.json", "{}");
    let refused = run(&scratch, "new", &["-s", "task=text", "-s", &format!("data.tokenizer_file={foreign}")]);
    assert!(refused.code == 2 && refused.stderr.contains("is not a tokenizer that can be read"), "{}", refused.stderr);
}

#[test]
fn texts_that_cannot_be_learned_from_are_refused_before_training() {
    let scratch = scratch("language-refused");
    let refused = |overrides: &[&str]| {
        let settings: Vec<&str> = overrides.iter().flat_map(|setting| ["-s", setting]).collect();
        let output = run(&scratch, "run", &settings);
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(!Path::new(&scratch.path("run")).exists());
        output.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let file = |name: &str, contents: &[u8]| {
        std::fs::write(scratch.path(name), contents).unwrap();
        format!("data.train_file={}", scratch.path(name))
    };
    let check = |message: String, expected: &str| assert!(message.contains(expected), "{message}");
    check(refused(&["data.train_file=missing.txt"]), "cannot read");
    check(refused(&[&file("empty.txt", b" \n\n")]), "empty.txt holds no text");
    check(refused(&[&file("latin.txt", b"one\ntw\xf6\n")]), "line 2: byte 7 of the file (0xf6) is not UTF-8 text");
    check(refused(&["task=text:vocabulary=60000"]), "larger than the text allows");
    check(
        refused(&["task=text:vocabulary=60,window=90"]),
        "a window of 90 pieces is longer than the train text allows",
    );
    check(refused(&["task=text:split=none,vocabulary=60,window=9999"]), "the longest document has");
    let train = scratch.path("train.txt");
    check(refused(&[&format!("data.held_out_file={train}")]), "they are the same");
    let part = scratch
        .file("part.txt", &sentences(120, 1).lines().take(9).map(|line| format!("{line}\n")).collect::<String>());
    check(refused(&[&format!("data.held_out_file={part}")]), "all of its parts occur there");
    check(refused(&["task=text:vocabulary=60,split=word"]), "`word` in");
    check(refused(&["data.online=true"]), "a fixed set of examples");
    check(refused(&["data.length=20"]), "write `text:window=32` in place of the length");
    check(refused(&[&file("train.tsv", b"a b\t1\n")]), "looks like a file of labelled examples");
    check(refused(&["mechanisms=full,oracle:5"]), "`oracle:5` needs to know which positions decide");
    let only = SMALL.replace("data.held_out_file = \"held-out.txt\"\n", "");
    scratch.file("small.toml", &only);
    check(refused(&[&file("one.txt", b"only one line")]), "is one document, which cannot be split");
    let preset = semfocus(&["run", "figure-19a", "-o", &scratch.path("run")]);
    assert_eq!(preset.code, 2);
    assert!(preset.stderr.contains("ptb.train.txt"), "{}", preset.stderr);
}
