//! One screen that says where a rollout stands.

use std::fmt::Write;

use jiff::Timestamp;

use super::{
    next::{self, Next},
    screen::{Line, Style, Tone, age, bar, seconds_between},
};
use crate::{
    api::{
        Approval, CheckResult, GrayRollout, GrayRolloutStatus, HookResult, Phase, RollingUpdate,
        Strategy, Track,
    },
    plan::{Bounds, new_pods, old_pods},
};

const BAR: usize = 20;

/// What a screen is made of.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The GrayRollout.
    pub gray: &'a GrayRollout,
    /// The present time.
    pub now: Timestamp,
    /// Flags to repeat in the commands that are shown.
    pub flags: &'a str,
    /// What the user may not do, in words; empty if nothing is known to be missing.
    pub rights: &'a [String],
    /// How it is printed.
    pub style: Style,
}

impl View<'_> {
    /// The screen.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let status = self.gray.status.clone().unwrap_or_default();
        let next = next::next(self.gray, self.now, self.flags);
        let mut lines = vec![self.head(), phase(&status)];
        lines.extend(self.rollout(&status));
        lines.push(pods(&status));
        lines.push(Line::new());
        lines.extend(self.stages(&status));
        lines.push(Line::new());
        lines.extend(self.outside(&status));
        lines.extend(self.approved(&status));
        lines.extend(commands(&next));
        lines.extend(self.rights.iter().map(|text| label("Rights").with(Tone::Waiting, text)));
        lines
    }

    /// The same in one line, for output that is no terminal.
    #[must_use]
    pub fn line(&self) -> String {
        let status = self.gray.status.clone().unwrap_or_default();
        let place = match (status.rollout, &status.progress) {
            (Some(rollout), Some(progress)) => format!(" rollout {rollout}, stage {progress}"),
            (Some(rollout), None) => format!(" rollout {rollout}"),
            _ => String::new(),
        };
        let (new, old) = (count(status.update.as_ref()), count(status.stable.as_ref()));
        let split =
            if status.stage.is_some() { format!(", new {new}, old {old}") } else { String::new() };
        let text = format!(
            "{} {}{place}{split}: {}",
            self.gray.metadata.name.as_deref().unwrap_or_default(),
            status.phase.map_or("Unknown", Phase::as_str),
            next::message(&status),
        );
        super::screen::clean(&text)
    }

    fn head(&self) -> Line {
        let name = self.gray.metadata.name.as_deref().unwrap_or_default();
        let namespace = self.gray.metadata.namespace.as_deref().unwrap_or_default();
        let target = &self.gray.spec.target_ref.name;
        Line::new()
            .with(Tone::Strong, name)
            .plain(format!("  Deployment {target}, namespace {namespace}"))
    }

    fn rollout(&self, status: &GrayRolloutStatus) -> Option<Line> {
        let rollout = status.rollout?;
        let update = status.update_revision.as_deref().unwrap_or("unknown");
        let since = |at: Option<Timestamp>| {
            at.map_or_else(String::new, |at| format!(", started {} ago", self.ago(at)))
        };
        let text = match status.stage {
            Some(_) => format!(
                "{rollout}: revision {update}, beside stable {}{}",
                status.stable_revision.as_deref().unwrap_or("unknown"),
                since(status.started_at)
            ),
            None => format!("{rollout}: revision {update}"),
        };
        Some(label("Rollout").plain(text))
    }

    fn ago(&self, at: Timestamp) -> String {
        age(seconds_between(at, self.now))
    }

    fn stages(&self, status: &GrayRolloutStatus) -> Vec<Line> {
        let replicas = status.replicas.unwrap_or(0);
        let own = status
            .own_strategy
            .clone()
            .unwrap_or(Strategy::RollingUpdate { rolling_update: RollingUpdate::default() });
        let surge = Bounds::resolve(Some(&self.gray.spec), &own, replicas).surge;
        let head =
            format!("  {:<6} {:>5}  {:<BAR$}  {:>9}  {:>9}", "STAGE", "SHARE", "", "NEW", "OLD");
        let mut lines = vec![Line::new().with(Tone::Faint, head)];
        for (index, stage) in self.gray.spec.stages.iter().enumerate() {
            let number = i32::try_from(index + 1).unwrap_or(i32::MAX);
            let new = new_pods(replicas, stage.percent, surge);
            let old = old_pods(replicas, new, stage.percent >= 100);
            lines.push(self.stage(status, number, stage.percent, (new, old)));
        }
        lines
    }

    fn stage(
        &self,
        status: &GrayRolloutStatus,
        number: i32,
        percent: i32,
        pods: (i32, i32),
    ) -> Line {
        let at = status.stage.unwrap_or(0);
        let rolling = status.stage.is_some() && !is_back(status);
        let present = rolling && number == at;
        let (tone, mark) = match () {
            () if present => (tone(status.phase), ">"),
            () if rolling && number < at || status.phase == Some(Phase::Completed) => {
                (Tone::Good, if self.style.unicode { "✓" } else { "*" })
            }
            () => (Tone::Faint, " "),
        };
        let (new, old, there, asked, all) = if present {
            let (new, old) = (status.update.as_ref(), status.stable.as_ref());
            let asked = new.map_or(pods.0, |track| track.desired);
            let all = asked + old.map_or(pods.1, |track| track.desired);
            (count(new), count(old), new.map_or(0, |track| track.available), asked, all)
        } else {
            let done = tone == Tone::Good;
            let there = if done { pods.0 } else { 0 };
            (pods.0.to_string(), pods.1.to_string(), there, pods.0, pods.0 + pods.1)
        };
        let (full, missing, rest) = bar(there, asked, all, BAR, self.style);
        let stages = self.gray.spec.stages.len();
        Line::new()
            .with(
                tone,
                format!(
                    "{mark} {:<6} {:>5}  ",
                    format!("{number}/{stages}"),
                    format!("{percent}%")
                ),
            )
            .with(if tone == Tone::Faint { Tone::Faint } else { Tone::Good }, full)
            .with(if present { Tone::Waiting } else { Tone::Faint }, missing)
            .with(Tone::Faint, rest)
            .with(if present { Tone::Plain } else { tone }, format!("  {new:>9}  {old:>9}  "))
            .with(if present { Tone::Plain } else { Tone::Faint }, self.note(status, number))
    }

    /// What a stage does now, or needs.
    fn note(&self, status: &GrayRolloutStatus, number: i32) -> String {
        let at = status.stage.unwrap_or(0);
        let index = usize::try_from(number).unwrap_or(0);
        let soak = index
            .checked_sub(1)
            .and_then(|at| self.gray.spec.stages.get(at))
            .and_then(|stage| stage.soak_seconds)
            .filter(|soak| *soak > 0);
        let rolling = status.stage.is_some() && !is_back(status);
        if rolling && number < at {
            return "done".into();
        }
        if rolling && number == at {
            let since = status.stage_started_at.map(|at| self.ago(at)).unwrap_or_default();
            return match (next::soak_left(self.gray, status, self.now), status.stage_reached_at) {
                (Some(left), _) => format!("soaking, {} left, entered {since} ago", age(left)),
                (None, Some(at)) => format!("reached {} ago, entered {since} ago", self.ago(at)),
                (None, None) => match next::step_left(self.gray, status, self.now) {
                    Some(left) => format!("next pods in {}, entered {since} ago", age(left)),
                    None => format!("entered {since} ago"),
                },
            };
        }
        if status.phase == Some(Phase::Completed) && status.stage.is_none() {
            return String::new();
        }
        let mut note = match (self.gray.spec.approval_of(index), approved_stage(self.gray, status))
        {
            (_, stage) if rolling && stage >= number => "approved".to_owned(),
            (Approval::Required, _) => "needs approval".to_owned(),
            // An automatic stage is not entered by itself from sizes that are no stage's.
            _ if status.phase == Some(Phase::AwaitingApproval) && number == at + 1 => {
                "needs approval".to_owned()
            }
            (Approval::Automatic, _) => "automatic".to_owned(),
        };
        if let Some(soak) = soak {
            let _ = write!(note, ", soaks {}", age(i64::from(soak)));
        }
        note
    }

    /// The last word of each check and hook.
    fn outside(&self, status: &GrayRolloutStatus) -> Vec<Line> {
        let checks = status.checks.iter().map(|last| {
            let tone = match last.result {
                CheckResult::Passed => Tone::Good,
                CheckResult::Failed => Tone::Bad,
                CheckResult::Inconclusive => Tone::Waiting,
            };
            let failures = last.failures.max(last.inconclusive);
            (("Check", &last.name, tone, last.result.as_str()), last.time, failures, &last.message)
        });
        let hooks = status.hooks.iter().map(|last| {
            let tone = match last.result {
                HookResult::Done => Tone::Good,
                HookResult::Failed => Tone::Bad,
            };
            let name = (&last.name, tone, last.event.as_str());
            (("Hook", name.0, name.1, name.2), last.time, last.failures, &last.message)
        });
        checks
            .chain(hooks)
            .map(|((kind, name, tone, result), time, failures, message)| {
                let times = match failures {
                    0 | 1 => String::new(),
                    _ => format!(" {failures} times in a row"),
                };
                let colon = if message.is_empty() { "" } else { ": " };
                label(kind)
                    .plain(format!("{name} "))
                    .with(tone, result)
                    .plain(format!("{times} {} ago{colon}{message}", self.ago(time)))
            })
            .collect()
    }

    fn approved(&self, status: &GrayRolloutStatus) -> Option<Line> {
        status.stage?;
        let by_status = status
            .approval
            .as_ref()
            .filter(|approval| Some(approval.rollout) == status.rollout)
            .map(|a| {
                let by = a.by.as_deref().unwrap_or("someone without a name");
                format!("up to stage {} by {by}", a.stage)
            });
        let by_spec = self
            .gray
            .spec
            .approval
            .as_ref()
            .filter(|approval| {
                Some(approval.rollout) == status.rollout
                    && Some(&approval.revision) == status.update_revision.as_ref()
            })
            .map(|approval| format!("up to stage {} in spec.approval", approval.stage));
        let all: Vec<_> = by_status.into_iter().chain(by_spec).collect();
        let text = if all.is_empty() { "by nobody yet".into() } else { all.join("; ") };
        Some(label("Approved").plain(text))
    }
}

