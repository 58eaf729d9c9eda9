//! What the task `text` makes of a text.

use std::fs;
use std::sync::Arc;

use semfocus_core::data::{DataSettings, FileSet, Sizes};
use semfocus_core::question::{At, Target};
use semfocus_tasks::text::Form;
use semfocus_tasks::{Text, TextData, TextSettings};

/// Writes a text and gives the settings that name it.
fn files(name: &str, train: &str, held_out: &str) -> DataSettings {
    let folder = std::env::temp_dir().join(format!("semfocus-tasks-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: &str| {
        fs::write(folder.join(name), text).unwrap();
        Some(folder.join(name).display().to_string())
    };
    let files = FileSet { train: file("train.txt", train), held_out: file("held-out.txt", held_out), test: None };
    let sizes = Sizes { train: 1000, held_out: 1000, test: 0 };
    DataSettings { files, sizes, ..DataSettings::default() }
}

fn data(spec: &str, settings: &DataSettings) -> Result<TextData, String> {
    let values = TextSettings::parse(spec).map_err(|error| error.to_string())?;
    let corpus = values.read(settings).map_err(|error| error.to_string())?;
    let tokenizer = values.train(&corpus).map_err(|error| error.to_string())?;
    let text = Arc::new(Text::new(&corpus, tokenizer));
    TextData::new(values, text, &settings.files).map_err(|error| error.to_string())
}

#[test]
fn values_have_their_usual_spelling() {
    let parse = |text: &str| TextSettings::parse(text).unwrap();
    assert_eq!(parse("text:split=line,form=window,tokenizer=bpe").spec.to_string(), "text");
    let causal = parse("text:window=32,form=causal,split=none");
    assert_eq!(causal.spec.to_string(), "text:form=causal,split=none,window=32");
    assert_eq!((causal.form, causal.window, causal.vocabulary), (Form::Causal, Some(32), None));
    assert!(parse("text:vocabulary=100").names_tokenizer() && !parse("text").names_tokenizer());
    let wrong = |text: &str| TextSettings::parse(text).unwrap_err().to_string();
    assert!(wrong("text:vocabulary=65536").contains("at most 65535"), "{}", wrong("text:vocabulary=65536"));
    assert!(wrong("text:form=both").contains("`window` or `causal`"), "{}", wrong("text:form=both"));
}

#[test]
fn windows_have_as_many_pieces_as_a_line_in_the_mean() {
    // 4, 6 and 6 characters: 5 in the mean.
    let settings = files("windows", "abca\nabcabc\nacbacb\n", "bcabca\n");
    let data = data("text:tokenizer=char", &settings).unwrap();
    let set = data.dataset(&settings);
    assert_eq!((set.length, set.vocabulary, set.classes, set.pad), (5, 5, 4, 4));
    assert_eq!(set.class_names, ["<unk>", "a", "b", "c"]);
    assert_eq!(set.train.tokens, [1, 2, 3, 1, 2, 1, 3, 2, 1, 3]);
    assert_eq!((set.train.labels(), set.held_out.labels()), (vec![3, 2], vec![1]));
    assert!(set.train.questions.all().iter().all(|question| question.at == At::Mean));
    assert_eq!((set.train.characters, set.test.characters), (Some(1.0), None));
    assert!(data.notes()[0].contains("windows of 5 pieces"), "{:?}", data.notes());
}

#[test]
fn causal_sequences_ask_at_every_piece() {
    let settings = files("causal", "abcab\nca\n", "cab\n");
    let set = data("text:tokenizer=char,form=causal,window=3", &settings).unwrap().dataset(&settings);
    // abcab is abc → bca, then a → b.
    assert_eq!(set.train.tokens, [1, 2, 3, 1, 4, 4, 3, 4, 4]);
    assert_eq!(set.train.lengths, [3, 1, 1]);
    let asked: Vec<(At, Target)> = set.train.questions.all().iter().map(|asked| (asked.at, asked.target)).collect();
    let expected = [(0, 2), (1, 3), (2, 1), (0, 2), (0, 1)];
    assert_eq!(asked, expected.map(|(position, next)| (At::Token(position), Target::Class(next))));
}

#[test]
fn characters_count_what_a_piece_stands_for() {
    let settings = files("characters", "the cat\nthe hat\n", "the bat cat\n");
    let set = data("text:tokenizer=word,form=causal,window=4", &settings).unwrap().dataset(&settings);
    // 7 characters for two words, and 11 for three.
    assert_eq!((set.train.characters, set.held_out.characters), (Some(3.5), Some(11.0 / 3.0)));
}

#[test]
fn texts_that_do_not_fit_are_refused() {
    let train = "the cat sat\nthe dog sat\n";
    let wrong = |spec: &str, held_out: &str| data(spec, &files("refused", train, held_out)).unwrap_err();
    let same = wrong("text:tokenizer=word", train);
    assert!(same.contains("the held-out text says nothing") && same.contains("they are the same"), "{same}");
    assert!(wrong("text:tokenizer=word,window=2", "the dog sat\n").contains("all of its parts occur there"));
    let unfit = wrong("text:tokenizer=word,window=1", "un deux trois\n");
    assert!(unfit.contains("it knows only 0 % of the held-out pieces"), "{unfit}");
    let short = wrong("text:tokenizer=word,window=3", "the cat\n");
    assert!(short.contains("a window of 3 pieces is longer than the train text allows"), "{short}");
    assert!(short.contains("the longest line has 3 pieces, and 4 are needed"), "{short}");
    let none = TextSettings::parse("text").unwrap().read(&DataSettings::default()).unwrap_err().to_string();
    assert!(none.contains("needs a text of yours"), "{none}");
}
