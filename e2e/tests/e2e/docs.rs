//! What docs/ says of names is what there is.

use std::{fs, path::Path};

use grayrollout_e2e::Json;
use serde_json::Value;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every reason that a condition can have is explained, and so is every phase.
#[test]
fn every_reason_and_phase_is_explained() {
    let crd: Value = serde_saphyr::from_str(&read("crds/grayrollouts.yaml")).unwrap();
    let status = crd.at("/spec/versions/0/schema/openAPIV3Schema/properties/status/properties");
    let reasons = status.list("/conditions/items/properties/reason/enum");
    let phases = status.list("/phase/enum");
    assert!(reasons.len() > 15 && phases.len() == 8, "{reasons:?} {phases:?}");
    let help = read("docs/troubleshooting.md");
    for reason in reasons.iter().filter_map(Value::as_str) {
        // Progressing and Ready share some with the phase of the same name.
        let explained =
            help.contains(&format!("| {reason} |")) || help.contains(&format!(" {reason} "));
        assert!(explained, "docs/troubleshooting.md does not explain {reason}");
    }
    let concepts = read("docs/concepts.md");
    for phase in phases.iter().filter_map(Value::as_str) {
        assert!(concepts.contains(&format!("\n| {phase} |")), "docs/concepts.md misses {phase}");
    }
}

/// A link to another page of the repository leads somewhere.
#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut links = 0;
    for page in pages.filter(|page| page.extension().is_some_and(|kind| kind == "md")) {
        let text = fs::read_to_string(&page).unwrap();
        for rest in text.split("](").skip(1) {
            let link = rest.split([')', '#']).next().unwrap_or_default();
            if link.is_empty() || link.contains("://") {
                continue;
            }
            assert!(page.with_file_name(link).exists(), "{} links to {link}", page.display());
            links += 1;
        }
    }
    assert!(links > 10, "only {links} links");
}
