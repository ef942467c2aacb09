//! From a percentage to pods: how many of `spec.replicas` each side has.

use crate::api::{GrayRolloutSpec, RollingUpdate, Split, Strategy};

/// Pods of the new revision at a stage of `percent`, out of `replicas`.
///
/// 100 is everything. Below that at least one pod is new and at least one old; of a single pod,
/// one new stands beside the old one where `surge` allows it, else none.
#[must_use]
pub fn new_pods(replicas: i32, percent: i32, surge: i32) -> i32 {
    let replicas = replicas.max(0);
    if percent >= 100 {
        return replicas;
    }
    match replicas {
        0 => 0,
        1 => i32::from(surge > 0),
        _ => {
            let share = (i64::from(replicas) * i64::from(percent.max(0)) + 99) / 100;
            i32::try_from(share).unwrap_or(i32::MAX).clamp(1, replicas - 1)
        }
    }
}

/// Pods of the old revision beside `new` pods of the new one, out of `replicas`.
///
/// The only pod of a Deployment stays until the new revision is entitled to all of it.
#[must_use]
pub fn old_pods(replicas: i32, new: i32, everything: bool) -> i32 {
    if replicas == 1 && !everything { 1 } else { (replicas - new).max(0) }
}

/// Pods of the new revision when a kept split follows a change of replicas.
///
/// Rounded down, so that it never passes the share that it was part of; neither side vanishes.
#[must_use]
pub fn scaled_split(split: Split, replicas: i32, surge: i32) -> i32 {
    let (before, new) = (split.replicas.max(0), split.update.max(0));
    if replicas <= 0 || new == 0 {
        return 0;
    }
    if before == replicas {
        return new;
    }
    if new >= before {
        return replicas;
    }
    if replicas == 1 {
        return i32::from(surge > 0);
    }
    let share = i64::from(new) * i64::from(replicas) / i64::from(before);
    i32::try_from(share).unwrap_or(i32::MAX).clamp(1, replicas - 1)
}

/// Share of the new pods in percent, rounded to the nearest.
#[must_use]
pub fn percent_of(new: i32, all: i32) -> i32 {
    if all <= 0 {
        return 0;
    }
    let share = (i64::from(new.max(0)) * 200 + i64::from(all)) / (2 * i64::from(all));
    i32::try_from(share).unwrap_or(100).min(100)
}

/// How far a rollout may go above and below `spec.replicas`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Most pods above.
    pub surge: i32,
    /// Most pods unavailable.
    pub unavailable: i32,
}

impl Bounds {
    /// The bounds of a spec at `replicas`, with the Deployment's own for what it leaves open.
    ///
    /// As in the native controller both cannot be 0, or no pod could ever be replaced.
    #[must_use]
    pub fn resolve(spec: Option<&GrayRolloutSpec>, own: &Strategy, replicas: i32) -> Self {
        let own = own_bounds(own);
        let surge = spec
            .and_then(|spec| spec.max_surge.as_ref())
            .unwrap_or(&own.max_surge)
            .round_up(replicas)
            .unwrap_or(0);
        let unavailable = match spec.and_then(|spec| spec.max_unavailable.as_ref()) {
            Some(given) => given.round_down(replicas).unwrap_or(0),
            None if surge == 0 => own.max_unavailable.round_down(replicas).unwrap_or(0),
            None => 0,
        };
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        Self { surge, unavailable: unavailable.min(replicas.max(0)) }
    }
}

