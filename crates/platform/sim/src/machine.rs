//! What the simulated server is made of (S-2). Numbers come with their source in
//! `docs/experiments/simulator.md`.

mod presets;
mod shape;

pub use presets::{PRESETS, preset};
pub(crate) use shape::{CpuPlace, Shape};

use crate::mask::MAX_CPUS;
use thiserror::Error;

/// A machine that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("machine {machine}: {why}")]
pub struct MachineError {
    /// Its name.
    pub machine: String,
    /// What is wrong.
    pub why: String,
}

/// The last-level cache of one domain.
#[derive(Clone, Debug, PartialEq)]
pub struct LastLevelCache {
    /// Capacity of one domain in bytes.
    pub bytes: u64,
    /// Associativity.
    pub ways: u32,
    /// Cost of a hit in core cycles, as far as it is not hidden.
    pub hit_cycles: f64,
    /// Private cache of a core in bytes (level 2).
    pub l2_bytes: u64,
    /// Data cache of a core in bytes (level 1).
    pub l1_bytes: u64,
    /// Share of what private caches hold that it has too, 0..1: all of it where it is inclusive; the
    /// rest is in memory alone.
    pub inclusion: f64,
}

/// Cache allocation: CAT, or what is like it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Fewest bits of a mask.
    pub min_bits: u32,
    /// Classes of service.
    pub classes: u32,
    /// Whether masks may have holes (MPAM portions).
    pub sparse: bool,
}

/// Memory bandwidth throttling (MBA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Smallest percentage.
    pub min_percent: u32,
    /// Step in percent.
    pub step_percent: u32,
}

/// Memory of one NUMA node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Capacity of a node in bytes.
    pub bytes: u64,
    /// Streaming bandwidth of a node in bytes/s.
    pub bytes_per_s: f64,
    /// Latency of an idle local access in nanoseconds.
    pub latency_ns: f64,
    /// Bandwidth of a socket's links to others in bytes/s.
    pub link_bytes_per_s: f64,
}

/// NUMA distances by how far two nodes are apart; 10 is local.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distances {
    /// Nodes of one socket.
    pub same_socket: u32,
    /// Sockets of one server.
    pub same_server: u32,
    /// Servers one hop apart.
    pub one_hop: u32,
    /// Servers further apart.
    pub two_hops: u32,
    /// Columns of the torus in which servers stand; rows follow.
    pub torus_columns: u32,
}

/// Clock frequencies.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// Lowest in kHz.
    pub min_khz: u64,
    /// Nominal in kHz.
    pub base_khz: u64,
    /// Step of cpufreq in kHz.
    pub step_khz: u64,
    /// Highest in kHz by active cores of a socket: (up to this many, kHz), rising in cores.
    pub turbo: Vec<(u32, u64)>,
    /// Whether each CPU's top frequency can be set.
    pub controllable: bool,
}

/// Power of one socket (S-8).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// Without work, in watts.
    pub idle_w: f64,
    /// The limit that the socket keeps, in watts.
    pub limit_w: f64,
    /// A core at base frequency and activity 1, in watts.
    pub core_w: f64,
    /// Temperature of the air in °C.
    pub ambient_c: f64,
    /// Temperature rise in °C per watt.
    pub c_per_w: f64,
    /// What a core is warmer by than the others for each watt that it draws more, in °C.
    pub core_c_per_w: f64,
    /// Time constant of the temperature in seconds.
    pub time_constant_s: f64,
    /// Above this temperature the socket slows down, in °C.
    pub throttle_c: f64,
}

/// A state in which a core that has nothing to do saves power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdleState {
    /// How long it must be expected to have nothing to do to be put into this state, in seconds.
    pub after_s: f64,
    /// How long it takes from there until it runs again, in seconds.
    pub exit_s: f64,
    /// Running time without progress after that, since caches and predictors were lost, in seconds.
    pub cold_s: f64,
    /// Whether its private cache is flushed, which whoever runs first then fills again, at what that
    /// costs as things stand.
    pub flushed: bool,
    /// Ways out that take far longer, in virtual machines.
    pub late: Late,
}

/// Some of a virtual machine's halted CPUs that are not run again at once by their host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Late {
    /// Share of all ways out, 0..1.
    pub frac: f64,
    /// How much longer these take on average (exponential), in seconds.
    pub mean_s: f64,
}

