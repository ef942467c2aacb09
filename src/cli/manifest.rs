//! Manifests in files: YAML or JSON, several in one file, folders, standard input.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::error::Failure;

/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// One object and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The file, `-` for standard input.
    pub file: String,
    /// Which object of the file, from 1.
    pub index: usize,
    /// The object.
    pub object: Value,
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
            match parse(&text_of(&file)?) {
                Ok(objects) => {
                    for (index, object) in objects.into_iter().enumerate() {
                        manifests.push(Manifest { file: name.clone(), index: index + 1, object });
                    }
                }
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

/// The objects of a text.
///
/// # Errors
///
/// Says where it is no YAML.
pub fn parse(text: &str) -> Result<Vec<Value>, String> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let mut objects = Vec::new();
    for document in documents {
        let is_list = document.get("kind").and_then(Value::as_str) == Some("List");
        match document.get("items").and_then(Value::as_array) {
            Some(items) if is_list => objects.extend(items.iter().cloned()),
            _ if document.is_null() => {}
            _ if document.is_object() => objects.push(document),
            _ => return Err("it is no object: it needs apiVersion, kind and metadata".into()),
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_are_taken_apart() {
        let text = "---\nkind: A\n---\n---\nkind: List\nitems:\n- kind: B\n- kind: C\n";
        let kinds: Vec<_> =
            parse(text).unwrap().iter().map(|o| o["kind"].as_str().unwrap().to_owned()).collect();
        assert_eq!(kinds, ["A", "B", "C"]);
        assert_eq!(parse("{\"kind\": \"A\"}").unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(parse("just text").unwrap_err().contains("apiVersion"));
        assert!(parse("a: [1").is_err());
        assert!(parse("a: 1\na: 2\n").is_err(), "a key twice");
    }
}
