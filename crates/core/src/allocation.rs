//! What Slurm, a container or the machine gave this process. Slurm's variables are read here and nowhere else.

use std::sync::OnceLock;

/// What a process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The Slurm job, as `squeue` knows it: `JOB`, or `ARRAY_TASK` of an array. The number alone of the last task would name the
    /// whole array.
    pub job: Option<String>,
    /// When the job ends, in seconds since 1970, if the version of Slurm says so.
    pub ends: Option<u64>,
    /// Cores that Slurm gave the job, which it need not enforce, or those that the system lets the process use.
    pub cores: usize,
    /// Bytes of memory of the machine, of its container or of its Slurm job, or of address space that is left (`ulimit -v`). None if
    /// the system does not say.
    pub memory: Option<u64>,
}

impl Allocation {
    /// That of this process, as it was when somebody first asked.
    pub fn here() -> &'static Allocation {
        static HERE: OnceLock<Allocation> = OnceLock::new();
        HERE.get_or_init(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let machine = memory_of_machine(&file("/proc/meminfo"), &file("/sys/fs/cgroup/memory.max"));
            // Allocators reserve some of it for a thread on each core.
            let address_space = address_space_left().map(|left| left.saturating_sub(cores as u64 * ARENA));
            let memory = machine.into_iter().chain(address_space).min();
            Allocation::new(|name| std::env::var(name).ok(), cores, memory)
        })
    }

    /// That of a process with these variables on a system that gives it so much.
    pub fn new(variable: impl Fn(&str) -> Option<String>, cores: usize, memory: Option<u64>) -> Self {
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let Some(id) = variable("SLURM_JOB_ID") else {
            // Other variables of Slurm are left over from elsewhere.
            return Allocation { job: None, ends: None, cores, memory };
        };
        let number = |name| variable(name)?.trim().parse::<u64>().ok().filter(|number| *number > 0);
        let cores_on_node = number("SLURM_CPUS_ON_NODE");
        // Memory in mebibytes; 0 is the whole node. Slurm need not enforce it.
        let by_core = || Some(number("SLURM_MEM_PER_CPU")?.saturating_mul(cores_on_node?));
        let job_memory =
            number("SLURM_MEM_PER_NODE").or_else(by_core).map(|mebibytes| mebibytes.saturating_mul(1 << 20));
        let job_cores = number("SLURM_CPUS_PER_TASK").or(cores_on_node);
        Allocation {
            job: Some(match (variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID")) {
                (Some(array), Some(task)) => format!("{array}_{task}"),
                _ => id,
            }),
            ends: number("SLURM_JOB_END_TIME"),
            cores: job_cores.map_or(cores, |job| cores.min(job as usize)),
            memory: memory.into_iter().chain(job_memory).min(),
        }
    }
}

/// Bytes of memory of the machine, or of its container, which may have less.
fn memory_of_machine(meminfo: &str, limit: &str) -> Option<u64> {
    kibibytes(meminfo, "MemTotal:").into_iter().chain(limit.trim().parse()).min()
}

/// Why this process can do nothing useful: a limit leaves it hardly any memory. An allocation that fails ends a process without a
/// message that says what to do.
pub fn lack_of_memory() -> Option<String> {
    let left = address_space_left().filter(|left| *left < MIN_ADDRESS_SPACE)?;
    let [left, needed] = [left, MIN_ADDRESS_SPACE].map(|bytes| bytes >> 20);
    Some(format!("`ulimit -v` leaves {left} MiB of memory, and at least {needed} MiB are needed; raise the limit"))
}

/// Bytes without which not even small runs can be read.
const MIN_ADDRESS_SPACE: u64 = 32 << 20;

/// Bytes of an arena of the GNU allocator.
const ARENA: u64 = 64 << 20;

fn address_space_left() -> Option<u64> {
    left_of_limit(&file("/proc/self/limits"), &file("/proc/self/status"))
}

/// Bytes that are left of a limit of the address space, if there is one.
fn left_of_limit(limits: &str, status: &str) -> Option<u64> {
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = limit.split_whitespace().next()?.parse().ok()?; // or `unlimited`
    Some(limit.saturating_sub(kibibytes(status, "VmSize:")?))
}

