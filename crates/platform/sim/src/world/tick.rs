//! What ran since the last tick is accounted, and the hardware moves on by as much (S-4 to S-8).

use super::World;
use super::cost::{Cell, LINE};
use crate::mask::Mask;
use crate::model::memory::Demand;
use crate::workload::Phase;

/// Ticks grow while no cost of a running program changes by more than this share in one, so costs
/// within a tick are right within half of it, or so.
const STILL: f64 = 0.01;
/// Ticks shrink where a cost changes by more than this share in one.
const MOVING: f64 = 0.02;
/// Shares of a cache may change so many times as much as costs: most of what comes and goes there
/// changes no cost at once, and where it does, the cost is seen to change.
const CACHE_PER_COST: f64 = 3.0;
/// Ticks grow beyond [`LONG`] only while nothing changes by more than this: who works now and then
/// holds more of a cache just while it works, and a long tick sees it hold what it does on average.
const CALM: f64 = 0.002;
/// Ticks grow up to this many times while little changes.
const LONG: u64 = 8;
/// The most of all time that bus locks can block (S-6).
pub(super) const MOST_BLOCKED: f64 = 0.95;
/// Ticks grow up to this many times while hardly anything changes.
pub(super) const STRETCH: u64 = 32;

/// Buffers that live from tick to tick.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// Bytes/s that came into caches, by domain and program; nothing between two ticks.
    inserts: Vec<f64>,
    /// What each program can hold at most, as it was when it last ran.
    most: Vec<f64>,
    /// By node; nothing between two ticks.
    pub(super) demands: Vec<Vec<Demand>>,
    offered: Vec<f64>,
}

/// What there is to do after a tick in which this ran.
#[derive(Clone, Copy, Debug, Default)]
struct Ran {
    /// Domains into whose caches something came.
    domains: Mask,
    /// Whether bus locks were made.
    locks: bool,
    /// Whether something was sent without looking whether there is room.
    sends: bool,
}

impl World {
    pub(super) fn tick(&mut self) {
        let running = self.running;
        running.iter().for_each(|cpu| self.settle(cpu));
        let span_ns = (self.now - self.ticked) as f64;
        self.ticked = self.now;
        let mut moved = 0.0f64;
        if span_ns > 0.0 {
            let ran = self.count_traffic(span_ns / 1e9);
            moved = self.step_caches(span_ns / 1e9, ran.domains) / CACHE_PER_COST;
            self.step_locks(span_ns, ran.locks);
            moved = moved.max(self.step_sockets(span_ns));
            self.step_gauge(span_ns);
            self.step_links(ran.sends);
            self.step_pages(span_ns);
        }
        self.epoch += 1;
        moved = moved.max(self.solve(span_ns));
        running.iter().for_each(|cpu| self.refresh(cpu));
        self.balance();
        self.tick_len = self.next_len(moved);
        self.tick_next = self.now + self.tick_len;
    }

    /// How long the next tick is after one in which something changed by this share.
    fn next_len(&self, moved: f64) -> u64 {
        let most = if moved < CALM { STRETCH } else { LONG } * self.tick_min;
        let len = match moved {
            still if still < STILL => 2 * self.tick_len,
            moving if moving < MOVING => self.tick_len,
            _ => self.tick_len / 2,
        };
        len.min(most).clamp(self.tick_min, self.tick_max)
    }

    /// The hardware is another: all costs are worked out anew when they are needed.
    pub(super) fn hardware(&mut self) {
        self.epoch += 1;
        self.wake_hardware();
    }

    /// The phase in which a cell's program is.
    pub(super) fn phase_of(&self, cell: &Cell) -> &Phase {
        let work = &self.works[cell.work];
        &work.program.phases[work.phase]
    }

    /// Counts what moved between caches and memory.
    fn count_traffic(&mut self, seconds: f64) -> Ran {
        let (works, mut ran) = (self.works.len(), Ran::default());
        self.scratch.inserts.resize(works * self.caches.len(), 0.0);
        self.scratch.most.resize(works, 0.0);
        for index in &self.active {
            let cell = &self.cells[*index];
            let (work, of) = (cell.work, &self.works[cell.work]);
            let phase = &of.program.phases[of.phase];
            let bytes = cell.instructions * cell.mpki / 1000.0 * LINE;
            let moved = bytes * phase.lines_per_miss();
            self.scratch.inserts[cell.domain * works + work] = bytes / seconds;
            self.scratch.most[work] = phase.working_set_bytes;
            ran.domains.insert(cell.domain);
            ran.locks |= phase.split_locks_per_s > 0.0;
            ran.sends |= phase.blind_egress_per_ki() > 0.0;
            self.groups[of.group].traffic_bytes += moved;
            self.traffic_bytes += moved;
        }
        ran
    }

    /// Lets occupancies follow insertions; answers the largest change. Where nobody inserts,
    /// nothing changes.
    fn step_caches(&mut self, seconds: f64, domains: Mask) -> f64 {
        let (works, mut moved) = (self.works.len(), 0.0f64);
        let Scratch { inserts, most, .. } = &mut self.scratch;
        for domain in domains.iter() {
            let here = &mut inserts[domain * works..][..works];
            moved = moved.max(self.caches[domain].step(seconds, here, most));
            here.fill(0.0);
        }
        moved
    }

