//! The operator is killed around each call of a hook, one at a time: before it is sent, once it has
//! arrived and is not answered, and once it is answered and that is not recorded. No step is lost,
//! and what is told twice has the same key.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use grayrollout_e2e::{
    Faults, Json, Proxy, Received, Reply, Test, Webhook, deployment, run_without_operator, stages,
};
use serde_json::json;

use crate::hooks::{ALL, title, with_hook};

const AT_LEAST: usize = 8;
const AT_MOST: usize = 40;

/// When the operator is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The step is recorded, and the operator does not know that yet.
    Before,
    /// The call has arrived.
    Arrived,
    /// It is answered, and nothing can be written any more.
    Answered,
}

async fn rollout<T>(
    t: &Test,
    hook: &Webhook,
    version: usize,
    moment: impl Future<Output = T>,
) -> (Vec<Received>, T) {
    let before = hook.calls().len();
    let number = t.rollout("web") + 1;
    t.push("web", &format!("v{version}")).await;
    let done = t.until("completed, and all is told", |now| {
        let status = now.gr("web").at("/status");
        let steps = status.list("/hookLedger/steps").len();
        status.text("/phase") == "Completed" && status.int("/rollout") == number && steps == 0
    });
    let ((), told) = tokio::join!(done, moment);
    (hook.calls()[before..].to_vec(), told)
}

/// The steps that were told. Pods that are gone may be told of after Completed, or with the next.
fn steps(calls: &[Received]) -> BTreeSet<String> {
    calls.iter().map(title).filter(|title| title != "PodsRemoved 1-0").collect()
}

async fn kill_at_each_call(t: &Test, at: Moment) {
    let hook = Webhook::start().await;
    let proxy = Proxy::start(t).await;
    let args = ["--allow-urls=http://127.0.0.1:*/*"];
    t.start_operator_with(proxy.kubeconfig(), &args).await;
    let stages = stages(&[50, 100], &json!({"approval": "Automatic"}));
    let gr = with_hook(&hook.url("/"), &ALL, json!({})).with(json!({"spec": {"stages": stages}}));
    let web = deployment("web", 2).with(json!({"spec": {"revisionHistoryLimit": 2 * AT_MOST}}));
    t.manage_with(&web, &gr).await;
    rollout(t, &hook, 2, async {}).await;
    let (clean, ()) = rollout(t, &hook, 3, async {}).await;
    let clean = steps(&clean);
    assert!(clean.len() >= AT_LEAST, "{clean:?}");

    let mut kills = 0;
    for nth in 1..AT_MOST {
        let answered = Arc::new(AtomicBool::new(false));
        let (calls, flag) = (AtomicUsize::new(0), Arc::clone(&answered));
        hook.rule(move |_| {
            let here = calls.fetch_add(1, Ordering::SeqCst) + 1 == nth;
            flag.fetch_or(here && at == Moment::Answered, Ordering::SeqCst);
            if here && at == Moment::Arrived { Reply::Hang } else { Reply::done() }
        });
        let recorded = AtomicUsize::new(0);
        let flag = Arc::clone(&answered);
        proxy.rule(move |method, path| {
            let status = method == "PATCH" && path.contains("/grayrollouts/");
            if flag.load(Ordering::SeqCst) && method != "GET" {
                return Faults::Hold;
            }
            let here = status && recorded.fetch_add(1, Ordering::SeqCst) + 1 == nth;
            if here && at == Moment::Before { Faults::HoldAnswer } else { Faults::None }
        });
        let before = hook.calls().len();
        let moment = async {
            let reached = async {
                match at {
                    Moment::Arrived => hook.more_than(before + nth - 1).await,
                    Moment::Before | Moment::Answered => proxy.held().await,
                }
            };
            let number = nth + 2;
            let ended = t.record.until(t.at_most(60), move |now| {
                let status = now.gr("web").at("/status");
                status.text("/phase") == "Completed"
                    && usize::try_from(status.int("/rollout")).is_ok_and(|at| at >= number)
            });
            let interrupted = tokio::select! {
                () = reached => true,
                _ = ended => false,
            };
            if interrupted {
                t.kill_operator().await;
            }
            hook.rule(|_| Reply::done());
            proxy.heal();
            if interrupted {
                t.start_operator_with(proxy.kubeconfig(), &args).await;
            }
            interrupted
        };
        let (calls, killed) = rollout(t, &hook, nth + 3, moment).await;
        assert_eq!(steps(&calls), clean, "killed at {nth}: {at:?}");
        let keys: BTreeSet<_> = calls.iter().map(|call| &call.key).collect();
        let repeated = calls.len() - keys.len();
        assert!(repeated <= 1, "killed at {nth}: {repeated} calls were repeated");
        let told: BTreeSet<_> =
            calls.iter().map(|call| format!("{} {}", title(call), call.body["stage"])).collect();
        assert!(keys.len() <= told.len() + 1, "killed at {nth}: another key: {calls:#?}");
        if !killed {
            break;
        }
        kills += 1;
    }
    assert!(kills >= AT_LEAST, "{kills} calls were interrupted");
}

#[test]
fn before_it_is_sent() {
    run_without_operator(async |t: &Test| kill_at_each_call(t, Moment::Before).await);
}

#[test]
fn arrived_and_not_answered() {
    run_without_operator(async |t: &Test| kill_at_each_call(t, Moment::Arrived).await);
}

#[test]
fn answered_and_not_recorded() {
    run_without_operator(async |t: &Test| kill_at_each_call(t, Moment::Answered).await);
}
