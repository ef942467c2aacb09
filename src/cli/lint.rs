//! `lint -f FILE`: what the API server would refuse, and what experience warns of.

use std::path::PathBuf;

use serde::Serialize;

use super::{
    advice::{self, Advice, Level, Target},
    error::Failure,
    manifest::{self, Manifest},
    output::{DataFormat, print_data, say},
    schema::Schema,
};
use crate::api::{GROUP, GrayRolloutSpec};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files or folders, with GrayRollouts and what belongs to them: Deployments,
    /// HorizontalPodAutoscalers, PodDisruptionBudgets; - is standard input.
    #[arg(short, long, value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,
    /// Another form.
    #[arg(short, long, value_enum)]
    output: Option<DataFormat>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    file: String,
    object: String,
    level: Level,
    #[serde(skip_serializing_if = "String::is_empty")]
    path: String,
    message: String,
}

pub fn run(args: &Args) -> Result<(), Failure> {
    let (manifests, unreadable) = manifest::read(&args.filename)?;
    let mut findings = findings(&manifests)?;
    findings.extend(unreadable.into_iter().map(|broken| Finding {
        file: broken.file,
        object: String::new(),
        level: Level::Error,
        path: String::new(),
        message: broken.why,
    }));
    let count = manifests.iter().filter(|m| m.is(GROUP, "GrayRollout")).count();
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    if let Some(format) = args.output {
        print_data(&findings, format)?;
    } else {
        for finding in &findings {
            say(finding.to_string())?;
        }
    }
    if errors > 0 {
        return Err(Failure::Error(format!("{errors} of {} findings are errors", findings.len())));
    }
    if count == 0 {
        return Err(Failure::Error("there is no GrayRollout in these files".into()));
    }
    if args.output.is_none() && findings.is_empty() {
        say("nothing to find fault with")?;
    }
    Ok(())
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = match self.level {
            Level::Error => "error",
            Level::Warning => "warning",
        };
        write!(f, "{}: {level}: ", self.file)?;
        for part in [&self.object, &self.path] {
            if !part.is_empty() {
                write!(f, "{part}: ")?;
            }
        }
        f.write_str(&self.message)
    }
}

fn findings(manifests: &[Manifest]) -> Result<Vec<Finding>, Failure> {
    let schema = Schema::new()?;
    let mut findings = Vec::new();
    let grays: Vec<_> = manifests.iter().filter(|m| m.is(GROUP, "GrayRollout")).collect();
    for gray in &grays {
        let finding = |level, path: String, message| Finding {
            file: gray.file.clone(),
            object: gray.title(),
            level,
            path,
            message,
        };
        findings.extend(gray.misread.iter().map(|one| {
            // A value may be what was meant; if not, the schema says so too.
            let level = if one.is_key { Level::Error } else { Level::Warning };
            finding(level, one.path.clone(), one.to_string())
        }));
        let complaints = schema.check(&gray.object);
        let shaped = complaints.is_empty();
        findings
            .extend(complaints.into_iter().map(|one| finding(Level::Error, one.path, one.message)));
        let spec = gray.object.get("spec").cloned().unwrap_or_default();
        let Ok(spec) = serde_json::from_value::<GrayRolloutSpec>(spec) else { continue };
        if !shaped {
            continue;
        }
        let mut advice = advice::of_spec(&spec);
        advice.extend(of_neighbours(&spec, gray, manifests));
        advice.extend(of_twins(&spec, gray, &grays));
        findings.extend(
            advice.into_iter().map(|one: Advice| finding(one.level, String::new(), one.message)),
        );
    }
    Ok(findings)
}

/// What the objects around a GrayRollout give cause for.
fn of_neighbours(spec: &GrayRolloutSpec, gray: &Manifest, all: &[Manifest]) -> Vec<Advice> {
    let near = |group: &'static str, kind: &'static str| {
        all.iter().filter(move |m| m.is(group, kind) && m.namespace() == gray.namespace())
    };
    let name = &spec.target_ref.name;
    let Some(deployment) = near("apps", "Deployment").find(|m| m.text("/metadata/name") == name)
    else {
        return Vec::new();
    };
    let target = Target::new(&deployment.object);
    let mut advice = advice::of_target(spec, &target);
    for hpa in near("autoscaling", "HorizontalPodAutoscaler").filter(|m| {
        m.text("/spec/scaleTargetRef/kind") == "Deployment"
            && m.text("/spec/scaleTargetRef/name") == name
    }) {
        let name = hpa.text("/metadata/name");
        advice.extend(advice::of_autoscaler(spec, &target, name, &hpa.object));
    }
    for pdb in near("policy", "PodDisruptionBudget").filter(|m| advice::guards(&m.object, &target))
    {
        let name = pdb.text("/metadata/name");
        advice.extend(advice::of_budget(spec, &target, name, &pdb.object));
    }
    advice
}

