//! Data files: what is written can be read again, and mistakes are reported with their place.

mod common;

use std::io::{BufReader, Cursor, Read};

use common::{classification_tasks, task};
use proptest::prelude::*;
use semfocus_tasks::{
    DataSettings, Examples, Format, Lines, OwnData, ReadError, Sizes, Tasks, Token, Writer, answer_line, label,
};

fn parse(bytes: &[u8]) -> Result<OwnData, ReadError> {
    OwnData::parse("mine".to_owned(), Lines::new("mine.txt", Cursor::new(bytes)))
}

fn with_sizes(train: usize, held_out: usize, test: usize) -> DataSettings {
    DataSettings { sizes: Sizes { train, held_out, test }, ..DataSettings::default() }
}

fn complaint(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let with_header = [b"Source\tTarget\n", &bytes[..]].concat();
        let _ = parse(&with_header);
        for file in ["a.csv", "a.jsonl"] {
            let _ = OwnData::parse("mine".to_owned(), Lines::new(file, Cursor::new(&bytes)));
        }
    }

    #[test]
    fn nearly_right_csv_never_panics(text in "(text,label\n)?([a\",é ]{0,12}\n){0,8}") {
        let _ = parse_as("a.csv", &text);
    }

    #[test]
    fn nearly_right_files_never_panic(text in "(Source\tTarget\n)?([0-9(\\[MAXSIN\\]) \t\r]{0,12}(\t[0-9]{1,2})?\n){0,8}") {
        let _ = parse(text.as_bytes());
        for task in Tasks::standard().examples() {
            for line in text.lines() {
                if let Err(error) = answer_line(&task, line) {
                    prop_assert!(error.column >= 1 && error.column <= line.chars().count() + 1);
                }
            }
        }
    }
}

#[test]
fn own_data_with_ids() {
    let data = parse(b"0 3 1\t1\n2 2\t0\n").unwrap();
    assert_eq!((data.name.as_str(), data.len(), data.length(), data.pad()), ("mine", 2, 3, 4));
    assert_eq!(data.classes, ["0", "1"]);
    let examples: Vec<(&[Token], u16)> = data.iter().collect();
    assert_eq!(examples, [(&[0, 3, 1][..], 1), (&[2, 2][..], 0)]);
    let all = data.dataset(&with_sizes(2, 2, 2), 1);
    assert_eq!(all.train.len() + all.held_out.len() + all.test.len(), 2);
    assert_eq!((all.vocabulary, all.classes, all.pad, all.length), (5, 2, 4, 3));
}

#[test]
fn own_data_with_words_has_ids_by_order_not_by_line() {
    let data = parse("good film\tyes\nbad film\tno\r\nä good\tyes\n".as_bytes()).unwrap();
    assert_eq!(data.alphabet, ["bad", "film", "good", "ä"]);
    assert_eq!(data.classes, ["no", "yes"]);
    let examples: Vec<(&[Token], u16)> = data.iter().collect();
    assert_eq!(examples, [(&[2, 1][..], 1), (&[0, 1][..], 0), (&[3, 2][..], 1)]);
    let mut text = Vec::new();
    let writer = data.writer(Format::Text).unwrap();
    data.iter().for_each(|(tokens, class)| writer.example(tokens, &label(class), &mut text).unwrap());
    assert_eq!(parse(&text).unwrap().checksum(), data.checksum());
}

#[test]
fn copies_stay_in_one_split() {
    let text: String = (0..2000).map(|i| format!("{} {}\t{}\n", i % 40, i % 5, i % 2)).collect();
    let data = parse(text.as_bytes()).unwrap();
    let all = data.dataset(&with_sizes(10_000, 10_000, 10_000), 3);
    assert_eq!(all.train.len() + all.held_out.len() + all.test.len(), 2000);
    assert!(semfocus_tasks::Audit::new(&all, &[]).overlaps.iter().all(|overlap| overlap.sequences == 0));
    assert!(all.held_out.len() > 100 && all.test.len() > 50);
    let without_test = data.dataset(&with_sizes(10_000, 10_000, 0), 3);
    assert!(without_test.test.is_empty());
    assert_eq!(
        (&without_test.train, &without_test.held_out),
        (&all.train, &all.held_out),
        "the test share stays aside"
    );
    let one_seed = DataSettings { seed: Some(3), ..with_sizes(10_000, 10_000, 10_000) };
    assert_eq!(data.dataset(&one_seed, 4), all, "the seed of the data takes precedence over the trial's");
}

