//! How fast: which sizes to write next, so that neither too many pods exist nor too few are
//! available.

use super::{ReplicaSet, share::Bounds};

/// What a revision is to the rollout. The order is that of giving pods up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Neither the stable revision nor the one being rolled out.
    Other,
    /// The revision being rolled out.
    Update,
    /// The revision to return to.
    Stable,
}

/// One revision and the size that it is to reach.
#[derive(Debug, Clone)]
pub struct Track<'a> {
    /// What it is to the rollout.
    pub role: Role,
    /// Its ReplicaSet; `None` before it is made.
    pub replica_set: Option<&'a ReplicaSet>,
    /// The size that it is to reach.
    pub want: i32,
    /// Pods that are available, also where they do not count as such yet.
    pub there: i32,
}

impl Track<'_> {
    /// Its present size.
    #[must_use]
    pub fn size(&self) -> i32 {
        self.replica_set.map_or(0, |rs| rs.replicas.max(0))
    }

    /// Pods that are surely available: only a ReplicaSet whose status is current is believed.
    #[must_use]
    pub fn surely_available(&self) -> i32 {
        self.replica_set.map_or(0, |rs| if rs.is_observed() { rs.usable() } else { 0 })
    }

    /// Pods that may be available.
    fn maybe_available(&self) -> i32 {
        self.replica_set.map_or(0, |rs| {
            let all = rs.replicas.max(0);
            if rs.is_observed() { rs.usable().max(self.there.min(all)) } else { all }
        })
    }
}

impl ReplicaSet {
    /// Whether its status speaks of its present spec.
    #[must_use]
    pub fn is_observed(&self) -> bool {
        self.observed_generation >= self.generation
    }

    /// Available pods that its size keeps: the ReplicaSet controller removes unready pods first.
    #[must_use]
    pub fn usable(&self) -> i32 {
        self.available.clamp(0, self.replicas.max(0))
    }
}

/// The bounds to keep while sizes change.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// The Deployment's spec.replicas.
    pub replicas: i32,
    /// How far to go above and below.
    pub bounds: Bounds,
    /// Terminating pods that still count; `None` where none does.
    pub terminating: Option<i32>,
}

/// One size to write: the index of the track and its next size.
pub type Resize = (usize, i32);

/// The sizes to write next, in this order; empty where nothing may move now.
#[must_use]
pub fn pace(tracks: &[Track<'_>], room: Room) -> Vec<Resize> {
    let mut batch = Batch::new(tracks, room);
    if room.replicas <= 0 {
        batch.empty();
    } else {
        batch.shrink();
        batch.grow();
    }
    let changes = |(index, size): &Resize| tracks.get(*index).is_some_and(|t| t.size() != *size);
    batch.writes.retain(changes);
    batch.writes
}

struct Batch<'a> {
    tracks: &'a [Track<'a>],
    room: Room,
    sizes: Vec<i32>,
    writes: Vec<Resize>,
    /// Whether native rule 1 would have undone a reduction that was due otherwise.
    undone_natively: bool,
}

