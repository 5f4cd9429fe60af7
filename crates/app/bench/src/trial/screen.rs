//! Leaves out, before anything is drawn, polluters that hurt this service on this machine too little.
//!
//! # Problem
//! What hurts is the machine's: who fills a cache hurts nobody where nothing of it is shared, and who streams within
//! it hardly anybody. A trial of such a culprit is discarded after its harm was measured, and where there are more of
//! them than may be discarded, no run comes to its end.
//!
//! # Idea
//! Each polluter is played once in a crowd that no trial has, with Quell off, in as many pairs of turns as a trial
//! measures harm with. Whose harm is *surely* less than is wanted is not drawn; who may do as much stays, since a
//! host's tenants and what it does with its CPUs make harm come and go. If nobody stays, nobody is left out: then the
//! trials themselves say that hardly anything hurts here.
//!
//! Trials of those that stay are drawn and judged as without it.

use super::crowd::Crowd;
use super::draw::{Cast, Composition, Harm, Taken};
use super::harm::{Latencies, Measured};
use super::off::{Arrivals, OffTurns};
use super::{BEFORE, Ground, SETTLED};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// What crowds of a screening are drawn from: no trial has this number.
const NUMBER: u32 = u32::MAX;

/// A polluter that is not drawn, and what it did to the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// What it runs.
    pub polluter: String,
    /// The harm, as in trials.
    pub harm_ratio: f64,
    /// Its 95 % interval, from here ...
    pub harm_low: f64,
    /// ... to here.
    pub harm_high: f64,
    /// Pairs of turns that tell it.
    pub harm_pairs: u32,
}

impl LeftOut {
    fn new(polluter: String, harm: Measured) -> Self {
        let (harm_low, harm_high) = harm.interval;
        Self { polluter, harm_ratio: harm.ratio(), harm_low, harm_high, harm_pairs: harm.pairs }
    }

    /// One line about it.
    pub(super) fn in_words(&self) -> String {
        let Self { polluter, harm_ratio, harm_low, harm_high, harm_pairs } = self;
        format!(
            "{polluter} is not drawn: it hurts {harm_ratio:.2} times ({harm_low:.2}–{harm_high:.2}, \
             {harm_pairs} pairs)"
        )
    }
}

/// Whether polluters are looked at first. Of little harm a search finds how hard one must work; who takes CPUs hurts
/// everywhere; a control measures chance.
pub(super) fn screens(harm: Harm, taken: Taken, control: bool) -> bool {
    harm == Harm::Much && taken == Taken::Memory && !control
}

impl Ground<'_> {
    /// The cast without those polluters whose harm is surely too little, and these.
    pub(super) fn screen(&self, cast: Cast, rate: f64) -> anyhow::Result<(Cast, Vec<LeftOut>)> {
        let options = self.options;
        if !screens(options.harm, options.taken, options.control) {
            return Ok((cast, Vec::new()));
        }
        let (mut stay, mut out) = (Vec::new(), Vec::new());
        for one in cast.each_polluter() {
            self.interrupt.check()?;
            let (polluter, harm) = self.harm_of(&one, rate)?;
            match harm.filter(|harm| options.harm.excludes(harm.interval)) {
                Some(harm) => out.push(LeftOut::new(polluter, harm)),
                None => stay.push(one),
            }
        }
        if stay.is_empty() {
            return Ok((cast, Vec::new()));
        }
        Ok((cast.of_polluters(stay), out))
    }

    /// What the only polluter of this cast runs, and how much it hurts; none if that was not to be measured.
    fn harm_of(&self, cast: &Cast, rate: f64) -> anyhow::Result<(String, Option<Measured>)> {
        let options = self.options;
        let drawn = Composition::draw(options.seed, NUMBER, cast, options.room_cpus()?);
        let culprit = drawn.culprit.map(|place| drawn.members[place].in_words());
        let folder = self.folder.path();
        let crowd = Crowd::start(&options.program, self.groups, &drawn, folder)?;
        let (mut off, latencies) = (OffTurns::default(), Latencies::default());
        if crowd.works(self.interrupt)? {
            self.interrupt.sleep(SETTLED)?;
            let arrivals = Arrivals { rate, seed: options.seed.wrapping_add(1 << 41) };
            let until = Instant::now() + BEFORE;
            self.off_turns(&crowd, arrivals, (&mut off, until), &latencies)?;
        }
        Ok((culprit.unwrap_or_default(), off.harm()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_much_harm_by_memory_is_screened() {
        assert!(screens(Harm::Much, Taken::Memory, false));
        assert!(!screens(Harm::Much, Taken::Memory, true));
        assert!(!screens(Harm::Much, Taken::Cpu, false));
        assert!(!screens(Harm::Little, Taken::Memory, false));
        assert!(!screens(Harm::None, Taken::Memory, false));
    }

    #[test]
    fn who_stays_is_drawn_and_who_is_left_out_is_not() {
        let programs = || ["stress-ng --stream 1", "xz -T1"].map(|text| text.parse().unwrap());
        let kernels = Cast::of_kernels(Harm::Much, Taken::Memory);
        let programs = Cast { polluters: programs().to_vec(), ..kernels.clone() };
        for (cast, all) in [(kernels, 3), (programs, 2)] {
            let each = cast.each_polluter();
            assert_eq!(each.len(), all);
            let first = cast.clone().of_polluters(each[..1].to_vec());
            let runs = |cast: &Cast, number| {
                let drawn = Composition::draw(1, number, cast, 9.0);
                drawn.members[drawn.culprit.unwrap()].in_words()
            };
            let all_runs: std::collections::BTreeSet<String> =
                (0..60).map(|number| runs(&cast, number)).collect();
            assert_eq!(all_runs.len(), all);
            assert!((0..60).all(|number| runs(&first, number) == runs(&first, 0)));
            // Nobody left out: everything is drawn as it was.
            let same = cast.clone().of_polluters(each);
            assert!((0..60).all(|number| runs(&same, number) == runs(&cast, number)));
        }
    }
}