/// A whole machine: every socket, node and core alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// By which it is called.
    pub name: String,
    /// The processor's name.
    pub model: String,
    /// Servers joined into one image; 1 on ordinary machines.
    pub servers: u32,
    /// Sockets of a server.
    pub sockets_per_server: u32,
    /// NUMA nodes of a socket.
    pub nodes_per_socket: u32,
    /// LLC domains of a node.
    pub domains_per_node: u32,
    /// Cores of an LLC domain.
    pub cores_per_domain: u32,
    /// Of these, slow ones (B-E9); the last in the domain.
    pub small_cores_per_domain: u32,
    /// Speed of a slow core as a share of a fast one's.
    pub small_core_speed: f64,
    /// Hardware threads of a core.
    pub threads_per_core: u32,
    /// Speed of a thread whose sibling is busy, as a share of that alone (S-7).
    pub smt_speed: f64,
    /// Idle states of a core, from the first to the deepest; none = a core runs at once again, as if it
    /// had never slept.
    pub idle: Vec<IdleState>,
    /// Its last-level cache.
    pub cache: LastLevelCache,
    /// Cache allocation, if there.
    pub allocation: Option<Allocation>,
    /// Bandwidth throttling, if there.
    pub throttle: Option<Throttle>,
    /// Whether occupancy and bandwidth can be read (CMT, MBM).
    pub monitoring: bool,
    /// Its memory.
    pub memory: Memory,
    /// NUMA distances.
    pub distances: Distances,
    /// Clock frequencies.
    pub clock: Clock,
    /// Power of a socket.
    pub power: Power,
    /// Whether power and frequency can be read.
    pub power_sensor: bool,
    /// Whether bus locks can be counted, by CPU and by group.
    pub lock_counter: bool,
    /// Whether the kernel's gauge of bus locks can be had, which needs no counter.
    pub lock_gauge: bool,
    /// How long a bus lock holds all memory traffic of a server, in cycles (S-6).
    pub bus_lock_cycles: f64,
    /// Bus locks that the kernel lets all programs make in a second, 1 to 1000, if it limits them
    /// (`split_lock_detect=ratelimit:N`, A-18).
    pub bus_lock_limit: Option<u32>,
    /// The hypervisor that it runs under.
    pub hypervisor: Option<String>,
    /// CPU time that the hypervisor gives to others.
    pub steal: Steal,
    /// Into how many parts a core's time can be cut by clock modulation, if it can.
    pub duty_parts: Option<u32>,
}

/// CPU time that a hypervisor takes from each CPU, now and then.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Steal {
    /// Share of all time.
    pub frac: f64,
    /// How long a CPU is gone at a time, on average (exponential), in seconds.
    pub span_s: f64,
    /// Whether the kernel is not told: to it such a CPU is busy, and only its timer is late.
    pub hidden: bool,
}

impl Machine {
    /// Number of CPUs (hardware threads).
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cores() * self.threads_per_core as usize
    }

    /// Number of cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.domains() * self.cores_per_domain as usize
    }

    /// Number of LLC domains.
    #[must_use]
    pub fn domains(&self) -> usize {
        self.nodes() * self.domains_per_node as usize
    }

    /// Number of NUMA nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.sockets() * self.nodes_per_socket as usize
    }

    /// Number of sockets.
    #[must_use]
    pub fn sockets(&self) -> usize {
        (self.servers * self.sockets_per_server) as usize
    }

    /// Looks for what cannot be.
    ///
    /// # Errors
    /// The first thing found.
    pub fn validate(&self) -> Result<(), MachineError> {
        let wrong = |why: &str| MachineError { machine: self.name.clone(), why: why.into() };
        let checks = [
            (self.cpus() > 0, "it has no CPU"),
            (self.cpus() <= MAX_CPUS, "it has more than 320 CPUs"),
            ((1..=2).contains(&self.threads_per_core), "a core has 1 or 2 threads"),
            (self.small_cores_per_domain <= self.cores_per_domain, "more slow cores than cores"),
            (self.small_core_speed > 0.0, "slow cores stand still"),
            (self.smt_speed > 0.0 && self.smt_speed <= 1.0, "smt_speed is not in 0..1"),
            (
                idle_is_sound(&self.idle),
                "idle states must follow in time, with times of at least 0",
            ),
            (self.cache.bytes > 0, "it has no last-level cache"),
            ((0.0..=1.0).contains(&self.cache.inclusion), "the cache's inclusion is not in 0..1"),
            ((1..=63).contains(&self.cache.ways), "ways of the cache are not 1..63"),
            (self.memory.bytes_per_s > 0.0, "memory moves nothing"),
            (self.memory.latency_ns > 0.0, "memory latency is not positive"),
            (self.memory.link_bytes_per_s > 0.0, "links move nothing"),
            (self.clock.min_khz > 0 && self.clock.step_khz > 0, "frequencies are not positive"),
            (self.clock.min_khz <= self.clock.base_khz, "base frequency is below the lowest"),
            (turbo_is_sound(&self.clock), "the turbo table must rise in cores, fall in kHz"),
            (self.power.limit_w > self.power.idle_w, "the power limit is below idle power"),
            (self.power.time_constant_s > 0.0, "the thermal time constant is not positive"),
            (
                (0.0..1.0).contains(&self.steal.frac),
                "the hypervisor takes all or less than nothing",
            ),
            (self.steal.frac == 0.0 || self.steal.span_s > 1e-6, "steals take no time"),
            (self.duty_parts.is_none_or(|p| p == 8 || p == 16), "duty cycles have 8 or 16 parts"),
            (
                self.bus_lock_limit.is_none_or(|most| (1..=1000).contains(&most)),
                "the kernel limits bus locks to 1 to 1000 a second",
            ),
            (self.distances.torus_columns > 0, "the torus has no column"),
        ];
        checks.iter().find(|(well, _)| !well).map_or(Ok(()), |(_, why)| Err(wrong(why)))
    }
}

fn idle_is_sound(states: &[IdleState]) -> bool {
    let time = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
    let sound = |state: &IdleState| {
        let late = (0.0..=1.0).contains(&state.late.frac) && time(state.late.mean_s);
        late && [state.after_s, state.exit_s, state.cold_s].into_iter().all(time)
    };
    states.iter().all(sound) && states.windows(2).all(|w| w[0].after_s < w[1].after_s)
}

fn turbo_is_sound(clock: &Clock) -> bool {
    let ordered = clock.turbo.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 >= w[1].1);
    ordered && clock.turbo.iter().all(|(_, khz)| *khz >= clock.base_khz)
}