fn phase(status: &GrayRolloutStatus) -> Line {
    let phase = status.phase.map_or("Unknown", Phase::as_str);
    let mut line = label("Phase").with(tone(status.phase), phase);
    if let Some(reason) = next::reason(status).filter(|reason| reason.as_str() != phase) {
        line = line.plain(format!(" ({})", reason.as_str()));
    }
    line.plain(format!(": {}", next::message(status)))
}

fn commands(next: &Next) -> Vec<Line> {
    let mut lines = vec![
        label("Waits for").plain(&next.waits_for),
        label("Next").with(Tone::Strong, &next.command),
    ];
    if next.kubectl != next.command {
        lines.push(label("or").plain(&next.kubectl));
    }
    lines
}

fn label(name: &str) -> Line {
    Line::new().with(Tone::Faint, format!("{name:<11}"))
}

fn pods(status: &GrayRolloutStatus) -> Line {
    let line = label("Pods");
    let replicas = status.replicas.unwrap_or(0);
    let line = if status.stage.is_some() && status.update_revision != status.stable_revision {
        line.plain(format!(
            "new {} available, old {} available, {replicas} replicas",
            count(status.update.as_ref()),
            count(status.stable.as_ref())
        ))
    } else {
        line.plain(format!("{} available, {replicas} replicas", count(status.stable.as_ref())))
    };
    match (status.actual_percent, status.desired_percent) {
        (Some(actual), Some(desired)) => line.plain(format!("; {actual}% new, {desired}% asked")),
        _ => line,
    }
}

