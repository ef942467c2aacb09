//! Approving.

use grayrollout_e2e::{Json, Test, grayrollout, run};
use serde_json::json;

use crate::{
    plugin::{command_as, gray},
    terminal::Terminal,
};

async fn at_stage_1(t: &Test) {
    t.manage(10, &grayrollout("web", &[10, 50, 100])).await;
    t.push("web", "v2").await;
    t.held("web", 1, 1, 9).await;
}

/// What will move is shown; without a terminal it is not asked but refused; the approval says who
/// gave it.
#[test]
fn it_shows_what_will_move() {
    run(async |t: &Test| {
        at_stage_1(t).await;
        let refused = gray(t, &["approve", "web"]).await;
        assert!(refused.out.contains("now 1 new and 9 old pods"), "{refused:?}");
        assert!(refused.failed(2).contains("--yes"));
        assert!(t.status_now("web").at("/approval").is_null());

        let said = gray(t, &["approve", "web", "--yes"]).await.done();
        let row = said.lines().find(|line| line.starts_with("2 ")).unwrap();
        let cells: Vec<_> = row.split_whitespace().collect();
        assert_eq!(cells[..7], ["2", "50%", "50%", "5", "5", "13", "10"], "{said}");
        assert!(!said.lines().any(|line| line.starts_with("3 ")), "stage 3 does not move: {said}");
        t.held("web", 2, 5, 5).await;
        let by = t.status_now("web").text("/approval/by").to_owned();
        assert!(!by.is_empty(), "the approval says who gave it");

        let rollout = t.rollout("web").to_string();
        let again = ["approve", "web", "--stage", "2", "--rollout", &rollout, "--yes"];
        assert!(gray(t, &again).await.done().contains(&format!("approved already, by {by}")));
        gray(t, &["approve", "web", "--stage", "4", "--yes"]).await.failed(2);
        gray(t, &["approve", "web", "--stage", "3", "--yes"]).await.done();
        t.completed("web").await;
        let said = gray(t, &["approve", "web", "--yes"]).await.failed(1);
        assert!(said.contains("the phase is Completed"), "{said}");
    });
}

/// A person is asked, and anything but yes is no.
#[test]
fn it_asks_on_a_terminal() {
    run(async |t: &Test| {
        at_stage_1(t).await;
        let command = command_as(t, &t.cluster.kubeconfig, &["approve", "web"]);
        for (answer, code) in [("n\r", 1), ("\r", 1), ("y\r", 0)] {
            let mut terminal = Terminal::start(&command, (100, 24));
            terminal.until("the question", |text| text.contains("up to stage 2? [y/N]")).await;
            assert!(t.status_now("web").at("/approval").is_null());
            terminal.press(answer);
            assert_eq!(terminal.ended().await, code, "{}", terminal.text());
        }
        t.held("web", 2, 5, 5).await;
    });
}

/// A rollout that was superseded while someone thought it over is not approved, and what changed
/// is shown.
#[test]
fn a_superseded_rollout_is_refused_with_what_changed() {
    run(async |t: &Test| {
        at_stage_1(t).await;
        let old = t.rollout("web");
        let command = command_as(t, &t.cluster.kubeconfig, &["approve", "web"]);
        let mut terminal = Terminal::start(&command, (120, 40));
        terminal.until("the question", |text| text.contains("[y/N]")).await;
        t.push("web", "v3").await;
        t.status("web", "rollout 2", |status| status.int("/rollout") > old).await;
        t.held("web", 1, 1, 9).await;
        terminal.press("y\r");
        assert_eq!(terminal.ended().await, 1);
        let text = terminal.text();
        assert!(
            text.contains(&format!("not approved: rollout {old} (Superseded) is over")),
            "{text}"
        );
        let changed = |sign: &str, image: &str| {
            text.lines().any(|line| line.trim_start().starts_with(sign) && line.contains(image))
        };
        assert!(changed("-", "app:v2") && changed("+", "app:v3"), "{text}");

        // The same for a script that names the number it was shown.
        let number = old.to_string();
        let said = gray(t, &["approve", "web", "--rollout", &number, "--yes"]).await.failed(1);
        assert!(said.contains("app:v2") && said.contains("app:v3"), "{said}");
        assert!(t.status_now("web").at("/approval").is_null(), "nothing was approved");
        let next = (t.rollout("web") + 5).to_string();
        let said = gray(t, &["approve", "web", "--rollout", &next, "--yes"]).await.failed(1);
        assert!(said.contains(&format!("there is no rollout {next} yet")), "{said}");
    });
}

/// Edited stages are another number of the same revision.
#[test]
fn edited_stages_are_told_from_another_template() {
    run(async |t: &Test| {
        at_stage_1(t).await;
        let old = t.rollout("web");
        let stages = json!([{"percent": 10}, {"percent": 30}, {"percent": 100}]);
        t.patch_gr("web", &json!({"spec": {"stages": stages}})).await;
        t.status("web", "the next number", |status| status.int("/rollout") > old).await;
        let number = old.to_string();
        let said = gray(t, &["approve", "web", "--rollout", &number, "--yes"]).await.failed(1);
        assert!(said.contains("not approved"), "{said}");
        assert!(t.status_now("web").at("/approval").is_null());
    });
}
