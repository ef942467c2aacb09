//! Looking: get, status, plan, history, and the plugin as kubectl finds it.

use grayrollout_e2e::{Json, Test, grayrollout, pods_are, run, stages};
use serde_json::{Value, json};

use crate::plugin::{gray, shell};

/// The line of a screen that begins with a label.
pub fn line<'a>(screen: &'a str, label: &str) -> &'a str {
    screen
        .lines()
        .find_map(|line| line.strip_prefix(label))
        .unwrap_or_else(|| panic!("no {label}:\n{screen}"))
        .trim()
}

/// One screen tells where a rollout stands, and each of the commands on it works as it is shown.
#[test]
fn a_screen_and_the_commands_on_it() {
    run(async |t: &Test| {
        t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
        t.push("web", "v2").await;
        t.held("web", 1, 1, 9).await;
        // Counts follow a moment after the sizes.
        t.status("web", "9 old", |status| status.int("/stable/available") == 9).await;
        let status = t.status_now("web");
        let screen = gray(t, &["status", "web"]).await.done();
        let rows: Vec<_> = screen.lines().collect();
        assert_eq!(rows[0], format!("web  Deployment web, namespace {}", t.namespace));
        assert!(line(&screen, "Phase").starts_with("AwaitingApproval (StageReached): rollout"));
        let revisions = (status.text("/updateRevision"), status.text("/stableRevision"));
        let rollout = line(&screen, "Rollout");
        assert!(rollout.contains(revisions.0) && rollout.contains(revisions.1), "{rollout}");
        assert_eq!(
            line(&screen, "Pods"),
            "new 1/1 available, old 9/9 available, 10 replicas; 10% new, 10% asked"
        );
        let stage = |number: &str| {
            let row = rows.iter().find(|row| row.contains(number)).unwrap();
            row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(stage("1/3")[..2], [">", "1/3"]);
        assert_eq!(stage("1/3")[2..6], ["10%", "██··················", "1/1", "9/9"]);
        assert_eq!(stage("2/3")[..2], ["2/3", "50%"]);
        assert_eq!(stage("2/3")[3..], ["5", "5", "needs", "approval"]);
        assert_eq!(stage("3/3")[3..5], ["10", "0"]);
        assert_eq!(line(&screen, "Approved"), "by nobody yet");
        assert_eq!(line(&screen, "Waits for"), "approval of stage 2 (50%)");
        assert!(!screen.contains('\x1b'), "no colours where there is no terminal");

        let next = line(&screen, "Next").to_owned();
        assert!(next.starts_with("kubectl gray approve web"), "{next}");
        shell(t, &format!("{next} --yes")).await.done();
        t.held("web", 2, 5, 5).await;
        let screen = gray(t, &["status", "web"]).await.done();
        assert!(line(&screen, "Approved").starts_with("up to stage 2 by "), "{screen}");
        let plain = line(&screen, "or").to_owned();
        assert!(plain.starts_with("kubectl patch gr web"), "{plain}");
        shell(t, &plain).await.done();
        t.completed("web").await;
        let screen = gray(t, &["status", "web"]).await.done();
        assert!(line(&screen, "Phase").starts_with("Completed: revision"), "{screen}");
        assert_eq!(line(&screen, "Pods"), "10/10 available, 10 replicas");
    });
}

/// A stage that soaks says how long it still does; one that is stalled says how to go back.
#[test]
fn soaking_and_stalled() {
    run(async |t: &Test| {
        let plan = json!([{"percent": 50, "soakSeconds": 300}, {"percent": 100}]);
        let gr = grayrollout("web", &[50, 100])
            .with(json!({"spec": {"stages": plan, "progressDeadlineSeconds": 1}}));
        t.manage(2, &gr).await;
        t.push("web", "v2").await;
        t.status("web", "it soaks", |status| !status.at("/stageReachedAt").is_null()).await;
        let screen = gray(t, &["status", "web"]).await.done();
        let waits = line(&screen, "Waits for");
        assert!(waits.starts_with("the soak of stage 1, ") && waits.ends_with(" left"), "{waits}");
        assert!(line(&screen, "Next").contains("kubectl gray wait web"), "{screen}");

        t.push_pods("web", "v3", pods_are("never")).await;
        t.stalled("web", "ProgressDeadlineExceeded").await;
        let screen = gray(t, &["status", "web"]).await.done();
        assert!(
            line(&screen, "Phase").starts_with("Stalled (ProgressDeadlineExceeded)"),
            "{screen}"
        );
        assert!(screen.contains("▒"), "what is asked for and not there is seen:\n{screen}");
        let next = line(&screen, "Next").to_owned();
        assert!(next.starts_with("kubectl gray abort web"), "{next}");
        shell(t, &next).await.done();
        t.rolled_back("web").await;
    });
}

/// The forms that kubectl has.
#[test]
fn lists_and_forms() {
    run(async |t: &Test| {
        t.manage(4, &grayrollout("web", &[25, 100])).await;
        t.create(&grayrollout("lost", &[50, 100])).await;
        t.phase("lost", "Pending").await;
        let table = gray(t, &["get"]).await.done();
        let rows: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["NAME", "TARGET", "PHASE", "STAGE", "PERCENT", "UPDATED", "AGE"]);
        assert_eq!(rows[1][..3], ["lost", "lost", "Pending"]);
        assert_eq!(rows[2][..6], ["web", "web", "Completed", "-", "100", "4/4"]);
        assert!(gray(t, &["get", "-o", "wide"]).await.done().contains("nothing is rolling out"));
        assert!(gray(t, &["get", "-A"]).await.done().contains(&t.namespace));
        let names = gray(t, &["get", "-o", "name"]).await.done();
        assert_eq!(names, "grayrollout.grayrollout.dev/lost\ngrayrollout.grayrollout.dev/web\n");

        let one: Value =
            serde_json::from_str(&gray(t, &["get", "web", "-o", "json"]).await.done()).unwrap();
        assert_eq!(one.text("/metadata/name"), "web");
        assert!(one.at("/metadata/managedFields").is_null());
        let all: Value =
            serde_json::from_str(&gray(t, &["get", "-o", "json"]).await.done()).unwrap();
        assert_eq!(all.list("/items").len(), 2);
        assert_eq!(all.text("/items/0/kind"), "GrayRollout");
        let yaml = gray(t, &["status", "web", "-o", "yaml"]).await.done();
        assert!(yaml.contains("kind: GrayRollout") && yaml.contains("phase: Completed"), "{yaml}");

        let said = gray(t, &["get", "none"]).await.failed(1);
        assert!(said.contains(&format!("no grayrollouts/none in namespace {}", t.namespace)));
        assert!(gray(t, &["get", "-l", "a=b"]).await.done().is_empty());
        assert_eq!(gray(t, &["get", "--all"]).await.code, 2);
    });
}

