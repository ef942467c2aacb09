//! YAML as kubectl reads it. That is YAML 1.1, in which more bare words and numbers have a meaning
//! than in YAML 1.2: `on` is the boolean true, also as a key.

use serde_json::Value;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};

/// Longest word that can be more than a string, in bytes.
const LONGEST: usize = 64;

/// A bare word or number that kubectl takes for something else than it looks like.
#[derive(Debug, Clone, PartialEq)]
pub struct Misread {
    /// Where it stands in its object, e.g. `spec.hooks[0].on`.
    pub path: String,
    /// Its line, from 1.
    pub line: usize,
    /// As it is written.
    pub word: String,
    /// What kubectl takes it for.
    pub taken_for: Value,
    /// Whether it is a key.
    pub is_key: bool,
}

impl std::fmt::Display for Misread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, word, taken_for, .. } = self;
        write!(f, "line {line}: kubectl reads YAML 1.1, where the bare {word} is {taken_for}; ")?;
        if self.is_key {
            write!(f, "quote it: \"{word}\"")
        } else {
            write!(f, "write {taken_for}, or \"{word}\" in quotes if that is meant")
        }
    }
}

/// The objects of a text, and what of each would surprise its writer.
///
/// # Errors
///
/// Says where it is no YAML.
pub fn documents(text: &str) -> Result<Vec<(Value, Vec<Misread>)>, String> {
    let scan = Scan::of(text).map_err(|error| error.to_string())?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&scan.as_kubectl_reads).map_err(|error| error.to_string())?;
    let mut misread = scan.misread.into_iter();
    Ok(documents.into_iter().map(|one| (one, misread.next().unwrap_or_default())).collect())
}

/// What stands around a place in a document.
enum Around {
    /// A mapping, with the key whose value is read; none while a key is.
    Mapping(Option<String>),
    /// A sequence, with the index of what is read.
    Sequence(usize),
}

/// What the parser's events tell.
struct Scan {
    around: Vec<Around>,
    /// Of each document that is not null.
    misread: Vec<Vec<Misread>>,
    /// The text with its values written as YAML 1.2 has them.
    as_kubectl_reads: String,
    copied: usize,
}

impl Scan {
    fn of(text: &str) -> Result<Self, ScanError> {
        let mut scan = Self {
            around: Vec::new(),
            misread: Vec::new(),
            as_kubectl_reads: String::with_capacity(text.len()),
            copied: 0,
        };
        for event in Parser::new_from_str(text) {
            let (event, span) = event?;
            match event {
                Event::MappingStart(..) => scan.begin(Around::Mapping(None)),
                Event::SequenceStart(..) => scan.begin(Around::Sequence(0)),
                Event::MappingEnd | Event::SequenceEnd => {
                    scan.around.pop();
                    scan.next(String::new());
                }
                Event::Alias(_) => scan.next(String::new()),
                Event::Scalar(word, style, _, tag) => {
                    if style == ScalarStyle::Plain && tag.is_none() {
                        scan.look(&word, &span, text);
                    }
                    scan.next(word.into_owned());
                }
                _ => {}
            }
        }
        scan.as_kubectl_reads.push_str(text.get(scan.copied..).unwrap_or_default());
        Ok(scan)
    }

    fn begin(&mut self, what: Around) {
        if self.around.is_empty() {
            self.misread.push(Vec::new());
        }
        self.around.push(what);
    }

    /// A key or value has been read.
    fn next(&mut self, word: String) {
        match self.around.last_mut() {
            Some(Around::Mapping(key)) => *key = key.is_none().then_some(word),
            Some(Around::Sequence(index)) => *index += 1,
            None => {}
        }
    }

    fn look(&mut self, word: &str, span: &Span, text: &str) {
        if word.is_empty() || word.len() > LONGEST || word.contains(char::is_whitespace) {
            return;
        }
        let taken_for = taken_for(word).unwrap_or_else(|| word.into());
        let is_key = matches!(self.around.last(), Some(Around::Mapping(None)));
        let read = serde_saphyr::from_str(word);
        if !is_key
            && read.is_ok_and(|read: Value| !equal(&read, &taken_for))
            && let Some(range) = span.byte_range()
        {
            self.as_kubectl_reads += text.get(self.copied..range.start).unwrap_or_default();
            self.as_kubectl_reads += &taken_for.to_string();
            self.copied = range.end;
        }
        let surprises = match &taken_for {
            Value::String(_) => false,
            _ if is_key => {
                let key = taken_for.to_string();
                key != word
            }
            Value::Bool(taken_for) => !word.eq_ignore_ascii_case(&taken_for.to_string()),
            Value::Number(taken_for) => word.parse().ok() != taken_for.as_f64(),
            _ => false,
        };
        if !surprises {
            return;
        }
        let (path, line) = (self.path(word), span.start.line());
        if let Some(misread) = self.misread.last_mut() {
            misread.push(Misread { path, line, word: word.to_owned(), taken_for, is_key });
        }
    }

    fn path(&self, word: &str) -> String {
        let parts = self.around.iter().map(|part| match part {
            Around::Mapping(key) => format!(".{}", key.as_deref().unwrap_or(word)),
            Around::Sequence(index) => format!("[{index}]"),
        });
        parts.collect::<String>().trim_start_matches('.').to_owned()
    }
}

fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

