//! Finds, with Quell off, how hard a culprit of the CPU works that is to do little harm.

use super::crowd::Crowd;
use super::draw::{Composition, Harm, LittleDuty, Taken};
use super::harm::Latencies;
use super::{Ground, Measured, SETTLED};
use quell_service::Controls;

/// So often the duty is turned at most.
const LOOKS: u32 = 3;
/// Turns of the culprit running and stopped in one of these looks.
const TURNS: u32 = 2;
/// Load for all of them.
const LONGEST_S: f64 = 16.0;

impl Ground<'_> {
    /// Turns the culprit's duty until its harm beside the very groups of this trial is in the middle
    /// of the class, or the looks are over. A trial of another kind is left as it is drawn. How much
    /// it does in the end is measured anew in the trial itself.
    pub(super) fn steer(
        &self,
        crowd: &mut Crowd,
        drawn: &mut Composition,
        rate: f64,
        duty: &mut LittleDuty,
    ) -> anyhow::Result<()> {
        if (self.options.harm, self.options.taken) != (Harm::Little, Taken::Cpu) {
            return Ok(());
        }
        let (controls, latencies) = (Controls::default(), Latencies::default());
        let plan = (rate, 0.5, LONGEST_S, self.options.seed);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| self.load(plan, &controls, &latencies));
            let found = self.find(crowd, drawn, duty, &latencies);
            controls.stop();
            let run = load.join().map_err(|_| anyhow::anyhow!("the generator failed"))?;
            run.and(found)
        })
    }

    fn find(
        &self,
        crowd: &mut Crowd,
        drawn: &mut Composition,
        duty: &mut LittleDuty,
        latencies: &Latencies,
    ) -> anyhow::Result<()> {
        self.interrupt.sleep(SETTLED)?;
        for _ in 0..LOOKS {
            let harm = self.harm(crowd, latencies, TURNS)?.map(Measured::ratio);
            if LittleDuty::fits(harm) {
                break;
            }
            duty.learn(harm);
            drawn.turn_to(*duty);
            let folder = self.folder.path();
            crowd.restart_culprit(&self.options.program, self.groups, drawn, folder)?;
            if !crowd.works(self.interrupt)? {
                break;
            }
        }
        Ok(())
    }
}
