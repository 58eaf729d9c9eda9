//! Profiles: what a site wants to know of every job, from the file `.semfocus.toml`.

use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::body::parse_toml;
use super::error::{ExperimentError, Place, SourceText};
use crate::names::nearest;

/// Keys of a profile.
const KEYS: [&str; 8] = ["account", "cpus", "mem", "options", "partition", "setup", "time", "workers"];

/// Options of Slurm jobs that a person does not want to write every time: a table `[slurm.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmProfile {
    /// Partition to submit to.
    pub partition: Option<String>,
    /// Account to charge.
    pub account: Option<String>,
    /// Time limit of a job, such as `2h`.
    pub time: Option<Written<String>>,
    /// Memory of a job, such as `2G`.
    pub mem: Option<String>,
    /// Cores of a job.
    pub cpus: Option<u16>,
    /// Jobs at once.
    pub workers: Option<u16>,
    /// Further options of `sbatch`.
    pub options: Vec<String>,
    /// Lines of the job script before the program starts, such as `module load …`.
    pub setup: Vec<String>,
}

/// A value that can be found wrong later, with the place where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written<T> {
    /// The value.
    pub value: T,
    place: Place,
}

impl<T> Written<T> {
    /// An error that shows the place.
    pub fn error(&self, message: impl Into<String>) -> ExperimentError {
        ExperimentError::new(message).at(&self.place)
    }
}

impl SlurmProfile {
    /// Reads a profile from the text of a file; none if the file does not have it. All profiles of the file are checked.
    pub fn read(file: &str, text: &str, profile: &str) -> Result<Option<Self>, ExperimentError> {
        parse_toml(file, text, |table, source| SlurmProfile::find(table, source, profile))
    }

    fn find(table: &DeTable<'_>, source: &Arc<SourceText>, profile: &str) -> Result<Option<Self>, ExperimentError> {
        let at = |span| Place::File(source.clone(), span);
        let mut found = None;
        for (key, value) in table.iter() {
            if key.get_ref() != "slurm" {
                return Err(ExperimentError::new(format!("`{}` is not known here", key.get_ref()))
                    .at(&at(key.span()))
                    .help("profiles are tables such as [slurm.long]"));
            }
            let table = |value: &toml::Spanned<DeValue<'_>>, what: &str| {
                ExperimentError::new(format!("{what} is a table")).at(&at(value.span())).help(
                    "write [slurm.NAME], with a name of your choice, and below it a line such as partition = \"long\"",
                )
            };
            let DeValue::Table(profiles) = value.get_ref() else { return Err(table(value, "`slurm`")) };
            for (name, value) in profiles.iter() {
                let DeValue::Table(entries) = value.get_ref() else {
                    return Err(table(value, &format!("the profile `{}`", name.get_ref())));
                };
                let read = SlurmProfile::from_table(entries, source)?;
                if name.get_ref() == profile {
                    found = Some(read);
                }
            }
        }
        Ok(found)
    }

    fn from_table(table: &DeTable<'_>, source: &Arc<SourceText>) -> Result<Self, ExperimentError> {
        let mut profile = SlurmProfile::default();
        for (key, value) in table.iter() {
            let place = Place::File(source.clone(), value.span());
            let wrong =
                |expected: &str| ExperimentError::new(format!("`{}`: expected {expected}", key.get_ref())).at(&place);
            let text = || match value.get_ref() {
                DeValue::String(text) if !text.contains('\n') => Ok(text.to_string()),
                _ => Err(wrong("text in quotes, on one line")),
            };
            let texts = || match value.get_ref() {
                DeValue::Array(values) => values
                    .iter()
                    .map(|value| match value.get_ref() {
                        DeValue::String(text) if !text.contains('\n') => Ok(text.to_string()),
                        _ => Err(wrong("a list of texts in quotes, each on one line")),
                    })
                    .collect(),
                _ => Err(wrong("a list of texts, such as [\"--qos=long\"]")),
            };
            let number = || match value.get_ref() {
                DeValue::Integer(number) => number.as_str().parse::<u16>().ok().filter(|number| *number > 0),
                _ => None,
            };
            let number = || number().ok_or_else(|| wrong("a whole number from 1 to 65535"));
            match key.get_ref().as_ref() {
                "partition" => profile.partition = Some(text()?),
                "account" => profile.account = Some(text()?),
                "time" => profile.time = Some(Written { value: text()?, place }),
                "mem" => profile.mem = Some(text()?),
                "cpus" => profile.cpus = Some(number()?),
                "workers" => profile.workers = Some(number()?),
                "options" => profile.options = texts()?,
                "setup" => profile.setup = texts()?,
                unknown => {
                    let error = ExperimentError::new(format!("`{unknown}` is not a key of a profile"));
                    let help = match nearest(unknown, KEYS) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => {
                            format!("a profile has the keys {}; everything else goes into options", KEYS.join(", "))
                        }
                    };
                    return Err(error.at(&Place::File(source.clone(), key.span())).help(help));
                }
            }
        }
        Ok(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
[slurm.default]
partition = "main"

[slurm.long]
account = "ab12"
time = "1d"
mem = "2G"
cpus = 4
workers = 16
options = ["--qos=long", "--constraint=avx512"]
setup = ["module load gcc"]
"#;

    #[test]
    fn profiles_are_read() {
        let read = |name| SlurmProfile::read("x", FILE, name).unwrap();
        let long = read("long").unwrap();
        assert_eq!((long.cpus, long.workers, long.partition.as_deref()), (Some(4), Some(16), None));
        assert_eq!(long.options, ["--qos=long", "--constraint=avx512"]);
        assert_eq!((long.setup[0].as_str(), long.time.unwrap().value.as_str()), ("module load gcc", "1d"));
        assert_eq!(read("default").unwrap().partition.as_deref(), Some("main"));
        assert_eq!(read("short"), None);
        assert_eq!(SlurmProfile::read("x", "", "long").unwrap(), None);
    }

    #[test]
    fn mistakes_are_shown_with_their_line() {
        for (from, to, line, message) in [
            ("partition =", "partitoin =", 3, "did you mean `partition`?"),
            ("cpus = 4", "cpus = \"4\"", 9, "expected a whole number"),
            ("cpus = 4", "cpus = 0", 9, "expected a whole number"),
            ("\"2G\"", "2", 8, "expected text"),
            ("[\"module load gcc\"]", "\"module load gcc\"", 12, "expected a list"),
            ("[\"--qos=long\", ", "[1, ", 11, "expected a list"),
            ("[slurm.default]", "[slrm.default]", 2, "profiles are tables"),
            ("time = \"1d\"", "time = ", 7, "this is not TOML"),
        ] {
            let text = FILE.replace(from, to);
            assert_ne!(text, FILE);
            let error = SlurmProfile::read("site.toml", &text, "long").unwrap_err();
            assert_eq!(error.line_and_column().map(|place| place.0), Some(line), "{error}");
            assert!(error.to_string().contains(message) && error.to_string().contains("site.toml:"), "{error}");
        }
        let time = SlurmProfile::read("site.toml", FILE, "long").unwrap().unwrap().time.unwrap();
        assert!(time.error("no").to_string().starts_with("site.toml:7:8: no"), "{}", time.error("no"));
    }
}
