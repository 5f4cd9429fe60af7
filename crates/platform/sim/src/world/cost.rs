//! What instructions cost each program on each cache: cycles in the core, and waits for memory as
//! all who run load it (S-4 to S-6).

use super::{Work, World};
use crate::machine::Machine;
use crate::model::memory::{Demand, queueing, utilisation};
use crate::workload::{Phase, Program};

/// Bytes of a cache line.
pub(super) const LINE: f64 = 64.0;
/// Rounds of solving nodes one after the other, where memory is remote.
const ROUNDS: usize = 3;

/// One program on one LLC domain: how it runs there, and what it did since the last tick.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) work: usize,
    pub(super) domain: usize,
    /// The memory node next to it.
    pub(super) home: usize,
    /// The state of the hardware for which its costs hold; older ones are worked out when needed.
    pub(super) priced: u64,
    /// Nanoseconds per instruction at the last look, one cycle counted as one.
    pub(super) before: f64,
    /// Core cycles per instruction.
    pub(super) cycles: f64,
    /// Nanoseconds per instruction spent waiting for memory.
    pub(super) waiting_ns: f64,
    pub(super) mpki: f64,
    /// Nanoseconds per instruction that it would wait for idle memory at home.
    pub(super) home_wait_ns: f64,
    /// By how much all its accesses are held back: its throttle, bus locks.
    pub(super) held_back: f64,
    pub(super) ran_ns: f64,
    /// Run time weighted with the speed of cores and siblings.
    pub(super) effective_ns: f64,
    pub(super) ghz_ns: f64,
    pub(super) instructions: f64,
}

/// What accesses cost a program in one of its phases on this machine, worked out once.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessCost {
    /// Cycles of a hit of the last-level cache that nothing hides.
    pub(super) hit_cycles: f64,
    /// Nanoseconds of a miss that the idle memory next to it serves and nothing hides.
    pub(super) miss_ns: f64,
}

impl AccessCost {
    /// Those of each phase.
    pub(super) fn of(program: &Program, machine: &Machine) -> Vec<Self> {
        let (hit, miss) = (machine.cache.hit_cycles, machine.memory.latency_ns);
        let cost =
            |phase: &Phase| Self { hit_cycles: hit / phase.overlap, miss_ns: miss / phase.overlap };
        program.phases.iter().map(cost).collect()
    }
}

/// How a program on a domain stands to a node.
struct At {
    /// Nanoseconds per instruction that it waits for the node when all is idle.
    waiting: f64,
    /// The share of its misses that go there.
    share: f64,
    /// Nanoseconds per instruction that it waits for what is not the node.
    apart: f64,
}

impl Cell {
    /// A program where it has not run yet.
    pub(super) fn new(work: usize, domain: usize, home: usize) -> Self {
        Self { work, domain, home, ..Self::default() }
    }
}

impl World {
    /// Cycles and waits of what ran, with memory controllers loaded by it; answers the largest
    /// change of a cost. What runs from now on is counted anew.
    pub(super) fn solve(&mut self, span_ns: f64) -> f64 {
        let mut active = std::mem::take(&mut self.active);
        let mut remote = false;
        for index in &active {
            self.cost_of_core(*index);
            remote |= !self.works[self.cells[*index].work].pages.is_empty();
        }
        if remote || !self.moves.is_empty() {
            self.solve_remote(&active, if remote { ROUNDS } else { 1 }, span_ns);
        } else {
            self.solve_local(&active, span_ns);
        }
        let mut moved = 0.0f64;
        for index in active.drain(..) {
            let cell = &mut self.cells[index];
            let cost = cell.cycles + cell.waiting_ns;
            let change = (cost / cell.before - 1.0).abs();
            moved = if change > moved { change } else { moved };
            (cell.before, cell.priced) = (cost, self.epoch);
            cell.begin();
        }
        self.active = active;
        moved
    }