#[test]
fn mistakes_are_shown_with_line_and_column() {
    assert_eq!(complaint(""), "mine.txt: has no examples");
    assert_eq!(
        complaint("0 1\t1\n\n"),
        "mine.txt, line 2, column 1: the line is empty; every line must hold tokens, a tab and a label"
    );
    assert_eq!(complaint("0 1\t1\n0 1"), "mine.txt, line 2, column 4: a tab and a label must follow the tokens");
    assert_eq!(complaint("0 1\t"), "mine.txt, line 1, column 5: a label must follow the tab");
    assert_eq!(complaint("\t1"), "mine.txt, line 1, column 1: the line has no tokens before the tab");
    assert_eq!(
        complaint("0 1\t1 2"),
        "mine.txt, line 1, column 6: the label must be a single word at the end of the line"
    );
    assert_eq!(
        complaint("0 1\t1\t2"),
        "mine.txt, line 1, column 6: the label must be a single word at the end of the line"
    );
    assert_eq!(complaint("0 70000\t1"), "mine.txt, line 1, column 3: token ids go up to 60000, not `70000`");
    assert_eq!(complaint("0 7\t1000"), "mine.txt, line 1, column 5: label ids go up to 999, not `1000`");
    let error = parse(b"0 1\t1\n\xc3\xa4 \xff\t1\n").unwrap_err().to_string();
    assert_eq!(error, "mine.txt, line 2, column 3: this is not UTF-8 text");
}

#[test]
fn interchange_files_are_checked() {
    let tsv = |source: &str, target: &str| format!("Source\tTarget\n{source}\t{target}\n");
    let data = parse(tsv("( ( ( [MAX 3 ) 4 ) ] )", "4").replace('\n', "\r\n").as_bytes()).unwrap();
    assert_eq!(data.iter().next().unwrap(), (&[11, 3, 4, 14][..], 4));
    assert_eq!((data.pad(), data.classes.len()), (15, 10));
    assert_eq!(
        parse(tsv("[MAX 3 4 ]", "4").as_bytes()).unwrap().checksum(),
        data.checksum(),
        "round brackets do not matter"
    );
    let line = |rest: &str| format!("mine.txt, line 2, column {rest}");
    assert_eq!(complaint(&tsv("( [MAX 3 4 ]", "4")), line("13: 1 `(` without a matching `)`"));
    assert_eq!(complaint(&tsv("[MAX 3 ) 4 ]", "4")), line("8: `)` without a matching `(`"));
    assert_eq!(complaint(&tsv("[MAX 3 4", "4")), line("9: ends too early: [MAX at token 1 lacks its `]`"));
    assert_eq!(complaint(&tsv("[MAX 3 ] ]", "4")), line("10: the expression was complete before this token"));
    assert_eq!(complaint(&tsv("[MAX 3 4 ] 5", "4")), line("12: the expression was complete before this token"));
    assert_eq!(complaint(&tsv("[MAX 3 four ]", "4")), line("8: `four` is not a symbol of `listops`"));
    assert_eq!(complaint(&tsv("[MAX 3 4 ]", "3")), line("12: the label is `3`, but by the rule of `listops` it is 4"));
    assert_eq!(complaint("Source\tTarget\n"), "mine.txt: has no examples");
}

#[test]
fn nesting_is_that_of_the_interchange_format() {
    let listops = task("listops");
    let text = |tokens: &[Token]| listops.task.interchange(tokens).unwrap();
    assert_eq!(text(&[11, 3, 4, 14]), "( ( ( [MAX 3 ) 4 ) ] )");
    assert_eq!(text(&[7]), "7");
    let inner = "( ( ( [SM 1 ) 2 ) ] )";
    assert_eq!(text(&[10, 13, 1, 2, 14, 5, 14]), format!("( ( ( [MIN {inner} ) 5 ) ] )"));
    assert_eq!(text(&[12, 5, 13, 1, 2, 14, 6, 14]), format!("( ( ( ( [MED 5 ) {inner} ) 6 ) ] )"));
}

