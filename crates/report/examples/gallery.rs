//! Draws one figure of each kind into a folder: `cargo run --release -p semfocus-report --example gallery -- FOLDER`.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use semfocus_report::figure::Background;

#[path = "../tests/samples/mod.rs"]
mod samples;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("Which folder? Name it as the only argument.")?);
    fs::create_dir_all(&folder)?;
    let mut page = String::from(
        "<!doctype html><meta charset=\"utf-8\"><title>Gallery</title>\n<style>:root{color-scheme:light dark}\
         body{font-family:sans-serif;max-width:60em;margin:auto}</style>\n",
    );
    for (name, figure) in samples::all() {
        figure.save(&folder, name)?;
        page += &format!("<h2>{}</h2>\n{}<p>{}</p>\n", figure.title, figure.svg(Background::Page), figure.caption);
        println!("{name}: {}", figure.caption);
    }
    fs::write(folder.join("index.html"), page)?;
    Ok(())
}
