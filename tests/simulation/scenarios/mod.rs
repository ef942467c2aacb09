//! Deterministic histories, one per thing that a user would notice.

mod admission;
mod basics;
mod checks;
mod faults;
mod giving_back;
mod guards;
mod hooks;
mod interval;
mod people;

use grayrollout::api::{GrayRolloutStatus, Phase};

use crate::{
    actors::Act,
    fair::Sim,
    world::{Setup, World},
};

/// Long enough for any number of pods to move, short of the resync.
const LONG: i64 = 300_000;

fn phase(phase: Phase) -> impl Fn(&World) -> bool {
    move |world| world.status().phase == Some(phase)
}

/// A scenario that fails with its story.
struct Story(Sim);

impl Story {
    fn new(setup: &Setup) -> Self {
        Self(Sim::new(setup))
    }

    fn act(&mut self, act: Act) -> &mut Self {
        self.0.act(&act);
        self
    }

    fn until(&mut self, wanted: Phase) -> &mut Self {
        let result = self.0.until(LONG, wanted.as_str(), phase(wanted));
        self.0.tell(result);
        self
    }

    fn until_that(&mut self, what: &str, goal: impl Fn(&World) -> bool) -> &mut Self {
        let result = self.0.until(LONG, what, goal);
        self.0.tell(result);
        self
    }

    fn run(&mut self, ms: i64) -> &mut Self {
        let result = self.0.fair(ms);
        self.0.tell(result);
        self
    }

    /// The operator and the Deployment controller act so often, 10 ms apart, and nobody else.
    fn passes(&mut self, times: u32) -> &mut Self {
        for _ in 0..times {
            self.0.world.cluster.now += 10;
            let world = self.0.world.clone();
            self.0.operators[0].observe_all(&world);
            let pass = self.0.pass(0, crate::operator::Mishap::default());
            self.0.tell(pass);
            let native = self.0.native().map(|_| ());
            self.0.tell(native);
        }
        self
    }

    /// Runs until a stage waits for the approval of the next.
    fn held_at(&mut self, stage: i32) -> &mut Self {
        self.until_that(&format!("stage {stage} is held"), |world| {
            let status = world.status();
            status.phase == Some(Phase::AwaitingApproval) && status.stage == Some(stage)
        })
    }

    fn approve(&mut self) -> &mut Self {
        self.act(Act::ApproveNext)
    }

    /// Sizes of template 1, 2, ... at this moment.
    fn sizes(&mut self, wanted: &[i32]) -> &mut Self {
        let sizes: Vec<i32> = (1..).take(wanted.len()).map(|v| self.world().size(v)).collect();
        self.check(sizes == wanted, &format!("sizes {wanted:?}, not {sizes:?}"));
        self
    }

    fn check(&mut self, holds: bool, what: &str) -> &mut Self {
        let result = if holds { Ok(()) } else { Err(format!("wanted: {what}")) };
        self.0.tell(result);
        self
    }

    fn world(&self) -> &World {
        &self.0.world
    }

    fn status(&self) -> GrayRolloutStatus {
        self.world().status()
    }

    /// Template fully out, everything given back, and not a single write in three resyncs.
    fn completed(&mut self, template: u32) -> &mut Self {
        let wanted = crate::world::hash(template).to_string();
        self.until_that("the template to be Completed", |world| {
            let status = world.status();
            status.phase == Some(Phase::Completed) && status.template_hash.as_ref() == Some(&wanted)
        });
        self.run(3000);
        let world = self.world();
        let deployment = world.deployment().clone();
        let replicas = deployment.replicas;
        let given_back = deployment.strategy == world.user_strategy
            && !deployment.annotations.contains_key(grayrollout::api::ROLLOUT_ANNOTATION);
        let out = world.size(template) == replicas && world.total() == replicas;
        let status = world.status();
        let same = status.stable_revision == status.update_revision && status.stage.is_none();
        self.check(deployment.template == template, &format!("the template is v{template}"));
        self.check(given_back, "the Deployment is given back");
        self.check(out, &format!("{replicas} pods of v{template} alone"));
        self.check(same, "a status with one revision and no stage");
        self.quiet()
    }

    /// S12: at rest nothing is written.
    fn quiet(&mut self) -> &mut Self {
        let before = self.world().writes;
        self.run(3 * 600_000 + 1000);
        let after = self.world().writes;
        self.check(before == after, &format!("S12: writes at rest: {before:?}, then {after:?}"))
    }

    /// Back on `template` alone, held, with the user's own strategy.
    fn rolled_back(&mut self, template: u32) -> &mut Self {
        self.until(Phase::RolledBack).run(3000);
        let deployment = self.world().deployment().clone();
        let own = self.world().user_strategy.clone();
        let alone = self.world().size(template) == deployment.replicas
            && self.world().total() == deployment.replicas;
        self.check(deployment.paused, "the Deployment stays paused");
        self.check(deployment.strategy == own, "the user's own strategy");
        self.check(alone, &format!("pods of v{template} alone"));
        self.quiet()
    }
}