/// What kubectl takes a bare word for, if not for a string.
fn taken_for(word: &str) -> Option<Value> {
    match word {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return Some(true.into());
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Some(false.into());
        }
        "~" | "null" | "Null" | "NULL" => return Some(Value::Null),
        _ => {}
    }
    let number = word.replace('_', "");
    let digits = number.trim_start_matches(['+', '-']);
    if !word.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first))
        || number.len() > digits.len() + 1
    {
        return None;
    }
    let lower = digits.to_ascii_lowercase();
    let in_base = |prefix: &str, base| {
        i64::from_str_radix(lower.strip_prefix(prefix)?, base).ok().filter(|n| *n >= 0)
    };
    let whole = in_base("0x", 16)
        .or_else(|| in_base("0b", 2))
        .or_else(|| in_base("0o", 8))
        .or_else(|| in_base("0", 8))
        .or_else(|| if lower.starts_with('0') { None } else { in_base("", 10) });
    if let Some(whole) = whole {
        return Some(if number.starts_with('-') { -whole } else { whole }.into());
    }
    // Neither infinity nor NaN, which have no JSON.
    let decimal = lower.chars().all(|one| one.is_ascii_digit() || ".e+-".contains(one));
    number.parse::<f64>().ok().filter(|_| decimal).map(Value::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn misread(text: &str) -> Vec<String> {
        documents(text).unwrap().into_iter().flat_map(|one| one.1).map(|m| m.to_string()).collect()
    }

    fn value(text: &str) -> Value {
        documents(&format!("a: {text}\n")).unwrap().remove(0).0["a"].clone()
    }

    #[test]
    fn a_bare_key_that_is_a_boolean_is_told_with_its_line_and_path() {
        let text = "kind: A\nspec:\n  hooks:\n  - {name: x}\n  - on: [PodsAdded]\n";
        let found = documents(text).unwrap().remove(0);
        assert_eq!(found.1.len(), 1);
        assert_eq!((found.1[0].path.as_str(), found.1[0].line), ("spec.hooks[1].on", 5));
        assert_eq!(
            found.1[0].to_string(),
            "line 5: kubectl reads YAML 1.1, where the bare on is true; quote it: \"on\""
        );
        assert_eq!(found.0["spec"]["hooks"][1]["on"], json!(["PodsAdded"]), "it stays what it is");
    }

    #[test]
    fn as_a_key_each_such_word_is_told_and_no_other() {
        for word in ["y", "N", "yes", "Yes", "NO", "on", "On", "ON", "off", "OFF", "True", "FALSE"]
        {
            for text in [format!("{word}: 1"), format!("{{{word}: 1}}"), format!("? {word}\n: 1")] {
                assert_eq!(misread(&text).len(), 1, "{text}");
            }
        }
        for text in [
            "\"on\": 1",
            "'on': 1",
            "{\"on\": 1}",
            "!!str on: 1",
            "oN: 1",
            "true: 1",
            "one: 1",
            "a: |\n  on: 1",
            "a: 1 # on: 1",
            "'yes': &on 1",
            "<<: {a: 1}",
            "1: 1",
        ] {
            assert_eq!(misread(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn values_are_what_kubectl_makes_of_them() {
        for (text, is) in [
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("\"yes\"", json!("yes")),
            ("!!str yes", json!("yes")),
            ("yEs", json!("yEs")),
            ("True", json!(true)),
            ("~", json!(null)),
            ("010", json!(8)),
            ("-010", json!(-8)),
            ("09", json!(9.0)),
            ("0o10", json!(8)),
            ("0x1F", json!(31)),
            ("0b11", json!(3)),
            ("1_000", json!(1000)),
            ("+7", json!(7)),
            ("0", json!(0)),
            ("0.25", json!(0.25)),
            ("25%", json!("25%")),
            ("1:30", json!("1:30")),
            ("2024-01-01", json!("2024-01-01")),
            ("--1", json!("--1")),
            ("5d8f6c9b4", json!("5d8f6c9b4")),
        ] {
            assert!(equal(&value(text), &is), "{text}: {}", value(text));
        }
    }

    #[test]
    fn a_value_that_is_taken_for_another_is_told() {
        let found = misread("kind: A\nspec:\n  hooks: [{name: on}, {name: b}]\n  paused: yes\n");
        assert_eq!(
            found,
            [
                "line 3: kubectl reads YAML 1.1, where the bare on is true; write true, or \"on\" in \
                 quotes if that is meant",
                "line 4: kubectl reads YAML 1.1, where the bare yes is true; write true, or \"yes\" \
                 in quotes if that is meant",
            ]
        );
        assert_eq!(misread("a: 010").len(), 1);
        for text in ["a: true", "a: 10", "a: 0.5", "a: 1e3", "a: null", "a:", "a: \"010\"", "a: b"]
        {
            assert_eq!(misread(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn documents_keep_their_own() {
        let text = "---\n# none\n---\na: 1\n---\n~\n---\nb: {a: 1}\non: {b: c}\n";
        let each: Vec<_> = documents(text).unwrap().iter().map(|one| one.1.len()).collect();
        assert_eq!(each, [0, 1]);
    }
    #[test]
    fn what_is_shipped_and_documented_reads_the_same_everywhere() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let read = |path: &std::path::Path| std::fs::read_to_string(path).unwrap();
        let within = |folder: &str, extension: &str| {
            let files =
                std::fs::read_dir(root.join(folder)).unwrap().map(|one| one.unwrap().path());
            files
                .filter(|one| one.extension().is_some_and(|is| is == extension))
                .collect::<Vec<_>>()
        };
        let mut texts: Vec<_> = within("config/samples", "yaml").iter().map(|p| read(p)).collect();
        for page in within("docs", "md").iter().chain(&[root.join("README.md")]) {
            let page = read(page);
            let blocks = page.split("\n```yaml\n").skip(1);
            texts.extend(blocks.map(|rest| rest.split("\n```").next().unwrap().to_owned()));
        }
        assert!(texts.len() > 5, "{}", texts.len());
        for text in texts {
            assert_eq!(misread(&text), Vec::<String>::new(), "{text}");
        }
    }
}