impl<'a> Batch<'a> {
    fn new(tracks: &'a [Track<'a>], room: Room) -> Self {
        let sizes = tracks.iter().map(Track::size).collect();
        Self { tracks, room, sizes, writes: Vec::new(), undone_natively: false }
    }

    fn size(&self, index: usize) -> i32 {
        self.sizes.get(index).copied().unwrap_or(0)
    }

    fn total(&self) -> i32 {
        self.sizes.iter().fold(0_i32, |sum, size| sum.saturating_add(*size))
    }

    /// Pods that count against the surge: where terminating ones do, so do those that a smaller
    /// size is about to end.
    fn occupied(&self) -> i32 {
        let Some(terminating) = self.room.terminating else { return self.total() };
        self.tracks.iter().enumerate().fold(terminating.max(0), |sum, (index, track)| {
            let existing = track.replica_set.map_or(0, |rs| rs.current.max(0));
            sum.saturating_add(existing.max(self.size(index)))
        })
    }

    fn set(&mut self, index: usize, size: i32) {
        if let Some(slot) = self.sizes.get_mut(index)
            && *slot != size
        {
            *slot = size;
            self.writes.retain(|(written, _)| *written != index);
            self.writes.push((index, size));
        }
    }

    /// At no replicas every revision goes to 0; with Recreate the native controller leaves it to us.
    fn empty(&mut self) {
        for index in 0..self.tracks.len() {
            self.set(index, 0);
        }
    }

    /// Takes away what is above its target: pods that are not available first and freely, then
    /// available ones as far as enough stay.
    fn shrink(&mut self) {
        let mut order: Vec<usize> = (0..self.tracks.len()).collect();
        order.sort_by_key(|index| self.tracks.get(*index).map(|track| track.role));
        for &index in &order {
            let Some(track) = self.tracks.get(index) else {
                continue;
            };
            let keep = track.want.max(track.maybe_available());
            if keep < self.size(index) {
                self.reduce(index, keep);
            }
        }
        self.drop_excess();
        let floor = self.room.replicas - self.room.bounds.unavailable;
        let available: i32 = self.tracks.iter().enumerate().fold(0, |sum, (index, track)| {
            i32::saturating_add(sum, track.surely_available().min(self.size(index)))
        });
        let mut spare = (available - floor).max(0);
        for &index in &order {
            let Some(track) = self.tracks.get(index) else {
                continue;
            };
            let observed = track.replica_set.is_none_or(ReplicaSet::is_observed);
            let take = spare.min(self.size(index) - track.want);
            if take > 0 && observed {
                spare -= self.reduce(index, self.size(index) - take);
            }
        }
    }

    /// More pods than allowed, after replicas went down: pods of the new revision that are not
    /// available give way too, down to one. The one pod that overlaps where nothing may surge is
    /// no excess.
    fn drop_excess(&mut self) {
        let limit = self.room.replicas.saturating_add(self.room.bounds.surge.max(1));
        let excess = self.total() - limit;
        if excess <= 0 {
            return;
        }
        let update = self.tracks.iter().position(|track| track.role == Role::Update);
        if let Some(index) = update
            && let Some(track) = self.tracks.get(index)
            && track.want > 0
        {
            let keep = track.maybe_available().max(1).max(self.size(index) - excess);
            if keep < self.size(index) {
                self.reduce(index, keep);
            }
        }
    }

    /// Sets a smaller size unless native rule 1 would undo it: a lone active ReplicaSet is set to
    /// `spec.replicas`, which is as well where it is to have them. Returns how many pods went.
    fn reduce(&mut self, index: usize, to: i32) -> i32 {
        let before = self.size(index);
        let smallest = if self.stands_natively(index, to) {
            to
        } else {
            self.undone_natively = true;
            to.max(1)
        };
        if smallest >= before || !self.stands_natively(index, smallest) {
            return 0;
        }
        self.set(index, smallest);
        before - smallest
    }

    fn stands_natively(&self, index: usize, to: i32) -> bool {
        let mut active = self
            .sizes
            .iter()
            .enumerate()
            .map(|(other, size)| (other, if other == index { to } else { *size }))
            .filter(|(_, size)| *size > 0);
        match (active.next(), active.next()) {
            (Some(_), Some(_)) => true,
            (Some((only, size)), None) => {
                let replicas = self.room.replicas;
                let wants_all = self.tracks.get(only).is_some_and(|t| t.want == replicas);
                size == replicas || wants_all && self.room.terminating.is_none()
            }
            _ => false,
        }
    }

    /// Adds what is below its target, within the surge. Where nothing may surge, the first new pod
    /// overlaps by one, since the native controller would undo the other order; where terminating
    /// pods count, so does the last, since that controller would not wait for the old one's end.
    fn grow(&mut self) {
        let limit = self.room.replicas.saturating_add(self.room.bounds.surge);
        let total = self.occupied();
        let mut budget = limit - total;
        let first = self.tracks.iter().any(|track| track.want > 0 && track.size() == 0);
        if budget <= 0
            && self.room.bounds.surge == 0
            && self.undone_natively
            && (first || self.room.terminating.is_some())
            && total <= self.room.replicas
        {
            budget = 1;
        }
        if budget <= 0 {
            budget = self.make_room(budget);
        }
        let tracks = self.tracks;
        for role in [Role::Update, Role::Stable] {
            for (index, track) in tracks.iter().enumerate() {
                let missing = track.want - self.size(index);
                if track.role == role && missing > 0 && budget > 0 && !self.is_ending(index) {
                    let add = missing.min(budget);
                    budget -= add;
                    self.set(index, self.size(index) + add);
                }
            }
        }
    }

    /// Where terminating pods count: whether pods beyond its size are about to end. What is added
    /// before that would come on top of them.
    fn is_ending(&self, index: usize) -> bool {
        let replica_set = self.tracks.get(index).and_then(|track| track.replica_set);
        self.room.terminating.is_some()
            && replica_set.is_some_and(|rs| rs.current > self.size(index))
    }

    /// Unavailable pods of the stable revision do not hold a good update back, even where that
    /// revision is to have more pods than it has.
    fn make_room(&mut self, budget: i32) -> i32 {
        let tracks = self.tracks;
        let position = |role| tracks.iter().position(|track| track.role == role);
        let (Some(update), Some(stable)) = (position(Role::Update), position(Role::Stable)) else {
            return budget;
        };
        let (Some(new), Some(old)) = (tracks.get(update), tracks.get(stable)) else {
            return budget;
        };
        let good = new.surely_available() >= self.size(update) && new.want > self.size(update);
        let broken = self.size(stable) - old.maybe_available();
        let needed = (1 - budget).max(0);
        if !good || broken < needed || self.room.terminating.is_some() {
            return budget;
        }
        budget + self.reduce(stable, (self.size(stable) - needed).max(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prop_assert, prop_assume, proptest};

    use super::*;
    use crate::plan::TemplateHash;

    fn replica_set(replicas: i32, available: i32) -> ReplicaSet {
        ReplicaSet {
            name: "web-1".into(),
            uid: "1".into(),
            owner_uid: "d".into(),
            generation: 1,
            resource_version: "1".into(),
            created: jiff::Timestamp::UNIX_EPOCH,
            deleting: false,
            revision: "1".into(),
            template: TemplateHash(1),
            replicas,
            desired_annotation: None,
            max_annotation: None,
            observed_generation: 1,
            current: replicas,
            available,
            terminating: 0,
            failure: None,
        }
    }

    /// Old and new as (size, available), and what they are to have.
    fn step(
        old: (i32, i32, i32),
        new: (i32, i32, i32),
        replicas: i32,
        surge: i32,
        unavailable: i32,
    ) -> Vec<Resize> {
        let (old_rs, new_rs) = (replica_set(old.0, old.1), replica_set(new.0, new.1));
        let tracks = [
            Track { role: Role::Stable, replica_set: Some(&old_rs), want: old.2, there: 0 },
            Track { role: Role::Update, replica_set: Some(&new_rs), want: new.2, there: 0 },
        ];
        let bounds = Bounds { surge, unavailable };
        pace(&tracks, Room { replicas, bounds, terminating: None })
    }

    #[test]
    fn new_grows_first_within_the_surge() {
        assert_eq!(step((10, 10, 5), (0, 0, 5), 10, 3, 0), [(1, 3)]);
        assert_eq!(step((10, 10, 5), (3, 0, 5), 10, 3, 0), []);
        assert_eq!(step((10, 10, 5), (3, 2, 5), 10, 3, 0), [(0, 8), (1, 5)]);
    }

    #[test]
    fn without_a_surge_the_first_new_pod_overlaps() {
        assert_eq!(step((4, 4, 0), (0, 0, 4), 4, 0, 1), [(1, 1)]);
        assert_eq!(step((4, 4, 0), (1, 0, 4), 4, 0, 1), [(0, 3)]);
        assert_eq!(step((3, 3, 0), (1, 0, 4), 4, 0, 1), []);
        assert_eq!(step((3, 3, 0), (1, 1, 4), 4, 0, 1), [(0, 2), (1, 2)]);
        assert_eq!(step((1, 1, 0), (3, 3, 4), 4, 0, 1), [(0, 0), (1, 4)]);
        assert_eq!(step((1, 1, 0), (0, 0, 1), 1, 0, 1), [(1, 1)]);
    }

    #[test]
    fn unavailable_old_pods_go_first_and_freely() {
        assert_eq!(step((10, 0, 5), (1, 1, 5), 10, 1, 0), [(0, 5), (1, 5)]);
        assert_eq!(step((10, 7, 9), (1, 0, 1), 10, 1, 0), [(0, 9)]);
    }

    #[test]
    fn a_single_pod_is_replaced_by_one_beside_it() {
        assert_eq!(step((1, 1, 0), (0, 0, 1), 1, 1, 0), [(1, 1)]);
        assert_eq!(step((1, 1, 0), (1, 0, 1), 1, 1, 0), []);
        assert_eq!(step((1, 1, 0), (1, 1, 1), 1, 1, 0), [(0, 0)]);
    }

    #[test]
    fn bad_new_pods_give_way_when_replicas_shrink() {
        assert_eq!(step((5, 5, 2), (5, 0, 3), 5, 1, 0), [(1, 1)]);
    }

    #[test]
    fn a_replica_set_whose_status_is_old_gives_nothing_up() {
        let (mut old, new) = (replica_set(10, 10), replica_set(1, 1));
        old.observed_generation = 0;
        let tracks = [
            Track { role: Role::Stable, replica_set: Some(&old), want: 5, there: 0 },
            Track { role: Role::Update, replica_set: Some(&new), want: 5, there: 0 },
        ];
        let bounds = Bounds { surge: 1, unavailable: 0 };
        assert_eq!(pace(&tracks, Room { replicas: 10, bounds, terminating: None }), []);
    }

    #[test]
    fn terminating_pods_count_where_asked() {
        let (old, new) = (replica_set(8, 8), replica_set(2, 2));
        let tracks = [
            Track { role: Role::Stable, replica_set: Some(&old), want: 5, there: 0 },
            Track { role: Role::Update, replica_set: Some(&new), want: 5, there: 0 },
        ];
        let bounds = Bounds { surge: 1, unavailable: 0 };
        let wait = |terminating| pace(&tracks, Room { replicas: 10, bounds, terminating });
        assert_eq!(wait(Some(1)), []);
        assert_eq!(wait(Some(0)), [(1, 3)]);
        assert_eq!(wait(None), [(1, 3)]);
    }

    #[test]
    fn pods_that_are_about_to_end_count_where_asked() {
        let (old, new) = (replica_set(9, 9), replica_set(2, 2));
        let tracks = [
            Track { role: Role::Stable, replica_set: Some(&old), want: 5, there: 0 },
            Track { role: Role::Update, replica_set: Some(&new), want: 5, there: 0 },
        ];
        let bounds = Bounds { surge: 1, unavailable: 0 };
        let wait = |terminating| pace(&tracks, Room { replicas: 10, bounds, terminating });
        assert_eq!(wait(Some(0)), [(0, 8)]);
        assert_eq!(wait(None), [(0, 8), (1, 3)]);
    }

    #[test]
    fn pods_are_added_once_those_that_are_to_go_are_going() {
        let (mut old, new) = (replica_set(1, 1), replica_set(1, 1));
        old.current = 9;
        let tracks = [
            Track { role: Role::Stable, replica_set: Some(&old), want: 9, there: 0 },
            Track { role: Role::Update, replica_set: Some(&new), want: 1, there: 0 },
        ];
        let bounds = Bounds { surge: 1, unavailable: 0 };
        let wait = |terminating| pace(&tracks, Room { replicas: 10, bounds, terminating });
        assert_eq!(wait(Some(0)), []);
        assert_eq!(wait(None), [(0, 9)]);
    }

    #[test]
    fn broken_stable_pods_do_not_hold_a_good_update_back() {
        assert_eq!(step((9, 3, 9), (2, 2, 3), 10, 1, 0), [(0, 8), (1, 3)]);
        assert_eq!(step((9, 3, 9), (2, 1, 3), 10, 1, 0), []);
    }

    proptest! {
        /// Every move from any split to any stage keeps both bounds at each write, is never one
        /// that native rule 1 would undo, and arrives.
        #[test]
        fn every_stage_is_reached_within_the_bounds(
            replicas in 1..30_i32, from in 0..=30_i32, percent in 1..=100_i32,
            surge in 0..5_i32, unavailable in 0..5_i32, backwards: bool,
        ) {
            prop_assume!(surge + unavailable > 0);
            let unavailable = unavailable.min(replicas);
            let mut new = from.min(replicas);
            let mut old = replicas - new;
            let (want_new, want_old) = if backwards {
                (0, replicas)
            } else {
                let want = crate::plan::new_pods(replicas, percent, surge);
                (want, crate::plan::old_pods(replicas, want, percent == 100))
            };
            for _ in 0..200 {
                let batch = step((old, old, want_old), (new, new, want_new), replicas, surge, unavailable);
                if batch.is_empty() {
                    break;
                }
                let floor = (old + new).min(replicas - unavailable);
                let mut sure = (old, new);
                for (index, size) in batch {
                    let side = if index == 0 { &mut old } else { &mut new };
                    *side = size;
                    sure = (sure.0.min(old), sure.1.min(new));
                    let overlap = i32::from(surge == 0);
                    prop_assert!(old + new <= replicas + surge + overlap, "{old}+{new}");
                    prop_assert!(sure.0 + sure.1 >= floor, "{sure:?} below {floor}");
                    let alone = old == 0 || new == 0;
                    let done = want_old == replicas && new == 0 || want_new == replicas && old == 0;
                    prop_assert!(!alone || done || old + new == replicas, "undone: {old}+{new}");
                }
            }
            prop_assert!((old, new) == (want_old, want_new), "stopped at {old}+{new}");
        }
    }
}