    /// The share of time in which bus locks block each server's memory (S-6). A program makes them
    /// as fast as it makes progress, together no more than the bus has time for.
    fn step_locks(&mut self, span_ns: f64, any: bool) {
        if !any && self.server_blocked.iter().all(|blocked| *blocked == 0.0) {
            return;
        }
        self.server_blocked.fill(0.0);
        for index in 0..self.active.len() {
            let cell = &self.cells[self.active[index]];
            let locks = self.phase_of(cell).split_locks_per_s;
            if locks > 0.0 {
                let socket = self.shape.domain_socket[cell.domain];
                let rate_per_ns = locks / 1e9 * cell.effective_ns / span_ns;
                let hold_ns = self.machine.bus_lock_cycles / self.sockets[socket].ghz();
                self.server_blocked[self.shape.socket_server[socket]] += rate_per_ns * hold_ns;
            }
        }
        for (blocked, room) in self.server_blocked.iter_mut().zip(&mut self.lock_room) {
            *room = if *blocked > MOST_BLOCKED { MOST_BLOCKED / *blocked } else { 1.0 };
            *blocked = blocked.min(MOST_BLOCKED);
        }
        for (domain, socket) in self.shape.domain_socket.iter().enumerate() {
            self.open[domain] = 1.0 - self.server_blocked[self.shape.socket_server[*socket]];
        }
    }

    /// Power, frequency and temperature; answers 1 if a frequency changed.
    fn step_sockets(&mut self, span_ns: f64) -> f64 {
        let mut moved = 0.0;
        let threads = f64::from(self.machine.threads_per_core);
        let cores = (self.machine.cores() / self.sockets.len()) as f64;
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            let ran = std::mem::take(&mut self.socket_ran[index]);
            let (units, busy) = (ran.units_ns / span_ns, ran.busy_ns / span_ns);
            // Threads spread over cores before they share them.
            let active = if threads > 1.0 { busy.min(cores) } else { busy };
            if socket.step(span_ns / 1e9, units, active) {
                moved = 1.0;
            }
        }
        moved
    }

    fn step_links(&mut self, sends: bool) {
        if !sends && self.links.is_empty() {
            return;
        }
        let mut offered = std::mem::take(&mut self.scratch.offered);
        offered.clear();
        offered.resize(self.groups.len(), 0.0);
        for index in 0..self.active.len() {
            let cell = &self.cells[self.active[index]];
            let egress = self.phase_of(cell).blind_egress_per_ki();
            if egress > 0.0 {
                offered[self.works[cell.work].group] += cell.instructions / 1000.0 * egress;
            }
        }
        for (group, bytes) in self.groups.iter_mut().zip(&offered) {
            if group.links.is_empty() {
                group.egress_bytes += bytes;
            }
        }
        for (index, link) in self.links.iter_mut().enumerate() {
            let on = |g: usize| self.groups[g].links.first() == Some(&index);
            let here: Vec<f64> =
                offered.iter().enumerate().map(|(g, b)| if on(g) { *b } else { 0.0 }).collect();
            link.step(self.now, &here);
        }
        self.scratch.offered = offered;
    }
}

impl Cell {
    /// Counts what ran, at this speed against a fast core of its own.
    pub(super) fn add(&mut self, span_ns: f64, factor: f64, ghz: f64, instructions: f64) {
        self.ran_ns += span_ns;
        self.effective_ns += span_ns * factor;
        self.ghz_ns += span_ns * ghz;
        self.instructions += instructions;
    }

    /// A new tick begins.
    pub(super) fn begin(&mut self) {
        self.ran_ns = 0.0;
        self.effective_ns = 0.0;
        self.ghz_ns = 0.0;
        self.instructions = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::preset;
    use crate::scene::Scene;

    const MS: u64 = 1_000_000;

    /// The next tick in milliseconds after one of `ms` in which something changed by this share.
    fn next_ms(ms: u64, moved: f64, stretch: bool) -> u64 {
        let scene = Scene { stretch, ..Scene::new(preset("vm2").unwrap(), 1) };
        let world = World { tick_len: ms * MS, ..World::new(&scene) };
        world.next_len(moved) / MS
    }

    #[test]
    fn ticks_grow_while_little_changes_and_to_their_longest_only_while_hardly_anything_does() {
        let little = [1, 2, 4, 32].map(|ms| next_ms(ms, 0.005, true));
        assert_eq!(little, [2, 4, 8, 8]);
        assert_eq!([8, 32].map(|ms| next_ms(ms, 0.001, true)), [16, 32]);
        assert_eq!([2, 32].map(|ms| next_ms(ms, 0.015, true)), [2, 8]);
        assert_eq!([1, 4, 32].map(|ms| next_ms(ms, 0.03, true)), [1, 2, 8]);
        assert_eq!([0.0, 0.03].map(|moved| next_ms(1, moved, false)), [1, 1]);
    }
}