/// Available and asked.
fn count(track: Option<&Track>) -> String {
    track.map_or_else(|| "-".into(), |track| format!("{}/{}", track.available, track.desired))
}

fn is_back(status: &GrayRolloutStatus) -> bool {
    matches!(status.phase, Some(Phase::RollingBack | Phase::RolledBack))
}

/// The highest stage that is approved; 0 if none.
#[must_use]
pub fn approved_stage(gray: &GrayRollout, status: &GrayRolloutStatus) -> i32 {
    let by_status = status
        .approval
        .as_ref()
        .filter(|approval| Some(approval.rollout) == status.rollout)
        .map_or(0, |approval| approval.stage);
    let by_spec = gray
        .spec
        .approval
        .as_ref()
        .filter(|approval| {
            Some(approval.rollout) == status.rollout
                && Some(&approval.revision) == status.update_revision.as_ref()
        })
        .map_or(0, |approval| approval.stage);
    by_status.max(by_spec)
}

fn tone(phase: Option<Phase>) -> Tone {
    match phase {
        Some(Phase::Completed | Phase::Progressing) => Tone::Good,
        Some(Phase::AwaitingApproval | Phase::Paused | Phase::Pending | Phase::RollingBack) => {
            Tone::Waiting
        }
        Some(Phase::Stalled | Phase::RolledBack) => Tone::Bad,
        None => Tone::Plain,
    }
}

#[cfg(test)]
mod tests;
