//! x
#[test]
fn smoke() {
    grayrollout_e2e::run_without_operator(async |t| {
        t.create(&grayrollout_e2e::deployment("web", 3)).await;
    });
}