#[test]
fn what_is_written_is_read_again() {
    for task in classification_tasks() {
        for format in [Format::Tokens, Format::Text, Format::Tsv] {
            let settings = DataSettings::default();
            let Ok(writer) = Writer::new(&task, format, task.length_for(&settings).max()) else {
                assert!(format == Format::Tsv && ["modular-arithmetic", "solve-equation"].contains(&task.name()));
                continue;
            };
            let examples: Vec<_> =
                Examples::new(&task, &settings, 5, None).unwrap().take(50).map(Result::unwrap).collect();
            let mut file = Vec::new();
            writer.header(&mut file).unwrap();
            examples.iter().for_each(|e| writer.example(&e.tokens, &e.answers, &mut file).unwrap());
            let own = parse(&file).unwrap();
            assert_eq!(own.len(), 50);
            for (example, (tokens, class)) in examples.iter().zip(own.iter()) {
                assert_eq!(label(own.classes[usize::from(class)].parse().unwrap()), example.answers);
                let symbols: Vec<&str> = tokens.iter().map(|&t| own.alphabet[usize::from(t)].as_str()).collect();
                if format == Format::Tokens {
                    let sequence = &tokens[..example.tokens.len()];
                    assert_eq!(sequence, example.tokens);
                    assert!(tokens[example.tokens.len()..].iter().all(|&t| t == task.pad()));
                    let line = symbols.join(" ");
                    assert_eq!(answer_line(&task, &line), Ok(example.answers.clone()));
                } else {
                    assert_eq!(symbols.join(" "), task.written(&example.tokens));
                }
                if format == Format::Tsv && task.name() == "listops" {
                    assert_eq!(tokens, example.tokens);
                }
            }
        }
    }
}

#[test]
fn a_line_without_end_is_refused_early() {
    // Ten gigabytes if it were read to the end.
    let endless = std::io::repeat(b'1').take(10 << 30);
    let error = OwnData::parse("x".to_owned(), Lines::new("endless", BufReader::new(endless))).unwrap_err();
    assert_eq!(error.to_string(), "endless, line 1, column 1048577: the line is longer than 1048576 bytes");
    let longest = format!("{}\t1\n", "1".repeat((1 << 20) - 2));
    assert!(complaint(&longest).contains("token ids go up to"), "a line of exactly the limit is read");
    let long = "0 ".repeat(100_001) + "\t1";
    assert_eq!(complaint(&long), "mine.txt, line 1, column 200001: the sequence has more than 100000 tokens");
}

