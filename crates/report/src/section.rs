//! A part of the page about one kind of analysis, present if its data are.

use maud::Markup;

use crate::pictures::Picture;
use crate::table::Table;

#[derive(Clone, Debug)]
pub struct Section {
    /// Anchor on the page.
    pub id: &'static str,
    pub title: &'static str,
    /// What was found and what it means, before the figures.
    pub findings: Markup,
    /// Their files are written with those of the other figures.
    pub pictures: Vec<Picture>,
    /// Between the figures and the tables.
    pub after_pictures: Markup,
    /// Their files are written with those of the other tables.
    pub tables: Vec<Table>,
}
