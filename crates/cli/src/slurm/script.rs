//! The text of job scripts: readable, and ready to be changed and submitted by hand.

use std::path::{Path, PathBuf};
use std::time::Duration;

use semfocus_core::experiment::SlurmProfile;

use super::job::signal_lead;
use crate::Error;
use crate::time::to_slurm;

/// The jobs of a submission.
pub(crate) struct Scripts<'a> {
    /// Name of the experiment.
    pub(crate) name: &'a str,
    /// What every job asks for.
    pub(crate) profile: &'a SlurmProfile,
    pub(crate) time: Duration,
    pub(crate) cpus: u16,
    /// The program, by its full path.
    pub(crate) program: PathBuf,
    /// Folder of the run, by its full path.
    pub(crate) dir: PathBuf,
    /// Folder for the logs, by its full path.
    pub(crate) folder: PathBuf,
    /// Tasks of the array, and how many run at once.
    pub(crate) tasks: u32,
    pub(crate) workers: u16,
    /// Further arguments of `semfocus work`.
    pub(crate) arguments: Vec<String>,
}

impl Scripts<'_> {
    /// The array of workers.
    pub(crate) fn workers(&self) -> Result<String, Error> {
        let array = format!(
            "#SBATCH --array=1-{}%{}\n\
             # A worker stops before its time is up. Should it not know the time, this signal tells it to.\n\
             #SBATCH --signal=B:TERM@{}\n\
             # A job that was preempted or whose node failed comes back, and its log continues.\n",
            self.tasks,
            self.workers,
            signal_lead(self.time).as_secs()
        );
        let arguments = ["work", text_of(&self.dir)?].into_iter().chain(self.arguments.iter().map(String::as_str));
        let command = self.command(&arguments.collect::<Vec<_>>())?;
        let commands = format!("# With exec, signals reach the worker and not this shell.\nexec {command}\n");
        self.script("", self.time, self.cpus, &array, "%A_%a.log", &commands)
    }

    /// The job that writes the report when all workers have ended, however they did.
    pub(crate) fn report(&self) -> Result<String, Error> {
        // It draws figures for less than a minute, in less memory than training takes.
        let time = self.time.min(Duration::from_secs(1800));
        let dir = text_of(&self.dir)?;
        let commands = format!("{}\nexec {}\n", self.command(&["compare", dir])?, self.command(&["report", dir])?);
        self.script("-report", time, 1, "", "report-%j.log", &commands)
    }

    fn script(
        &self,
        suffix: &str,
        time: Duration,
        cpus: u16,
        more_options: &str,
        log: &str,
        commands: &str,
    ) -> Result<String, Error> {
        let SlurmProfile { partition, account, mem, .. } = self.profile;
        let (name, time, cpus) = (format!("semfocus-{}{suffix}", self.name), to_slurm(time), cpus.to_string());
        let mut text =
            "#!/bin/bash\n# Written by `semfocus slurm submit`. To submit it again, changed or not: sbatch FILE\n"
                .to_owned();
        for (option, value) in [
            ("job-name", Some(&name)),
            ("partition", partition.as_ref()),
            ("account", account.as_ref()),
            ("time", Some(&time)),
            ("ntasks", Some(&"1".to_owned())),
            ("cpus-per-task", Some(&cpus)),
            ("mem", mem.as_ref()),
        ] {
            if let Some(value) = value {
                text += &format!("#SBATCH --{option}={}\n", quoted(value)?);
            }
        }
        text += more_options;
        // Slurm puts numbers in place of %A and the like.
        let log = quoted(&format!("{}/{log}", text_of(&self.folder)?.replace('%', "%%")))?;
        text +=
            &format!("#SBATCH --requeue\n#SBATCH --open-mode=append\n#SBATCH --output={log}\n{}\n", self.options()?);
        text.extend(self.profile.setup.iter().map(|line| format!("{line}\n")));
        Ok(text + commands)
    }

    /// The options that were given, one to a line with its value.
    fn options(&self) -> Result<String, Error> {
        let mut lines: Vec<String> = Vec::new();
        for given in &self.profile.options {
            let option = quoted(given)?;
            match lines.last_mut() {
                _ if given.starts_with('-') => lines.push(option),
                Some(line) => *line += &format!(" {option}"),
                None => {
                    let message = "is not an sbatch option; put options such as --qos=long after `--`";
                    return Err(format!("{option} {message}").into());
                }
            }
        }
        Ok(lines.iter().map(|line| format!("#SBATCH {line}\n")).collect())
    }

    fn command(&self, arguments: &[&str]) -> Result<String, Error> {
        let words = [&[text_of(&self.program)?], arguments].concat();
        Ok(shlex::try_join(words)?)
    }
}

