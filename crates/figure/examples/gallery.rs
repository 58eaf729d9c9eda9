//! Draws one figure of each kind into a folder: `cargo run --release --example gallery -- FOLDER`.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use semfocus_figure::Background;

#[path = "../tests/samples/mod.rs"]
mod samples;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("Which folder? Pass it as the only argument.")?);
    fs::create_dir_all(&folder)?;
    let mut page = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Gallery</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\"><link rel=\"icon\" href=\"data:,\">\n\
         <style>:root { color-scheme: light dark } svg { width: min(100%, 60rem) }</style>\n"
        .to_owned();
    for (name, figure) in samples::all() {
        fs::write(folder.join(format!("{name}.svg")), figure.svg(Background::White))?;
        fs::write(folder.join(format!("{name}.png")), figure.png(300.0)?)?;
        fs::write(folder.join(format!("{name}.pdf")), figure.pdf()?)?;
        page += &format!("<h2>{}</h2>\n{}<p>{}</p>\n", figure.title, figure.svg(Background::Page), figure.caption);
        println!("{name}: {}", figure.caption);
    }
    fs::write(folder.join("index.html"), page)?;
    Ok(())
}
