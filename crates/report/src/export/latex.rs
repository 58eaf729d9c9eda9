//! Tables for LaTeX, in the style of the booktabs package.

use std::io::{self, Write};

use super::{Export, Format};
use crate::table::{Column, Table};

/// A `table` environment to `\input`; the document needs `\usepackage{booktabs}`.
pub struct Latex;

impl Export<Table> for Latex {
    fn format(&self) -> Format {
        Format { name: "LaTeX", extension: "tex", media_type: "application/x-tex" }
    }

    fn write(&self, table: &Table, out: &mut dyn Write) -> io::Result<()> {
        let columns = table.visible();
        let groups = table.groups();
        let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
        let alignment: String =
            columns.iter().map(|column| if column.values.is_numeric() { 'r' } else { 'l' }).collect();
        write!(
            out,
            "% Needs \\usepackage{{booktabs}}.\n\\begin{{table}}\n\\centering\n\\caption{{{}. {}}}\n\\label{{tab:{}}}\n\
             \\begin{{tabular}}{{{alignment}}}\n\\toprule\n",
            escaped(table.title),
            escaped(&table.caption),
            table.name
        )?;
        if columns.iter().any(|column| !column.group.is_empty()) {
            let title = |group: &Vec<&Column>| match group[0].group.as_str() {
                "" => String::new(),
                title => format!("\\multicolumn{{{}}}{{c}}{{{}}}", group.len(), escaped(title)),
            };
            out.write_all(line(groups.iter().map(title).collect()).as_bytes())?;
            let mut first = 1;
            for group in &groups {
                if !group[0].group.is_empty() {
                    write!(out, "\\cmidrule(lr){{{first}-{}}}", first + group.len() - 1)?;
                }
                first += group.len();
            }
            writeln!(out)?;
        }
        out.write_all(line(columns.iter().map(|column| escaped(&column.title)).collect()).as_bytes())?;
        writeln!(out, "\\midrule")?;
        for row in 0..table.len() {
            out.write_all(line(columns.iter().map(|column| escaped(&column.shown[row])).collect()).as_bytes())?;
        }
        writeln!(out, "\\bottomrule\n\\end{{tabular}}\n\\end{{table}}")
    }
}

/// Text with the characters that LaTeX reads as commands, or lacks, replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' | '>' | '|' => out.extend(['$', c, '$']),
            '–' => out.push_str("--"),
            '’' => out.push('\''),
            '“' => out.push_str("``"),
            '”' => out.push_str("''"),
            '\n' => out.push(' '),
            c => match symbol(c) {
                Some(symbol) => out.push_str(&format!("${symbol}$")),
                None => out.push(c),
            },
        }
    }
    // Neighbouring symbols are one formula: λ₁ must not break.
    out.replace("$$", "")
}

/// The LaTeX command of a mathematical character.
fn symbol(c: char) -> Option<String> {
    // The empty group allows several of them in a row.
    if let Some(digit) = "₀₁₂₃₄₅₆₇₈₉".chars().position(|other| other == c) {
        return Some(format!("{{}}_{digit}"));
    }
    if let Some(digit) = "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().position(|other| other == c) {
        return Some(format!("{{}}^{digit}"));
    }
    let command = match c {
        '⁻' => "{}^-",
        '−' => "-",
        '×' => "\\times ",
        '±' => "\\pm ",
        '·' => "\\cdot ",
        '≤' => "\\le ",
        '≥' => "\\ge ",
        '∞' => "\\infty ",
        '→' => "\\to ",
        'α' => "\\alpha ",
        'β' => "\\beta ",
        'δ' => "\\delta ",
        'λ' => "\\lambda ",
        'Γ' => "\\Gamma ",
        'Δ' => "\\Delta ",
        'Υ' => "\\Upsilon ",
        _ => return None,
    };
    Some(command.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_become_spanning_headings() {
        let table = Table::from_rows("t-1", "A # B", "n < 5.", &[1.5])
            .text("mechanism", "mechanism", |row| format!("top_k & {row} %"))
            .under("speed-up")
            .number("low", "low", |row| -row, |value| format!("{value:.1}"))
            .text("λ₁", "high", |row| format!(">{row}×"))
            .done();
        let latex = Latex.text(&table);
        for part in [
            "\\caption{A \\# B. n $<$ 5.}\n\\label{tab:t-1}",
            "\\begin{tabular}{lrl}\n\\toprule\n & \\multicolumn{2}{c}{speed-up} \\\\\n\\cmidrule(lr){2-3}\n",
            "mechanism & low & $\\lambda {}_1$ \\\\\n\\midrule\n",
            "top\\_k \\& 1.5 \\% & $-$1.5 & $>$1.5$\\times $ \\\\\n\\bottomrule",
        ] {
            assert!(latex.contains(part), "{part}\n{latex}");
        }
    }

    #[test]
    fn nothing_that_latex_lacks_is_left() {
        assert_eq!(escaped("a\\b~c^{d}"), "a\\textbackslash{}b\\textasciitilde{}c\\textasciicircum{}\\{d\\}");
        assert_eq!(escaped("3×10⁻⁴"), "3$\\times $10${}^-{}^4$");
        assert_eq!(escaped("δ² – “x” ≥ 3"), "$\\delta {}^2$ -- ``x'' $\\ge $ 3");
    }
}