fn text_of(path: &Path) -> Result<&str, Error> {
    path.to_str()
        .ok_or_else(|| format!("{} cannot be written into a job script: it is not UTF-8", path.display()).into())
}

/// A value of an option, in quotes if Slurm would divide it otherwise.
fn quoted(value: &str) -> Result<String, Error> {
    if value.contains(['"', '\\', '\n', '\'']) {
        return Err(format!(
            "`{value}` cannot be written into a job script: it has a quote, a backslash or a line break"
        )
        .into());
    }
    let is_plain = !value.is_empty() && !value.contains(|letter: char| letter.is_whitespace() || letter == '#');
    Ok(if is_plain { value.to_owned() } else { format!("\"{value}\"") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(profile: &SlurmProfile) -> Scripts<'_> {
        Scripts {
            name: "even-pairs",
            profile,
            time: Duration::from_secs(7200),
            cpus: 4,
            program: "/opt/semfocus".into(),
            dir: "/data/my runs/x".into(),
            folder: "/data/my runs/x/slurm/100%".into(),
            tasks: 24,
            workers: 8,
            arguments: Vec::new(),
        }
    }

    #[test]
    fn the_scripts_read_like_this() {
        let options = ["--qos=long", "-C", "avx512", "--mail-user=a b"].map(str::to_owned).to_vec();
        let profile = SlurmProfile {
            partition: Some("main".to_owned()),
            account: Some("ab12".to_owned()),
            mem: Some("2G".to_owned()),
            options,
            setup: vec!["module load gcc".to_owned()],
            ..SlurmProfile::default()
        };
        let expected = r#"#!/bin/bash
# Written by `semfocus slurm submit`. To submit it again, changed or not: sbatch FILE
#SBATCH --job-name=semfocus-even-pairs
#SBATCH --partition=main
#SBATCH --account=ab12
#SBATCH --time=02:00:00
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --mem=2G
#SBATCH --array=1-24%8
# A worker stops before its time is up. Should it not know the time, this signal tells it to.
#SBATCH --signal=B:TERM@60
# A job that was preempted or whose node failed comes back, and its log continues.
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output="/data/my runs/x/slurm/100%%/%A_%a.log"
#SBATCH --qos=long
#SBATCH -C avx512
#SBATCH "--mail-user=a b"

module load gcc
# With exec, signals reach the worker and not this shell.
exec /opt/semfocus work '/data/my runs/x'
"#;
        assert_eq!(scripts(&profile).workers().unwrap(), expected);
        let report = scripts(&profile).report().unwrap();
        assert!(report.contains("--time=00:30:00\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=1\n"), "{report}");
        assert!(
            report.ends_with("compare '/data/my runs/x'\nexec /opt/semfocus report '/data/my runs/x'\n"),
            "{report}"
        );
        assert!(!report.contains("--array") && !report.contains("--signal"), "{report}");
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        for option in ["--a=\"b\"", "--a=b\nrm x", "word"] {
            let profile = SlurmProfile { options: vec![option.to_owned()], ..SlurmProfile::default() };
            assert!(scripts(&profile).workers().is_err(), "{option}");
        }
    }
}