    /// Waits where every node serves only what runs next to it.
    fn solve_local(&mut self, active: &[usize], span_ns: f64) {
        if span_ns > 0.0 {
            let mut demands = std::mem::take(&mut self.scratch.demands);
            demands.resize_with(self.node_load.len(), Vec::new);
            for cell in active.iter().map(|index| &self.cells[*index]) {
                if cell.effective_ns > 0.0 && cell.mpki > 0.0 {
                    let at = At { waiting: cell.home_wait_ns, share: 1.0, apart: 0.0 };
                    demands[cell.home].push(self.demand_at(cell, &at, span_ns));
                }
            }
            for (node, demands) in demands.iter_mut().enumerate() {
                self.load_node(node, demands);
                demands.clear();
            }
            self.scratch.demands = demands;
            self.link_load.fill(0.0);
        }
        for index in active {
            let cell = &mut self.cells[*index];
            // No link is on the way there.
            let waits = cell.home_wait_ns * (1.0 + self.node_queue[cell.home]);
            cell.waiting_ns = waits * cell.held_back;
        }
    }

    /// Waits where pages lie elsewhere or move: nodes are solved one after the other, in rounds.
    fn solve_remote(&mut self, active: &[usize], rounds: usize, span_ns: f64) {
        for _ in 0..rounds {
            if span_ns > 0.0 {
                for node in 0..self.node_load.len() {
                    let each = active.iter().filter_map(|index| self.demand(*index, node, span_ns));
                    let moves = self.moves.iter().filter_map(|m| self.demand_of_move(m, node));
                    let demands: Vec<Demand> = each.chain(moves).collect();
                    self.load_node(node, &demands);
                }
                self.link_load.fill(0.0);
                if rounds > 1 {
                    self.load_links(active, span_ns);
                }
            }
            for index in active {
                self.cost_of_memory(*index);
            }
        }
    }

    fn load_node(&mut self, node: usize, demands: &[Demand]) {
        let bandwidth = self.machine.memory.bytes_per_s;
        self.node_load[node] = utilisation(demands, bandwidth, self.node_load[node]);
        self.node_queue[node] = queueing(self.node_load[node]);
    }

    /// Costs of a program where it has not run of late, with the hardware as it stands.
    #[inline(never)]
    pub(super) fn price(&mut self, index: usize) {
        self.cost_of_core(index);
        self.cost_of_memory(index);
        let cell = &mut self.cells[index];
        (cell.before, cell.priced) = (cell.cycles + cell.waiting_ns, self.epoch);
    }

    /// Cycles in the core, last-level hits included.
    #[inline]
    fn cost_of_core(&mut self, index: usize) {
        let cell = &self.cells[index];
        let work = &self.works[cell.work];
        let (phase, access) = (&work.program.phases[work.phase], work.access[work.phase]);
        let mpki = phase.llc_misses.mpki(self.caches[cell.domain].held(cell.work));
        let hits = (phase.llc_apki - mpki).max(0.0) / 1000.0;
        let (mut private, mut hit, mut held_back) = (phase.private_cycles, access.hit_cycles, 1.0);
        let open = self.open[cell.domain];
        let percent = self.groups[work.group].percent[cell.domain].max(1);
        // Hardly ever, and divisions are dear here.
        if open != 1.0 || percent != 100 {
            (private, hit) = (private / open, hit / open);
            held_back = 100.0 / f64::from(percent) / open;
        }
        let cell = &mut self.cells[index];
        (cell.mpki, cell.cycles) = (mpki, phase.base_cpi + private + hits * hit);
        (cell.home_wait_ns, cell.held_back) = (mpki / 1000.0 * access.miss_ns, held_back);
    }

    /// Nanoseconds per instruction that a program on a domain waits for one node, idle and with
    /// distance, and the share of its misses that go there.
    fn wait_for(&self, index: usize, node: usize) -> (f64, f64) {
        let cell = &self.cells[index];
        let work = &self.works[cell.work];
        if work.pages.is_empty() {
            return if node == cell.home { (cell.home_wait_ns, 1.0) } else { (0.0, 0.0) };
        }
        let share = work.share_at(node);
        if share == 0.0 {
            return (0.0, 0.0);
        }
        let distance = self.shape.distance[cell.home][node];
        let miss_ns = self.machine.memory.latency_ns * distance / self.phase_of(cell).overlap;
        (share * cell.mpki / 1000.0 * miss_ns, share)
    }

