//! Lengths of time on the command line and in what Slurm prints.

use std::time::Duration;

/// Reads `2h`, `90m`, `1d12h`, `45s`, or the forms of Slurm with colons: `02:00:00`, `1-12:00:00`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is not a duration; use for example 2h, 90m, 1d12h, or 02:00:00 as in Slurm");
    let seconds = if text.contains([':', '-']) { from_slurm(text) } else { from_units(text) };
    seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(expected)
}

/// Units from large to small, each once.
fn from_units(text: &str) -> Option<u64> {
    let (mut rest, mut total) = (text.trim(), 0u64);
    for (unit, seconds) in [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)] {
        if let Some((number, others)) = rest.split_once(unit) {
            total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(seconds)?)?;
            rest = others;
        }
    }
    rest.is_empty().then_some(total)
}

/// Reads a time as Slurm prints it: `MM:SS`, `HH:MM:SS`, `D-HH:MM:SS`. None for words such as `UNLIMITED`.
pub(crate) fn from_slurm(text: &str) -> Option<u64> {
    let (days, rest) = match text.trim().split_once('-') {
        Some((days, rest)) => (Some(days.parse::<u64>().ok()?), rest),
        None => (None, text.trim()),
    };
    let parts = rest.split(':').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>()?;
    let [hours, minutes, seconds] = match (days, parts[..].len()) {
        (_, 3) => [parts[0], parts[1], parts[2]],
        (Some(_), 2) => [parts[0], parts[1], 0],
        (None, 2) => [0, parts[0], parts[1]],
        (Some(_), 1) => [parts[0], 0, 0],
        _ => return None,
    };
    let total = days.unwrap_or(0).checked_mul(86_400)?.checked_add(hours.checked_mul(3600)?)?;
    total.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)
}

/// A time as Slurm reads it.
pub(crate) fn to_slurm(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days == 0 { clock } else { format!("{days}-{clock}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let seconds = |text: &str| parse(text).map(|time| time.as_secs());
        for (text, expected) in [
            ("2h", 7200),
            ("90m", 5400),
            ("1d12h", 129_600),
            ("1h30m5s", 5405),
            ("02:00:00", 7200),
            ("1-12:00:00", 129_600),
            ("1-06", 108_000),
            ("05:30", 330),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in
            ["", "2", "h", "2x", "1m1h", "1h1h", "0h", "-1", "1:2:3:4", "99999999999999999999h", "2 hours", "UNLIMITED"]
        {
            assert!(seconds(wrong).is_err_and(|message| message.contains("2h, 90m")), "{wrong}");
        }
    }

    #[test]
    fn what_slurm_prints_is_read() {
        assert_eq!(["0:07", "59:59", "1:00:00", "2-00:00:01"].map(from_slurm), [7, 3599, 3600, 172_801].map(Some));
        assert_eq!(["UNLIMITED", "INVALID", "NOT_SET", "", "N/A"].map(from_slurm), [None; 5]);
    }

    #[test]
    fn what_is_written_is_read() {
        for seconds in [1, 60, 3600, 86_399, 86_400, 1_000_000] {
            let time = Duration::from_secs(seconds);
            assert_eq!(parse(&to_slurm(time)), Ok(time));
        }
        assert_eq!(to_slurm(Duration::from_secs(129_605)), "1-12:00:05");
    }
}