/// The plan of a live rollout is what then happens, also with bounds tried out.
#[test]
fn a_plan_is_what_then_happens() {
    run(async |t: &Test| {
        let gr = grayrollout("web", &[10, 50, 100]).with(json!({"spec": {"maxSurge": 2}}));
        t.manage(10, &gr).await;
        let planned = gray(t, &["plan", "web", "-o", "json"]).await.done();
        let planned: Value = serde_json::from_str(&planned).unwrap();
        let start = t.record.newest();
        t.push("web", "v2").await;
        for (index, stage) in planned.list("/stages").iter().enumerate() {
            let number = i64::try_from(index).unwrap() + 1;
            if number > 1 {
                t.approve("web", number).await;
            }
            if number < 3 {
                t.held("web", number, stage.int("/new"), stage.int("/old")).await;
            }
        }
        t.completed("web").await;
        let most = planned.list("/stages").iter().map(|stage| stage.int("/most")).max().unwrap();
        let seen = t.most_since(start, |now| {
            let split = now.split("web");
            split.new + split.old
        });
        assert_eq!((most, seen), (12, 12));

        let table = gray(t, &["plan", "web", "--max-surge", "0", "--replicas", "4"]).await;
        assert!(table.out.contains("4 replicas, at most 0 more and 1 fewer"), "{table:?}");
        let table = gray(t, &["plan", "web", "--replicas", "2"]).await;
        assert!(table.err.contains("warning: with 2 replicas stage 2 (50%)"), "{table:?}");
    });
}

/// Every rollout so far, with its images and its end.
#[test]
fn the_history() {
    run(async |t: &Test| {
        let each = json!({"approval": "Automatic"});
        let gr = grayrollout("web", &[50, 100])
            .with(json!({"spec": {"stages": stages(&[50, 100], &each)}}));
        t.manage(2, &gr).await;
        t.push("web", "v2").await;
        t.completed("web").await;
        t.patch_gr("web", &json!({"spec": {"stages": stages(&[50, 100], &json!({}))}})).await;
        t.push("web", "v3").await;
        t.held("web", 1, 1, 1).await;
        let table = gray(t, &["history", "web"]).await.done();
        let rows: Vec<_> = table.lines().collect();
        assert!(rows[1].contains("under way") && rows[1].contains("app:v3"), "{table}");
        let done = rows.iter().find(|row| row.contains("app:v2")).unwrap();
        assert!(done.contains("Completed"), "{table}");
        let json = gray(t, &["history", "web", "-o", "json"]).await.done();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert!(json.list("").iter().any(|entry| entry.text("/result") == "Completed"), "{json}");
    });
}

/// kubectl finds the plugin by its name.
#[test]
fn kubectl_finds_it() {
    run(async |t: &Test| {
        let said = shell(t, "kubectl gray version").await.done();
        assert!(said.contains("grayrollout.dev/v1alpha1"), "{said}");
        let help = shell(t, "kubectl gray --help").await.done();
        assert!(help.contains("Usage: kubectl gray"), "{help}");
        assert!(help.contains("kubectl patch gr NAME --subresource=status"), "{help}");
        let place = format!("kubectl gray get -n {}", t.namespace);
        assert!(shell(t, &place).await.done().is_empty());
    });
}
