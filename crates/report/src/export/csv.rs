//! Comma-separated values with all their digits; a missing value is empty.

use std::io::{self, Write};

use super::{Export, Format};
use crate::frame::Frame;
use crate::table::Table;

pub struct Csv;

const FORMAT: Format = Format { name: "CSV", extension: "csv", media_type: "text/csv" };

impl Export<Frame> for Csv {
    fn format(&self) -> Format {
        FORMAT
    }

    fn write(&self, frame: &Frame, out: &mut dyn Write) -> io::Result<()> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(frame.columns.iter().map(|(name, _)| name))?;
        for row in 0..frame.len() {
            writer.write_record(frame.columns.iter().map(|(_, values)| values.get(row).to_text()))?;
        }
        writer.flush()
    }
}

impl Export<Table> for Csv {
    fn format(&self) -> Format {
        FORMAT
    }

    fn write(&self, table: &Table, out: &mut dyn Write) -> io::Result<()> {
        self.write(&table.frame(), out)
    }
}
