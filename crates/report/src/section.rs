//! A part of the page about one kind of analysis: there when its data are.

use crate::pictures::Picture;
use crate::tables::Table;

/// A part of the page.
#[derive(Clone, Debug)]
pub struct Section {
    /// Anchor on the page.
    pub id: &'static str,
    /// Heading.
    pub title: &'static str,
    /// What it means, as HTML, before everything else.
    pub words: String,
    /// Figures; their files are written with the others.
    pub pictures: Vec<Picture>,
    /// More HTML between figures and tables.
    pub after_pictures: String,
    /// Tables; their files are written with the others.
    pub tables: Vec<Table>,
}
