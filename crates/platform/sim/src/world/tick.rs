//! The hardware, solved anew from what ran since the last tick (S-4 to S-8).

use super::{Cell, Work, World};
use crate::model::memory::{Demand, queueing, utilisation};
use crate::workload::Phase;

/// Bytes of a cache line.
const LINE: f64 = 64.0;
/// Ticks grow while no cost of a running program and no occupancy changes by more than this share
/// in one, so costs within a tick are right within half of it, or so.
const STILL: f64 = 0.01;
/// Ticks shrink where something changes by more than this share in one.
const MOVING: f64 = 0.02;
/// The most of all time that bus locks can block (S-6).
const MOST_BLOCKED: f64 = 0.95;
/// Rounds of solving nodes one after the other, where memory is remote.
const ROUNDS: usize = 3;

/// Ticks grow up to this many times while nothing changes.
pub(super) const STRETCH: u64 = 32;

/// Buffers that live from tick to tick.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    inserts: Vec<f64>,
    most: Vec<f64>,
    demands: Vec<Demand>,
    offered: Vec<f64>,
}

impl World {
    pub(super) fn tick(&mut self) {
        let running = self.running;
        running.iter().for_each(|cpu| self.settle(cpu));
        let span_ns = (self.now - self.ticked) as f64;
        self.ticked = self.now;
        let mut moved = 0.0f64;
        if span_ns > 0.0 {
            self.count_traffic();
            moved = self.step_caches(span_ns / 1e9);
            self.step_locks(span_ns);
            moved = moved.max(self.step_sockets(span_ns));
            self.step_links();
            self.step_pages(span_ns);
        }
        self.epoch += 1;
        moved = moved.max(self.solve(span_ns));
        while let Some(index) = self.active.pop() {
            self.cells[index].begin();
        }
        running.iter().for_each(|cpu| self.refresh(cpu));
        self.balance();
        self.tick_len = match moved {
            still if still < STILL => (2 * self.tick_len).min(self.tick_max),
            moving if moving < MOVING => self.tick_len,
            _ => (self.tick_len / 2).max(self.tick_min),
        };
        self.tick_next = self.now + self.tick_len;
    }

    /// The hardware is another: all costs are worked out anew when they are needed.
    pub(super) fn hardware(&mut self) {
        self.epoch += 1;
        self.wake_hardware();
    }

    /// The phase in which a cell's program is.
    fn phase_of(&self, cell: &Cell) -> &Phase {
        let work = &self.works[cell.work];
        &work.program.phases[work.phase]
    }

    fn count_traffic(&mut self) {
        for index in &self.active {
            let lines = self.phase_of(&self.cells[*index]).lines_per_miss();
            let cell = &mut self.cells[*index];
            cell.bytes = cell.instructions * cell.mpki / 1000.0 * LINE;
            self.groups[self.works[cell.work].group].traffic_bytes += cell.bytes * lines;
            self.traffic_bytes += cell.bytes * lines;
        }
    }

    /// Lets occupancies follow insertions; answers the largest change. Where nobody inserts,
    /// nothing changes.
    fn step_caches(&mut self, seconds: f64) -> f64 {
        let mut moved = 0.0f64;
        let mut inserts = std::mem::take(&mut self.scratch.inserts);
        let mut most = std::mem::take(&mut self.scratch.most);
        // Only of what ran is the working set looked at.
        most.resize(self.works.len(), 0.0);
        for index in &self.active {
            let cell = &self.cells[*index];
            most[cell.work] = self.phase_of(cell).working_set_bytes;
        }
        for (domain, cache) in self.caches.iter_mut().enumerate() {
            inserts.clear();
            inserts.resize(self.works.len(), 0.0);
            let here = self.active.iter().map(|index| &self.cells[*index]);
            let mut any = false;
            for cell in here.filter(|cell| cell.domain == domain) {
                inserts[cell.work] = cell.bytes / seconds;
                any = true;
            }
            if any {
                moved = moved.max(cache.step(seconds, &inserts, &most));
            }
        }
        (self.scratch.inserts, self.scratch.most) = (inserts, most);
        moved
    }

