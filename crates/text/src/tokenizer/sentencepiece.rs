//! Models of SentencePiece: how they are read, and how they normalise and encode.

use std::collections::HashMap;

use super::charsmap::CharsMap;
use super::lattice::{Lattice, Part};
use super::merges::{Symbol, merge};
use super::protobuf::{Value, fields};

/// What stands for a blank.
const BLANK: &str = "\u{2581}";

/// A trained model.
#[derive(Clone, Debug)]
pub(crate) struct SentencePiece {
    pieces: Vec<Piece>,
    ids: HashMap<String, u32>,
    unknown: u32,
    /// The ids of `<0x00>` to `<0xFF>`, if unknown characters are written as bytes.
    bytes: Option<Vec<u32>>,
    /// User-defined symbols, long ones first: they are neither normalised nor cut.
    symbols: Vec<(String, u32)>,
    map: CharsMap,
    adds_blank: bool,
    removes_blanks: bool,
    escapes_blanks: bool,
    model: Model,
}

#[derive(Clone, Debug)]
struct Piece {
    text: String,
    score: f32,
    kind: u64,
}

#[derive(Clone, Debug)]
enum Model {
    Unigram(Lattice),
    /// The rank of each piece: that of its score, high ones first.
    Merges(Vec<u32>),
    Words,
    Characters,
}

const NORMAL: u64 = 1;
const UNKNOWN: u64 = 2;
const USER_DEFINED: u64 = 4;
const BYTE: u64 = 6;
const UNUSED: u64 = 5;

