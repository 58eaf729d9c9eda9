//! Pages with generated parts. A part stands between two comments:
//!
//! ```text
//! <!-- record: figure even-pairs-quick curves -->
//! … generated …
//! <!-- end of record -->
//! ```
//!
//! Everything else is written by hand and stays as it is.

use std::path::Path;

use crate::RecordError;

const BEGIN: &str = "<!-- record: ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end of record -->";

/// The page with its generated parts made anew: `generate` is given the words of a part.
pub(crate) fn regenerate(
    path: &Path,
    text: &str,
    mut generate: impl FnMut(&[&str]) -> Result<String, String>,
) -> Result<String, RecordError> {
    let mut page = String::with_capacity(text.len());
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        page += line;
        page.push('\n');
        let Some(words) = line.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(CLOSE)) else {
            if line == END {
                return Err(RecordError::wrong(path, format!("line {number}: this part has no beginning")));
            }
            continue;
        };
        let words: Vec<&str> = words.split_whitespace().collect();
        let part = generate(&words).map_err(|error| RecordError::wrong(path, format!("line {number}: {error}")))?;
        page += &format!("\n{}\n\n", part.trim());
        let end = lines.find(|(_, line)| *line == END || line.starts_with(BEGIN));
        if end.is_none_or(|(_, line)| line != END) {
            return Err(RecordError::wrong(path, format!("line {number}: this part has no end, `{END}`")));
        }
        page += END;
        page.push('\n');
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Result<String, RecordError> {
        regenerate(Path::new("page.md"), text, |words| match words {
            ["number", name] => Ok(format!("{name}: 5\n")),
            _ => Err("there is no such part".to_owned()),
        })
    }

    #[test]
    fn only_generated_parts_change() {
        let page = "# Title\n<!-- record: number a -->\nold\n<!-- end of record -->\nprose\n";
        let expected = "# Title\n<!-- record: number a -->\n\na: 5\n\n<!-- end of record -->\nprose\n";
        assert_eq!(made(page).unwrap(), expected);
        assert_eq!(made(expected).unwrap(), expected);
    }

    #[test]
    fn parts_that_are_not_closed_are_named() {
        for (page, message) in [
            ("a\n<!-- record: number a -->\nold\n", "page.md: line 2: this part has no end"),
            (
                "<!-- record: number a -->\n<!-- record: number b -->\n<!-- end of record -->\n",
                "line 1: this part has no end",
            ),
            ("<!-- end of record -->\n", "line 1: this part has no beginning"),
            ("<!-- record: nothing -->\n<!-- end of record -->\n", "line 1: there is no such part"),
        ] {
            let found = made(page).unwrap_err().to_string();
            assert!(found.contains(message), "{found}");
        }
    }
}
