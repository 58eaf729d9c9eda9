//! A table as people see it, for pages in Markdown.

use std::io::{self, Write};

use super::{Export, Format};
use crate::table::{Column, Table};

pub struct Markdown;

impl Export<Table> for Markdown {
    fn format(&self) -> Format {
        Format { name: "Markdown", extension: "md", media_type: "text/markdown" }
    }

    fn write(&self, table: &Table, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "# {}\n\n{}\n{}\n", table.title, Markdown::rows(table), table.caption)
    }
}

impl Markdown {
    /// Without title and caption.
    pub fn rows(table: &Table) -> String {
        let columns = table.visible();
        let line = |cell: &dyn Fn(&Column) -> String| {
            let cells: Vec<String> = columns.iter().map(|column| cell(column).replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let alignment = |column: &Column| if column.values.is_numeric() { "--:" } else { ":--" }.to_owned();
        let head = line(&Column::full_title) + &line(&alignment);
        head + &(0..table.len()).map(|row| line(&|column| column.shown[row].clone())).collect::<String>()
    }
}