fn file(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The number of bytes after a word in a file that counts in kibibytes.
fn kibibytes(text: &str, word: &str) -> Option<u64> {
    let number = text.lines().find_map(|line| line.strip_prefix(word)?.trim().strip_suffix("kB"))?;
    Some(number.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn with(variables: &[(&str, &str)]) -> Allocation {
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Allocation::new(variable, 64, Some(100 * GIB))
    }

    #[test]
    fn without_a_job_everything_belongs_to_the_process() {
        let all = Allocation { job: None, ends: None, cores: 64, memory: Some(100 * GIB) };
        assert_eq!(with(&[]), all);
        assert_eq!(with(&[("SLURM_JOB_ID", ""), ("SLURM_CPUS_PER_TASK", "3")]), all, "left over from elsewhere");
        assert_eq!(with(&[("SLURM_MEM_PER_NODE", "2048")]), all);
    }

    #[test]
    fn a_task_of_an_array_is_named_by_both_numbers() {
        assert_eq!(with(&[("SLURM_JOB_ID", "12")]).job.as_deref(), Some("12"));
        let task = [("SLURM_JOB_ID", "12"), ("SLURM_ARRAY_JOB_ID", "12"), ("SLURM_ARRAY_TASK_ID", "6")];
        assert_eq!(with(&task).job.as_deref(), Some("12_6"));
        assert_eq!(with(&[("SLURM_JOB_ID", "1"), ("SLURM_JOB_END_TIME", "4600")]).ends, Some(4600));
    }

    #[test]
    fn a_job_has_the_cores_and_the_memory_it_was_given() {
        let job = ("SLURM_JOB_ID", "7");
        let cores = |variables: &[_]| with(&[&[job], variables].concat()).cores;
        assert_eq!(cores(&[("SLURM_CPUS_PER_TASK", "3"), ("SLURM_CPUS_ON_NODE", "8")]), 3);
        assert_eq!(cores(&[("SLURM_CPUS_ON_NODE", "8")]), 8);
        assert_eq!(cores(&[("SLURM_CPUS_PER_TASK", "0")]), 64);
        assert_eq!(cores(&[("SLURM_CPUS_PER_TASK", "128")]), 64, "the system lets it use no more");
        let memory = |variables: &[_]| with(&[&[job], variables].concat()).memory;
        assert_eq!(memory(&[("SLURM_MEM_PER_NODE", "2048")]), Some(2 * GIB));
        assert_eq!(memory(&[("SLURM_MEM_PER_CPU", "512"), ("SLURM_CPUS_ON_NODE", "4")]), Some(2 * GIB));
        assert_eq!(memory(&[("SLURM_MEM_PER_NODE", "0")]), Some(100 * GIB));
    }

    #[test]
    fn a_container_may_have_less_memory_than_the_machine() {
        let meminfo = "MemTotal:       24576000 kB\nMemFree:        1000 kB\n";
        assert_eq!(memory_of_machine(meminfo, "max\n"), Some(24_576_000 * 1024));
        assert_eq!(memory_of_machine(meminfo, "1073741824\n"), Some(GIB));
        assert_eq!(memory_of_machine("", ""), None);
    }

    #[test]
    fn a_limit_of_the_address_space_counts() {
        let limits = |soft| {
            format!(
                "Limit  Soft  Hard\nMax address space         {soft}  unlimited  bytes\nMax file locks  1 1 locks\n"
            )
        };
        let status = "Name:\tsemfocus\nVmSize:\t  524288 kB\nVmRSS:\t 1000 kB\n";
        assert_eq!(left_of_limit(&limits("2147483648"), status), Some(2 * GIB - GIB / 2));
        assert_eq!(left_of_limit(&limits("1000"), status), Some(0));
        assert_eq!(left_of_limit(&limits("unlimited"), status), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_cores_and_memory() {
        let Allocation { cores, memory, .. } = Allocation::here();
        assert!(*cores >= 1 && memory.is_some_and(|bytes| bytes > 100_000_000), "{cores} {memory:?}");
    }
}
