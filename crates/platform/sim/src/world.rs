//! The machine in motion: threads on CPUs, requests in queues, hardware looked at every tick.
//!
//! Between events every running thread makes progress at a constant speed. Events are: a request
//! arrives or is done, a time slice ends, a quota is spent or filled up, a phase ends, a tick. At a
//! tick the hardware is solved anew from what really ran since the last one.
//!
//! Times are nanoseconds; speeds are instructions per nanosecond.

mod agenda;
mod class;
mod company;
mod cost;
mod gauge;
mod group;
mod heat;
mod idle;
mod lock_limit;
mod pages;
mod pause;
mod phases;
mod place;
mod populate;
mod progress;
mod quota;
mod sched;
mod service;
mod span;
mod steal;
mod thread;
mod tick;

use agenda::Agenda;
use cost::Cell;
pub(crate) use group::{Group, Quota};
pub(crate) use heat::Warmth;
pub(crate) use service::Service;
use span::{span_of, whole_ns};
pub(crate) use thread::{State, Thread};

use crate::machine::{Machine, Shape};
use crate::mask::Mask;
use crate::model::cache::CacheState;
use crate::model::egress::LinkState;
use crate::model::power::SocketState;
use crate::random::Stream;
use crate::scene::Scene;
use crate::workload::Program;

/// A moment that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// What ran on a socket since the last tick.
#[derive(Clone, Copy, Debug, Default)]
struct SocketRan {
    /// Power units times nanoseconds.
    units_ns: f64,
    /// Run time of all its CPUs in nanoseconds.
    busy_ns: f64,
}

/// One CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuState {
    pub(crate) current: Option<usize>,
    pub(crate) queue: Vec<usize>,
    /// Since when progress was not accounted; in the future while its core wakes.
    since: u64,
    /// When it last fell idle.
    idle_from: u64,
    /// How long its spells of idleness were of late, in nanoseconds.
    usual_idle_ns: f64,
    /// Running time for which what runs makes no progress, since its core was cold.
    cold_ns: f64,
    /// Whether it polls in place of sleeping.
    polls: bool,
    speed: f64,
    /// Speed against a fast core of its own.
    factor: f64,
    /// The frequency of `ghz` and `relative_power`, which are looked up far more often.
    khz: u64,
    ghz: f64,
    relative_power: f64,
    /// Power units of what runs.
    units: f64,
    /// Bus locks per nanosecond of what runs, and all that it ever made.
    locks_per_ns: f64,
    pub(crate) bus_locks: f64,
    /// Time in which something ran.
    pub(crate) busy_ns: u64,
    slice_end: u64,
    least_vruntime: f64,
    /// What is kept of it for those who are not real-time.
    kept: class::Kept,
    /// The highest frequency that was set, in kHz.
    pub(crate) cap_khz: u64,
    /// The share of time in which its clock may run.
    pub(crate) duty: f64,
    /// Whether the hypervisor runs somebody else on it.
    stolen: bool,
    /// Since when it was not put down behind whom its queue stands.
    stood_since: u64,
}

/// A program at work in a group.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) group: usize,
    pub(crate) program: Program,
    /// By phase.
    access: Vec<cost::AccessCost>,
    phase: usize,
    pub(crate) alive: bool,
    pub(crate) threads: Vec<usize>,
    /// The service whose workers these are.
    service: Option<usize>,
    /// Threads whose work is not done yet.
    pub(crate) unfinished: usize,
    /// Where its memory lies: (node, share); empty = on the node on which each thread runs.
    pages: Vec<(usize, f64)>,
    /// Threads that wait at a barrier.
    meeting: usize,
}

