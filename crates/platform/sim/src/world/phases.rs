//! Programs that are moved from phase to phase by hand.

use super::World;

impl World {
    /// A program goes on in another of its phases. Costs are those of the new one from now on, not
    /// from the next tick.
    pub(crate) fn enter_phase(&mut self, work: usize, phase: usize) {
        // What ran in the old phase is accounted as such.
        self.tick();
        self.works[work].phase = phase;
        self.hardware();
        self.cut_laps(work);
    }

    /// CPU time of a group and the instructions that it did in it, up to now.
    pub(crate) fn done_by(&mut self, group: usize) -> (u64, f64) {
        self.settle_all();
        (self.groups[group].cpu_ns, self.groups[group].instructions)
    }

    /// Whether nobody runs or waits on a CPU.
    pub(crate) fn is_free(&self, cpu: usize) -> bool {
        self.free.contains(cpu)
    }
}
