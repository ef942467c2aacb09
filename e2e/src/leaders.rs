//! Several operators of which one leads.

use std::{path::Path, time::Duration};

use tokio::sync::{Mutex, MutexGuard};

use crate::{Operator, Test, cluster::poll};

/// The lease of the shipped role; the only one that it allows.
static LEASE: Mutex<()> = Mutex::const_new(());

impl Test {
    /// The right to let operators elect a leader, which one test has at a time.
    pub async fn lease(&self) -> MutexGuard<'static, ()> {
        LEASE.lock().await
    }

    /// Starts an operator that takes part in the election.
    pub async fn start_candidate(&self, kubeconfig: &Path, identity: &str, lease_seconds: u32) {
        let seconds = lease_seconds.to_string();
        let args = [
            "--leader-elect=true",
            "--lease-namespace=grayrollout-system",
            "--lease-duration-seconds",
            &seconds,
            "--identity",
            identity,
        ];
        self.start_operator_with(kubeconfig, &args).await;
    }

    /// Waits until exactly one of the operators leads.
    pub async fn a_leader(&self, within: Duration) {
        poll("one operator leads", within, async || {
            let mut leaders = 0;
            for operator in self.operators.lock().await.iter() {
                leaders += usize::from(leads(operator).await);
            }
            (leaders == 1).then_some(())
        })
        .await;
        self.is_down();
        self.is_up();
    }

    /// Takes the leader out of the operators.
    pub async fn take_leader(&self) -> Operator {
        let mut operators = self.operators.lock().await;
        for index in 0..operators.len() {
            if leads(&operators[index]).await {
                self.is_down();
                return operators.remove(index);
            }
        }
        panic!("no operator leads");
    }
}

async fn leads(operator: &Operator) -> bool {
    operator.try_metric(&["grayrollout_leader "]).await > 0.5
}
