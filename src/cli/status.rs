//! `status NAME [--watch]`.

use std::{io::IsTerminal, pin::pin, time::Duration};

use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::runtime::{WatchStreamExt, watcher};

use super::{
    Context,
    error::{Failure, chain},
    output::{ObjectFormat, print_lines, print_object, say},
    screen::{Line, Tone},
    session::{Seen, Session},
    terminal::Block,
    view::View,
};
use crate::api::GrayRollout;

/// How often ages on the screen are brought up to date; nothing is asked of the cluster for it.
const TICK: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    name: String,
    /// Keep showing it: in place on a terminal, line by line elsewhere. Ctrl-C ends it.
    #[arg(short, long, conflicts_with = "output")]
    watch: bool,
    /// Print the object instead.
    #[arg(short, long, value_enum)]
    output: Option<ObjectFormat>,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let (seen, rights) = tokio::join!(session.gray(&args.name), session.missing_rights(&args.name));
    let seen = seen?;
    if let Some(format) = args.output.filter(|format| *format != ObjectFormat::Wide) {
        return print_object(&seen.raw, format);
    }
    let screen = Screen { session: &session, rights: &rights, context };
    if args.watch {
        if std::io::stdout().is_terminal() {
            screen.follow_in_place(seen, &args.name).await
        } else {
            screen.follow_in_lines(&args.name).await
        }
    } else {
        print_lines(&screen.view(&seen.gray).lines(), context.style)
    }
}

struct Screen<'a> {
    session: &'a Session,
    rights: &'a [String],
    context: &'a Context,
}

impl Screen<'_> {
    fn view<'v>(&'v self, gray: &'v GrayRollout) -> View<'v> {
        View {
            gray,
            now: Timestamp::now(),
            flags: &self.session.flags,
            rights: self.rights,
            style: self.context.style,
        }
    }

    async fn follow_in_place(&self, seen: Seen, name: &str) -> Result<(), Failure> {
        let mut changes = pin!(changes(self.session, name));
        let mut block = Block::new(std::io::stdout(), self.context.style)?;
        let mut gray = seen.gray;
        let mut trouble = None;
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(Change::Seen(next)) => {
                        gray = *next;
                        trouble = None;
                    }
                    Some(Change::Gone) => return Err(gone(name)),
                    Some(Change::Trouble(why)) => trouble = Some(Line::new().with(Tone::Bad, why)),
                    Some(Change::Failed(failure)) => return Err(failure),
                    None => return Ok(()),
                },
                _ = tick.tick() => {}
                _ = tokio::signal::ctrl_c() => return Ok(()),
            }
            let mut lines = self.view(&gray).lines();
            lines.extend(trouble.clone());
            block.draw(&lines)?;
        }
    }

    async fn follow_in_lines(&self, name: &str) -> Result<(), Failure> {
        let mut changes = pin!(changes(self.session, name));
        let mut last = String::new();
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(Change::Seen(gray)) => {
                        let view = self.view(&gray);
                        let line = view.line();
                        if line != last {
                            let time = view.now.round(jiff::Unit::Second).unwrap_or(view.now);
                            say(format!("{time} {line}"))?;
                            last = line;
                        }
                    }
                    Some(Change::Gone) => return Err(gone(name)),
                    Some(Change::Trouble(why)) => eprintln!("warning: {why}"),
                    Some(Change::Failed(failure)) => return Err(failure),
                    None => return Ok(()),
                },
                _ = tokio::signal::ctrl_c() => return Ok(()),
            }
        }
    }
}

fn gone(name: &str) -> Failure {
    Failure::Error(format!("the GrayRollout {name} was deleted"))
}

/// What a watch tells of one object.
pub enum Change {
    /// It is like this.
    Seen(Box<GrayRollout>),
    /// It is not there.
    Gone,
    /// The watch is broken and will be tried again.
    Trouble(String),
    /// The watch cannot work.
    Failed(Failure),
}

/// Everything that happens to one GrayRollout from now on, beginning with what it is.
pub fn changes(session: &Session, name: &str) -> impl Stream<Item = Change> + use<> {
    let request = session.watch_request(name);
    watcher::watch_object(session.grays(), name).default_backoff().map(move |change| match change {
        Ok(Some(gray)) => Change::Seen(Box::new(gray)),
        Ok(None) => Change::Gone,
        Err(
            watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error),
        ) if matches!(&error, kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404)) => {
            Change::Failed(request.failure(error))
        }
        Err(error) => Change::Trouble(format!("connection lost, trying again: {}", chain(&error))),
    })
}
