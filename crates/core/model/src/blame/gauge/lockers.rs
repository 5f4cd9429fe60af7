//! Beside whom accesses are held back, and who was there as well.

use super::{Count, Gauge};
use quell_types::Tenant;

/// Somebody beside whom accesses are held back.
#[derive(Clone, Debug, PartialEq)]
pub struct Locker {
    /// Who.
    pub workload: Tenant,
    /// Of the samples beside it, the share that is slow.
    pub slow_frac: f64,
    /// The same of all other samples.
    pub other_frac: f64,
    /// How many slow ones there were, old ones fading.
    pub samples: f64,
    /// Whether nobody else could be meant.
    pub alone: bool,
}

impl Gauge {
    /// Those beside whom accesses are held back.
    #[must_use]
    pub fn lockers(&self) -> Vec<Locker> {
        let one = |(tenant, beside): (&Tenant, &Count)| {
            let (slow_frac, other_frac) = (beside.slow_frac(), self.rest(*beside).slow_frac());
            let told = beside.slow >= self.params.least_slow
                && slow_frac >= self.params.least_frac
                && self.stands_out(*beside) >= self.params.least_times;
            let rival = if told { self.rival(tenant, *beside) } else { None };
            let outshone = rival.is_some_and(|rival| rival >= 1.0 / self.params.rival_frac);
            (told && !outshone).then(|| Locker {
                workload: tenant.clone(),
                slow_frac,
                other_frac,
                samples: beside.slow,
                alone: rival.is_none_or(|rival| rival < self.params.rival_frac),
            })
        };
        self.beside.iter().filter_map(one).collect()
    }

    /// All samples but these.
    fn rest(&self, beside: Count) -> Count {
        let (all, slow) = (self.all.all - beside.all, self.all.slow - beside.slow);
        Count { all: all.max(0.0), slow: slow.max(0.0) }
    }

    /// How many times as often samples beside somebody are slow as others: one more of these, so that few
    /// are not taken for certain.
    fn stands_out(&self, beside: Count) -> f64 {
        let rest = self.rest(beside);
        beside.slow_frac() * (rest.all + 1.0) / (rest.slow + 1.0)
    }

    /// How much another who was there in most of these slow samples stands out, of what this one does.
    fn rival(&self, tenant: &Tenant, beside: Count) -> Option<f64> {
        let shares = |other: &&Count| self.share_most(beside.slow, other.slow);
        let named =
            self.beside.iter().filter(|(other, _)| *other != tenant).map(|(_, count)| count);
        let rivals = named.chain([&self.others]).filter(shares);
        let mine = self.stands_out(beside);
        rivals.map(|other| self.stands_out(*other) / mine).reduce(f64::max)
    }

    /// Whether two that have so many slow samples must have most of them in common.
    fn share_most(&self, slow: f64, other: f64) -> bool {
        slow + other > self.params.shared_frac * self.all.slow
    }

    /// Whether another was there in most of the slow samples of this one as well.
    pub(super) fn was_there_too(&self, locker: &Locker, other: &Tenant) -> bool {
        let also = |count: &Count| self.share_most(locker.samples, count.slow);
        locker.workload != *other && self.beside.get(other).is_some_and(also)
    }

    /// Of these nothing is known any more. What was slow beside one who was told goes with him: else it would be
    /// put down to whoever was there in the same samples. They come by hundreds in a second, so that not much is
    /// lost.
    pub(super) fn leave(&mut self, leaves: impl Fn(&Tenant) -> bool) {
        if self.beside.keys().any(&leaves) {
            if self.lockers().iter().any(|locker| leaves(&locker.workload)) {
                self.beside.clear();
                (self.all, self.others) = (Count::default(), Count::default());
            }
            self.beside.retain(|tenant, _| !leaves(tenant));
        }
    }
}
