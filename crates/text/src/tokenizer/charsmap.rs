//! The table with which SentencePiece normalises characters: a double array of prefixes and their replacements.

/// Replacements of prefixes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CharsMap {
    units: Vec<u32>,
    replacements: Vec<u8>,
}

impl CharsMap {
    /// Reads a table: its size, the double array, and the replacements, each ended by a zero byte.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.is_empty() {
            return Ok(CharsMap::default());
        }
        let damaged = || "its table of normal characters is damaged".to_owned();
        let (size, rest) = bytes.split_at_checked(4).ok_or_else(damaged)?;
        let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
        let (array, replacements) = rest.split_at_checked(size).ok_or_else(damaged)?;
        if !size.is_multiple_of(4) || std::str::from_utf8(replacements).is_err() {
            return Err(damaged());
        }
        let units = array.chunks_exact(4).map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]));
        Ok(CharsMap { units: units.collect(), replacements: replacements.to_vec() })
    }

    /// The longest prefix of a text that is replaced: its length, and what takes its place.
    pub(crate) fn replacement(&self, text: &[u8]) -> Option<(usize, &str)> {
        let offset = |unit: u32| ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize;
        let mut node = offset(*self.units.first()?);
        let mut longest = None;
        for (at, &byte) in text.iter().enumerate() {
            node ^= usize::from(byte);
            let Some(&unit) = self.units.get(node) else { break };
            if unit & ((1 << 31) | 0xff) != u32::from(byte) {
                break;
            }
            node ^= offset(unit);
            if (unit >> 8) & 1 == 1 {
                longest = Some((at + 1, *self.units.get(node)? & !(1 << 31)));
            }
        }
        let (length, start) = longest?;
        let rest = self.replacements.get(start as usize..)?;
        let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        Some((length, std::str::from_utf8(&rest[..end]).ok()?))
    }
}
