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

/// A process that is killed at the latest when this one ends.
pub(crate) struct Process {
    child: Child,
    pid: u32,
}

impl Process {
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
