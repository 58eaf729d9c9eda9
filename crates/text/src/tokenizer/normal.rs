//! What a `tokenizer.json` does to a text before it is cut.

use regex::Regex;
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::json::{flag, list, pattern, refuse, text};

/// A step of normalisation.
#[derive(Clone, Debug)]
pub(crate) enum Normalizer {
    Sequence(Vec<Normalizer>),
    Lowercase,
    Strip { left: bool, right: bool },
    Replace { pattern: Regex, content: String },
    Prepend(String),
    Form(Form),
    StripAccents,
    Bert { cleans: bool, splits_chinese: bool, strips_accents: bool, lowers: bool, marks: Regex },
}

/// A normal form of Unicode.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
}

impl Normalizer {
    /// Reads the entry `normalizer`.
    pub(crate) fn parse(value: &Value) -> Result<Option<Self>, String> {
        if value.is_null() {
            return Ok(None);
        }
        Ok(Some(match text(value, "type")? {
            "Sequence" => Normalizer::Sequence(list(value, "normalizers", Normalizer::parse)?),
            "Lowercase" => Normalizer::Lowercase,
            "Strip" => {
                Normalizer::Strip { left: flag(value, "strip_left", true)?, right: flag(value, "strip_right", true)? }
            }
            "Replace" => Normalizer::Replace { pattern: pattern(value)?, content: text(value, "content")?.to_owned() },
            "Prepend" => Normalizer::Prepend(text(value, "prepend")?.to_owned()),
            "NFC" => Normalizer::Form(Form::Nfc),
            "NFD" => Normalizer::Form(Form::Nfd),
            "NFKC" => Normalizer::Form(Form::Nfkc),
            "NFKD" => Normalizer::Form(Form::Nfkd),
            "StripAccents" => Normalizer::StripAccents,
            "BertNormalizer" => {
                let lowers = flag(value, "lowercase", true)?;
                Normalizer::Bert {
                    cleans: flag(value, "clean_text", true)?,
                    splits_chinese: flag(value, "handle_chinese_chars", true)?,
                    strips_accents: flag(value, "strip_accents", lowers)?,
                    lowers,
                    marks: Regex::new(r"\p{Mn}").map_err(|error| error.to_string())?,
                }
            }
            "Precompiled" => {
                return Err("its normalizer is that of a SentencePiece model; give the .model file itself".to_owned());
            }
            other => return refuse("normalizer", other),
        }))
    }

    /// The normal form of a text.
    pub(crate) fn apply(&self, text: String) -> String {
        match self {
            Normalizer::Sequence(steps) => steps.iter().fold(text, |text, step| step.apply(text)),
            Normalizer::Lowercase => text.to_lowercase_by_character(),
            Normalizer::Strip { left, right } => {
                let kept = if *left { text.trim_start() } else { &text };
                (if *right { kept.trim_end() } else { kept }).to_owned()
            }
            Normalizer::Replace { pattern, content } => {
                pattern.replace_all(&text, regex::NoExpand(content)).into_owned()
            }
            Normalizer::Prepend(_) if text.is_empty() => text,
            Normalizer::Prepend(prefix) => prefix.clone() + &text,
            Normalizer::Form(Form::Nfc) => text.nfc().collect(),
            Normalizer::Form(Form::Nfd) => text.nfd().collect(),
            Normalizer::Form(Form::Nfkc) => text.nfkc().collect(),
            Normalizer::Form(Form::Nfkd) => text.nfkd().collect(),
            Normalizer::StripAccents => text.chars().filter(|character| !is_combining_mark(*character)).collect(),
            Normalizer::Bert { cleans, splits_chinese, strips_accents, lowers, marks } => {
                let mut text = text;
                if *cleans {
                    text.retain(|character| {
                        !matches!(character, '\0' | '\u{fffd}') && (is_blank(character) || !is_control(character))
                    });
                    text =
                        text.chars().map(|character| if character.is_whitespace() { ' ' } else { character }).collect();
                }
                if *splits_chinese {
                    let mut spaced = String::with_capacity(text.len());
                    for character in text.chars() {
                        if is_chinese(character) {
                            spaced.extend([' ', character, ' ']);
                        } else {
                            spaced.push(character);
                        }
                    }
                    text = spaced;
                }
                if *strips_accents {
                    text = marks.replace_all(&text.nfd().collect::<String>(), "").into_owned();
                }
                if *lowers { text.to_lowercase_by_character() } else { text }
            }
        }
    }
}

trait Lowercase {
    fn to_lowercase_by_character(&self) -> String;
}

impl Lowercase for String {
    /// Every character by itself: a final sigma is a sigma like any other.
    fn to_lowercase_by_character(&self) -> String {
        self.chars().flat_map(char::to_lowercase).collect()
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r') || character.is_whitespace()
}

fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

fn is_chinese(character: char) -> bool {
    matches!(u32::from(character),
        0x4E00..=0x9FFF | 0x3400..=0x4DBF | 0x20000..=0x2A6DF | 0x2A700..=0x2B73F | 0x2B740..=0x2B81F
        | 0x2B920..=0x2CEAF | 0xF900..=0xFAFF | 0x2F800..=0x2FA1F)
}
