//! Tables on the page, and files inside it.

use std::fmt::Write;

use maud::{Markup, html};

use crate::tables::Table;

/// A table, behind its conclusion if it has one. Wide ones scroll in a box of their own.
pub(super) fn table_html(table: &Table) -> Markup {
    match &table.conclusion {
        None => whole(table),
        Some(conclusion) => html! {
            p { (conclusion) }
            details {
                summary { "Show the table (" (table.rows.len()) @if table.rows.len() == 1 { " row)" } @else { " rows)" } }
                (whole(table))
            }
        },
    }
}

fn whole(table: &Table) -> Markup {
    let shown = table.for_page();
    let class = |is_number: bool| is_number.then_some("number");
    html! {
        div class="wide" { div class="scroll" tabindex="0" role="region" aria-label=(table.title) {
            table {
                thead { (heads(&shown)) }
                tbody {
                    @for row in &shown.rows {
                        tr {
                            @for (cell, heading) in row.iter().zip(&shown.headings) {
                                td class=[class(heading.is_number)] {
                                    @if heading.name == "trial" {
                                        span title={ "trials/" (cell.shown) } { (cell.shown.chars().take(8).collect::<String>()) }
                                    } @else { (cell.shown) }
                                }
                            }
                        }
                    }
                }
            }
        } }
        p class="faint" {
            (table.caption) " "
            (download(&format!("{}.csv", table.name), "text/csv", "CSV", &table.csv())) " · "
            (download(&format!("{}.md", table.name), "text/markdown", "Markdown", &table.markdown())) " · "
            (download(&format!("{}.tex", table.name), "application/x-tex", "LaTeX", &table.latex()))
        }
    }
}

/// One row of headings, or two if columns share some.
fn heads(table: &Table) -> Markup {
    let groups = table.groups();
    let is_grouped = |columns: &std::ops::Range<usize>| !table.headings[columns.start].group.is_empty();
    let has_groups = groups.iter().any(is_grouped);
    let class = |index: usize| table.headings[index].is_number.then_some("number");
    html! {
        tr {
            @for columns in &groups {
                @let first = &table.headings[columns.start];
                @if is_grouped(columns) {
                    th class="group" colspan=(columns.len()) scope="colgroup" { (first.group) }
                } @else {
                    th class=[class(columns.start)] rowspan=[has_groups.then_some(2)] scope="col" { (first.title) }
                }
            }
        }
        @if has_groups {
            tr {
                @for columns in groups.iter().filter(|columns| is_grouped(columns)) {
                    @for index in columns.clone() {
                        th class=[class(index)] scope="col" { (table.headings[index].title) }
                    }
                }
            }
        }
    }
}

/// A link to a file that is part of the page, so that it survives when the page is sent somewhere.
pub(super) fn download(file: &str, media_type: &str, name: &str, content: &str) -> Markup {
    html! { a href={ "data:" (media_type) ";charset=utf-8," (percent_encoded(content)) } download=(file) { (name) } }
}

/// Text as a part of an address: only what is not allowed there is replaced, to keep pages small.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 5 / 4);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(byte as char),
            b'-' | b'_' | b'.' | b'~' | b',' | b';' | b':' | b'/' | b'=' | b'(' | b')' | b'*' | b'!' | b'@' | b'$' => {
                out.push(byte as char);
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_hold_their_files() {
        let link = download("a.csv", "text/csv", "CSV", "δ,\"b\"\n1,<2&3#%").into_string();
        assert_eq!(
            link,
            "<a href=\"data:text/csv;charset=utf-8,%CE%B4,%22b%22%0A1,%3C2%263%23%25\" download=\"a.csv\">CSV</a>"
        );
    }
}
