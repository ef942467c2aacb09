//! `completion SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, error::Failure, output::print};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kubectl-gray", &mut script);
    print(&String::from_utf8_lossy(&script))
}