/// The surge of a Deployment's own strategy, as the native controller writes it into max-replicas.
#[must_use]
pub fn own_surge(own: &Strategy, replicas: i32) -> i32 {
    match own {
        Strategy::RollingUpdate { .. } if replicas > 0 => {
            own_bounds(own).max_surge.round_up(replicas).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Pods that a Deployment's own strategy lets be unavailable.
#[must_use]
pub fn own_unavailable(own: &Strategy, replicas: i32) -> i32 {
    let own = own_bounds(own);
    let down = own.max_unavailable.round_down(replicas).unwrap_or(0);
    let down = if own.max_surge.round_up(replicas) == Some(0) { down.max(1) } else { down };
    down.min(replicas.max(0))
}

fn own_bounds(own: &Strategy) -> RollingUpdate {
    match own {
        Strategy::RollingUpdate { rolling_update } => rolling_update.clone(),
        _ => RollingUpdate::default(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;
    use crate::api::IntOrPercent;

    #[test]
    fn the_table_of_shares() {
        // replicas, percent, surge, new, old
        for (replicas, percent, surge, new, old) in [
            (10, 10, 1, 1, 9),
            (10, 50, 1, 5, 5),
            (10, 100, 1, 10, 0),
            (10, 1, 1, 1, 9),
            (10, 99, 1, 9, 1),
            (10, 11, 1, 2, 8),
            (3, 10, 1, 1, 2),
            (2, 70, 1, 1, 1),
            (2, 95, 1, 1, 1),
            (1, 10, 1, 1, 1),
            (1, 10, 0, 0, 1),
            (1, 100, 0, 1, 0),
            (0, 10, 1, 0, 0),
            (0, 100, 1, 0, 0),
            (100, 33, 0, 33, 67),
        ] {
            let got = new_pods(replicas, percent, surge);
            assert_eq!(got, new, "new of {replicas} at {percent}%");
            assert_eq!(
                old_pods(replicas, got, percent == 100),
                old,
                "old of {replicas} at {percent}%"
            );
        }
    }

    #[test]
    fn a_split_follows_replicas_in_proportion() {
        let split = Split { replicas: 10, update: 3 };
        for (replicas, new) in [(10, 3), (20, 6), (5, 1), (2, 1), (1, 1), (0, 0), (11, 3)] {
            assert_eq!(scaled_split(split, replicas, 1), new, "{replicas}");
        }
        assert_eq!(scaled_split(Split { replicas: 10, update: 10 }, 4, 1), 4);
        assert_eq!(scaled_split(Split { replicas: 10, update: 0 }, 4, 1), 0);
    }

    #[test]
    fn defaults_of_the_bounds() {
        let own = Strategy::RollingUpdate {
            rolling_update: RollingUpdate {
                max_surge: IntOrPercent::Count(0),
                max_unavailable: IntOrPercent::Percent("25%".into()),
            },
        };
        assert_eq!(Bounds::resolve(None, &own, 10), Bounds { surge: 0, unavailable: 2 });
        assert_eq!(Bounds::resolve(None, &own, 2), Bounds { surge: 0, unavailable: 1 });
        let own = Strategy::RollingUpdate { rolling_update: RollingUpdate::default() };
        assert_eq!(Bounds::resolve(None, &own, 10), Bounds { surge: 3, unavailable: 0 });
    }

    proptest! {
        #[test]
        fn shares_stay_in_bounds(replicas in 0..5000_i32, percent in 1..=100_i32, surge in 0..3_i32) {
            let new = new_pods(replicas, percent, surge);
            let old = old_pods(replicas, new, percent == 100);
            prop_assert!(new >= 0 && new <= replicas && old >= 0);
            if replicas >= 2 {
                prop_assert_eq!(new + old, replicas);
                if percent < 100 {
                    prop_assert!(new >= 1 && old >= 1);
                    prop_assert!(i64::from(new) * 100 >= i64::from(replicas) * i64::from(percent) || new == replicas - 1);
                }
            }
            if percent < 100 {
                prop_assert!(new <= new_pods(replicas, percent + 1, surge));
            }
        }

        #[test]
        fn a_split_below_its_share_stays_below_it(
            before in 1..500_i32, after in 0..500_i32, percent in 1..=100_i32, part in 0..500_i32,
        ) {
            let update = part.min(new_pods(before, percent, 1) - 1).max(0);
            let new = scaled_split(Split { replicas: before, update }, after, 1);
            prop_assert!(new <= new_pods(after, percent, 1));
        }
    }
}
