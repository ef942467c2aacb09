//! A block of lines that is redrawn in place, with as few bytes as its changes take.

use std::io::Write;

use crossterm::{
    QueueableCommand,
    cursor::{Hide, MoveToColumn, MoveUp, Show},
    style::Print,
    terminal::{self, Clear, ClearType},
};

use super::screen::{Line, Style};

/// Size of a terminal that does not tell it.
const UNKNOWN: (u16, u16) = (80, 24);

/// A block at the end of what the terminal shows.
#[derive(Debug)]
pub struct Block<W: Write> {
    out: W,
    style: Style,
    /// What is on the screen, and how wide the terminal was then.
    shown: Vec<Line>,
    size: (u16, u16),
}

impl<W: Write> Block<W> {
    /// Hides the cursor; nothing is drawn yet.
    ///
    /// # Errors
    ///
    /// Fails where the terminal cannot be written.
    pub fn new(mut out: W, style: Style) -> std::io::Result<Self> {
        out.queue(Hide)?.flush()?;
        Ok(Self { out, style, shown: Vec::new(), size: UNKNOWN })
    }

    /// Draws `lines` in the place of what was drawn before; what does not fit is left out.
    ///
    /// # Errors
    ///
    /// Fails where the terminal cannot be written.
    pub fn draw(&mut self, lines: &[Line]) -> std::io::Result<()> {
        self.draw_at(lines, terminal::size().ok().filter(|size| size.0 > 0).unwrap_or(UNKNOWN))
    }

    fn draw_at(&mut self, lines: &[Line], size: (u16, u16)) -> std::io::Result<()> {
        let fitting = fit(lines, size);
        let same_shape = self.size == size
            && fitting.len() == self.shown.len()
            && fitting.iter().zip(&self.shown).all(|(a, b)| rows(a, size.0) == rows(b, size.0));
        let mut bytes = Vec::new();
        if same_shape {
            self.replace_changed(fitting, size.0, &mut bytes)?;
        } else {
            let up = total(&self.shown, size.0);
            if up > 0 {
                bytes.queue(MoveUp(up))?;
            }
            bytes.queue(MoveToColumn(0))?.queue(Clear(ClearType::FromCursorDown))?;
            for line in fitting {
                bytes.queue(Print(line.render(self.style)))?.queue(Print("\r\n"))?;
            }
        }
        // One write, so that a slow link shows no half of it.
        self.out.write_all(&bytes)?;
        self.out.flush()?;
        self.shown = fitting.to_vec();
        self.size = size;
        Ok(())
    }

    fn replace_changed(
        &self,
        lines: &[Line],
        columns: u16,
        bytes: &mut Vec<u8>,
    ) -> std::io::Result<()> {
        let mut below = total(lines, columns);
        for (line, before) in lines.iter().zip(&self.shown) {
            if line != before {
                let height = rows(line, columns);
                bytes.queue(MoveUp(below))?.queue(MoveToColumn(0))?;
                bytes.queue(Print(line.render(self.style)))?;
                // A line that fills its last row leaves the cursor there.
                if line.width() % usize::from(columns) != 0 || line.width() == 0 {
                    bytes.queue(Clear(ClearType::UntilNewLine))?;
                }
                bytes.queue(Print("\r\n".repeat(usize::from(below - height) + 1)))?;
            }
            below -= rows(line, columns);
        }
        Ok(())
    }

    /// Shows the cursor again.
    ///
    /// # Errors
    ///
    /// Fails where the terminal cannot be written.
    pub fn end(&mut self) -> std::io::Result<()> {
        self.out.queue(Show)?.flush()
    }
}

impl<W: Write> Drop for Block<W> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Rows that a line takes when the terminal wraps it.
fn rows(line: &Line, columns: u16) -> u16 {
    u16::try_from(line.width().div_ceil(usize::from(columns.max(1))).max(1)).unwrap_or(u16::MAX)
}

fn total(lines: &[Line], columns: u16) -> u16 {
    lines.iter().fold(0, |sum, line| sum.saturating_add(rows(line, columns)))
}

/// The lines that fit above the row that the cursor rests in.
fn fit(lines: &[Line], (columns, height): (u16, u16)) -> &[Line] {
    let mut used = 0_u16;
    let count = lines
        .iter()
        .take_while(|line| {
            used = used.saturating_add(rows(line, columns));
            used < height
        })
        .count();
    lines.get(..count).unwrap_or(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { color: false, unicode: false };

    fn lines(texts: &[&str]) -> Vec<Line> {
        texts.iter().map(|text| Line::new().plain(text)).collect()
    }

    /// A terminal as far as it is used here.
    fn screen(bytes: &[u8], columns: u16, height: u16) -> Vec<String> {
        let mut parser = vt100::Parser::new(height, columns, 0);
        parser.process(bytes);
        let text = parser.screen().contents();
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    fn drawn(frames: &[&[&str]], size: (u16, u16)) -> (Vec<String>, Vec<usize>) {
        let mut block = Block::new(Vec::new(), STYLE).unwrap();
        let mut sizes = Vec::new();
        for frame in frames {
            let before = block.out.len();
            block.draw_at(&lines(frame), size).unwrap();
            sizes.push(block.out.len() - before);
        }
        (screen(&block.out, size.0, size.1), sizes)
    }

    #[test]
    fn only_what_changed_is_sent() {
        let long = "a line that stays as it is";
        let (shown, sent) = drawn(&[&[long, "1s", long], &[long, "2s", long]], (40, 10));
        assert_eq!(shown, [long, "2s", long]);
        assert!(sent[1] < 30, "{sent:?}");
    }

    #[test]
    fn a_shorter_line_leaves_nothing_behind() {
        let (shown, _) = drawn(&[&["a long one", "x"], &["short", "x"]], (40, 10));
        assert_eq!(shown, ["short", "x"]);
    }

    #[test]
    fn lines_that_wrap_are_counted_as_the_terminal_does() {
        let (shown, _) =
            drawn(&[&["0123456789abcde", "x"], &["0123456789ABC", "y"], &["0123", "y"]], (10, 10));
        assert_eq!(shown, ["0123", "y"]);
        let (shown, _) = drawn(&[&["0123456789", "x"], &["abcdefghij", "y"]], (10, 10));
        assert_eq!(shown, ["abcdefghij", "y"]);
    }

    #[test]
    fn fewer_and_more_lines() {
        let (shown, _) = drawn(&[&["a", "b", "c"], &["a"], &["a", "d"]], (10, 10));
        assert_eq!(shown, ["a", "d"]);
    }

    #[test]
    fn a_small_window_shows_the_top() {
        let (shown, _) = drawn(&[&["a", "b", "c", "d"], &["a", "B", "c", "d"]], (10, 3));
        assert_eq!(shown, ["a", "B"]);
    }
}
