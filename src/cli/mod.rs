//! `kubectl gray`: the commands of people, one file each, on the same types and the same
//! arithmetic as the operator.

mod abort;
mod advice;
mod approve;
mod completion;
mod error;
mod get;
mod history;
mod init;
mod lint;
mod manifest;
mod next;
mod output;
mod pause;
mod plan;
mod restart;
mod retry;
mod revisions;
mod rights;
pub(crate) mod schema;
mod screen;
mod session;
mod shape;
mod status;
mod terminal;
mod undo;
mod version;
mod view;
mod wait;
mod yaml;

use clap::{Parser, Subcommand};

pub use error::Failure;
use screen::Style;
use session::{ClusterFlags, Session};

/// Look at staged rollouts, approve them and go back.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-gray",
    bin_name = "kubectl gray",
    version,
    after_help = WITHOUT,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// No colours; the variable NO_COLOR does the same.
    #[arg(long, global = true)]
    no_color: bool,
    #[command(subcommand)]
    command: Command,
}

const WITHOUT: &str = "\
Without the plugin (N is status.rollout):
  look      kubectl get gr; kubectl describe gr NAME
  approve   kubectl patch gr NAME --subresource=status --type=merge -p '{\"status\":{\"approval\":{\"rollout\":N,\"stage\":2}}}'
  abort     kubectl patch gr NAME --subresource=status --type=merge -p '{\"status\":{\"abort\":{\"rollout\":N}}}'
  retry     kubectl patch gr NAME --subresource=status --type=merge -p '{\"status\":{\"retry\":{\"rollout\":N}}}'
  pause     kubectl patch gr NAME --type=merge -p '{\"spec\":{\"paused\":true}}'
  wait      kubectl wait --for=condition=AwaitingApproval gr/NAME

Exit codes: 0 done, 1 error, 2 usage, 3 what was waited for cannot happen any more, 4 timeout";

#[derive(Debug, Subcommand)]
enum Command {
    /// List GrayRollouts.
    Get(get::Args),
    /// Show where a rollout stands, what it waits for and what to do.
    Status(status::Args),
    /// Approve the next stage, or several.
    Approve(approve::Args),
    /// Go back to the stable revision.
    Abort(abort::Args),
    /// Start an aborted or failed rollout again.
    Retry(retry::Args),
    /// Keep old and new pods at their present split.
    Pause(pause::Args),
    /// Let a paused rollout go on.
    Resume(pause::Args),
    /// Show what each stage does to the pods, of a GrayRollout or of files.
    Plan(plan::Args),
    /// List the rollouts so far.
    History(history::Args),
    /// Put the pod template of the stable or an earlier revision back, as kubectl rollout undo does.
    Undo(undo::Args),
    /// Replace all pods, stage by stage, with the same template.
    Restart(restart::Args),
    /// Check manifests without a cluster, by the API server's rules and some of experience.
    Lint(lint::Args),
    /// Print a GrayRollout for a Deployment.
    Init(init::Args),
    /// Wait until a rollout gets somewhere.
    Wait(wait::Args),
    /// Print the completion of a shell.
    Completion(completion::Args),
    /// Print the version.
    Version(version::Args),
}

/// What the commands share.
struct Context {
    cluster: ClusterFlags,
    style: Style,
}

impl Context {
    /// Connects to the cluster.
    async fn session(&self) -> Result<Session, Failure> {
        Session::new(&self.cluster).await
    }
}

/// Does what was asked for.
///
/// # Errors
///
/// Says why it was not done and what to do about it.
pub async fn run(cli: Cli) -> Result<(), Failure> {
    let context = Context { style: Style::detect(cli.no_color), cluster: cli.cluster };
    match cli.command {
        Command::Get(args) => get::run(&args, &context).await,
        Command::Status(args) => status::run(&args, &context).await,
        Command::Approve(args) => approve::run(&args, &context).await,
        Command::Abort(args) => abort::run(&args, &context).await,
        Command::Retry(args) => retry::run(&args, &context).await,
        Command::Pause(args) => pause::run(&args, true, &context).await,
        Command::Resume(args) => pause::run(&args, false, &context).await,
        Command::Plan(args) => plan::run(&args, &context).await,
        Command::History(args) => history::run(&args, &context).await,
        Command::Undo(args) => undo::run(&args, &context).await,
        Command::Restart(args) => restart::run(&args, &context).await,
        Command::Lint(args) => lint::run(&args),
        Command::Init(args) => init::run(&args, &context).await,
        Command::Wait(args) => wait::run(&args, &context).await,
        Command::Completion(args) => completion::run(&args),
        Command::Version(args) => version::run(&args),
    }
}