    /// What queueing at the links adds to an access to a node.
    fn link_stretch(&self, home: usize, node: usize) -> f64 {
        let (from, to) = (self.shape.node_socket[home], self.shape.node_socket[node]);
        if from == to { 0.0 } else { queueing(self.link_load[from].max(self.link_load[to])) }
    }

    /// Nanoseconds per instruction that a program waits for a node as loaded, without what holds
    /// all its accesses back.
    fn loaded(&self, index: usize, node: usize) -> f64 {
        let home = self.cells[index].home;
        let stretch = 1.0 + self.node_queue[node] + self.link_stretch(home, node);
        self.wait_for(index, node).0 * stretch
    }

    /// What a program on a domain asks of a node, if anything.
    fn demand(&self, index: usize, node: usize, span_ns: f64) -> Option<Demand> {
        let cell = &self.cells[index];
        if cell.effective_ns <= 0.0 || cell.mpki <= 0.0 {
            return None;
        }
        let (waiting, share) = self.wait_for(index, node);
        if share <= 0.0 {
            return None;
        }
        let others = self.works[cell.work].pages.iter().map(|(n, _)| *n).filter(|n| *n != node);
        let elsewhere: f64 = others.map(|other| self.loaded(index, other)).sum();
        let apart = elsewhere + waiting * self.link_stretch(cell.home, node);
        Some(self.demand_at(cell, &At { waiting, share, apart }, span_ns))
    }

    /// What a program asks of a node of which it asks something.
    #[inline]
    fn demand_at(&self, cell: &Cell, at: &At, span_ns: f64) -> Demand {
        let held = cell.held_back;
        let passes = cell.effective_ns / span_ns * 1e9;
        let lines = self.phase_of(cell).lines_per_miss();
        Demand {
            scale: passes * cell.mpki / 1000.0 * LINE * at.share * lines,
            fixed: cell.cycles * cell.ran_ns / cell.ghz_ns + at.apart * held,
            waiting: at.waiting * held,
        }
    }

    /// Load of the links between sockets, from what really ran.
    fn load_links(&mut self, active: &[usize], span_ns: f64) {
        for index in active {
            let cell = &self.cells[*index];
            if self.works[cell.work].pages.is_empty() {
                continue;
            }
            let home = self.shape.domain_socket[cell.domain];
            let lines = self.phase_of(cell).lines_per_miss();
            let bytes = cell.instructions * cell.mpki / 1000.0 * LINE * lines;
            let load = bytes / span_ns * 1e9 / self.machine.memory.link_bytes_per_s;
            for (node, share) in &self.works[cell.work].pages {
                let socket = self.shape.node_socket[*node];
                if socket != home {
                    self.link_load[home] += load * share;
                    self.link_load[socket] += load * share;
                }
            }
        }
    }

    /// Waits per instruction with all controllers as loaded, throttles and bus locks included.
    fn cost_of_memory(&mut self, index: usize) {
        let cell = &self.cells[index];
        let waits: f64 = match self.works[cell.work].pages.as_slice() {
            // No link is on the way there.
            [] => cell.home_wait_ns * (1.0 + self.node_queue[cell.home]),
            pages => pages.iter().map(|(node, _)| self.loaded(index, *node)).sum(),
        };
        self.cells[index].waiting_ns = waits * self.cells[index].held_back;
    }

    /// Load of each memory controller, 0..1.
    pub(crate) fn node_loads(&self) -> &[f64] {
        &self.node_load
    }

    /// Share of time in which bus locks block each server.
    pub(crate) fn blocked(&self) -> &[f64] {
        &self.server_blocked
    }
}

impl Work {
    /// The share of its pages on a node, where they do not lie wherever its threads run.
    fn share_at(&self, node: usize) -> f64 {
        self.pages.iter().find(|(n, _)| *n == node).map_or(0.0, |(_, share)| *share)
    }
}