/// Everything that moves.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) machine: Machine,
    pub(crate) shape: Shape,
    pub(crate) now: u64,
    pub(crate) groups: Vec<Group>,
    pub(crate) works: Vec<Work>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) cpus: Vec<CpuState>,
    heat: heat::Heat,
    pub(crate) services: Vec<Service>,
    pub(crate) links: Vec<LinkState>,
    pub(crate) sockets: Vec<SocketState>,
    pub(crate) caches: Vec<CacheState>,
    /// Bytes moved in all.
    pub(crate) traffic_bytes: f64,
    pub(crate) busy_ns: u64,
    /// By work and domain.
    cells: Vec<Cell>,
    /// Cells in which something ran since the last tick.
    active: Vec<usize>,
    /// Counts the states of the hardware.
    epoch: u64,
    node_load: Vec<f64>,
    /// What queueing at each node adds to an access.
    node_queue: Vec<f64>,
    link_load: Vec<f64>,
    server_blocked: Vec<f64>,
    /// The share of time in which bus locks leave memory open, by domain.
    open: Vec<f64>,
    /// The share of the locks that programs would make for which a server's bus has time.
    lock_room: Vec<f64>,
    lock_limit: Option<lock_limit::LockLimit>,
    pub(crate) gauge: gauge::Gauge,
    socket_ran: Vec<SocketRan>,
    cpu_next: Agenda,
    group_next: Agenda,
    phase_next: Agenda,
    arrival_next: Agenda,
    /// When sleeping threads wake, by thread.
    sleep_next: Agenda,
    /// When the hypervisor takes or gives back a CPU.
    steal_next: Agenda,
    tick_next: u64,
    ticked: u64,
    tick_len: u64,
    tick_min: u64,
    tick_max: u64,
    balanced: u64,
    balances: u64,
    slice_ns: u64,
    free: Mask,
    /// CPUs on which something runs.
    running: Mask,
    idle_running: Mask,
    /// CPUs for which somebody waits.
    crowded: Mask,
    queued: usize,
    /// Which of the other CPUs was last asked who runs there, counted from one's own.
    asked: usize,
    pub(crate) waiting_groups: u32,
    waiting_since: u64,
    /// Nanoseconds in which some thread waited for a CPU.
    pub(crate) waited_ns: u64,
    /// Nanoseconds for which CPUs that had something to run were taken away: told to the kernel, and hidden.
    pub(crate) stolen_ns: u64,
    pub(crate) hidden_ns: u64,
    /// Pages on their way.
    moves: Vec<pages::Move>,
    steals: Stream,
    wakes: Stream,
    random: Stream,
    /// Works that ended since they were last asked for.
    pub(crate) ended: Vec<usize>,
    scratch: tick::Scratch,
}

impl World {
    pub(crate) fn new(scene: &Scene) -> Self {
        let (machine, shape) = (scene.machine.clone(), Shape::new(&scene.machine));
        let (cpus, sockets) = (machine.cpus(), machine.sockets());
        let tick = scene.tick.as_nanos() as u64;
        let top = machine.clock.turbo.first().map_or(machine.clock.base_khz, |t| t.1);
        let cache = CacheState::new(machine.cache.bytes as f64, machine.cache.ways);
        let senders = scene.services.len() + scene.batch.len();
        let link = |l: &quell_types::LinkSpec| LinkState::new(l.capacity.0, senders, scene.flow);
        let mut world = Self {
            now: 0,
            groups: Vec::new(),
            works: Vec::new(),
            threads: Vec::new(),
            cpus: vec![CpuState { cap_khz: top, duty: 1.0, ..CpuState::default() }; cpus],
            heat: heat::Heat::new(cpus),
            services: Vec::new(),
            links: scene.links.iter().map(link).collect(),
            sockets: vec![SocketState::new(&machine.clock, &machine.power); sockets],
            caches: vec![cache; machine.domains()],
            traffic_bytes: 0.0,
            busy_ns: 0,
            cells: Vec::new(),
            active: Vec::new(),
            epoch: 1,
            node_load: vec![0.0; machine.nodes()],
            node_queue: vec![0.0; machine.nodes()],
            link_load: vec![0.0; sockets],
            server_blocked: vec![0.0; machine.servers as usize],
            open: vec![1.0; machine.domains()],
            lock_room: vec![1.0; machine.servers as usize],
            lock_limit: machine.bus_lock_limit.map(lock_limit::LockLimit::new),
            gauge: gauge::Gauge::default(),
            socket_ran: vec![SocketRan::default(); sockets],
            cpu_next: Agenda::new(cpus),
            group_next: Agenda::new(0),
            phase_next: Agenda::new(0),
            arrival_next: Agenda::new(0),
            sleep_next: Agenda::new(0),
            steal_next: Agenda::new(cpus),
            tick_next: tick,
            ticked: 0,
            tick_len: tick,
            tick_min: tick,
            tick_max: if scene.stretch { tick::STRETCH * tick } else { tick },
            balanced: 0,
            balances: 0,
            slice_ns: sched::slice_ns(cpus),
            free: (0..cpus).collect(),
            running: Mask::default(),
            idle_running: Mask::default(),
            crowded: Mask::default(),
            queued: 0,
            asked: 0,
            waiting_groups: 0,
            waiting_since: 0,
            waited_ns: 0,
            stolen_ns: 0,
            hidden_ns: 0,
            moves: Vec::new(),
            steals: Stream::new(scene.seed, 2),
            wakes: Stream::new(scene.seed, 5),
            random: Stream::new(scene.seed, 0),
            ended: Vec::new(),
            scratch: tick::Scratch::default(),
            machine,
            shape,
        };
        world.populate(scene);
        world.watch_services();
        (0..cpus).for_each(|cpu| world.draw_steal(cpu));
        world
    }

