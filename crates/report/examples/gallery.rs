//! Draws one figure of each kind into a folder: `cargo run --release -p semfocus-report --example gallery -- FOLDER`.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use semfocus_report::figure::{Background, TWO_COLUMNS};
use semfocus_report::surface::view_html;

#[path = "../tests/samples/mod.rs"]
mod samples;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("Which folder? Name it as the only argument.")?);
    fs::create_dir_all(&folder)?;
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <link rel=\"icon\" href=\"data:,\"><title>Gallery</title>\n<style>{}</style>\n",
        include_str!("../src/page/page.css")
    );
    for (name, figure) in samples::all() {
        figure.save(&folder, name)?;
        page += &format!(
            "<h2>{}</h2>\n<figure{}><div class=\"scroll\">{}</div><figcaption>{}</figcaption></figure>\n",
            figure.title,
            if figure.width < TWO_COLUMNS { " class=\"narrow\"" } else { "" },
            figure.svg(Background::Page),
            figure.caption
        );
        println!("{name}: {}", figure.caption);
    }
    page += &format!("<h2>Surfaces to turn</h2>\n{}", view_html(&samples::surfaces()));
    fs::write(folder.join("index.html"), page)?;
    Ok(())
}
