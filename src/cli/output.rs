//! Output for people and for programs.

use std::io::Write;

use clap::ValueEnum;
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::Value;

use super::{
    error::Failure,
    screen::{Line, Style, clean},
};

/// How to print an object or a list, as kubectl's -o.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// A table with more columns.
    Wide,
    /// The names alone.
    Name,
}

/// How to print what is no object of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Prints text; a reader that went away, as `| head` does, is no failure.
///
/// # Errors
///
/// Fails where standard output cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// Prints one line of text.
///
/// # Errors
///
/// Fails where standard output cannot be written.
pub fn say(text: impl AsRef<str>) -> Result<(), Failure> {
    print(&format!("{}\n", text.as_ref()))
}

/// Prints lines.
///
/// # Errors
///
/// Fails where standard output cannot be written.
pub fn print_lines(lines: &[Line], style: Style) -> Result<(), Failure> {
    print(&lines.iter().map(|line| line.render(style) + "\n").collect::<String>())
}

/// Prints data as JSON or YAML.
///
/// # Errors
///
/// Fails where standard output cannot be written.
pub fn print_data(data: &impl Serialize, format: DataFormat) -> Result<(), Failure> {
    match format {
        DataFormat::Json => say(serde_json::to_string_pretty(data)?),
        DataFormat::Yaml => print(&yaml(data)?),
    }
}

/// Data as YAML.
///
/// # Errors
///
/// Fails where it cannot be written as YAML.
pub fn yaml(data: &impl Serialize) -> Result<String, Failure> {
    serde_saphyr::to_string(data)
        .map_err(|error| Failure::Error(format!("cannot write it as YAML: {error}")))
}

/// Prints an object as JSON, YAML or its name, without the bookkeeping of field managers.
///
/// # Errors
///
/// Fails where standard output cannot be written.
pub fn print_object(object: &Value, format: ObjectFormat) -> Result<(), Failure> {
    let object = without_managers(object);
    match format {
        ObjectFormat::Json => print_data(&object, DataFormat::Json),
        ObjectFormat::Yaml => print_data(&object, DataFormat::Yaml),
        ObjectFormat::Name | ObjectFormat::Wide => say(name_of(&object)),
    }
}

/// An object as kubectl shows it.
#[must_use]
pub fn without_managers(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// The name of a GrayRollout as kubectl's -o name prints it.
#[must_use]
pub fn name_of(object: &Value) -> String {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    format!("grayrollout.grayrollout.dev/{name}")
}

/// A table as kubectl prints it.
#[must_use]
pub fn table<R: IntoIterator<Item = String>>(
    head: &[&str],
    rows: impl IntoIterator<Item = R>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    for row in rows {
        let cells = row.into_iter().map(|cell| clean(&cell)).collect::<Vec<_>>();
        table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A value for a cell, `-` where there is none.
pub fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_its_columns_under_each_other() {
        let rows = [["web".to_owned(), "1/3".to_owned()], ["checkout".to_owned(), "-".to_owned()]];
        assert_eq!(
            table(&["NAME", "STAGE"], rows),
            "NAME       STAGE\nweb        1/3\ncheckout   -\n"
        );
    }

    #[test]
    fn objects_come_without_bookkeeping() {
        let object = json!({"metadata": {"name": "web", "managedFields": [{}]}});
        assert_eq!(without_managers(&object), json!({"metadata": {"name": "web"}}));
        assert_eq!(name_of(&object), "grayrollout.grayrollout.dev/web");
    }
}
