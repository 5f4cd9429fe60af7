//! Memory bandwidth throttling in place of core-cutting (T-26).

use crate::ledger::{Ledger, Reason};
use quell_types::{Knob, KnobRange, Setting, Setup};

/// One throttle for all batch groups in all domains, in percent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mba {
    percent: u32,
}

impl Default for Mba {
    fn default() -> Self {
        Self { percent: 100 }
    }
}

impl Mba {
    /// Lets batch keep at most this share of what it moves now, by at least one step. False if
    /// there is no throttle here or it is at its minimum.
    pub(super) fn tighten(
        &mut self,
        ledger: &mut Ledger,
        setup: &Setup,
        keep_frac: f64,
        why: &Reason,
    ) -> bool {
        let Some((min, step)) = range(setup) else { return false };
        if self.percent <= min {
            return false;
        }
        let wanted = (f64::from(self.percent) * keep_frac) as u32 / step * step;
        self.percent = wanted.min(self.percent.saturating_sub(step)).max(min);
        self.apply(ledger, setup, why);
        true
    }

    /// Gives back one step. False if nothing is throttled.
    pub(super) fn loosen(&mut self, ledger: &mut Ledger, setup: &Setup, why: &Reason) -> bool {
        let Some((_, step)) = range(setup).filter(|_| self.percent < 100) else { return false };
        self.percent = (self.percent + step).min(100);
        self.apply(ledger, setup, why);
        true
    }

    /// Gives back everything.
    pub(super) fn lift(&mut self, ledger: &mut Ledger, setup: &Setup, why: &Reason) {
        if self.percent < 100 {
            self.percent = 100;
            self.apply(ledger, setup, why);
        }
    }

    fn apply(self, ledger: &mut Ledger, setup: &Setup, why: &Reason) {
        for (knob, _) in throttles(setup) {
            ledger.set(setup, knob.clone(), Setting::Percent(self.percent), why);
        }
    }
}

fn throttles(setup: &Setup) -> impl Iterator<Item = (&Knob, (u32, u32))> {
    setup.knobs.iter().filter_map(|(knob, range)| match (knob, range) {
        (Knob::MemoryBandwidth { tenant, .. }, KnobRange::Percent { min, step })
            if setup.batch.iter().any(|b| &b.name == tenant) =>
        {
            Some((knob, (*min, (*step).max(1))))
        }
        _ => None,
    })
}

/// The coarsest minimum and step of all throttles; none if there is none.
fn range(setup: &Setup) -> Option<(u32, u32)> {
    throttles(setup).map(|(_, range)| range).reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))
}
