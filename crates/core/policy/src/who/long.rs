//! Long looks: for harm that takes its time to go.
//!
//! # Problem
//! A service that answers thousands of requests a second is compared in chips of 25 ms, which are over at once and
//! tell enough of what goes at once. Of harm that goes within 300 ms, since a service fills its caches again no
//! faster than it is asked for what lies in them, they see a thirteenth: who slows it twofold seems innocent.
//!
//! # Idea
//! Now and then a look is four times as long. Of such a harm it sees 3.4 times as much, so in the same held time it
//! tells twelve times as much of it; of harm that goes at once it tells as much as the four short ones that it costs.
//! But it comes late, and whoever is named by chance waits for it. So a part of what suspects may be held is set aside
//! for long looks, in a bank of their own, and the first looks are short ones.
//!
//! # Units
//! Seconds of held time; parts of the share that a suspect may be held.
//!
//! # Pseudo-code
//! ```text
//! each sample: usual bank earns (1 - LONG_PART_FRAC) of the share, the one for long looks the rest
//! after SHORT_LOOKS looks: a long one, at those of whom it tells most and whose bank pays
//! ```
//!
//! # Degradation
//! Where requests are so few that looks are long anyway, and for a victim that is slow by turns, of which a long look
//! tells no more, there are none, and the usual bank earns all; what was set aside stays for when they are of use.
//!
//! Source: issue "Name the polluter and limit only it" (right lags).

use super::Who;
use super::batch::is_held_back;
use super::look::{HELD_CHIPS, Kind};
use super::victim::Victim;
use crate::parts::HeldTime;
use quell_types::{BatchObservation, Setup, Tenant, Time};
use std::time::Duration;

/// How many times as long they are, if the longest chip allows that; ...
const TIMES: u64 = 4;
/// ... they are worth while if it allows so many times.
const LEAST_TIMES: u64 = 2;
/// The part of a suspect's held time that is set aside for them.
const LONG_PART_FRAC: f64 = 0.4;
/// Most that is saved for them: two, so that the first come within seconds.
const SAVED_S: f64 = 0.4;
/// So many other looks come before each.
const SHORT_LOOKS: u32 = 3;

/// What is set aside for long looks, and when the next is due.
#[derive(Clone, Debug)]
pub(super) struct LongLooks {
    held_time: HeldTime,
    short_looks: u32,
}

impl LongLooks {
    pub(super) fn new(share_frac: f64) -> Self {
        Self { held_time: HeldTime::saving(LONG_PART_FRAC * share_frac, SAVED_S), short_looks: 0 }
    }

    /// A look of this kind was made at these, who were held for so long: whether they pay for it from here.
    pub(super) fn paid(&mut self, kind: Kind, groups: &[Tenant], held_s: f64) -> bool {
        if kind != Kind::Long {
            self.short_looks = self.short_looks.saturating_add(1);
            return false;
        }
        self.short_looks = 0;
        groups.iter().for_each(|group| self.held_time.spend(group, held_s));
        true
    }

    fn are_due(&self) -> bool {
        self.short_looks >= SHORT_LOOKS
    }

    /// Whether a suspect can pay for one. Of who is held back by its own quota it tells little.
    pub(super) fn pays(&self, tenant: &Tenant, batch: &BatchObservation, held: Duration) -> bool {
        !is_held_back(batch) && self.held_time.pays(tenant, held.as_secs_f64())
    }
}

impl Who {
    /// Lets all banks fill.
    pub(super) fn fill(&mut self, setup: &Setup, now: Time) {
        let wanted = self.victims.values().any(|victim| self.long_chip_us(victim).is_some());
        let part_frac = if wanted { 1.0 - LONG_PART_FRAC } else { 1.0 };
        self.held_time.fill_in_part(setup, now, part_frac);
        self.long.held_time.fill(setup, now);
    }

    /// The chip of a long look for a victim, if one is of use.
    pub(super) fn long_chip_us(&self, victim: &Victim) -> Option<u64> {
        let chip_us = self.chip_us(victim.requests_per_s()?)?;
        let most_us = 1000 * self.params.longest_chip_ms;
        let steady = !victim.has_moments() && !victim.has_short_moments();
        (steady && LEAST_TIMES * chip_us <= most_us).then(|| most_us.min(TIMES * chip_us))
    }

    /// Whether it is time for one.
    pub(super) fn long_look_is_due(&self) -> bool {
        self.long.are_due()
    }

    /// The chip of a look of this kind for a victim, and for how long suspects are held in it.
    pub(super) fn chip_of(&self, victim: &Victim, kind: Kind) -> Option<(u64, Duration)> {
        let chip_us = match kind {
            Kind::Long => self.long_chip_us(victim)?,
            _ => self.chip_us(victim.requests_per_s()?)?,
        };
        Some((chip_us, Duration::from_micros(HELD_CHIPS * chip_us)))
    }
}
