//! Tables for LaTeX, in the style of the booktabs package.

use crate::table::{Heading, Table};

impl Table {
    /// A `table` environment to `\input`; the document needs `\usepackage{booktabs}`.
    pub fn latex(&self) -> String {
        let alignment: String = self.headings.iter().map(|heading| if heading.is_number { 'r' } else { 'l' }).collect();
        let line = |cells: Vec<String>| format!("{} \\\\\n", cells.join(" & "));
        let mut text = format!(
            "% Needs \\usepackage{{booktabs}}.\n\\begin{{table}}\n\\centering\n\\caption{{{}. {}}}\n\\label{{tab:{}}}\n\
             \\begin{{tabular}}{{{alignment}}}\n\\toprule\n",
            escaped(self.title),
            escaped(&self.caption),
            self.name
        );
        if self.headings.iter().any(|heading| !heading.group.is_empty()) {
            let groups = self.groups();
            let title = |columns: &std::ops::Range<usize>| match &self.headings[columns.start].group {
                group if group.is_empty() => String::new(),
                group => format!("\\multicolumn{{{}}}{{c}}{{{}}}", columns.len(), escaped(group)),
            };
            text += &line(groups.iter().map(title).collect());
            for columns in groups.iter().filter(|columns| !self.headings[columns.start].group.is_empty()) {
                text += &format!("\\cmidrule(lr){{{}-{}}}", columns.start + 1, columns.end);
            }
            text.push('\n');
        }
        text += &line(self.headings.iter().map(|Heading { title, .. }| escaped(title)).collect());
        text += "\\midrule\n";
        for row in &self.rows {
            text += &line(row.iter().map(|cell| escaped(&cell.shown)).collect());
        }
        text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
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
    use crate::table::{Cell, number, text, under};

    #[test]
    fn groups_become_spanning_headings() {
        let columns = [
            text("mechanism", "mechanism", |row: &f64| Cell::text(format!("top_k & {row} %"))),
            under("speed-up", number("low", "low", |row| Cell::decimals(-row, 1))),
            under("speed-up", number("λ₁", "high", |row| Cell::text(format!(">{row}×")))),
        ];
        let latex = Table::new("t-1", "A # B", "n < 5.", &columns, &[1.5]).latex();
        for part in [
            "\\caption{A \\# B. n $<$ 5.}\n\\label{tab:t-1}",
            "\\begin{tabular}{lrr}\n\\toprule\n & \\multicolumn{2}{c}{speed-up} \\\\\n\\cmidrule(lr){2-3}\n",
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
