//! Manifests in files: YAML or JSON, several in one file, folders, standard input.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    error::Failure,
    yaml::{self, Misread},
};

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// One object and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The file, `-` for standard input.
    pub file: String,
    /// Which object of the file, from 1.
    pub index: usize,
    /// The object, as kubectl reads it.
    pub object: Value,
    /// What kubectl takes for something else than it looks like.
    pub misread: Vec<Misread>,
}

impl Manifest {
    /// Text at a JSON pointer; empty where there is none.
    #[must_use]
    pub fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it is of this kind and group.
    #[must_use]
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.text("/kind") == kind
            && self.text("/apiVersion").split_once('/').is_some_and(|(given, _)| given == group)
    }

    /// Kind and name, for people.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{} {}", self.text("/kind"), self.text("/metadata/name"))
    }

    /// The namespace, empty where the file leaves it to whoever applies it.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }
}

/// A file that is no YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// The file.
    pub file: String,
    /// Why, with the line.
    pub why: String,
}

/// Reads all objects of files and folders; lists are taken apart.
///
/// # Errors
///
/// Fails where a file cannot be read at all.
pub fn read(paths: &[PathBuf]) -> Result<(Vec<Manifest>, Vec<Unreadable>), Failure> {
    let (mut manifests, mut unreadable) = (Vec::new(), Vec::new());
    for path in paths {
        for file in files(path)? {
            let name = file.display().to_string();
            match parse(&name, &text_of(&file)?) {
                Ok(objects) => manifests.extend(objects),
                Err(why) => unreadable.push(Unreadable { file: name, why }),
            }
        }
    }
    Ok((manifests, unreadable))
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error| unread(path, &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let known = file.extension().and_then(|ext| ext.to_str());
        if file.is_file() && matches!(known, Some("yaml" | "yml" | "json")) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn text_of(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_BYTES + 1).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
    };
    read.map_err(|error| unread(path, &error))?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_BYTES {
        return Err(Failure::Error(format!("{} is larger than 16 MiB", path.display())));
    }
    Ok(text)
}

fn unread(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Error(format!("cannot read {}: {error}", path.display()))
}

/// The objects of a file's text.
///
/// # Errors
///
/// Says where it is no YAML.
pub fn parse(file: &str, text: &str) -> Result<Vec<Manifest>, String> {
    let mut manifests = Vec::new();
    let mut push = |object, misread| {
        let index = manifests.len() + 1;
        manifests.push(Manifest { file: file.to_owned(), index, object, misread });
    };
    for (document, misread) in yaml::documents(text)? {
        let is_list = document.get("kind").and_then(Value::as_str) == Some("List");
        match document.get("items").and_then(Value::as_array) {
            Some(items) if is_list => {
                for (index, item) in items.iter().enumerate() {
                    push(item.clone(), within(&format!("items[{index}]."), &misread));
                }
            }
            _ if document.is_object() => push(document, misread),
            _ => return Err("it is no object: it needs apiVersion, kind and metadata".into()),
        }
    }
    Ok(manifests)
}

/// Those below a path, which is left out.
fn within(path: &str, misread: &[Misread]) -> Vec<Misread> {
    let below = misread.iter().filter_map(|one| {
        one.path.strip_prefix(path).map(|rest| Misread { path: rest.to_owned(), ..one.clone() })
    });
    below.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_are_taken_apart() {
        let text = "---\nkind: A\n---\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n";
        let found = parse("f", text).unwrap();
        let kinds: Vec<_> = found.iter().map(|one| (one.index, one.text("/kind"))).collect();
        assert_eq!(kinds, [(1, "A"), (2, "B"), (3, "C")]);
        assert_eq!(parse("f", "{\"kind\": \"A\"}").unwrap().len(), 1);
    }

    #[test]
    fn items_of_a_list_keep_their_own_misreadings() {
        let text = "kind: List\nitems:\n- kind: B\n  spec: {a: [{on: 1}]}\n- kind: C\n  no: 1\n";
        let found = parse("f", text).unwrap();
        let paths: Vec<_> = found.iter().map(|one| one.misread[0].path.as_str()).collect();
        assert_eq!(paths, ["spec.a[0].on", "no"]);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(parse("f", "just text").unwrap_err().contains("apiVersion"));
        assert!(parse("f", "a: [1").is_err());
        assert!(parse("f", "a: 1\na: 2\n").is_err(), "a key twice");
    }
}