/// Two GrayRollouts of one Deployment: only one of them works.
fn of_twins(spec: &GrayRolloutSpec, gray: &Manifest, grays: &[&Manifest]) -> Option<Advice> {
    let twin = grays.iter().find(|other| {
        (&other.file, other.index) != (&gray.file, gray.index)
            && other.namespace() == gray.namespace()
            && other.text("/metadata/name") != gray.text("/metadata/name")
            && other.text("/spec/targetRef/name") == spec.target_ref.name
    })?;
    Some(Advice {
        level: Level::Error,
        message: format!(
            "{} rolls out Deployment {} too, and only the older of the two would; leave one out",
            twin.title(),
            spec.target_ref.name
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAY: &str = "\
apiVersion: grayrollout.dev/v1alpha1
kind: GrayRollout
metadata: {name: web}
spec: {targetRef: {name: web}, stages: [{percent: 10}, {percent: 100}]}
";
    const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  template: {metadata: {labels: {app: web}}}
";

    fn of(text: &str) -> Vec<String> {
        let manifests = manifest::parse("f.yaml", text).unwrap();
        findings(&manifests).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_right_is_not_found_fault_with() {
        assert_eq!(of(GRAY), Vec::<String>::new());
        assert_eq!(of(&format!("{GRAY}---\n{DEPLOYMENT}")), Vec::<String>::new());
    }

    #[test]
    fn a_finding_names_file_object_and_field() {
        let found = of(&GRAY.replace("percent: 10}", "percent: 0}"));
        assert_eq!(found.len(), 1);
        let head = "f.yaml: error: GrayRollout web: spec.stages[0].percent: ";
        assert!(found[0].starts_with(head), "{found:?}");
    }

    #[test]
    fn what_kubectl_takes_for_another_word_is_told() {
        let hook = "hooks: [{name: a, on: [Completed], webhook: {url: \"http://a\"}}], stages: ";
        let found = of(&GRAY.replace("stages: ", hook));
        let head = "f.yaml: error: GrayRollout web: spec.hooks[0].on: line 4: kubectl reads";
        assert!(found.len() == 1 && found[0].starts_with(head), "{found:?}");
        assert_eq!(of(&GRAY.replace("stages: ", &hook.replace("on:", "\"on\":"))).len(), 0);
        let found = of(&GRAY.replace("spec: {", "spec: {paused: yes, "));
        let head = "f.yaml: warning: GrayRollout web: spec.paused: line 4: ";
        assert!(found.len() == 1 && found[0].starts_with(head), "{found:?}");
        let elsewhere = "---\nkind: ConfigMap\ndata: {on: x}\n";
        assert_eq!(of(&format!("{GRAY}{elsewhere}")), Vec::<String>::new());
    }

    #[test]
    fn neighbours_are_looked_at() {
        let recreate = DEPLOYMENT.replace("replicas: 4", "strategy: {type: Recreate}");
        let found = of(&format!("{GRAY}---\n{recreate}"));
        assert!(found[0].contains("error") && found[0].contains("RollingUpdate"), "{found:?}");
        let hpa = "\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {minReplicas: 4, scaleTargetRef: {kind: Deployment, name: web}}
";
        let found = of(&format!("{GRAY}---\n{DEPLOYMENT}---\n{hpa}"));
        assert!(found.len() == 1 && found[0].contains("HorizontalPodAutoscaler web"), "{found:?}");
        let elsewhere = hpa.replace("{name: web}\nspec", "{name: web, namespace: x}\nspec");
        assert_eq!(of(&format!("{GRAY}---\n{DEPLOYMENT}---\n{elsewhere}")), Vec::<String>::new());
    }

    #[test]
    fn two_for_one_deployment_are_refused() {
        let other = GRAY.replace("metadata: {name: web}", "metadata: {name: other}");
        let found = of(&format!("{GRAY}---\n{other}"));
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("GrayRollout other rolls out Deployment web too"), "{found:?}");
    }
}
