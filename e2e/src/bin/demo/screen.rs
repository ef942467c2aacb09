//! The terminal: paragraphs that scroll, and a picture at the bottom that is redrawn in place.

use std::{
    fmt::Write as _,
    io::{IsTerminal, Write, stdout},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A colour of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ink {
    /// As it comes.
    Plain,
    /// What is less important.
    Dim,
    /// What stands out.
    Bold,
    /// New pods.
    Green,
    /// Old pods.
    Blue,
    /// Who waits for what.
    Yellow,
}

/// Text in one colour.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span(pub Ink, pub String);

/// Lines of coloured text.
pub type Lines = Vec<Vec<Span>>;

/// Where everything is shown.
pub struct Screen {
    terminal: bool,
    colours: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shown: Lines,
    /// Whether the picture is the last thing on the terminal.
    drawn: bool,
}

impl Screen {
    pub fn new() -> Self {
        let terminal = stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { terminal, colours: terminal && !no_colour, state: Mutex::default() }
    }

    /// Shows a line of text.
    pub fn say(&self, text: &str) {
        self.print(&[Span(Ink::Plain, text.to_owned())]);
    }

    /// Shows a line.
    pub fn print(&self, line: &[Span]) {
        let mut state = self.lock();
        // What was drawn stays where it is, and the next picture is another one.
        *state = State::default();
        write_out(&format!("{}\n", self.paint(line)));
    }

    /// Shows the picture in place of the one before; where that cannot be, below it.
    pub fn draw(&self, lines: Lines) {
        let mut state = self.lock();
        if state.shown == lines {
            return;
        }
        let mut text = String::new();
        if self.terminal {
            // Lines that are too long are cut, so that one line stays one line.
            text.push_str("\x1b[?25l\x1b[?7l");
            if state.drawn {
                let _ = write!(text, "\x1b[{}A\x1b[J", state.shown.len());
            }
        }
        for (at, line) in lines.iter().enumerate() {
            // In a log only what changed is worth a line.
            if self.terminal || state.shown.get(at) != Some(line) {
                text.push_str(&self.paint(line));
                text.push('\n');
            }
        }
        if self.terminal {
            text.push_str("\x1b[?25h\x1b[?7h");
        }
        *state = State { shown: lines, drawn: true };
        write_out(&text);
    }

    /// Leaves the time to read what was said to whoever looks on.
    pub async fn breathe(&self) {
        if self.terminal {
            tokio::time::sleep(Duration::from_millis(1200)).await;
        }
    }

    /// Gives the terminal back as it was.
    pub fn restore(&self) {
        if self.terminal {
            write_out("\x1b[?25h\x1b[?7h\x1b[0m");
        }
    }

    fn paint(&self, line: &[Span]) -> String {
        line.iter()
            .map(|Span(ink, text)| match code(*ink) {
                Some(code) if self.colours => format!("\x1b[{code}m{text}\x1b[0m"),
                _ => text.clone(),
            })
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_out(text: &str) {
    let mut out = stdout().lock();
    // A reader that went away is no reason to stop: what was started must be ended.
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

fn code(ink: Ink) -> Option<&'static str> {
    match ink {
        Ink::Plain => None,
        Ink::Dim => Some("2"),
        Ink::Bold => Some("1"),
        Ink::Green => Some("1;32"),
        Ink::Blue => Some("34"),
        Ink::Yellow => Some("33"),
    }
}
