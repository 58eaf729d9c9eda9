//! Profiles: what a site wants to know of every job, from the file `.semfocus.toml`.

use toml::Value;

use super::error::ExperimentError;
use super::source::{Entry, Located, Node, for_each, parse_toml};
use crate::names::nearest;

/// Keys of a profile.
const KEYS: [&str; 8] = ["account", "cpus", "mem", "options", "partition", "setup", "time", "workers"];

/// Options of Slurm jobs that a person does not want to write every time: a table `[slurm.NAME]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlurmProfile {
    /// Partition to submit to.
    pub partition: Option<String>,
    /// Account to charge.
    pub account: Option<String>,
    /// Time limit of a job, such as `2h`.
    pub time: Option<Located<String>>,
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

impl SlurmProfile {
    /// Reads a profile from the text of a file; none if the file does not have it. All profiles of the file are checked.
    pub fn read(file: &str, text: &str, profile: &str) -> Result<Option<Self>, ExperimentError> {
        let mut found = None;
        parse_toml(file, text, |entries| {
            for_each(entries, |Entry { name, key, node }| {
                if name != "slurm" {
                    return Err(ExperimentError::new(format!("`{name}` is not known here"))
                        .at(&key)
                        .help("profiles are tables such as [slurm.long]"));
                }
                let table = |node: Node<'_>, what: &str| {
                    let help = "write [slurm.NAME], with a name of your choice, and below it a line such as \
                                partition = \"long\"";
                    node.error(format!("{what} is a table")).help(help)
                };
                for_each(node.table().ok_or_else(|| table(node, "`slurm`"))?, |Entry { name, node, .. }| {
                    let entries = node.table().ok_or_else(|| table(node, &format!("the profile `{name}`")))?;
                    let read = SlurmProfile::from_entries(entries)?;
                    if name == profile {
                        found = Some(read);
                    }
                    Ok(())
                })
            })
        })?;
        Ok(found)
    }

    fn from_entries(entries: Vec<Entry<'_>>) -> Result<Self, ExperimentError> {
        let mut profile = SlurmProfile::default();
        for_each(entries, |Entry { name, key, node }| {
            let wrong = |expected: &str| format!("`{name}`: expected {expected}");
            let line = |value: Value| match value {
                Value::String(text) if !text.contains('\n') => Some(text),
                _ => None,
            };
            let text = || node.read(|value| line(value).ok_or_else(|| wrong("text in quotes, on one line")));
            let texts = || {
                node.read(|value| match value {
                    Value::Array(values) => values
                        .into_iter()
                        .map(|value| line(value).ok_or_else(|| wrong("a list of texts in quotes, each on one line")))
                        .collect(),
                    _ => Err(wrong("a list of texts, such as [\"--qos=long\"]")),
                })
            };
            let number = || {
                let number = |value: Value| value.as_integer().and_then(|number| u16::try_from(number).ok());
                let positive = |value| number(value).filter(|number| *number > 0);
                node.read(|value| positive(value).ok_or_else(|| wrong("a whole number from 1 to 65535")))
            };
            match name {
                "partition" => profile.partition = Some(text()?),
                "account" => profile.account = Some(text()?),
                "time" => profile.time = Some(Located { value: text()?, place: node.place() }),
                "mem" => profile.mem = Some(text()?),
                "cpus" => profile.cpus = Some(number()?),
                "workers" => profile.workers = Some(number()?),
                "options" => profile.options = texts()?,
                "setup" => profile.setup = texts()?,
                unknown => {
                    let error = ExperimentError::new(format!("`{unknown}` is not a key of a profile")).at(&key);
                    return Err(error.help(match nearest(unknown, KEYS) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => {
                            format!("a profile has the keys {}; everything else goes into options", KEYS.join(", "))
                        }
                    }));
                }
            }
            Ok(())
        })?;
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
