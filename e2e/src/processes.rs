//! Processes that end with the test process, however it ends.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

/// Kills the listed processes when its standard input ends, which it does when this process is
/// gone, also after Ctrl-C or kill -9. Ctrl-C must not end it before it has done so.
const REAPER: &str = r#"
trap '' INT TERM HUP
alive=' '
while read -r what pid; do
    case $what in
        add) alive="$alive$pid " ;;
        drop) alive="${alive%% $pid *} ${alive#* $pid }" ;;
    esac
done
[ "$alive" = ' ' ] || kill -9 $alive 2>/dev/null
"#;

struct Reaper {
    to: Mutex<ChildStdin>,
    /// Held, so that it is not waited for.
    _child: Child,
}

fn reaper() -> &'static Reaper {
    static REAPER_PROCESS: OnceLock<Reaper> = OnceLock::new();
    REAPER_PROCESS.get_or_init(|| {
        let mut child = Command::new("sh")
            .args(["-c", REAPER])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("sh starts");
        Reaper { to: Mutex::new(child.stdin.take().expect("a pipe")), _child: child }
    })
}

fn tell(what: &str, pid: u32) {
    let mut to = reaper().to.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(to, "{what} {pid}").expect("the reaper reads");
}

/// What Linux counts CPU time in, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process takes of the machine.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Resident memory now, in MiB.
    pub resident_mib: f64,
    /// The most resident memory so far, in MiB.
    pub peak_mib: f64,
    /// CPU time so far, in s.
    pub cpu_seconds: f64,
}

/// What a process takes of the machine, as Linux tells in /proc.
pub fn usage_of(pid: u32) -> Usage {
    let read = |file| std::fs::read_to_string(format!("/proc/{pid}/{file}")).expect("it runs");
    let (status, stat) = (read("status"), read("stat"));
    let mebibytes = |name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kibibytes.unwrap_or(0.0) / 1024.0
    };
    // Behind the name in brackets: the state, ten others, then user and system time in ticks.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Usage {
        resident_mib: mebibytes("VmRSS:"),
        peak_mib: mebibytes("VmHWM:"),
        cpu_seconds: ticks / TICKS_PER_SECOND,
    }
}

/// A process that is killed at the latest when this one ends.
pub struct Process {
    child: Child,
    pid: u32,
}

impl Process {
    /// Starts a program.
    ///
    /// # Panics
    ///
    /// Where it cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        reaper();
        let child = command.spawn().expect("the process starts");
        let pid = child.id();
        tell("add", pid);
        Self { child, pid }
    }

    /// Sends a signal by name, e.g. `STOP`.
    pub fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args([format!("-{name}"), self.pid.to_string()])
            .status()
            .expect("kill runs");
        assert!(done.success(), "kill -{name} of a process of ours failed");
    }

    /// What it takes of the machine.
    pub fn usage(&self) -> Usage {
        usage_of(self.pid)
    }

    /// The exit status, once it has ended.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("a child of ours")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        tell("drop", self.pid);
    }
}

/// Starts a supervisor that ends when its standard input does, and returns it with the first line
/// that it prints.
pub(crate) fn supervise(command: &mut Command) -> Result<(Child, String), String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or("no pipe")?;
    BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
    if line.is_empty() {
        return Err("it ended without saying where it listens; see above".into());
    }
    Ok((child, line))
}
