//! The report, kept in a file from the first figure on.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{
    figures::{Figure, table},
    machine,
};

/// All figures so far.
pub struct Report {
    file: PathBuf,
    load_before: String,
    figures: Vec<Figure>,
}

impl Report {
    /// An empty report of one part; the folder of its file is made.
    pub fn new(part: &str) -> Self {
        let exe = std::env::current_exe().expect("this program has a path");
        // <target>/release/bench
        let dir = exe.ancestors().nth(2).unwrap_or(Path::new("target")).join("bench");
        std::fs::create_dir_all(&dir).expect("a folder for the report");
        let file = dir.join(format!("{part}.json"));
        Self { file, load_before: machine::load(), figures: Vec::new() }
    }

    /// Takes figures in, shows them and writes the file anew.
    pub fn add(&mut self, figures: impl IntoIterator<Item = Figure>) {
        let figures: Vec<_> = figures.into_iter().collect();
        println!("{}", table(&figures));
        self.figures.extend(figures);
        let figures: Vec<Value> = self.figures.iter().map(Figure::json).collect();
        let report = json!({"machine": machine::describe(&self.load_before), "figures": figures});
        let report = serde_json::to_string_pretty(&report).expect("plain JSON");
        std::fs::write(&self.file, report + "\n").expect("the report can be written");
    }

    /// Shows all of it.
    pub fn finish(&self) {
        let machine = machine::describe(&self.load_before);
        println!("\n{}\n\n{}", machine::line(&machine), table(&self.figures));
        println!("\nevery sample: {}", self.file.display());
    }
}
