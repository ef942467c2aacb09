//! `plan NAME | -f FILE`: what each stage does to the pods.

use std::{fmt::Write, path::PathBuf};

use serde::Serialize;

use super::{
    Context,
    advice::{self, Advice},
    error::Failure,
    manifest::{self, Manifest},
    output::{DataFormat, print, print_data, say, table},
    screen::age,
    session::{Seen, Session},
};
use crate::{
    api::{Approval, GROUP, GrayRolloutSpec, IntOrPercent, RollingUpdate, Strategy},
    plan::{Bounds, StagePreview, preview},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the GrayRollout.
    #[arg(required_unless_present = "filename", conflicts_with = "filename")]
    name: Option<String>,
    /// Files or folders instead of a cluster, with GrayRollouts and their Deployments; - is
    /// standard input.
    #[arg(short, long, value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// As if the Deployment had so many replicas.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..=1_000_000))]
    replicas: Option<i32>,
    /// As if maxSurge were this, a number or a percentage.
    #[arg(long, value_name = "PODS", value_parser = amount)]
    max_surge: Option<IntOrPercent>,
    /// As if maxUnavailable were this, a number or a percentage.
    #[arg(long, value_name = "PODS", value_parser = amount)]
    max_unavailable: Option<IntOrPercent>,
    /// Another form.
    #[arg(short, long, value_enum)]
    output: Option<DataFormat>,
}

/// A number of pods or a percentage, as the CRD accepts it.
fn amount(text: &str) -> Result<IntOrPercent, String> {
    let amount = match text.parse::<i32>() {
        Ok(count) => IntOrPercent::Count(count),
        Err(_) => IntOrPercent::Percent(text.into()),
    };
    match amount.round_up(100) {
        Some(_) => Ok(amount),
        None => Err("it is a number of pods, 0 or more, or a percentage such as 25%".into()),
    }
}

/// What is planned for one GrayRollout.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Planned {
    name: String,
    target: String,
    replicas: i32,
    max_surge: i32,
    max_unavailable: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_interval_seconds: Option<i32>,
    stages: Vec<StagePreview>,
    warnings: Vec<String>,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let plans = match &args.name {
        Some(name) => {
            let session = context.session().await?;
            let seen = session.gray(name).await?;
            let (own, replicas) = own_of(&session, &seen, args.replicas).await?;
            vec![planned(args, name, seen.gray.spec, &own, replicas)?]
        }
        None => of_files(args)?,
    };
    if let Some(format) = args.output {
        return match plans.as_slice() {
            [one] => print_data(one, format),
            several => print_data(&several, format),
        };
    }
    for (index, plan) in plans.iter().enumerate() {
        if index > 0 {
            say("")?;
        }
        say(heading(plan))?;
        print(&table_of(&plan.stages))?;
        for warning in &plan.warnings {
            eprintln!("warning: {warning}");
        }
    }
    Ok(())
}

fn heading(plan: &Planned) -> String {
    let mut text = format!(
        "{}: Deployment {}, {} replicas, at most {} more and {} fewer",
        plan.name, plan.target, plan.replicas, plan.max_surge, plan.max_unavailable
    );
    if let Some(seconds) = plan.step_interval_seconds {
        let _ = write!(text, ", at least {} between batches", age(i64::from(seconds)));
    }
    text
}

/// The strategy that the user gave the Deployment, and its replicas.
async fn own_of(
    session: &Session,
    seen: &Seen,
    replicas: Option<i32>,
) -> Result<(Strategy, i32), Failure> {
    let status = seen.gray.status.clone().unwrap_or_default();
    if let (Some(own), Some(replicas)) = (status.own_strategy, replicas.or(status.replicas)) {
        return Ok((own, replicas));
    }
    let target = session.deployment(&seen.gray.spec.target_ref.name).await?;
    let target = advice::Target::new(&target);
    Ok((target.strategy.clone(), replicas.unwrap_or(target.replicas())))
}

fn of_files(args: &Args) -> Result<Vec<Planned>, Failure> {
    let (manifests, unreadable) = manifest::read(&args.filename)?;
    if let Some(broken) = unreadable.first() {
        return Err(Failure::Error(format!("{}: {}", broken.file, broken.why)));
    }
    let grays: Vec<_> = manifests.iter().filter(|m| m.is(GROUP, "GrayRollout")).collect();
    if grays.is_empty() {
        return Err(Failure::Error("there is no GrayRollout in these files".into()));
    }
    grays.into_iter().map(|gray| of_manifest(args, gray, &manifests)).collect()
}

