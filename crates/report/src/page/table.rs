//! Tables on the page, and files inside it.

use std::fmt::Write;

use maud::{Markup, html};

use crate::export::{Format, TABLES};
use crate::table::{Column, Table};

/// A table, behind its conclusion if it has one. Wide ones scroll in a box of their own.
pub(super) fn table_html(table: &Table) -> Markup {
    match &table.conclusion {
        None => whole(table),
        Some(conclusion) => html! {
            p { (conclusion) }
            details {
                summary { "Show the table (" (table.len()) @if table.len() == 1 { " row)" } @else { " rows)" } }
                (whole(table))
            }
        },
    }
}

fn whole(table: &Table) -> Markup {
    let columns = table.visible();
    html! {
        div class="wide" { div class="scroll" tabindex="0" role="region" aria-label=(table.title) {
            table {
                thead { (heads(table)) }
                tbody {
                    @for row in 0..table.len() {
                        tr {
                            @for column in &columns {
                                @let shown = &column.shown[row];
                                td class=[class(column)] {
                                    @if column.name == "trial" {
                                        span title={ "trials/" (shown) } { (shown.chars().take(8).collect::<String>()) }
                                    } @else { (shown) }
                                }
                            }
                        }
                    }
                }
            }
        } }
        p class="faint" {
            (table.caption)
            @for (index, export) in TABLES.iter().enumerate() {
                @let Format { name, extension, media_type } = export.format();
                (if index == 0 { " " } else { " · " })
                (download(&format!("{}.{extension}", table.name), media_type, name, &export.text(table)))
            }
        }
    }
}

fn class(column: &Column) -> Option<&'static str> {
    column.values.is_numeric().then_some("number")
}

/// One row of headings, or two if columns share some.
fn heads(table: &Table) -> Markup {
    let groups = table.groups();
    let has_groups = groups.iter().any(|group| !group[0].group.is_empty());
    html! {
        tr {
            @for group in &groups {
                @if group[0].group.is_empty() {
                    th class=[class(group[0])] rowspan=[has_groups.then_some(2)] scope="col" { (group[0].title) }
                } @else {
                    th class="group" colspan=(group.len()) scope="colgroup" { (group[0].group) }
                }
            }
        }
        @if has_groups {
            tr {
                @for column in groups.iter().flatten().filter(|column| !column.group.is_empty()) {
                    th class=[class(column)] scope="col" { (column.title) }
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
