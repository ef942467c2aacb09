//! `get [NAME...]`.

use jiff::Timestamp;
use serde_json::json;

use super::{
    Context,
    error::Failure,
    output::{ObjectFormat, cell, name_of, print, print_object, say, table, without_managers},
    screen::{age, seconds_between},
    session::Seen,
};
use crate::api::Phase;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names; all of the namespace if left out.
    #[arg(conflicts_with_all = ["all_namespaces", "selector"])]
    names: Vec<String>,
    /// Of all namespaces.
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only those with these labels.
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "")]
    selector: String,
    /// Another form.
    #[arg(short, long, value_enum)]
    output: Option<ObjectFormat>,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let mut grays = Vec::new();
    if args.names.is_empty() {
        grays = session.all_grays(args.all_namespaces, &args.selector).await?;
    } else {
        for name in &args.names {
            grays.push(session.gray(name).await?);
        }
    }
    match args.output {
        Some(format @ (ObjectFormat::Json | ObjectFormat::Yaml)) => match grays.as_slice() {
            [one] if args.names.len() == 1 => print_object(&one.raw, format),
            _ => {
                let items: Vec<_> = grays.iter().map(|seen| without_managers(&seen.raw)).collect();
                let list =
                    json!({ "apiVersion": "v1", "kind": "List", "metadata": {}, "items": items });
                print_object(&list, format)
            }
        },
        Some(ObjectFormat::Name) => grays.iter().try_for_each(|seen| say(name_of(&seen.raw))),
        _ if grays.is_empty() => {
            let place = if args.all_namespaces {
                "in any namespace".into()
            } else {
                format!("in namespace {}", session.namespace)
            };
            eprintln!(
                "there are no GrayRollouts {place}; make one with: kubectl gray init DEPLOYMENT"
            );
            Ok(())
        }
        wide => print(&listed(&grays, args.all_namespaces, wide.is_some(), Timestamp::now())),
    }
}

fn listed(grays: &[Seen], namespaces: bool, wide: bool, now: Timestamp) -> String {
    let mut head = vec!["NAME", "TARGET", "PHASE", "STAGE", "PERCENT", "UPDATED"];
    if namespaces {
        head.insert(0, "NAMESPACE");
    }
    if wide {
        head.extend(["ROLLOUT", "APPROVED-BY", "MESSAGE"]);
    }
    head.push("AGE");
    let rows = grays.iter().map(|seen| {
        let (meta, spec) = (&seen.gray.metadata, &seen.gray.spec);
        let status = seen.gray.status.clone().unwrap_or_default();
        let mut row = vec![
            cell(meta.name.clone()),
            spec.target_ref.name.clone(),
            cell(status.phase.map(Phase::as_str)),
            cell(status.progress),
            cell(status.actual_percent),
            cell(status.updated),
        ];
        if namespaces {
            row.insert(0, cell(meta.namespace.clone()));
        }
        if wide {
            row.push(cell(status.rollout));
            row.push(cell(status.approval.and_then(|approval| approval.by)));
            row.push(cell(status.message));
        }
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        row.push(cell(created.map(|at| age(seconds_between(at, now)))));
        row
    });
    table(&head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen::new(json!({
            "apiVersion": "grayrollout.dev/v1alpha1", "kind": "GrayRollout",
            "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"targetRef": {"name": "web-d"}, "stages": [{"percent": 100}]},
            "status": {
                "phase": "Progressing", "progress": "1/3", "actualPercent": 10, "updated": "1/1",
                "rollout": 7, "message": "rollout 7\nmoves",
            },
        }))
        .unwrap()
    }

    #[test]
    fn the_columns_of_the_contract() {
        let now: Timestamp = "2026-01-01T02:00:00Z".parse().unwrap();
        assert_eq!(
            listed(&[seen()], false, false, now),
            "NAME   TARGET   PHASE         STAGE   PERCENT   UPDATED   AGE\n\
             web    web-d    Progressing   1/3     10        1/1       2h\n"
        );
        let wide = listed(&[seen()], true, true, now);
        let lines: Vec<_> = wide.lines().collect();
        assert!(lines[0].starts_with("NAMESPACE   NAME"), "{wide}");
        assert!(lines[0].contains("ROLLOUT   APPROVED-BY   MESSAGE"), "{wide}");
        assert_eq!(lines.len(), 2, "a line break in a message breaks no table: {wide}");
    }
}
