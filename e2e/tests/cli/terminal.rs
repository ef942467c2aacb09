//! The plugin in a terminal of a fixed size.

use std::{
    io::{Read, Write},
    process::Command,
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal with the plugin in it; the plugin is killed at the latest when this is dropped.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    seen: Arc<Mutex<Seen>>,
    reader: Option<JoinHandle<()>>,
    /// Held open, or the plugin would be hung up on.
    master: Box<dyn MasterPty + Send>,
}

struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    /// Starts a command in a terminal of so many columns and rows.
    pub fn start(command: &Command, (cols, rows): (u16, u16)) -> Self {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pty");
        let mut builder = CommandBuilder::new(command.get_program());
        builder.args(command.get_args());
        // It would begin in HOME.
        builder.cwd(std::env::current_dir().expect("a folder"));
        builder.env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => builder.env(name, value),
                None => builder.env_remove(name),
            }
        }
        let child = pair.slave.spawn_command(builder).expect("the plugin starts");
        let mut from = pair.master.try_clone_reader().expect("a reader");
        let keys = pair.master.take_writer().expect("a writer");
        let parser = vt100::Parser::new(rows, cols, 1000);
        let seen = Arc::new(Mutex::new(Seen { parser, bytes: Vec::new() }));
        let to = Arc::clone(&seen);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let mut seen = to.lock().unwrap();
                seen.parser.process(&buffer[..count]);
                seen.bytes.extend_from_slice(&buffer[..count]);
            }
        });
        Self { child, keys, seen, reader: Some(reader), master: pair.master }
    }

    /// What is on the screen, row by row.
    pub fn rows(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let (_, columns) = seen.parser.screen().size();
        seen.parser.screen().rows(0, columns).map(|row| row.trim_end().to_owned()).collect()
    }

    /// The same as one text.
    pub fn text(&self) -> String {
        self.rows().join("\n")
    }

    /// Whether the cursor is hidden.
    pub fn hides_cursor(&self) -> bool {
        self.seen.lock().unwrap().parser.screen().hide_cursor()
    }

    /// All that was sent to it.
    pub fn bytes(&self) -> Vec<u8> {
        self.seen.lock().unwrap().bytes.clone()
    }

    /// Makes it another size.
    pub fn resize(&self, (cols, rows): (u16, u16)) {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        self.master.resize(size).expect("a new size");
        self.seen.lock().unwrap().parser.screen_mut().set_size(rows, cols);
    }

    /// Waits until the screen shows something.
    pub async fn until(&self, what: &str, met: impl Fn(&str) -> bool) {
        let give_up = Instant::now() + PATIENCE;
        while !met(&self.text()) {
            assert!(Instant::now() < give_up, "not seen: {what}\n{}", self.text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Types.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
        self.keys.flush().expect("typed");
    }

    /// Waits for the end and for all that was sent to the screen, and returns the exit code.
    pub async fn ended(&mut self) -> u32 {
        let give_up = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                self.read_out();
                return status.exit_code();
            }
            assert!(Instant::now() < give_up, "it does not end\n{}", self.text());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The reader ends with the last holder of the terminal's other side, which was the child.
    fn read_out(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            self.read_out();
        }
    }
}
