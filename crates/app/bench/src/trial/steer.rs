//! Finds, with Quell off, how hard a culprit works that is to do little harm.

use super::Ground;
use super::crowd::Crowd;
use super::draw::{Composition, Duty, Harm, Taken};
use super::harm::Latencies;
use super::off::{Arrivals, OffTurns};
use super::search::{Growth, Search, Usual};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The search takes so long at most.
const LONGEST: Duration = Duration::from_secs(15);
/// The crowd runs for so long before it begins.
const SETTLED: Duration = Duration::from_millis(300);
/// It ends where the duty is of the class with this probability, but not before so many pairs.
const SURE: f64 = 0.9;
const FEWEST: u32 = 5;
/// It ends as well where no duty is of the class with this probability: hardly anything harms here.
const HOPELESS: f64 = 0.05;
/// A culprit begins anew, which takes a tenth of a second, only for so much more of it.
const WORTH: f64 = 0.03;

/// What is usual of culprits.
#[derive(Debug, Default)]
pub(super) struct Usuals {
    /// By what they press on.
    known: BTreeMap<&'static str, Usual>,
    growth: Growth,
}

impl Usuals {
    fn of(&self, taken: Taken, drawn: &Composition) -> Usual {
        let known = drawn.pressing().and_then(|kernel| self.known.get(key(taken, kernel.resource)));
        known.cloned().unwrap_or_else(|| Usual::of(taken))
    }

    /// Learns from a trial that is over: from its search, and from its own pairs of turns with Quell off.
    pub(super) fn learn(
        &mut self,
        taken: Taken,
        drawn: &Composition,
        mut search: Search,
        off: &OffTurns,
    ) {
        let Some(kernel) = drawn.pressing() else { return };
        let duty = Duty::new(taken, kernel.intensity);
        off.pairs().iter().for_each(|pair| search.weigh(duty, pair));
        let known = self.known.entry(key(taken, kernel.resource));
        known.or_insert_with(|| Usual::of(taken)).learn(&search);
        if let Some(harm) = off.harm() {
            self.growth.learn(harm.ratio().ln(), taken.seen_ln(harm));
        }
    }
}

/// Those who take the CPU do it alike, whatever they compute.
fn key(taken: Taken, pressed: &'static str) -> &'static str {
    match taken {
        Taken::Cpu => "cpu",
        Taken::Memory => pressed,
    }
}

impl Ground<'_> {
    /// What the search knows before it begins; none where the culprit works as it is drawn, as somebody's
    /// program does.
    pub(super) fn search(&self, drawn: &Composition, usual: &Usuals) -> Option<Search> {
        let (threads, class) = (drawn.pressing()?.threads, self.options.harm.bounds()?);
        let taken = self.options.taken;
        let (usual, growth) = (usual.of(taken, drawn), usual.growth);
        let search = || Search::new((taken, threads), class, &usual, growth);
        (self.options.harm == Harm::Little).then(search)
    }

    /// Turns the culprit's duty until its harm beside the very groups of this trial is probably of
    /// the class, or the time is over. How much it does in the end is measured anew in the trial.
    pub(super) fn steer(
        &self,
        crowd: &mut Crowd,
        drawn: &mut Composition,
        search: &mut Search,
        arrivals: Arrivals,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + LONGEST;
        let (mut off, latencies) = (OffTurns::default(), Latencies::default());
        let (mut duty, mut pairs) = (search.best(), 0);
        self.interrupt.sleep(SETTLED)?;
        let open = |probability: f64| (HOPELESS..SURE).contains(&probability);
        while off.fits(until) && (pairs < FEWEST || open(search.probability(duty))) {
            if let Some(pair) = self.pair(crowd, arrivals, &mut off, &latencies)? {
                search.learn(duty, &pair);
            }
            pairs += 1;
            let best = search.best();
            if search.probability(best) > search.probability(duty) + WORTH {
                duty = best;
                drawn.turn_to(duty);
                let folder = self.folder.path();
                crowd.restart_culprit(&self.options.program, self.groups, drawn, folder)?;
                if !crowd.works(self.interrupt)? {
                    break;
                }
            }
        }
        Ok(())
    }
}
