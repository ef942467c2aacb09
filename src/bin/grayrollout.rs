//! grayrollout
fn main() {}