#[test]
fn files_that_cannot_be_read() {
    let read = |path: &std::path::Path| OwnData::read(path).unwrap_err().to_string();
    let message = read("no/such/file.txt".as_ref());
    assert!(message.starts_with("cannot read no/such/file.txt: "), "{message}");
    let folder = std::env::temp_dir();
    assert!(read(&folder).starts_with(&format!("cannot read {}", folder.display())));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join(format!("semfocus-locked-{}.txt", std::process::id()));
        std::fs::write(&path, "0 1\t1\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
        // Root may read anything; then there is no error.
        if std::fs::File::open(&path).is_err() {
            assert!(read(&path).contains("cannot read"), "{}", read(&path));
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn labels_of_lines() {
    let parity = task("parity");
    assert_eq!(answer_line(&parity, "1 0  1 1 2 2\t0"), Ok(label(1)));
    let complaint = |line: &str| answer_line(&parity, line).map_err(|e| (e.column, e.reason)).unwrap_err();
    assert_eq!(complaint("1 0 x 1"), (5, "expected the id of a token, not `x`".to_owned()));
    assert_eq!(complaint("1 0  2 1").0, 6);
    assert_eq!(complaint("").1, "the line has no tokens");
    assert_eq!(complaint("-1").0, 1);
    assert_eq!(complaint("1 99999999999999999999").0, 3);
}

fn parse_as(file: &str, text: &str) -> Result<OwnData, ReadError> {
    OwnData::parse("mine".to_owned(), Lines::new(file, Cursor::new(text.as_bytes())))
}

fn contents(data: &OwnData) -> Vec<(Vec<&str>, &str)> {
    let word = |token: &Token| data.alphabet[usize::from(*token)].as_str();
    data.iter()
        .map(|(tokens, label)| (tokens.iter().map(word).collect(), &data.classes[usize::from(label)][..]))
        .collect()
}

#[test]
fn csv_and_json_lines_hold_the_same_examples_as_tabs() {
    let tabs = parse_as("a.tsv", "good film\tyes\nbad , film\tno\n").unwrap();
    for (file, text) in [
        ("a.csv", "good film,yes\n\"bad , film\",no\n"),
        ("a.csv", "text,label\r\ngood film,yes\r\n\"bad , film\", no\r\n"),
        ("a.CSV", "\u{feff}id,Label,Text\n1,yes,good film\n2,no,\"bad , film\"\n"),
        ("a.txt", "label\tid\tsentence\nyes\t1\tgood film\nno\t2\tbad , film\n"),
        ("a.csv", "good film\tyes\nbad , film\tno\n"),
        (
            "a.jsonl",
            "{\"text\": \"good film\", \"label\": \"yes\"}\n{\"label\": \"no\", \"tokens\": [\"bad\", \",\", \"film\"]}\n",
        ),
    ] {
        let data = parse_as(file, text).unwrap();
        assert_eq!((contents(&data), data.checksum()), (contents(&tabs), tabs.checksum()), "{text}");
    }
    let quoted = parse_as("a.csv", "\"say \"\"hi\"\"\",1\n").unwrap();
    assert_eq!(contents(&quoted), [(vec!["say", "\"hi\""], "1")]);
    let ids = parse_as("a.jsonl", "{\"tokens\": [0, 3, 1], \"label\": 1}\n{\"tokens\": [2, 2], \"label\": 0}").unwrap();
    assert_eq!(ids.checksum(), parse(b"0 3 1\t1\n2 2\t0\n").unwrap().checksum());
}

#[test]
fn mistakes_in_csv_and_json_lines_are_explained() {
    let complaint = |file: &str, text: &str| parse_as(file, text).unwrap_err().to_string();
    for (file, text, expected) in [
        (
            "a.csv",
            "a b,1\nc, d,0\n",
            "a.csv, line 2, column 7: the line has 3 columns instead of 2; text that contains commas",
        ),
        ("a.csv", "1,a b,yes\n", "a.csv, line 1, column 1: a CSV file needs two columns"),
        ("a.csv", "text,label\na b,\n", "a.csv, line 2, column 5: the label is missing"),
        ("a.csv", "a,1\n\"b,1\n", "a.csv, line 2, column 1: the quote is not closed"),
        ("a.csv", "a,1\n\"b\"c,1\n", "a.csv, line 2, column 4: a comma must follow the closing quote"),
        ("a.csv", "a,very good\n", "a.csv, line 1, column 7: the label must be a single word"),
        ("a.csv", "a,1\n\n", "a.csv, line 2, column 1: the line is empty"),
        ("a.csv", "a,1\n  ,1\n", "a.csv, line 2, column 1: the line has no tokens"),
        ("a.jsonl", "{\"text\": \"a\"}\n", "a.jsonl, line 1, column 1: the object has no `label`"),
        ("a.jsonl", "{\"label\": 1}\n", "the object has no `tokens` or `text`; every line must hold an object such as"),
        ("a.jsonl", "{\"text\": \"a\", \"label\": 1.5}\n", "a label is a word or a whole number, not `1.5`"),
        ("a.jsonl", "{\"tokens\": [\"a b\"], \"label\": 1}\n", "the token `a b` has a blank in it"),
        ("a.json", "[{\"text\": \"a\"}]\n", "a.json, line 1, column 0"),
        ("a.txt", "a b,1\n", "a tab and a label must follow the tokens; a file with commas must be called .csv"),
        ("a.txt", "{\"text\": \"a\"}\n", "a file of JSON objects .jsonl"),
    ] {
        let found = complaint(file, text);
        let expected = expected.replace(", line 1, column 0", ", line 1, column");
        assert!(found.contains(&expected), "{found}");
    }
}

#[test]
fn a_header_is_no_example_and_this_is_said() {
    let rows: String = (0..30).map(|i| format!("{i} {}\t{}\n", i % 7, i % 2)).collect();
    let plain = parse(rows.as_bytes()).unwrap();
    assert!(plain.notes().is_empty());
    let named = parse(format!("text\tlabel\n{rows}").as_bytes()).unwrap();
    assert_eq!((named.len(), named.checksum()), (30, plain.checksum()));
    assert_eq!(named.notes(), ["mine.txt: line 1 is a header (text, label) and no example"]);
    // Columns with other names are examples, but do not go unnoticed.
    let other = parse(format!("phrase\tsentiment\n{rows}").as_bytes()).unwrap();
    assert_eq!((other.len(), other.classes.len()), (31, 3));
    assert_eq!(
        other.notes(),
        [
            "mine.txt: the label of line 1, `sentiment`, occurs nowhere else; if this is a header, call its columns `text` \
          and `label` or remove the line"
        ]
    );
    // Even if its one example is in the share of a test split that nobody asked for.
    for test in [0, 100] {
        let audit = semfocus_tasks::Audit::new(&other.dataset(&with_sizes(100, 100, test), 1), &[]);
        assert_eq!(audit.class_names, ["0", "1", "sentiment"]);
        let found = audit.findings.iter().any(|found| found.contains("the class `sentiment` has at most one example"));
        assert!(found, "{:?}", audit.findings);
    }
}
