//! `history NAME`.

use jiff::Timestamp;

use super::{
    Context,
    error::Failure,
    output::{DataFormat, cell, print, print_data, table},
    revisions,
    screen::{age, seconds_between},
};
use crate::api::{GrayRolloutStatus, HistoryEntry};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    name: String,
    /// Another form.
    #[arg(short, long, value_enum)]
    output: Option<DataFormat>,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let seen = session.gray(&args.name).await?;
    let status = seen.gray.status.clone().unwrap_or_default();
    if let Some(format) = args.output {
        return print_data(&status.history, format);
    }
    let target = &seen.gray.spec.target_ref.name;
    let mut images = Vec::new();
    for revision in revisions_of(&status) {
        // Whoever may not see ReplicaSets sees the rest.
        let template = revisions::template(&session, target, &revision).await.ok().flatten();
        images.push((revision, template.map(|template| revisions::images(&template))));
    }
    print(&listed(&status, &images, Timestamp::now()))
}

fn revisions_of(status: &GrayRolloutStatus) -> Vec<String> {
    let present = status.stage.and(status.update_revision.clone());
    let ended = status.history.iter().filter_map(|entry| entry.revision.clone());
    let mut all: Vec<_> = present.into_iter().chain(ended).collect();
    all.sort();
    all.dedup();
    all
}

fn listed(
    status: &GrayRolloutStatus,
    images: &[(String, Option<String>)],
    now: Timestamp,
) -> String {
    let image = |revision: Option<&String>| {
        let found = images.iter().find(|(known, _)| Some(known) == revision);
        cell(found.and_then(|(_, image)| image.clone()))
    };
    let mut rows = Vec::new();
    let ended = |rollout| status.history.iter().any(|entry| entry.rollout == rollout);
    if let (Some(rollout), Some(_)) = (status.rollout, status.stage)
        && !ended(rollout)
    {
        rows.push([
            rollout.to_string(),
            cell(status.update_revision.clone()),
            "under way".into(),
            image(status.update_revision.as_ref()),
            cell(status.started_at),
            cell(status.started_at.map(|at| age(seconds_between(at, now)))),
        ]);
    }
    rows.extend(status.history.iter().map(|entry: &HistoryEntry| {
        let took = entry.started_at.zip(entry.finished_at);
        [
            entry.rollout.to_string(),
            cell(entry.revision.clone()),
            entry.result.as_str().into(),
            image(entry.revision.as_ref()),
            cell(entry.started_at),
            cell(took.map(|(from, to)| age(seconds_between(from, to)))),
        ]
    }));
    if rows.is_empty() {
        return "nothing was rolled out yet\n".into();
    }
    table(&["ROLLOUT", "REVISION", "RESULT", "IMAGES", "STARTED", "TOOK"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::HistoryResult;

    #[test]
    fn the_present_one_comes_first_and_once() {
        let at = |text: &str| Some(text.parse::<Timestamp>().unwrap());
        let mut status = GrayRolloutStatus {
            rollout: Some(8),
            stage: Some(1),
            update_revision: Some("new".into()),
            started_at: at("2026-01-01T10:00:00Z"),
            history: vec![HistoryEntry {
                rollout: 7,
                revision: Some("old".into()),
                result: HistoryResult::Superseded,
                started_at: at("2026-01-01T08:00:00Z"),
                finished_at: at("2026-01-01T08:05:00Z"),
            }],
            ..Default::default()
        };
        let images = [("new".into(), Some("app:v2".into())), ("old".into(), None)];
        let now = at("2026-01-01T10:01:00Z").unwrap();
        let text = listed(&status, &images, now);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(1)
            .map(|line| line.split("   ").map(str::trim).filter(|c| !c.is_empty()).collect())
            .collect();
        assert_eq!(rows[0], ["8", "new", "under way", "app:v2", "2026-01-01T10:00:00Z", "1m"]);
        assert_eq!(rows[1], ["7", "old", "Superseded", "-", "2026-01-01T08:00:00Z", "5m"]);
        status.rollout = Some(7);
        assert_eq!(
            listed(&status, &images, now).lines().count(),
            2,
            "one that ended is no longer under way"
        );
    }
}
