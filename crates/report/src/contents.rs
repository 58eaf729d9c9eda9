//! Everything that a report of a run has: the page, the files and the record of the study take it from here.

use semfocus_analysis::evidence::Evidence;

use crate::pictures::{Picture, pictures};
use crate::section::Section;
use crate::table::Table;
use crate::tables::tables;
use crate::{causes, losses, palette, questions, regions, surface, theory};

#[derive(Clone, Debug)]
pub struct Contents {
    pub pictures: Vec<Picture>,
    pub tables: Vec<Table>,
    /// With figures and tables of their own.
    pub sections: Vec<Section>,
    /// Written as files, but not on the page.
    pub regions: Vec<Picture>,
}

impl Contents {
    pub fn new(evidence: &Evidence) -> Self {
        let regions = if evidence.experiment.after.regions { regions::pictures() } else { Vec::new() };
        let sections = [losses::section, questions::section, causes::section, theory::section, surface::section];
        let sections: Vec<Section> = sections.iter().filter_map(|section| section(evidence)).collect();
        let mut contents = Contents { pictures: pictures(evidence), tables: tables(evidence), sections, regions };
        contents.tell_apart(&evidence.experiment.mechanisms);
        contents
    }

    /// Gives mechanisms that would look alike styles of their own, the same in all figures.
    fn tell_apart(&mut self, mechanisms: &[String]) {
        let styles = palette::distinct(mechanisms);
        let of_sections = self.sections.iter_mut().flat_map(|section| &mut section.pictures);
        let figures = self.pictures.iter_mut().chain(of_sections).map(|picture| &mut picture.figure);
        for mark in figures.flat_map(|figure| &mut figure.panels).flat_map(|panel| &mut panel.marks) {
            mark.set_style(|series| {
                // The mechanism alone, or with its place on the grid.
                let is_of = |(mechanism, _): &&(&str, _)| {
                    series.name.strip_prefix(*mechanism).is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
                };
                styles.iter().find(is_of).map_or(series.style, |(_, style)| *style)
            });
        }
    }

    pub fn all_pictures(&self) -> impl Iterator<Item = &Picture> {
        let of_sections = self.sections.iter().flat_map(|section| &section.pictures);
        self.pictures.iter().chain(of_sections).chain(&self.regions)
    }

    pub fn all_tables(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().chain(self.sections.iter().flat_map(|section| &section.tables))
    }
}
