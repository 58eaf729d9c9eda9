//! From files to units: the lines, sentences or documents of each split.

use std::fs;
use std::path::{Path, PathBuf};

use semfocus_core::{Key, Stream, fnv_1a};

use crate::error::TextError;

/// Where one unit of a text ends and the next begins. Sequences never cross units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Division {
    /// Every line is a unit, without blanks around it.
    Lines,
    /// Every sentence is a unit, wherever its lines are broken.
    Sentences,
    /// Every document is a unit, as it is.
    Documents,
}

impl Division {
    /// The divisions and how they are written.
    pub const NAMES: &'static [(&'static str, Division)] =
        &[("line", Division::Lines), ("sentence", Division::Sentences), ("none", Division::Documents)];
}

/// Which files a text consists of. Each path is that of a file, or of a folder with .txt files.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Files {
    /// Text for each split; test is optional.
    Separate([Option<PathBuf>; 3]),
    /// One text, whose documents are shared out by a hash of their contents and this seed.
    Together(PathBuf, u64),
}

/// The units of the three splits: train, held-out, test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    /// The units of each split, in the order of the files.
    pub units: [Vec<String>; 3],
}

/// Bytes of the largest file that is read.
const MAX_BYTES: u64 = 4 << 30;

const SPLITS: [&str; 3] = ["train", "held-out", "test"];

impl Corpus {
    /// Reads files and divides them into units.
    ///
    /// # Errors
    /// If a file cannot be read, is not UTF-8 or holds nothing but blanks, or if documents cannot be split.
    pub fn read(files: &Files, division: Division) -> Result<Self, TextError> {
        let mut units = [const { Vec::new() }; 3];
        match files {
            Files::Separate(paths) => {
                for (path, units) in paths.iter().zip(&mut units) {
                    let Some(path) = path else { continue };
                    for document in texts(path)? {
                        units.extend(divided(&document, division));
                    }
                    if units.is_empty() {
                        return Err(TextError::Empty { file: path.display().to_string() });
                    }
                }
            }
            Files::Together(path, seed) => {
                let documents = documents(path)?;
                let file = path.display().to_string();
                if documents.len() < 2 {
                    return Err(TextError::OneDocument { file });
                }
                for document in &documents {
                    units[split_of(document, *seed)].extend(divided(document, division));
                }
                for split in 0..2 {
                    if units[split].is_empty() {
                        return Err(TextError::NoDocument { file, documents: documents.len(), split: SPLITS[split] });
                    }
                }
            }
        }
        Ok(Corpus { units })
    }

    /// FNV-1a of all units, of where one ends and the next begins, and of which split they are in.
    pub fn checksum(&self) -> u64 {
        fnv_1a(self.units.iter().flat_map(|units| bytes_of(units).chain([0xfe])))
    }

    /// FNV-1a of the units of train, from which a tokenizer is made.
    pub fn train_checksum(&self) -> u64 {
        fnv_1a(bytes_of(&self.units[0]))
    }
}

/// The bytes of some units, with one after each that does not occur in UTF-8.
fn bytes_of(units: &[String]) -> impl Iterator<Item = u8> {
    units.iter().flat_map(|unit| unit.bytes().chain([0xff]))
}

/// The split of a document: 5 of 8 belong to train, 2 to held-out, 1 to test, as in data files of one's own.
fn split_of(document: &str, seed: u64) -> usize {
    match Key::of_stream(seed, Stream::Data).named("documents").named(document).bits() >> 61 {
        0..=4 => 0,
        5 | 6 => 1,
        _ => 2,
    }
}

/// The documents of a text that is to be split: the files of a folder, or the parts of a file between blank lines, or its lines.
fn documents(path: &Path) -> Result<Vec<String>, TextError> {
    let mut texts = texts(path)?;
    if path.is_dir() {
        texts.retain(|text| !text.trim().is_empty());
        return Ok(texts);
    }
    let mut documents: Vec<String> = Vec::new();
    for text in texts {
        let parts: Vec<String> = paragraphs(&text).map(|lines| lines.join("\n")).collect();
        match parts.len() {
            0 => return Err(TextError::Empty { file: path.display().to_string() }),
            1 => documents.extend(lines(&text).map(str::to_owned)),
            _ => documents.extend(parts),
        }
    }
    Ok(documents)
}

