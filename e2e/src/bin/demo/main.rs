//! Shows a staged rollout in the terminal: on a local control plane, with the commands that a user
//! types and the pods as they move.
//!
//! `--keep` leaves everything running until Ctrl-C.

// What fails here is told to whoever looks on, by the hook below.
#![allow(clippy::panic, clippy::expect_used)]

mod picture;
mod screen;
mod story;

use std::{
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::FutureExt;
use grayrollout_e2e::{Cluster, cluster};
use screen::Screen;
use tokio::signal::unix::{SignalKind, signal};

/// The exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let keep = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--keep"] => true,
        _ => {
            eprintln!("usage: demo [--keep]");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(show(keep))
}

async fn show(keep: bool) -> ExitCode {
    let screen = Arc::new(Screen::new());
    let interrupted = Arc::new(AtomicBool::new(false));
    say_panics(&screen, &interrupted);
    let stop = interrupt();
    tokio::pin!(stop);

    screen.say("Starting a Kubernetes control plane and the operator ...");
    let mut start = tokio::task::spawn_blocking(cluster);
    let cluster = tokio::select! {
        started = &mut start => match started {
            Ok(cluster) => cluster,
            Err(_) => return ExitCode::FAILURE,
        },
        () = &mut stop => {
            interrupted.store(true, Ordering::Relaxed);
            // It is told of Ctrl-C too, and ends with this process at the latest.
            if let Ok(cluster) = start.await {
                end(cluster).await;
            }
            return ExitCode::from(INTERRUPTED);
        }
    };
    // A panic ends the story, which ends the operator, and not the cleaning up.
    let story = AssertUnwindSafe(story::tell(cluster, Arc::clone(&screen), keep)).catch_unwind();
    let code = tokio::select! {
        told = story => match told {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        () = &mut stop => {
            interrupted.store(true, Ordering::Relaxed);
            if keep { ExitCode::SUCCESS } else { ExitCode::from(INTERRUPTED) }
        }
    };
    screen.restore();
    screen.say("Cleaning up: the control plane and all that ran on it ends.");
    end(cluster).await;
    code
}

/// Waits for Ctrl-C, or for what else asks a program to end.
async fn interrupt() {
    let mut ends = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
        .map(|kind| signal(kind).expect("a signal handler"));
    let [int, term, hup] = &mut ends;
    tokio::select! {
        _ = int.recv() => {}
        _ = term.recv() => {}
        _ = hup.recv() => {}
    }
}

async fn end(cluster: &'static Cluster) {
    let _ = tokio::task::spawn_blocking(|| cluster.stop()).await;
}

/// Tells why it failed, without what only a programmer reads; nothing once it was interrupted,
/// since then everything fails.
fn say_panics(screen: &Arc<Screen>, interrupted: &Arc<AtomicBool>) {
    let (screen, interrupted) = (Arc::clone(screen), Arc::clone(interrupted));
    panic::set_hook(Box::new(move |info| {
        if !interrupted.load(Ordering::Relaxed) {
            screen.restore();
            eprintln!("demo: {}", info.payload_as_str().unwrap_or("failed"));
        }
    }));
}
