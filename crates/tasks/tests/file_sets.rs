//! Data files of your own, one for each split.

use std::fs;
use std::path::{Path, PathBuf};

use semfocus_tasks::{Audit, DataSettings, FileSet, OwnData, Sizes, Source, SourceError, Tasks};

/// A folder for the files of one test, removed afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("semfocus-files-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn files(&self, train: &str, held_out: &str, test: Option<&str>) -> FileSet {
        let file = |name: &str, text: &str| {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap();
            Some(path.display().to_string())
        };
        FileSet {
            train: file("films.txt", train),
            held_out: file("unseen.txt", held_out),
            test: test.and_then(|text| file("last.txt", text)),
        }
    }

    fn find(&self, train: &str, held_out: &str, test: Option<&str>) -> Result<Source, SourceError> {
        Source::find("", &Tasks::standard(), &self.files(train, held_out, test))
    }

    /// The message without the name of the folder.
    fn complaint(&self, train: &str, held_out: &str, test: Option<&str>) -> String {
        let message = self.find(train, held_out, test).unwrap_err().to_string();
        message.replace(&format!("{}{}", self.0.display(), std::path::MAIN_SEPARATOR), "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sizes(train: usize, held_out: usize, test: usize) -> DataSettings {
    DataSettings { sizes: Sizes { train, held_out, test }, ..DataSettings::default() }
}

const TRAIN: &str = "good film\tyes\nbad film\tno\ngood\tyes\ngood\tyes\n";
const HELD_OUT: &str = "an awful film\tno\nbad\tno\n";
const TEST: &str = "meh\tperhaps\n";

#[test]
fn every_split_is_its_file_in_the_vocabulary_of_all() {
    let folder = Folder::new("whole");
    let source = folder.find(TRAIN, HELD_OUT, Some(TEST)).unwrap();
    let all = source.default_sizes();
    assert_eq!(all, Sizes { train: 4, held_out: 2, test: 1 });
    let data = source.dataset(&sizes(all.train, all.held_out, all.test), 1).unwrap();
    assert_eq!((data.name.as_str(), data.vocabulary, data.classes, data.pad, data.length), ("films", 7, 3, 6, 3));
    // an 0, awful 1, bad 2, film 3, good 4, meh 5; no 0, perhaps 1, yes 2
    assert_eq!(data.train.tokens, [4, 3, 6, 2, 3, 6, 4, 6, 6, 4, 6, 6]);
    assert_eq!(data.train.labels(), [2, 0, 2, 2]);
    assert_eq!((&data.held_out.tokens[..], &data.held_out.labels()[..]), (&[0, 1, 3, 2, 6, 6][..], &[0, 0][..]));
    assert_eq!((&data.test.tokens[..], &data.test.labels()[..]), (&[5, 6, 6][..], &[1][..]));
    assert_eq!(Audit::new(&data, &[]).splits[0].duplicates, 1, "copies within a file are allowed");
    assert_eq!(source.dataset(&sizes(9, 9, 9), 2).unwrap(), data, "sizes are upper limits, seeds do not matter");

    let fewer = source.dataset(&sizes(3, 1, 0), 1).unwrap();
    assert_eq!((&fewer.train.tokens[..], fewer.held_out.len(), fewer.test.len()), (&data.train.tokens[..9], 1, 0));
    assert_eq!((fewer.vocabulary, fewer.classes, fewer.length), (7, 3, 3), "those of the whole files");
}

#[test]
fn the_data_set_may_have_any_name_and_no_test_file() {
    let folder = Folder::new("name");
    let files = folder.files(TRAIN, HELD_OUT, None);
    for name in ["reviews", "parity", "no/such/file.txt"] {
        let source = Source::find(name, &Tasks::standard(), &files).unwrap();
        assert_eq!(source.default_sizes(), Sizes { train: 4, held_out: 2, test: 0 });
        let data = source.dataset(&DataSettings::default(), 1).unwrap();
        assert_eq!((data.name.as_str(), data.classes, data.test.len()), (name, 2, 0));
    }
}

#[test]
fn the_checksum_covers_all_files_and_their_borders() {
    let folder = Folder::new("checksum");
    let checksum = |train: &str, held_out: &str, test| folder.find(train, held_out, test).unwrap().checksum().unwrap();
    let first = checksum("0 1\t1\n1 1\t0\n", "0 0\t0\n1 0\t1\n", None);
    assert_eq!(checksum("0 1\t1\n1 1\t0\n", "0 0\t0\n1 0\t1\n", None), first);
    let others = [
        checksum("0 1\t0\n1 1\t0\n", "0 0\t0\n1 0\t1\n", None),
        checksum("0 1\t1\n1 1\t0\n", "0 0\t0\n1 0\t0\n", None),
        checksum("0 1\t1\n1 1\t0\n", "0 0\t0\n", Some("1 0\t1\n")),
        checksum("0 1\t1\n", "1 1\t0\n0 0\t0\n1 0\t1\n", None),
    ];
    assert!(!others.contains(&first));
    let single = folder.files("0 1\t1\n1 1\t0\n0 0\t0\n1 0\t1\n", "0\t1\n", None).train.unwrap();
    assert_eq!(
        OwnData::read(Path::new(&single)).unwrap().checksum(),
        0x1ff6_4107_aa87_589d,
        "stored trials refer to the checksum of a single file"
    );
}

#[test]
fn shared_sequences_are_refused_with_their_lines() {
    let folder = Folder::new("shared");
    assert_eq!(
        folder.complaint("0\t1\n0 1\t1\n1\t1\n", "1 1\t1\n1\t0\n0 1\t1\n", None),
        "unseen.txt, line 2: this sequence is also in films.txt, line 3; the splits must not share sequences, but 2 \
         examples of held-out or test also occur in an earlier file"
    );
    assert_eq!(
        folder.complaint("0\t1\n", "1 1\t1\n1\t0\n", Some("0 0\t1\n1\t0\n")),
        "last.txt, line 2: this sequence is also in unseen.txt, line 2; the splits must not share sequences, but 1 \
         example of held-out or test also occurs in an earlier file"
    );
    let tsv = |source: &str| format!("Source\tTarget\n{source}\t4\n");
    assert!(
        folder
            .complaint(&tsv("( ( ( [MAX 3 ) 4 ) ] )"), &tsv("[MAX 3 4 ]"), None)
            .starts_with("unseen.txt, line 2: this sequence is also in films.txt, line 2;"),
        "the header counts as a line"
    );
}

#[test]
fn mistakes_are_shown_with_their_file() {
    let folder = Folder::new("wrong");
    assert_eq!(
        folder.complaint("0 1\t1\n", "1 1\t0\n1 0\n", None),
        "unseen.txt, line 2, column 4: a tab and a label must follow the tokens"
    );
    assert_eq!(
        folder.complaint("0 1\t1\n", "1 1\t0\n1 70000\t1\n", None),
        "unseen.txt, line 2, column 3: token ids go up to 60000, not `70000`"
    );
    assert_eq!(folder.complaint("0 1\t1\n", "1 1\t0\n", Some("")), "last.txt: has no examples");
    assert_eq!(
        folder.complaint("Source\tTarget\n[MAX 3 4 ]\t4\n", "[MAX 3 5 ]\t5\n", None),
        "unseen.txt: does not begin with the header `Source<TAB>Target`, unlike films.txt"
    );
    assert_eq!(
        folder.complaint("0 1\t1\n", "Source\tTarget\n1\t1\n", None),
        "unseen.txt: begins with the header `Source<TAB>Target`, unlike films.txt"
    );
}

#[test]
fn listops_files_are_checked_in_every_split() {
    let folder = Folder::new("listops");
    let tsv = |source: &str, target: &str| format!("Source\tTarget\n{source}\t{target}\n");
    let source = folder.find(&tsv("[MAX 3 4 ]", "4"), &tsv("7", "7"), None).unwrap();
    assert_eq!((source.vocabulary(), source.classes()), (16, 10), "those of the task, not only what occurs");
    assert_eq!(
        folder.complaint(&tsv("[MAX 3 4 ]", "4"), &tsv("[MIN 3 4 ]", "4"), None),
        "unseen.txt, line 2, column 12: the label is `4`, but by the rule of `listops` it is 3"
    );
}

#[test]
fn files_must_be_given_together() {
    let folder = Folder::new("together");
    let whole = folder.files(TRAIN, HELD_OUT, Some(TEST));
    let complaint = |files: FileSet| Source::find("parity", &Tasks::standard(), &files).unwrap_err().to_string();
    assert_eq!(
        complaint(FileSet { held_out: None, ..whole.clone() }),
        "`data.train_file` is set but `data.held_out_file` is not; both are needed"
    );
    assert_eq!(
        complaint(FileSet { train: None, ..whole.clone() }),
        "`data.held_out_file` is set but `data.train_file` is not"
    );
    assert_eq!(
        complaint(FileSet { train: None, held_out: None, ..whole }),
        "`data.test_file` is set but `data.train_file` is not"
    );
}
