//! Trains a tokenizer, or encodes every line of a text:
//!
//!     tokenize train KIND SIZE TEXT OUT.json
//!     tokenize encode TOKENIZER TEXT

use std::error::Error;
use std::fs;
use std::path::Path;

use semfocus_text::{Kind, Tokenizer};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let units = |file: &str| -> Result<Vec<String>, Box<dyn Error>> {
        Ok(fs::read_to_string(file)?.split('\n').map(str::to_owned).collect())
    };
    match arguments[..] {
        ["train", kind, size, text, out] => {
            let kind = Kind::NAMES.iter().find(|(name, _)| *name == kind).ok_or("there is no such kind")?.1;
            let tokenizer = Tokenizer::train(kind, Some(size.parse()?).filter(|size| *size > 0), &units(text)?)?;
            fs::write(out, tokenizer.contents())?;
        }
        ["encode", tokenizer, text] => {
            let tokenizer = Tokenizer::read(Path::new(tokenizer))?;
            let mut encoder = tokenizer.encoder();
            for unit in units(text)? {
                let ids: Vec<String> = encoder.encode(&unit).iter().map(u16::to_string).collect();
                println!("{}", ids.join(" "));
            }
        }
        _ => return Err("usage: tokenize train KIND SIZE TEXT OUT.json | tokenize encode TOKENIZER TEXT".into()),
    }
    Ok(())
}
