//! How a `tokenizer.json` cuts a text before pieces are looked for in its parts.

use regex::Regex;
use serde_json::Value;

use super::json::{flag, list, refuse, text};

/// A step of cutting.
#[derive(Clone, Debug)]
pub(crate) enum Cutter {
    Sequence(Vec<Cutter>),
    /// Characters and the like for which a rule holds, and what becomes of them.
    Rule(Rule, Behavior),
    Pattern {
        pattern: Regex,
        keeps_last_blank: bool,
        behavior: Behavior,
        is_inverted: bool,
    },
    /// Blanks become visible, and one is added at the start.
    Metaspace {
        sign: char,
        prepends: Prepends,
        splits: bool,
    },
    /// Bytes become characters.
    Bytes {
        adds_blank: bool,
        pattern: Option<Regex>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Blank,
    Punctuation,
    Number,
    Is(char),
}

/// What becomes of the parts that a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Removed,
    Isolated,
    WithPrevious,
    WithNext,
    Contiguous,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prepends {
    Always,
    First,
    Never,
}

/// The pattern of GPT-2, without the part that leaves the last of several blanks to the next word: see `keeps_last_blank`.
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+";

/// What stands in patterns for "blanks, but not the last one before a word".
const LOOKAHEAD: &str = r"\s+(?!\S)|";

impl Cutter {
    /// Reads the entry `pre_tokenizer`.
    pub(crate) fn parse(value: &Value) -> Result<Option<Self>, String> {
        if value.is_null() {
            return Ok(None);
        }
        let compiled = |pattern: &str| Regex::new(pattern).map_err(|error| error.to_string());
        let pattern = |pattern: &str, keeps_last_blank, behavior, is_inverted| -> Result<Self, String> {
            Ok(Cutter::Pattern { pattern: compiled(pattern)?, keeps_last_blank, behavior, is_inverted })
        };
        Ok(Some(match text(value, "type")? {
            "Sequence" => Cutter::Sequence(list(value, "pretokenizers", Cutter::parse)?),
            "WhitespaceSplit" => Cutter::Rule(Rule::Blank, Behavior::Removed),
            "Whitespace" => pattern(r"\w+|[^\w\s]+", false, Behavior::Removed, true)?,
            "BertPreTokenizer" => Cutter::Sequence(vec![
                Cutter::Rule(Rule::Blank, Behavior::Removed),
                Cutter::Rule(Rule::Punctuation, Behavior::Isolated),
            ]),
            "Punctuation" => Cutter::Rule(Rule::Punctuation, Behavior::parse(value)?.unwrap_or(Behavior::Isolated)),
            "Digits" => {
                let is_single = flag(value, "individual_digits", false)?;
                Cutter::Rule(Rule::Number, if is_single { Behavior::Isolated } else { Behavior::Contiguous })
            }
            "CharDelimiterSplit" => {
                let delimiter = text(value, "delimiter")?.chars().next().ok_or("a delimiter is empty")?;
                Cutter::Rule(Rule::Is(delimiter), Behavior::Removed)
            }
            "Split" => {
                let behavior =
                    Behavior::parse(value)?.ok_or("a `Split` says nothing about what becomes of its matches")?;
                let is_inverted = flag(value, "invert", false)?;
                match value["pattern"]["Regex"].as_str() {
                    None => pattern(super::json::pattern(value)?.as_str(), false, behavior, is_inverted)?,
                    Some(written) => {
                        let plain = written.replace(LOOKAHEAD, "");
                        pattern(&plain, plain != written, behavior, is_inverted)
                            .map_err(|error| format!("its pattern `{written}` is not supported: {error}"))?
                    }
                }
            }
            "Metaspace" => Cutter::Metaspace {
                sign: text(value, "replacement")?.chars().next().ok_or("the sign for blanks is empty")?,
                prepends: match value["prepend_scheme"].as_str() {
                    Some("always") => Prepends::Always,
                    Some("first") => Prepends::First,
                    Some("never") => Prepends::Never,
                    Some(other) => return refuse("prepend_scheme", other),
                    None if flag(value, "add_prefix_space", true)? => Prepends::Always,
                    None => Prepends::Never,
                },
                splits: flag(value, "split", true)?,
            },
            "ByteLevel" => Cutter::Bytes {
                adds_blank: flag(value, "add_prefix_space", true)?,
                pattern: flag(value, "use_regex", true)?.then(|| compiled(GPT_2)).transpose()?,
            },
            other => return refuse("pre_tokenizer", other),
        }))
    }

