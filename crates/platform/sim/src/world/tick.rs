//! The hardware, solved anew from what ran since the last tick (S-4 to S-8).

use super::{Cell, World};
use crate::model::memory::{Demand, queueing, utilisation};

/// Bytes of a cache line.
const LINE: f64 = 64.0;
/// Speeds and occupancies that changed by less than this share in a tick count as unchanged.
const STILL: f64 = 0.005;
/// The most of all time that bus locks can block (S-6).
const MOST_BLOCKED: f64 = 0.95;
/// Rounds of solving nodes one after the other, where memory is remote.
const ROUNDS: usize = 3;

/// Buffers that live from tick to tick.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    inserts: Vec<f64>,
    most: Vec<f64>,
    demands: Vec<Demand>,
    offered: Vec<f64>,
    costs: Vec<f64>,
}

impl World {
    pub(super) fn tick(&mut self) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].current.is_some() {
                self.settle(cpu);
            }
        }
        let span_ns = (self.now - self.ticked) as f64;
        self.ticked = self.now;
        let mut moved = 0.0f64;
        if span_ns > 0.0 {
            self.count_traffic();
            moved = self.step_caches(span_ns / 1e9);
            self.step_locks(span_ns);
            moved = moved.max(self.step_sockets(span_ns));
            self.step_links();
        }
        moved = moved.max(self.solve(span_ns));
        self.cells.iter_mut().for_each(Cell::begin);
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].current.is_some() {
                self.refresh(cpu);
            }
        }
        self.balance();
        let longer = (2 * self.tick_len).min(self.tick_max);
        self.tick_len = if moved < STILL { longer } else { self.tick_min };
        self.tick_next = self.now + self.tick_len;
    }

    /// Costs of all programs as the hardware stands, without letting time pass.
    pub(super) fn hardware(&mut self) {
        self.solve(0.0);
        self.wake_hardware();
    }

    fn count_traffic(&mut self) {
        let domains = self.caches.len();
        for (index, cell) in self.cells.iter().enumerate() {
            if cell.instructions > 0.0 {
                let work = &self.works[index / domains];
                let group = &mut self.groups[work.group];
                let bytes = cell.instructions * cell.mpki / 1000.0 * LINE;
                group.traffic_bytes += bytes;
                self.traffic_bytes += bytes;
            }
        }
    }

    /// Lets occupancies follow insertions; answers the largest change.
    fn step_caches(&mut self, seconds: f64) -> f64 {
        let domains = self.caches.len();
        let mut moved = 0.0f64;
        for (domain, cache) in self.caches.iter_mut().enumerate() {
            self.scratch.inserts.clear();
            self.scratch.most.clear();
            for (index, work) in self.works.iter().enumerate() {
                let cell = &self.cells[index * domains + domain];
                let bytes = cell.instructions * cell.mpki / 1000.0 * LINE;
                self.scratch.inserts.push(bytes / seconds);
                self.scratch.most.push(work.program.phases[work.phase].working_set_bytes);
            }
            moved = moved.max(cache.step(seconds, &self.scratch.inserts, &self.scratch.most));
        }
        moved
    }

    /// The share of time in which bus locks block each server's memory (S-6).
    fn step_locks(&mut self, span_ns: f64) {
        let domains = self.caches.len();
        self.server_blocked.fill(0.0);
        for (index, cell) in self.cells.iter().enumerate() {
            let work = &self.works[index / domains];
            let locks = work.program.phases[work.phase].split_locks_per_s;
            if locks > 0.0 && cell.ran_ns > 0.0 {
                let socket = self.shape.node_socket[self.shape.domain_node[index % domains]];
                let rate_per_ns = locks / 1e9 * cell.ran_ns / span_ns;
                let hold_ns = self.machine.bus_lock_cycles / self.sockets[socket].ghz();
                self.server_blocked[self.shape.socket_server[socket]] += rate_per_ns * hold_ns;
            }
        }
        self.server_blocked.iter_mut().for_each(|b| *b = b.min(MOST_BLOCKED));
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
        moved
    }

    fn step_links(&mut self) {
        let domains = self.caches.len();
        let mut offered = std::mem::take(&mut self.scratch.offered);
        offered.clear();
        offered.resize(self.groups.len(), 0.0);
        for (index, cell) in self.cells.iter().enumerate() {
            let work = &self.works[index / domains];
            let egress = work.program.phases[work.phase].egress_per_ki;
            offered[work.group] += cell.instructions / 1000.0 * egress;
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

    /// Cycles and waits of every program on every domain, with memory controllers loaded by what
    /// ran; answers the largest change of a cost.
    fn solve(&mut self, span_ns: f64) -> f64 {
        self.cost_of_cores();
        let remote = self.works.iter().any(|w| !w.program.memory_nodes.is_empty());
        for _ in 0..if remote { ROUNDS } else { 1 } {
            if span_ns > 0.0 {
                for node in 0..self.node_load.len() {
                    self.load_node(node, span_ns);
                }
                self.load_links(span_ns);
            }
            self.cost_of_memory();
        }
        self.change_of_costs()
    }

    /// Cycles in the core, last-level hits included.
    fn cost_of_cores(&mut self) {
        let domains = self.caches.len();
        for (index, cell) in self.cells.iter_mut().enumerate() {
            let (work, domain) = (index / domains, index % domains);
            let of = &self.works[work];
            if !of.alive {
                continue;
            }
            let phase = &of.program.phases[of.phase];
            cell.mpki = phase.llc_misses.mpki(self.caches[domain].held(work));
            let hits = (phase.llc_apki - cell.mpki).max(0.0) / 1000.0;
            let socket = self.shape.node_socket[self.shape.domain_node[domain]];
            let open = 1.0 - self.server_blocked[self.shape.socket_server[socket]];
            let hit_cycles = self.machine.cache.hit_cycles / phase.overlap / open;
            cell.cycles = phase.base_cpi + hits * hit_cycles;
        }
    }

    /// Nanoseconds per instruction that a program on a domain waits for one node, idle and with
    /// distance, and the share of its misses that go there.
    fn wait_for(&self, index: usize, node: usize) -> (f64, f64) {
        let domains = self.caches.len();
        let (work, domain) = (&self.works[index / domains], index % domains);
        let home = self.shape.domain_node[domain];
        let nodes = &work.program.memory_nodes;
        let share = match nodes.len() {
            0 => f64::from(u8::from(node == home)),
            all if nodes.contains(&(node as u32)) => 1.0 / all as f64,
            _ => 0.0,
        };
        let phase = &work.program.phases[work.phase];
        let distance = self.shape.distance[home][node];
        let miss_ns = self.machine.memory.latency_ns * distance / phase.overlap;
        (share * self.cells[index].mpki / 1000.0 * miss_ns, share)
    }

    /// What queueing at the links adds to an access to a node.
    fn link_stretch(&self, home: usize, node: usize) -> f64 {
        let (from, to) = (self.shape.node_socket[home], self.shape.node_socket[node]);
        if from == to { 0.0 } else { queueing(self.link_load[from].max(self.link_load[to])) }
    }

    /// Nanoseconds per instruction that a program waits for a node as loaded, without what holds
    /// all its accesses back.
    fn loaded(&self, index: usize, node: usize) -> f64 {
        let home = self.shape.domain_node[index % self.caches.len()];
        let stretch = 1.0 + queueing(self.node_load[node]) + self.link_stretch(home, node);
        self.wait_for(index, node).0 * stretch
    }

    /// By how much all accesses of a program on a domain are held back: its throttle, bus locks.
    fn held_back(&self, index: usize) -> f64 {
        let domains = self.caches.len();
        let (work, domain) = (&self.works[index / domains], index % domains);
        let socket = self.shape.node_socket[self.shape.domain_node[domain]];
        let open = 1.0 - self.server_blocked[self.shape.socket_server[socket]];
        let percent = self.groups[work.group].percent[domain].max(1);
        100.0 / f64::from(percent) / open
    }

    fn load_node(&mut self, node: usize, span_ns: f64) {
        let mut demands = std::mem::take(&mut self.scratch.demands);
        demands.clear();
        let all = 0..self.cells.len();
        demands.extend(all.filter_map(|index| self.demand(index, node, span_ns)));
        let bandwidth = self.machine.memory.bytes_per_s;
        self.node_load[node] = utilisation(&demands, bandwidth, self.node_load[node]);
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
        let domains = self.caches.len();
        let nodes = &self.works[index / domains].program.memory_nodes;
        let others = nodes.iter().map(|n| *n as usize).filter(|n| *n != node);
        let elsewhere: f64 = others.map(|other| self.loaded(index, other)).sum();
        let links = waiting * self.link_stretch(self.shape.domain_node[index % domains], node);
        let held = self.held_back(index);
        let passes = cell.effective_ns / span_ns * 1e9;
        Some(Demand {
            scale: passes * cell.mpki / 1000.0 * LINE * share,
            fixed: cell.cycles * cell.ran_ns / cell.ghz_ns + (elsewhere + links) * held,
            waiting: waiting * held,
        })
    }

    /// Load of the links between sockets, from what really ran.
    fn load_links(&mut self, span_ns: f64) {
        let domains = self.caches.len();
        self.link_load.fill(0.0);
        for (index, cell) in self.cells.iter().enumerate() {
            let nodes = &self.works[index / domains].program.memory_nodes;
            if nodes.is_empty() || cell.instructions <= 0.0 {
                continue;
            }
            let home = self.shape.node_socket[self.shape.domain_node[index % domains]];
            let bytes = cell.instructions * cell.mpki / 1000.0 * LINE / nodes.len() as f64;
            let load = bytes / span_ns * 1e9 / self.machine.memory.link_bytes_per_s;
            for node in nodes {
                let socket = self.shape.node_socket[*node as usize];
                if socket != home {
                    self.link_load[home] += load;
                    self.link_load[socket] += load;
                }
            }
        }
    }

    /// Waits per instruction with all controllers as loaded, throttles and bus locks included.
    fn cost_of_memory(&mut self) {
        let domains = self.caches.len();
        for index in 0..self.cells.len() {
            let work = &self.works[index / domains];
            if !work.alive {
                continue;
            }
            let home = self.shape.domain_node[index % domains];
            let waits: f64 = match work.program.memory_nodes.as_slice() {
                [] => self.loaded(index, home),
                nodes => nodes.iter().map(|node| self.loaded(index, *node as usize)).sum(),
            };
            self.cells[index].waiting_ns = waits * self.held_back(index);
        }
    }

    fn change_of_costs(&mut self) -> f64 {
        self.scratch.costs.resize(self.cells.len(), 0.0);
        let mut moved = 0.0f64;
        for (cell, before) in self.cells.iter().zip(&mut self.scratch.costs) {
            let cost = cell.cycles + cell.waiting_ns;
            if cell.ran_ns > 0.0 {
                moved = moved.max((cost / *before - 1.0).abs());
            }
            *before = cost;
        }
        moved
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

impl Cell {
    /// A new tick begins.
    fn begin(&mut self) {
        self.ran_ns = 0.0;
        self.effective_ns = 0.0;
        self.ghz_ns = 0.0;
        self.instructions = 0.0;
    }
}