    fn begin_phase(&mut self, work: usize) {
        let phase = &self.works[work].program.phases[self.works[work].phase];
        if phase.most_s.is_finite() {
            let seconds = self.random.between(phase.least_s, phase.most_s);
            self.phase_next.set(work, self.now + (seconds * 1e9) as u64);
        }
    }

    fn next_phase(&mut self, work: usize) {
        self.phase_next.set(work, NEVER);
        let of = &mut self.works[work];
        of.phase = (of.phase + 1) % of.program.phases.len();
        self.begin_phase(work);
        self.cut_laps(work);
        self.wake_hardware();
    }

    /// Looks at the hardware within the shortest tick: something has changed.
    pub(crate) fn wake_hardware(&mut self) {
        self.tick_len = self.tick_min;
        self.tick_next = self.tick_next.min(self.now + self.tick_min);
    }

    /// Lets time pass.
    pub(crate) fn run_until(&mut self, end: u64) {
        loop {
            let runs = self.cpu_next.next().min(self.group_next.next());
            let comes = self.phase_next.next().min(self.arrival_next.next());
            let outside = self.sleep_next.next().min(self.steal_next.next());
            let next = runs.min(comes).min(outside).min(self.tick_next);
            if next > end {
                self.now = end;
                return;
            }
            self.now = next;
            self.handle();
        }
    }

    /// Everything that is due now, once.
    fn handle(&mut self) {
        let (now, mut from) = (self.now, 0);
        while let Some(cpu) = self.steal_next.due(now, from) {
            from = cpu + 1;
            self.steal_or_give_back(cpu);
        }
        from = 0;
        while let Some(thread) = self.sleep_next.due(now, from) {
            from = thread + 1;
            self.wake_sleeper(thread);
        }
        from = 0;
        while let Some(cpu) = self.cpu_next.due(now, from) {
            from = cpu + 1;
            self.cpu_event(cpu);
        }
        from = 0;
        while let Some(group) = self.group_next.due(now, from) {
            from = group + 1;
            self.quota_event(group);
        }
        from = 0;
        while let Some(work) = self.phase_next.due(now, from) {
            from = work + 1;
            self.next_phase(work);
        }
        from = 0;
        while let Some(service) = self.arrival_next.due(now, from) {
            from = service + 1;
            self.arrive(service);
        }
        if self.tick_next <= now {
            self.tick();
        }
    }

    /// Accounts everything up to now, so that counters can be read.
    pub(crate) fn settle_all(&mut self) {
        let running = self.running;
        running.iter().for_each(|cpu| self.settle(cpu));
        let crowded = self.crowded;
        crowded.iter().for_each(|cpu| self.settle_queue(cpu));
        if self.waiting_groups > 0 {
            self.waited_ns += self.now - self.waiting_since;
        }
        self.waiting_since = self.now;
        for group in &mut self.groups {
            group.settle_waiting(self.now);
        }
    }
}
