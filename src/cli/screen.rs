//! Lines with colours that are only put in when they are printed, and what stands in them.

use std::{env, io::IsTerminal};

use crossterm::style::{Color, Stylize};
use jiff::Timestamp;
use unicode_width::UnicodeWidthStr;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether with colours.
    pub color: bool,
    /// Whether with characters beyond ASCII.
    pub unicode: bool,
}

impl Style {
    /// What standard output can show, and the user wants.
    #[must_use]
    pub fn detect(no_color: bool) -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        let terminal = std::io::stdout().is_terminal();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let unicode = locale.is_some_and(|locale| {
            let locale = locale.to_string_lossy().to_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Self { color: !no_color && set("NO_COLOR").is_none() && !dumb && terminal, unicode }
    }
}

/// What a piece of text is, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// A name or heading.
    Strong,
    /// Of less interest.
    Faint,
    /// As it should be.
    Good,
    /// Waits for someone.
    Waiting,
    /// Wrong.
    Bad,
}

/// One line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(Vec<(Tone, String)>);

impl Line {
    /// An empty line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with more text.
    #[must_use]
    pub fn with(mut self, tone: Tone, text: impl AsRef<str>) -> Self {
        self.0.push((tone, clean(text.as_ref())));
        self
    }

    /// The same with more ordinary text.
    #[must_use]
    pub fn plain(self, text: impl AsRef<str>) -> Self {
        self.with(Tone::Plain, text)
    }

    /// The text alone.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Columns that it takes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.width()).sum()
    }

    /// What to print, without trailing blanks.
    #[must_use]
    pub fn render(&self, style: Style) -> String {
        if !style.color {
            return self.text().trim_end().to_owned();
        }
        let paint = |(tone, text): &(Tone, String)| match tone {
            Tone::Plain => text.clone(),
            Tone::Strong => text.as_str().bold().to_string(),
            Tone::Faint => text.as_str().dim().to_string(),
            Tone::Good => text.as_str().with(Color::DarkGreen).to_string(),
            Tone::Waiting => text.as_str().with(Color::DarkYellow).to_string(),
            Tone::Bad => text.as_str().with(Color::DarkRed).to_string(),
        };
        self.0.iter().map(paint).collect()
    }
}

/// Text from the cluster without control characters, which could steer the terminal.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A bar of `width` columns: the part that is there, the part that is asked for beyond it.
#[must_use]
pub fn bar(
    there: i32,
    asked: i32,
    all: i32,
    width: usize,
    style: Style,
) -> (String, String, String) {
    let cells = |pods: i32| {
        let pods = usize::try_from(pods.max(0)).unwrap_or(0);
        let all = usize::try_from(all.max(1)).unwrap_or(1);
        let full = (pods * width).div_euclid(all);
        // What is there at all is seen, and what is not everything does not look like it.
        if pods == 0 { 0 } else { full.clamp(1, if pods < all { width - 1 } else { width }) }
    };
    let (full, part) = (cells(there), cells(asked).max(cells(there)));
    let (there, missing, rest) = if style.unicode { ("█", "▒", "·") } else { ("#", "+", ".") };
    (there.repeat(full), missing.repeat(part - full), rest.repeat(width - part))
}

/// A length of time as kubectl shows ages: the two largest units that matter.
#[must_use]
pub fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let two = |first: i64, unit: char, second: i64, next: char| {
        if second == 0 { format!("{first}{unit}") } else { format!("{first}{unit}{second}{next}") }
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => two(minutes, 'm', rest, 's'),
        (0, _, _) => two(hours, 'h', minutes, 'm'),
        _ => two(days, 'd', hours, 'h'),
    }
}

/// Whole seconds between two moments; 0 where clocks disagree.
#[must_use]
pub fn seconds_between(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs().max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { color: false, unicode: false };

    #[test]
    fn a_bar_never_hides_a_pod_nor_claims_all() {
        let drawn = |there, asked, all| {
            let (a, b, c) = bar(there, asked, all, 10, PLAIN);
            a + &b + &c
        };
        assert_eq!(drawn(0, 0, 10), "..........");
        assert_eq!(drawn(1, 1, 1000), "#.........");
        assert_eq!(drawn(999, 999, 1000), "#########.");
        assert_eq!(drawn(10, 10, 10), "##########");
        assert_eq!(drawn(3, 5, 10), "###++.....");
        assert_eq!(drawn(0, 1, 10), "+.........");
        assert_eq!(drawn(0, 0, 0), "..........");
        assert_eq!(drawn(7, 5, 10), "#######...");
    }

    #[test]
    fn ages_show_two_units_at_most() {
        for (seconds, text) in [
            (-5, "0s"),
            (59, "59s"),
            (60, "1m"),
            (252, "4m12s"),
            (3600, "1h"),
            (3905, "1h5m"),
            (90_061, "1d1h"),
        ] {
            assert_eq!(age(seconds), text);
        }
    }

    #[test]
    fn text_of_others_cannot_steer_the_terminal() {
        let line = Line::new().plain("by \x1b[2Jmallory\r\n");
        assert_eq!(line.render(PLAIN), "by  [2Jmallory");
    }

    #[test]
    fn colours_are_there_only_where_they_are_wanted() {
        let line = Line::new().with(Tone::Bad, "Stalled").plain(" now");
        assert_eq!(line.render(PLAIN), "Stalled now");
        let painted = line.render(Style { color: true, unicode: false });
        assert!(painted.contains('\x1b') && painted.contains("Stalled"), "{painted:?}");
        assert_eq!(line.width(), 11);
    }
}
