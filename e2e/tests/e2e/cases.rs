//! The list of situations in docs/cases.md names tests that exist.

use std::{fs, path::Path};

/// Every test that the table names is here, under that name.
#[test]
fn every_listed_case_has_its_test() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(here.join("../docs/cases.md")).unwrap();
    let mut named = 0;
    for name in table.split('`').filter(|text| text.contains("::")) {
        let (module, function) = name.split_once("::").unwrap();
        let file = here.join(format!("tests/e2e/{module}.rs"));
        let source = fs::read_to_string(&file).unwrap_or_default();
        let test = format!("#[test]\nfn {function}()");
        assert!(source.contains(&test), "docs/cases.md names {name}, which does not exist");
        named += 1;
    }
    assert!(named >= 48, "only {named} tests are named");
}