impl SentencePiece {
    /// Reads a `.model` file.
    pub(crate) fn parse(contents: &[u8]) -> Result<Self, String> {
        let (mut pieces, mut kind, mut has_bytes) = (Vec::new(), 1, false);
        let (mut map, mut flags) = (CharsMap::default(), [true; 3]);
        for (number, value) in fields(contents)? {
            match (number, value) {
                (1, Value::Bytes(piece)) => pieces.push(Piece::parse(piece)?),
                (2, Value::Bytes(trainer)) => {
                    for field in fields(trainer)? {
                        match field {
                            (3, Value::Varint(given)) => kind = given,
                            (24, Value::Varint(1)) => {
                                return Err("it writes blanks after words, which is not supported".to_owned());
                            }
                            (35, Value::Varint(given)) => has_bytes = given == 1,
                            _ => {}
                        }
                    }
                }
                (3, Value::Bytes(normalizer)) => {
                    for field in fields(normalizer)? {
                        match field {
                            (2, Value::Bytes(table)) => map = CharsMap::parse(table)?,
                            (number @ 3..=5, Value::Varint(given)) => flags[number as usize - 3] = given == 1,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        let unknown = pieces.iter().position(|piece| piece.kind == UNKNOWN);
        let unknown = unknown.ok_or("it has no piece for unknown characters")? as u32;
        if pieces.iter().any(|piece| piece.kind == UNUSED) {
            return Err("it has pieces that are switched off, which is not supported".to_owned());
        }
        let of_kind = |wanted: u64| (0..).zip(&pieces).filter(move |(_, piece)| piece.kind == wanted);
        let bytes: Vec<u32> = of_kind(BYTE).map(|(id, _)| id).collect();
        if has_bytes && bytes.len() != 256 {
            return Err(format!("it has {} pieces for bytes instead of 256", bytes.len()));
        }
        let mut symbols: Vec<(String, u32)> =
            of_kind(USER_DEFINED).map(|(id, piece)| (piece.text.clone(), id)).collect();
        symbols.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let text_pieces = |piece: &Piece| [NORMAL, USER_DEFINED].contains(&piece.kind);
        let ids =
            (0..).zip(&pieces).filter(|(_, piece)| text_pieces(piece)).map(|(id, piece)| (piece.text.clone(), id));
        let ids: HashMap<String, u32> = ids.collect();
        let model = match kind {
            1 => Model::Unigram(lattice(&pieces)),
            2 => Model::Merges(ranks(&pieces)),
            3 => Model::Words,
            4 => Model::Characters,
            other => return Err(format!("it is a model of the unknown kind {other}")),
        };
        let [adds_blank, removes_blanks, escapes_blanks] = flags;
        let bytes = has_bytes.then_some(bytes);
        Ok(SentencePiece {
            pieces,
            ids,
            unknown,
            bytes,
            symbols,
            map,
            adds_blank,
            removes_blanks,
            escapes_blanks,
            model,
        })
    }

    /// How each piece is written.
    pub(crate) fn names(&self) -> Vec<String> {
        self.pieces.iter().map(|piece| piece.text.clone()).collect()
    }

    /// The piece for characters that it does not know.
    pub(crate) fn unknown(&self) -> u32 {
        self.unknown
    }

    /// The pieces of a text.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let text = self.normal(text);
        let parts: Vec<Part> = match &self.model {
            Model::Unigram(lattice) => lattice.best(&text),
            Model::Merges(ranks) => {
                let mut symbols = self.characters(&text);
                merge(&mut symbols, |left, right| {
                    let is_fixed =
                        |symbol: &Symbol| symbol.id.is_some_and(|id| self.pieces[id as usize].kind == USER_DEFINED);
                    if is_fixed(left) || is_fixed(right) {
                        return None;
                    }
                    let id = *self.ids.get(&text[left.start..right.end])?;
                    Some((ranks[id as usize], id))
                });
                symbols.into_iter().map(|Symbol { start, end, id }| Part { start, end, id }).collect()
            }
            Model::Words => self.words(&text),
            Model::Characters => {
                self.characters(&text).into_iter().map(|Symbol { start, end, id }| Part { start, end, id }).collect()
            }
        };
        let mut was_unknown = false;
        for part in parts {
            match (part.id, &self.bytes) {
                (Some(id), _) => ids.push(id),
                (None, Some(bytes)) => {
                    text[part.start..part.end].bytes().for_each(|byte| ids.push(bytes[usize::from(byte)]))
                }
                (None, None) if was_unknown => {}
                (None, None) => ids.push(self.unknown),
            }
            was_unknown = part.id.is_none() && self.bytes.is_none();
        }
    }

    /// The characters and user-defined symbols of a normal text.
    fn characters(&self, text: &str) -> Vec<Symbol> {
        let (mut symbols, mut start) = (Vec::new(), 0);
        while let Some(character) = text[start..].chars().next() {
            let length = self.symbol(&text[start..]).map_or(character.len_utf8(), |(symbol, _)| symbol.len());
            let end = start + length;
            symbols.push(Symbol { start, end, id: self.ids.get(&text[start..end]).copied() });
            start = end;
        }
        symbols
    }

    /// The words of a normal text, each with the sign for a blank before it.
    fn words(&self, text: &str) -> Vec<Part> {
        let mut starts: Vec<usize> = text.match_indices(BLANK).map(|(at, _)| at).filter(|&at| at > 0).collect();
        starts.insert(0, 0);
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        let words = starts.iter().zip(ends).filter(|(start, end)| *start < end);
        words.map(|(&start, end)| Part { start, end, id: self.ids.get(&text[start..end]).copied() }).collect()
    }

    /// The user-defined symbol with which a text begins.
    fn symbol(&self, text: &str) -> Option<&(String, u32)> {
        self.symbols.iter().find(|(symbol, _)| text.starts_with(symbol.as_str()))
    }

    /// The normal form of a text: characters replaced by the table, blanks as asked for.
    fn normal(&self, text: &str) -> String {
        let blank = if self.escapes_blanks { BLANK } else { " " };
        let mut plain = String::with_capacity(text.len() + 3);
        let (mut rest, mut is_after_blank) = (text, self.removes_blanks);
        while let Some(character) = rest.chars().next() {
            let (length, replacement) = match self.symbol(rest) {
                Some((symbol, _)) => (symbol.len(), symbol.as_str()),
                None => self.map.replacement(rest.as_bytes()).unwrap_or_else(|| {
                    let length = character.len_utf8();
                    (length, &rest[..length])
                }),
            };
            rest = &rest[length..];
            let mut replacement = replacement;
            while is_after_blank && let Some(less) = replacement.strip_prefix(' ') {
                replacement = less;
            }
            if !replacement.is_empty() {
                for character in replacement.chars() {
                    if character == ' ' { plain.push_str(blank) } else { plain.push(character) }
                }
                is_after_blank = self.removes_blanks && replacement.ends_with(' ');
            }
        }
        if self.removes_blanks {
            while plain.ends_with(blank) {
                plain.truncate(plain.len() - blank.len());
            }
        }
        if self.adds_blank && !plain.is_empty() {
            plain.insert_str(0, blank);
        }
        plain
    }
}

impl Piece {
    fn parse(message: &[u8]) -> Result<Self, String> {
        let mut piece = Piece { text: String::new(), score: 0.0, kind: NORMAL };
        for field in fields(message)? {
            match field {
                (1, Value::Bytes(text)) => {
                    piece.text = String::from_utf8(text.to_vec()).map_err(|_| "a piece is not UTF-8 text")?;
                }
                (2, Value::Fixed32(bits)) => piece.score = f32::from_bits(bits),
                (3, Value::Varint(kind)) => piece.kind = kind,
                _ => {}
            }
        }
        if !piece.score.is_finite() {
            return Err(format!("the piece `{}` has no finite score", piece.text.escape_debug()));
        }
        Ok(piece)
    }
}

/// The lattice of a unigram model. User-defined symbols are as good as the best pieces of their length.
fn lattice(pieces: &[Piece]) -> Lattice {
    let scores = || pieces.iter().filter(|piece| piece.kind == NORMAL).map(|piece| piece.score);
    let (lowest, highest) = (scores().fold(f32::MAX, f32::min), scores().fold(f32::MIN, f32::max));
    let texts = (0..).zip(pieces).filter(|(_, piece)| [NORMAL, USER_DEFINED].contains(&piece.kind));
    let scored = texts.map(|(id, piece)| {
        let score = match piece.kind {
            USER_DEFINED => piece.text.len() as f32 * highest - 0.1,
            _ => piece.score,
        };
        (piece.text.as_str(), id, f64::from(score))
    });
    Lattice::new(scored, f64::from(lowest), true)
}

/// The rank of each piece by its score; equal scores have equal ranks.
fn ranks(pieces: &[Piece]) -> Vec<u32> {
    let mut scores: Vec<f32> = pieces.iter().map(|piece| piece.score).collect();
    scores.sort_by(|a, b| b.total_cmp(a));
    scores.dedup();
    let rank = |piece: &Piece| scores.partition_point(|score| *score > piece.score) as u32;
    pieces.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of these pieces, as bytes.
    fn model(kind: u8, pieces: &[(&str, f32, u8)]) -> Vec<u8> {
        let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
        let piece = |(text, score, kind): &(&str, f32, u8)| {
            field(
                1,
                &[field(1, text.as_bytes()), [&[0x15], &score.to_le_bytes()[..]].concat(), vec![0x18, *kind]].concat(),
            )
        };
        let pieces: Vec<u8> = pieces.iter().flat_map(piece).collect();
        [pieces, field(2, &[0x18, kind])].concat()
    }

    #[test]
    fn small_models_encode() {
        let pieces = [("<unk>", 0.0, 2), ("\u{2581}", -1.0, 1), ("a", -2.0, 1), ("b", -3.0, 1), ("\u{2581}a", -2.5, 1)];
        let encoded = |kind: u8, text: &str| {
            let mut ids = Vec::new();
            SentencePiece::parse(&model(kind, &pieces)).unwrap().encode(text, &mut ids);
            ids
        };
        for kind in [1, 2] {
            assert_eq!(encoded(kind, "  ab   a "), [4, 3, 4], "blanks are removed, kind {kind}");
            assert_eq!(encoded(kind, "xya"), [1, 0, 2], "unknown characters are one piece, kind {kind}");
            assert_eq!(encoded(kind, " "), Vec::<u32>::new());
        }
        assert_eq!(encoded(3, "a ab a"), [4, 0, 4]);
        assert_eq!(encoded(4, "ab"), [1, 2, 3]);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let reason = |bytes: &[u8]| SentencePiece::parse(bytes).unwrap_err();
        assert_eq!(reason(b""), "it has no piece for unknown characters");
        assert_eq!(reason(&model(9, &[("<unk>", 0.0, 2)])), "it is a model of the unknown kind 9");
        assert!(reason(&model(1, &[("<unk>", 0.0, 2), ("x", f32::NAN, 1)])).contains("`x` has no finite score"));
        assert!(reason(b"not a model at all").contains("it "));
    }
}