fn of_manifest(args: &Args, gray: &Manifest, all: &[Manifest]) -> Result<Planned, Failure> {
    let spec: GrayRolloutSpec = serde_json::from_value(
        gray.object.get("spec").cloned().unwrap_or_default(),
    )
    .map_err(|error| {
        Failure::Error(format!(
            "{}: {}: {error}; see: kubectl gray lint -f {}",
            gray.file,
            gray.title(),
            gray.file
        ))
    })?;
    let target = all.iter().find(|m| {
        m.is("apps", "Deployment")
            && m.text("/metadata/name") == spec.target_ref.name
            && m.namespace() == gray.namespace()
    });
    let target = target.map(|target| advice::Target::new(&target.object));
    let replicas = args.replicas.or(target.as_ref().map(advice::Target::replicas));
    let replicas = replicas.ok_or_else(|| {
        Failure::Usage(format!(
            "the files have no Deployment {}; add it, or say --replicas",
            spec.target_ref.name
        ))
    })?;
    let own = target
        .map_or(Strategy::RollingUpdate { rolling_update: RollingUpdate::default() }, |target| {
            target.strategy
        });
    planned(args, gray.text("/metadata/name"), spec, &own, replicas)
}

fn planned(
    args: &Args,
    name: &str,
    mut spec: GrayRolloutSpec,
    own: &Strategy,
    replicas: i32,
) -> Result<Planned, Failure> {
    if !matches!(own, Strategy::RollingUpdate { .. }) {
        return Err(Failure::Error(format!(
            "the strategy of Deployment {} is not RollingUpdate, so it cannot be staged; set it to RollingUpdate",
            spec.target_ref.name
        )));
    }
    spec.max_surge = args.max_surge.clone().or(spec.max_surge);
    spec.max_unavailable = args.max_unavailable.clone().or(spec.max_unavailable);
    let bounds = Bounds::resolve(Some(&spec), own, replicas);
    let stages = preview(&spec, own, replicas);
    let warnings = advice::coinciding(&stages, replicas);
    Ok(Planned {
        name: name.into(),
        step_interval_seconds: spec.step_interval_seconds.filter(|seconds| *seconds > 0),
        target: spec.target_ref.name,
        replicas,
        max_surge: bounds.surge,
        max_unavailable: bounds.unavailable,
        warnings: warnings.into_iter().map(|Advice { message, .. }| message).collect(),
        stages,
    })
}

/// Stages as a table.
#[must_use]
pub fn table_of(stages: &[StagePreview]) -> String {
    let head = ["STAGE", "ASKED", "ACTUAL", "NEW", "OLD", "MOST", "FEWEST", "WAITS FOR"];
    let rows = stages.iter().map(|stage| {
        let mut waits = match stage.approval {
            Approval::Required => "approval, then".to_owned(),
            Approval::Automatic => String::new(),
        };
        let _ = write!(waits, " {} available", stage.pods.new);
        if stage.soak_seconds > 0 {
            let _ = write!(waits, ", then {}", age(i64::from(stage.soak_seconds)));
        }
        [
            stage.stage.to_string(),
            format!("{}%", stage.percent),
            format!("{}%", stage.actual_percent),
            stage.pods.new.to_string(),
            stage.pods.old.to_string(),
            stage.most.to_string(),
            stage.fewest.to_string(),
            waits.trim_start().to_owned(),
        ]
    });
    table(&head, rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_what_the_crd_accepts() {
        assert_eq!(amount("2"), Ok(IntOrPercent::Count(2)));
        assert_eq!(amount("25%"), Ok(IntOrPercent::Percent("25%".into())));
        for bad in ["-1", "x", "25", "%"].into_iter().filter(|text| *text != "25") {
            assert!(amount(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_heading_tells_of_a_wait_between_batches() {
        let plan = |step_interval_seconds| Planned {
            name: "web".into(),
            target: "web".into(),
            replicas: 10,
            max_surge: 1,
            max_unavailable: 0,
            step_interval_seconds,
            stages: Vec::new(),
            warnings: Vec::new(),
        };
        let plain = "web: Deployment web, 10 replicas, at most 1 more and 0 fewer";
        assert_eq!(heading(&plan(None)), plain);
        assert_eq!(heading(&plan(Some(90))), format!("{plain}, at least 1m30s between batches"));
    }

    #[test]
    fn a_table_says_what_each_stage_does_and_waits_for() {
        let spec: GrayRolloutSpec = serde_json::from_value(json!({
            "targetRef": {"name": "web"}, "maxSurge": 1,
            "stages": [{"percent": 10}, {"percent": 50, "soakSeconds": 600}, {"percent": 100}],
        }))
        .unwrap();
        let own = Strategy::RollingUpdate { rolling_update: RollingUpdate::default() };
        assert_eq!(
            table_of(&preview(&spec, &own, 10)),
            "STAGE   ASKED   ACTUAL   NEW   OLD   MOST   FEWEST   WAITS FOR\n\
             1       10%     10%      1     9     11     10       1 available\n\
             2       50%     50%      5     5     11     10       approval, then 5 available, then 10m\n\
             3       100%    100%     10    0     11     10       approval, then 10 available\n"
        );
    }
}
