//! Which code made a trial. Settings and seed determine the results of what comes with semfocus. A mechanism or task of one's own may
//! change without its settings, so the code belongs to what determines them.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;

use semfocus_core::mechanism::Layers;
use semfocus_core::spec::Parts;
use semfocus_core::{Schedule, TrialSettings, fnv_1a};

use crate::Lab;

/// The mechanisms and tasks of one's own that a trial uses, such as `mechanism within`, each with what its code is known by: a version
/// that its author gives, or a hash of the program.
pub type OwnCode = BTreeMap<String, String>;

/// A trial that other code made than that of this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherCode {
    /// The trial, in words.
    pub title: String,
    /// What its record says; empty if nothing, as in version 0.2.0.
    pub recorded: OwnCode,
    /// What this program has.
    pub here: OwnCode,
}

impl OtherCode {
    /// Whether the record says which code made the trial.
    pub fn is_recorded(&self) -> bool {
        !self.recorded.is_empty()
    }

    /// The first part whose code is another one, and both.
    pub fn in_words(&self) -> String {
        let differs = |(part, code): &(&String, &String)| self.recorded.get(*part) != Some(code);
        let Some((part, here)) = self.here.iter().find(differs) else { return String::new() };
        let recorded = self.recorded.get(part).map_or("unknown code", String::as_str);
        format!("the {part} was {recorded} and is now {here}")
    }
}

impl Lab {
    /// The code of the mechanisms and tasks of one's own that a trial with these settings uses.
    pub(crate) fn own_code(&self, settings: &TrialSettings) -> OwnCode {
        let mut code = OwnCode::new();
        let mut add = |kind: &str, name: &str| {
            if let Some(version) = self.own.get(&(kind.to_owned(), name.to_owned())) {
                let version = match version {
                    Some(version) => format!("version {version}"),
                    None => format!("program {}", program_hash()),
                };
                code.insert(format!("{kind} {name}"), version);
            }
        };
        add("task", Parts::new(&settings.task).name);
        let training = settings.mechanism.parse::<Schedule>();
        let evaluation = settings.training.evaluate_as.as_ref().and_then(|text| text.parse::<Layers>().ok());
        let attentions = training.iter().flat_map(Schedule::attentions);
        attentions.chain(evaluation.iter().flat_map(Layers::attentions)).for_each(|spec| add("mechanism", &spec.name));
        code
    }
}

/// A hash of the executable file of this process.
fn program_hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| {
        // A program that cannot be read is not known to be the same as any other.
        read_program()
            .map_or_else(|error| format!("of process {} ({error})", std::process::id()), |hash| format!("{hash:016x}"))
    })
}

fn read_program() -> std::io::Result<u64> {
    // On Linux this is the running program even if its file has been replaced.
    let file = std::fs::File::open("/proc/self/exe").or_else(|_| std::fs::File::open(std::env::current_exe()?));
    let (mut file, mut hash, mut buffer) = (file?, 0, vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash),
            bytes => hash = fnv_1a(u64::to_le_bytes(hash).into_iter().chain(buffer[..bytes].iter().copied())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use semfocus_nn::mechanisms;

    use super::*;

    #[test]
    fn only_parts_of_ones_own_have_code() {
        let standard = Lab::standard();
        let full = standard.mechanisms.get("full").unwrap().clone();
        let mine = semfocus_nn::MechanismInfo { name: "mine", build: |_| Ok(Arc::new(mechanisms::Full)), ..full };
        let settings = |mechanism: &str| TrialSettings { mechanism: mechanism.to_owned(), ..TrialSettings::default() };
        assert_eq!(standard.own_code(&settings("topk:5")), OwnCode::new());
        let lab = standard.clone().with(mine.clone());
        assert_eq!(lab.own_code(&settings("topk:5")), OwnCode::new(), "the standard ones are not affected");
        for text in ["mine", "full/mine", "full@0,mine@3"] {
            let code = lab.own_code(&settings(text));
            assert_eq!(code["mechanism mine"], format!("program {}", program_hash()), "{text}");
        }
        let mut evaluated = settings("full");
        evaluated.training.evaluate_as = Some("mine".to_owned());
        assert_eq!(lab.own_code(&evaluated).len(), 1);
        let lab = standard.with_version(mine, "2");
        assert_eq!(lab.own_code(&settings("mine"))["mechanism mine"], "version 2");
        assert_eq!(program_hash().len(), 16);
    }
}
