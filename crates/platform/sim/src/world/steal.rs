//! The hypervisor takes CPUs away and gives them back.
//!
//! Each CPU is there and gone in turns of exponential length. While it is gone its thread stands
//! still and is charged nothing, as with a kernel that is told of steals; the time counts as stolen
//! only while something would have run. Periods of CPU bandwidth go on: a group is charged for the
//! time that its threads stood on a stolen CPU, as in kernels that are not told.
//!
//! Where the kernel is not told (`hidden`) its thread is charged as if it ran, and the CPU is busy. Only
//! its timer comes late, which the kernel's gauge counts.

use super::{World, span_of};

impl World {
    /// Draws when a CPU is taken or given back next.
    pub(super) fn draw_steal(&mut self, cpu: usize) {
        let steal = self.machine.steal;
        if steal.frac <= 0.0 {
            return;
        }
        let gone = self.cpus[cpu].stolen;
        let mean = if gone { steal.span_s } else { steal.span_s / steal.frac - steal.span_s };
        let span_ns = (self.steals.exponential(mean) * 1e9) as u64;
        self.steal_next.set(cpu, self.now + span_ns.max(1));
    }

    /// What somebody was about to run for so long while the CPU was gone: nothing was done.
    #[cold]
    pub(super) fn lose(&mut self, cpu: usize, running: usize, passed_ns: u64) {
        if !self.machine.steal.hidden {
            self.stolen_ns += passed_ns;
            return;
        }
        let thread = &mut self.threads[running];
        let group = &mut self.groups[thread.group];
        if !thread.real_time {
            thread.vruntime += span_of(passed_ns) * group.pace();
        }
        group.cpu_ns += passed_ns;
        self.cpus[cpu].busy_ns += passed_ns;
        self.busy_ns += passed_ns;
        self.hidden_ns += passed_ns;
    }

    pub(super) fn steal_or_give_back(&mut self, cpu: usize) {
        self.settle(cpu);
        self.cpus[cpu].stolen = !self.cpus[cpu].stolen;
        self.refresh(cpu);
        self.draw_steal(cpu);
    }
}
