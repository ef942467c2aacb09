//! `init DEPLOYMENT`: a manifest to begin with.

use serde_json::{Value, json};

use super::{
    Context,
    advice::{self, Level, Target},
    error::Failure,
    output::{DataFormat, print_data},
    schema::Schema,
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the Deployment.
    deployment: String,
    /// Shares of the new revision in percent, in order, the last one 100.
    #[arg(long, value_name = "PERCENTS", value_delimiter = ',', default_value = "10,50,100")]
    stages: Vec<i32>,
    /// Least time with every pod of a stage available before it is left.
    #[arg(long, value_name = "SECONDS")]
    soak_seconds: Option<i32>,
    /// Name of the GrayRollout; the Deployment's if left out.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// JSON or YAML.
    #[arg(short, long, value_enum, default_value = "yaml")]
    output: DataFormat,
}

pub async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let session = context.session().await?;
    let name = args.name.as_ref().unwrap_or(&args.deployment);
    let object = manifest(args, name, &session.namespace);
    if let Some(complaint) = Schema::new()?.check(&object).first() {
        return Err(Failure::Usage(format!("{}: {}", complaint.path, complaint.message)));
    }
    let deployment = session.deployment(&args.deployment).await?;
    let others = session.all_grays(false, "").await?;
    if let Some(other) = others.iter().find(|o| o.gray.spec.target_ref.name == args.deployment) {
        return Err(Failure::Error(format!(
            "the GrayRollout {} rolls out Deployment {} already; change that one: kubectl edit gr {}{}",
            other.gray.metadata.name.as_deref().unwrap_or_default(),
            args.deployment,
            other.gray.metadata.name.as_deref().unwrap_or_default(),
            session.flags
        )));
    }
    let spec = serde_json::from_value(object.get("spec").cloned().unwrap_or_default())?;
    let advice = advice::of_target(&spec, &Target::new(&deployment));
    if let Some(error) = advice.iter().find(|one| one.level == Level::Error) {
        return Err(Failure::Error(error.message.clone()));
    }
    for one in advice {
        eprintln!("warning: {}", one.message);
    }
    print_data(&object, args.output)
}

fn manifest(args: &Args, name: &str, namespace: &str) -> Value {
    let last = args.stages.len().saturating_sub(1);
    let stage = |(index, percent): (usize, &i32)| match args.soak_seconds {
        Some(soak) if index < last => json!({ "percent": percent, "soakSeconds": soak }),
        _ => json!({ "percent": percent }),
    };
    json!({
        "apiVersion": "grayrollout.dev/v1alpha1",
        "kind": "GrayRollout",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "targetRef": { "name": args.deployment },
            "stages": args.stages.iter().enumerate().map(stage).collect::<Vec<_>>(),
        },
    })
}