    fn socket_of(&self, domain: usize) -> usize {
        self.shape.node_socket[self.shape.domain_node[domain]]
    }

    /// The share of time in which bus locks block each server's memory (S-6). A program makes them
    /// as fast as it makes progress, together no more than the bus has time for.
    fn step_locks(&mut self, span_ns: f64) {
        self.server_blocked.fill(0.0);
        for index in 0..self.active.len() {
            let cell = &self.cells[self.active[index]];
            let locks = self.phase_of(cell).split_locks_per_s;
            if locks > 0.0 {
                let socket = self.socket_of(cell.domain);
                let rate_per_ns = locks / 1e9 * cell.effective_ns / span_ns;
                let hold_ns = self.machine.bus_lock_cycles / self.sockets[socket].ghz();
                self.server_blocked[self.shape.socket_server[socket]] += rate_per_ns * hold_ns;
            }
        }
        for (blocked, room) in self.server_blocked.iter_mut().zip(&mut self.lock_room) {
            *room = if *blocked > MOST_BLOCKED { MOST_BLOCKED / *blocked } else { 1.0 };
            *blocked = blocked.min(MOST_BLOCKED);
        }
    }

    /// Power, frequency and temperature; answers 1 if a frequency changed.
    fn step_sockets(&mut self, span_ns: f64) -> f64 {
        let mut moved = 0.0;
        let threads = f64::from(self.machine.threads_per_core);
        let cores = (self.machine.cores() / self.sockets.len()) as f64;
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            let units = std::mem::take(&mut self.socket_units[index]) / span_ns;
            let busy = std::mem::take(&mut self.socket_busy[index]) / span_ns;
            // Threads spread over cores before they share them.
            let active = if threads > 1.0 { busy.min(cores) } else { busy };
            if socket.step(span_ns / 1e9, units, active) {
                moved = 1.0;
            }
        }
        if self.machine.power_sensor {
            self.warm_cores(span_ns);
        }
        moved
    }

    fn step_links(&mut self) {
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

    /// Cycles and waits of what ran, with memory controllers loaded by it; answers the largest
    /// change of a cost.
    fn solve(&mut self, span_ns: f64) -> f64 {
        let active = std::mem::take(&mut self.active);
        for index in &active {
            self.cost_of_core(*index);
        }
        let remote = active.iter().any(|i| !self.works[self.cells[*i].work].pages.is_empty());
        for _ in 0..if remote { ROUNDS } else { 1 } {
            if span_ns > 0.0 {
                for node in 0..self.node_load.len() {
                    self.load_node(&active, node, span_ns);
                }
                self.load_links(&active, span_ns);
            }
            for index in &active {
                self.cost_of_memory(*index);
            }
        }
        let mut moved = 0.0f64;
        for index in &active {
            let cell = &mut self.cells[*index];
            let cost = cell.cycles + cell.waiting_ns;
            moved = moved.max((cost / cell.before - 1.0).abs());
            (cell.before, cell.priced) = (cost, self.epoch);
        }
        self.active = active;
        moved
    }

    /// Costs of a program where it has not run of late, with the hardware as it stands.
    pub(super) fn price(&mut self, index: usize) {
        self.cost_of_core(index);
        self.cost_of_memory(index);
        let cell = &mut self.cells[index];
        (cell.before, cell.priced) = (cell.cycles + cell.waiting_ns, self.epoch);
    }

    /// Cycles in the core, last-level hits included.
    fn cost_of_core(&mut self, index: usize) {
        let cell = &self.cells[index];
        let phase = self.phase_of(cell);
        let mpki = phase.llc_misses.mpki(self.caches[cell.domain].held(cell.work));
        let hits = (phase.llc_apki - mpki).max(0.0) / 1000.0;
        let open = self.open(cell.domain);
        let hit_cycles = self.machine.cache.hit_cycles / phase.overlap / open;
        let cycles = phase.base_cpi + phase.private_cycles / open + hits * hit_cycles;
        let home = self.shape.domain_node[cell.domain];
        let distance = self.shape.distance[home][home];
        let miss_ns = self.machine.memory.latency_ns * distance / phase.overlap;
        let cell = &mut self.cells[index];
        (cell.mpki, cell.cycles, cell.home_wait_ns) = (mpki, cycles, mpki / 1000.0 * miss_ns);
    }

    /// The share of time in which bus locks leave memory open to a domain.
    fn open(&self, domain: usize) -> f64 {
        1.0 - self.server_blocked[self.shape.socket_server[self.socket_of(domain)]]
    }

    /// Nanoseconds per instruction that a program on a domain waits for one node, idle and with
    /// distance, and the share of its misses that go there.
    fn wait_for(&self, index: usize, node: usize) -> (f64, f64) {
        let cell = &self.cells[index];
        let home = self.shape.domain_node[cell.domain];
        let work = &self.works[cell.work];
        if work.pages.is_empty() {
            return if node == home { (cell.home_wait_ns, 1.0) } else { (0.0, 0.0) };
        }
        let share = work.share_at(node);
        if share == 0.0 {
            return (0.0, 0.0);
        }
        let distance = self.shape.distance[home][node];
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
        let home = self.shape.domain_node[self.cells[index].domain];
        let stretch = 1.0 + self.node_queue[node] + self.link_stretch(home, node);
        self.wait_for(index, node).0 * stretch
    }

    /// By how much all accesses of a program on a domain are held back: its throttle, bus locks.
    fn held_back(&self, index: usize) -> f64 {
        let cell = &self.cells[index];
        let open = self.open(cell.domain);
        let percent = self.groups[self.works[cell.work].group].percent[cell.domain].max(1);
        // Nearly always, and divisions are dear here.
        if percent == 100 && open == 1.0 { 1.0 } else { 100.0 / f64::from(percent) / open }
    }

    fn load_node(&mut self, active: &[usize], node: usize, span_ns: f64) {
        let mut demands = std::mem::take(&mut self.scratch.demands);
        demands.clear();
        demands.extend(active.iter().filter_map(|index| self.demand(*index, node, span_ns)));
        demands.extend(self.moves.iter().filter_map(|m| self.demand_of_move(m, node)));
        let bandwidth = self.machine.memory.bytes_per_s;
        self.node_load[node] = utilisation(&demands, bandwidth, self.node_load[node]);
        self.node_queue[node] = queueing(self.node_load[node]);
        self.scratch.demands = demands;
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
        let home = self.shape.domain_node[cell.domain];
        let others = self.works[cell.work].pages.iter().map(|(n, _)| *n).filter(|n| *n != node);
        let elsewhere: f64 = others.map(|other| self.loaded(index, other)).sum();
        let links = waiting * self.link_stretch(home, node);
        let held = self.held_back(index);
        let passes = cell.effective_ns / span_ns * 1e9;
        let lines = self.phase_of(cell).lines_per_miss();
        Some(Demand {
            scale: passes * cell.mpki / 1000.0 * LINE * share * lines,
            fixed: cell.cycles * cell.ran_ns / cell.ghz_ns + (elsewhere + links) * held,
            waiting: waiting * held,
        })
    }

    /// Load of the links between sockets, from what really ran.
    fn load_links(&mut self, active: &[usize], span_ns: f64) {
        self.link_load.fill(0.0);
        for index in active {
            let cell = &self.cells[*index];
            if self.works[cell.work].pages.is_empty() {
                continue;
            }
            let home = self.socket_of(cell.domain);
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
        let home = self.shape.domain_node[cell.domain];
        let waits: f64 = match self.works[cell.work].pages.as_slice() {
            [] => self.loaded(index, home),
            pages => pages.iter().map(|(node, _)| self.loaded(index, *node)).sum(),
        };
        self.cells[index].waiting_ns = waits * self.held_back(index);
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

impl Cell {
    /// A new tick begins.
    fn begin(&mut self) {
        self.ran_ns = 0.0;
        self.effective_ns = 0.0;
        self.ghz_ns = 0.0;
        self.instructions = 0.0;
    }
}