    /// The parts of parts. Whether the first one is at the start of the text matters to `Metaspace`.
    pub(crate) fn apply(&self, parts: Vec<String>, is_start: bool) -> Vec<String> {
        let mut cut = Vec::with_capacity(parts.len());
        if let Cutter::Sequence(steps) = self {
            return steps.iter().fold(parts, |parts, step| step.apply(parts, is_start));
        }
        for (index, part) in parts.into_iter().enumerate() {
            match self {
                Cutter::Sequence(_) => {}
                Cutter::Rule(rule, behavior) => {
                    let matches = part.char_indices().filter(|(_, character)| rule.holds(*character));
                    let matches: Vec<(usize, usize)> = matches.map(|(at, found)| (at, at + found.len_utf8())).collect();
                    split(&part, &matches, *behavior, false, &mut cut);
                }
                Cutter::Pattern { pattern, keeps_last_blank, behavior, is_inverted } => {
                    split(&part, &found(&part, pattern, *keeps_last_blank), *behavior, *is_inverted, &mut cut);
                }
                Cutter::Metaspace { sign, prepends, splits } => {
                    let mut text = part.replace(' ', sign.encode_utf8(&mut [0; 4]));
                    let is_due =
                        *prepends == Prepends::Always || *prepends == Prepends::First && is_start && index == 0;
                    if is_due && !text.starts_with(*sign) {
                        text.insert(0, *sign);
                    }
                    if *splits {
                        let signs: Vec<(usize, usize)> =
                            text.match_indices(*sign).map(|(at, sign)| (at, at + sign.len())).collect();
                        split(&text, &signs, Behavior::WithNext, false, &mut cut);
                    } else {
                        cut.push(text);
                    }
                }
                Cutter::Bytes { adds_blank, pattern } => {
                    let text = if *adds_blank && !part.starts_with(' ') { format!(" {part}") } else { part };
                    match pattern {
                        None => cut.push(as_characters(&text)),
                        Some(pattern) => {
                            let mut words = Vec::new();
                            split(&text, &found(&text, pattern, true), Behavior::Isolated, false, &mut words);
                            cut.extend(words.iter().map(|word| as_characters(word)));
                        }
                    }
                }
            }
        }
        cut.retain(|part| !part.is_empty());
        cut
    }
}

impl Rule {
    fn holds(self, character: char) -> bool {
        match self {
            Rule::Blank => character.is_whitespace(),
            Rule::Number => character.is_numeric(),
            Rule::Is(other) => character == other,
            Rule::Punctuation => character.is_ascii_punctuation() || is_punctuation(character),
        }
    }
}

impl Behavior {
    fn parse(value: &Value) -> Result<Option<Self>, String> {
        Ok(Some(match value["behavior"].as_str() {
            None => return Ok(None),
            Some("Removed") => Behavior::Removed,
            Some("Isolated") => Behavior::Isolated,
            Some("MergedWithPrevious") => Behavior::WithPrevious,
            Some("MergedWithNext") => Behavior::WithNext,
            Some("Contiguous") => Behavior::Contiguous,
            Some(other) => return refuse("behavior", other),
        }))
    }
}

/// Whether a character beyond ASCII is punctuation.
fn is_punctuation(character: char) -> bool {
    static PUNCTUATION: std::sync::LazyLock<Regex> =
        std::sync::LazyLock::new(|| Regex::new(r"^\p{P}$").expect("the pattern is valid"));
    !character.is_ascii() && PUNCTUATION.is_match(character.encode_utf8(&mut [0; 4]))
}

/// Where a pattern matches. With `keeps_last_blank`, several blanks before a word leave the last one to it.
fn found(text: &str, pattern: &Regex, keeps_last_blank: bool) -> Vec<(usize, usize)> {
    let (mut matches, mut from) = (Vec::new(), 0);
    while let Some(found) = pattern.find_at(text, from) {
        let (start, mut end) = (found.start(), found.end());
        let mut blanks = found.as_str().char_indices().rev();
        if keeps_last_blank
            && end < text.len()
            && found.as_str().chars().all(char::is_whitespace)
            && !text[end..].starts_with(char::is_whitespace)
            && let Some((last, _)) = blanks.next().filter(|(last, _)| *last > 0)
            // Patterns with line breaks of their own match those first.
            && !found.as_str().ends_with(['\n', '\r'])
        {
            end = start + last;
        }
        if end > start {
            matches.push((start, end));
        }
        from = if end > start { end } else { end + text[end..].chars().next().map_or(1, char::len_utf8) };
        if from > text.len() {
            break;
        }
    }
    matches
}

/// Cuts a text at matches.
fn split(text: &str, matches: &[(usize, usize)], behavior: Behavior, is_inverted: bool, parts: &mut Vec<String>) {
    // All parts in order, and whether each is a match.
    let (mut all, mut at) = (Vec::new(), 0);
    for &(start, end) in matches {
        if at < start {
            all.push((at, start, is_inverted));
        }
        all.push((start, end, !is_inverted));
        at = end;
    }
    if at < text.len() {
        all.push((at, text.len(), is_inverted));
    }
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let mut was_match = false;
    for (start, end, is_match) in all {
        let joins = match behavior {
            Behavior::Removed | Behavior::Isolated => false,
            Behavior::WithPrevious => is_match && !was_match,
            Behavior::WithNext => !is_match && was_match,
            Behavior::Contiguous => is_match == was_match,
        };
        match ranges.last_mut() {
            Some(last) if joins => last.1 = end,
            _ if is_match && behavior == Behavior::Removed => {}
            _ => ranges.push((start, end)),
        }
        was_match = is_match;
    }
    parts.extend(ranges.into_iter().map(|(start, end)| text[start..end].to_owned()));
}

/// Every byte as a visible character, as in GPT-2: printable ones stand for themselves, the others follow U+0100.
fn as_characters(text: &str) -> String {
    text.bytes().map(byte_character).collect()
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

pub(crate) fn byte_character(byte: u8) -> char {
    if is_printable(byte) {
        return char::from(byte);
    }
    let rank = (0..byte).filter(|byte| !is_printable(*byte)).count() as u32;
    char::from_u32(0x100 + rank).expect("there are 68 such bytes")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cut(value: Value, text: &str) -> Vec<String> {
        Cutter::parse(&value).unwrap().unwrap().apply(vec![text.to_owned()], true)
    }

    #[test]
    fn texts_are_cut_as_told() {
        assert_eq!(cut(json!({"type": "Whitespace"}), "It's 1.5 "), ["It", "'", "s", "1", ".", "5"]);
        assert_eq!(cut(json!({"type": "BertPreTokenizer"}), "a,b —c"), ["a", ",", "b", "—", "c"]);
        assert_eq!(cut(json!({"type": "Digits"}), "a12b"), ["a", "12", "b"]);
        assert_eq!(cut(json!({"type": "Digits", "individual_digits": true}), "a12b"), ["a", "1", "2", "b"]);
        let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
        assert_eq!(cut(metaspace, "a  b"), ["▁a", "▁", "▁b"]);
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true});
        assert_eq!(cut(bytes, "I'll  go\n\n\tnow  "), ["I", "'ll", "Ġ", "Ġgo", "ĊĊ", "ĉ", "now", "ĠĠ"]);
        let behaviors =
            |behavior: &str| cut(json!({"type": "Split", "pattern": {"String": "-"}, "behavior": behavior}), "a--b-");
        assert_eq!(behaviors("Removed"), ["a", "b"]);
        assert_eq!(behaviors("Isolated"), ["a", "-", "-", "b", "-"]);
        assert_eq!(behaviors("MergedWithPrevious"), ["a-", "-", "b-"]);
        assert_eq!(behaviors("MergedWithNext"), ["a", "-", "-b", "-"]);
        assert_eq!(behaviors("Contiguous"), ["a", "--", "b", "-"]);
    }
}