/// The contents of a file, or of the .txt files of a folder in the order of their names.
fn texts(path: &Path) -> Result<Vec<String>, TextError> {
    let metadata = fs::metadata(path).map_err(|error| TextError::io(path, error))?;
    if !metadata.is_dir() {
        return Ok(vec![text(path)?]);
    }
    let entries = fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut files: Vec<PathBuf> =
        entries.map_err(|error| TextError::io(path, error))?.iter().map(fs::DirEntry::path).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("txt")));
    if files.is_empty() {
        return Err(TextError::NoFiles { folder: path.display().to_string() });
    }
    files.sort();
    files.iter().map(|file| text(file)).collect()
}

/// The contents of a file, without a byte order mark and with `\n` as its line break.
fn text(path: &Path) -> Result<String, TextError> {
    let bytes = crate::read_file(path, MAX_BYTES)?;
    match String::from_utf8(bytes) {
        Ok(text) => {
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            Ok(if text.contains('\r') { text.replace("\r\n", "\n") } else { text.to_owned() })
        }
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let bytes = error.as_bytes();
            let line = bytes[..at].iter().filter(|&&byte| byte == b'\n').count() + 1;
            Err(TextError::NotUtf8 { file: path.display().to_string(), line, byte: at + 1, value: bytes[at] })
        }
    }
}

/// The units of a document.
fn divided(document: &str, division: Division) -> Vec<String> {
    match division {
        Division::Lines => lines(document).map(str::to_owned).collect(),
        Division::Sentences => sentences(document),
        Division::Documents if document.trim().is_empty() => Vec::new(),
        Division::Documents => vec![document.to_owned()],
    }
}

/// The lines that hold anything, without blanks around them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// The lines between blank lines.
fn paragraphs(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let mut lines = text.lines().map(str::trim).peekable();
    std::iter::from_fn(move || {
        while lines.next_if(|line| line.is_empty()).is_some() {}
        let mut paragraph = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.is_empty()) {
            paragraph.push(line);
        }
        (!paragraph.is_empty()).then_some(paragraph)
    })
}

/// The sentences of a text. A sentence ends at a blank line, and after `.`, `!`, `?`, `;` or `:` with any closing quotes and
/// brackets, if blanks follow. The signs of Chinese and Japanese need no blanks. Lines are joined with one blank.
fn sentences(text: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    for paragraph in paragraphs(text) {
        let mut sentence = String::new();
        for word in paragraph.iter().flat_map(|line| line.split_whitespace()) {
            if !sentence.is_empty() {
                sentence.push(' ');
            }
            let mut rest = word;
            while let Some(at) = rest.find(['。', '！', '？', '；']) {
                let end = at + rest[at..].chars().next().map_or(0, char::len_utf8);
                let end = rest.len() - rest[end..].trim_start_matches(is_closing).len();
                sentence.push_str(&rest[..end]);
                sentences.push(std::mem::take(&mut sentence));
                rest = &rest[end..];
            }
            sentence.push_str(rest);
            if rest.trim_end_matches(is_closing).ends_with(['.', '!', '?', ';', ':']) {
                sentences.push(std::mem::take(&mut sentence));
            }
        }
        sentences.push(sentence);
    }
    sentences.retain(|sentence| !sentence.trim().is_empty());
    sentences.iter_mut().for_each(|sentence| sentence.truncate(sentence.trim_end().len()));
    sentences
}

fn is_closing(character: char) -> bool {
    matches!(character, '"' | '\'' | ')' | ']' | '}' | '”' | '’' | '»' | '」' | '』' | '）')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_are_joined_into_sentences() {
        let text = "Call me\n  Ishmael. Some years\nago (never mind how long.) I went;\n\nA new one\n\n\n";
        assert_eq!(
            sentences(text),
            ["Call me Ishmael.", "Some years ago (never mind how long.)", "I went;", "A new one"]
        );
        assert_eq!(sentences("It costs 3.50, he said: \"No!\" e.g.x"), ["It costs 3.50, he said:", "\"No!\"", "e.g.x"]);
        assert_eq!(sentences("好。」很好！ok 嗎？"), ["好。」", "很好！", "ok 嗎？"]);
        assert_eq!(sentences(" \n \n"), [""; 0]);
    }

    #[test]
    fn lines_and_documents_are_units_too() {
        let text = "\n one  line \n\n two\n";
        assert_eq!(divided(text, Division::Lines), ["one  line", "two"]);
        assert_eq!(divided(text, Division::Documents), [text]);
        assert_eq!(divided(" \n", Division::Documents), [""; 0]);
    }
}
