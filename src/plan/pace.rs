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
        self.replica_set
            .map_or(0, |rs| if rs.is_observed() { rs.usable() } else { 0 })
    }

    /// Pods that may be available.
    fn maybe_available(&self) -> i32 {
        self.replica_set.map_or(0, |rs| {
            if rs.is_observed() {
                rs.usable()
            } else {
                rs.replicas.max(0)
            }
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
    /// Terminating pods that still count.
    pub terminating: i32,
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
        Self {
            tracks,
            room,
            sizes,
            writes: Vec::new(),
            undone_natively: false,
        }
    }

    fn size(&self, index: usize) -> i32 {
        self.sizes.get(index).copied().unwrap_or(0)
    }

    fn total(&self) -> i32 {
        self.sizes
            .iter()
            .fold(0_i32, |sum, size| sum.saturating_add(*size))
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
        let available: i32 = self
            .tracks
            .iter()
            .enumerate()
            .fold(0, |sum, (index, track)| {
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
    /// available give way too, down to one.
    fn drop_excess(&mut self) {
        let limit = self.room.replicas.saturating_add(self.room.bounds.surge);
        let excess = self.total() - limit;
        if excess <= 0 {
            return;
        }
        let update = self
            .tracks
            .iter()
            .position(|track| track.role == Role::Update);
        if let Some(index) = update
            && let Some(track) = self.tracks.get(index)
            && track.want > 0
        {
            let keep = track
                .maybe_available()
                .max(1)
                .max(self.size(index) - excess);
            if keep < self.size(index) {
                self.reduce(index, keep);
            }
        }
    }

    /// Sets a smaller size unless native rule 1 would undo it: a lone active ReplicaSet is set to
    /// `spec.replicas`. Returns how many pods went.
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
            .map(|(other, size)| if other == index { to } else { *size })
            .filter(|size| *size > 0);
        match (active.next(), active.next()) {
            (Some(_), Some(_)) => true,
            (Some(only), None) => only == self.room.replicas,
            _ => false,
        }
    }

    /// Adds what is below its target, within the surge. Where nothing may surge, the first and
    /// the last new pod overlap by one, since the native controller would undo the other order.
    fn grow(&mut self) {
        let limit = self.room.replicas.saturating_add(self.room.bounds.surge);
        let total = self.total().saturating_add(self.room.terminating);
        let mut budget = limit - total;
        if budget <= 0
            && self.room.bounds.surge == 0
            && self.undone_natively
            && total <= self.room.replicas
        {
            budget = 1;
        }
        let tracks = self.tracks;
        for role in [Role::Stable, Role::Update] {
            for (index, track) in tracks.iter().enumerate() {
                let missing = track.want - self.size(index);
                if track.role == role && missing > 0 && budget > 0 {
                    let add = missing.min(budget);
                    budget -= add;
                    self.set(index, self.size(index) + add);
                }
            }
        }
    }
}
