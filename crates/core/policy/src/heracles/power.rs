//! The power loop: batch slows down before the services' CPUs lose their frequency (H-2).
//!
//! CPUs of one frequency domain (a cpufreq policy) change together, and the platform offers one
//! knob for each, under the name of its first CPU, and none for a domain that lies partly outside
//! the managed CPUs. Only a domain all of whose CPUs are batch's is slowed: one that a service
//! shares is left alone, as batch's CPUs in it are.

use super::HeraclesParams;
use crate::ledger::{Ledger, Reason};
use crate::parts::{Every, Scene, cpus_of, frequency_domains, sockets};
use quell_types::{CpuSet, Input, Kilohertz, Knob, KnobRange, Setting, Setup};
use std::collections::BTreeMap;

/// Top frequency of batch CPUs by socket; a socket that is not named is unlimited.
pub(super) struct Power {
    every: Every,
    ceilings_khz: BTreeMap<u32, u64>,
    /// Domains that were slowed, by their knobs' CPUs.
    limited: CpuSet,
}

impl Power {
    pub(super) fn new(params: &HeraclesParams) -> Self {
        Self {
            every: Every::new(params.power_period_s),
            ceilings_khz: BTreeMap::new(),
            limited: CpuSet::new(),
        }
    }

    /// Frees CPUs that no longer belong to batch, then makes a round where one is due.
    pub(super) fn step(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &HeraclesParams,
        (service, batch): (&CpuSet, &CpuSet),
    ) {
        let domains = frequency_domains(scene.setup);
        let slowable = |(knob, cpus): (&u32, &CpuSet)| cpus.is_subset(batch).then_some(*knob);
        let slowable: CpuSet = domains.iter().filter_map(slowable).collect();
        self.free(ledger, &slowable);
        if !self.every.due(scene.now()) {
            return;
        }
        for socket in sockets(scene.setup) {
            let of = |cpus: &CpuSet| cpus.intersection(&cpus_of(scene.setup, socket));
            self.round(ledger, scene, params, socket, (&of(service), &of(&slowable)));
        }
    }

    fn free(&mut self, ledger: &mut Ledger, slowable: &CpuSet) {
        let why = Reason::partition("free-frequency", Vec::new());
        for cpu in self.limited.difference(slowable).iter() {
            ledger.release(Knob::FrequencyMax { cpu }, &why);
        }
        self.limited = self.limited.intersection(slowable);
    }

    /// One socket; `knobs` are those of its domains that are batch's alone.
    fn round(
        &mut self,
        ledger: &mut Ledger,
        scene: &Scene<'_>,
        params: &HeraclesParams,
        socket: u32,
        (service, knobs): (&CpuSet, &CpuSet),
    ) {
        let (Some(tdp), Some(guaranteed)) = (params.tdp_w, params.guaranteed_khz) else { return };
        let Some((min, max)) = range(scene.setup, knobs) else { return };
        let power = scene.seen.host.power.as_ref().ok().and_then(|p| p.get(&socket));
        // Where no service runs nobody is slowed.
        let alone = service.is_empty().then_some(guaranteed);
        let frequency = alone.or_else(|| slowest(scene, service));
        let (Some(power), Some(frequency)) = (power, frequency) else { return };
        let limit = tdp * params.power_limit_frac;
        let now = self.ceilings_khz.get(&socket).copied().unwrap_or(max);
        let (rule, next) = if power.0 > limit && frequency < guaranteed {
            ("power-lower-batch", now.saturating_sub(params.frequency_step_khz).max(min))
        } else if power.0 <= limit && frequency >= guaranteed {
            ("power-raise-batch", (now + params.frequency_step_khz).min(max))
        } else {
            ("power-hold-batch", now)
        };
        self.ceilings_khz.insert(socket, next);
        let inputs = vec![
            Input::new("socket_power_w", power.0),
            Input::new("power_limit_w", limit),
            Input::new("service_frequency_khz", frequency as f64),
        ];
        let why = Reason::partition(rule, inputs);
        self.apply(ledger, scene.setup, knobs, next, max, &why);
    }

    fn apply(
        &mut self,
        ledger: &mut Ledger,
        setup: &Setup,
        knobs: &CpuSet,
        khz: u64,
        max: u64,
        why: &Reason,
    ) {
        for cpu in knobs.iter() {
            let knob = Knob::FrequencyMax { cpu };
            if khz < max || ledger.standing(&knob).is_some() {
                ledger.set(setup, knob, Setting::Frequency(Kilohertz(khz)), why);
                self.limited.insert(cpu);
            }
        }
    }
}

/// The frequency of the slowest of these CPUs; none if there is none or one does not tell.
fn slowest(scene: &Scene<'_>, cpus: &CpuSet) -> Option<u64> {
    let known = scene.seen.host.frequency_khz.as_ref().ok()?;
    let each: Option<Vec<u64>> = cpus.iter().map(|cpu| known.get(&cpu).copied()).collect();
    each?.into_iter().min()
}

/// What all of these knobs can be set to; none if there is none.
fn range(setup: &Setup, knobs: &CpuSet) -> Option<(u64, u64)> {
    let each = knobs.iter().filter_map(|cpu| match setup.knobs.get(&Knob::FrequencyMax { cpu }) {
        Some(KnobRange::Frequency { min, max }) => Some((min.0, max.0)),
        _ => None,
    });
    each.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))
}

/// Whether the loop has all it needs of parameters and knobs.
pub(super) fn missing(setup: &Setup, params: &HeraclesParams) -> Option<&'static str> {
    if params.tdp_w.is_none() || params.guaranteed_khz.is_none() {
        return Some("tdp_w or guaranteed_khz is not given: no power loop");
    }
    let settable = setup.knobs.keys().any(|knob| matches!(knob, Knob::FrequencyMax { .. }));
    (!settable).then_some("no CPU's top frequency can be set: no power loop")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{observe, setup};

    const KNOB_CPUS: [u32; 2] = [0, 4];

    /// Eight CPUs in two domains of four.
    fn clusters() -> Setup {
        let builder = setup(8).service("search", 15.0, 1000.0).batch("brain");
        let mut setup = builder.frequency(1_200_000, 3_000_000).build();
        setup.knobs.retain(|knob, _| match knob {
            Knob::FrequencyMax { cpu } => KNOB_CPUS.contains(cpu),
            _ => true,
        });
        setup
    }

    fn cpus(text: &str) -> CpuSet {
        text.parse().expect("a list of CPUs")
    }

    struct Loop {
        power: Power,
        ledger: Ledger,
        params: HeraclesParams,
        setup: Setup,
        now_s: f64,
    }

    impl Loop {
        fn new(setup: Setup) -> Self {
            let params = HeraclesParams {
                tdp_w: Some(100.0),
                guaranteed_khz: Some(2_300_000),
                ..HeraclesParams::default()
            };
            let (power, ledger) = (Power::new(&params), Ledger::new("heracles"));
            Self { power, ledger, params, setup, now_s: 0.0 }
        }

        /// A round in which the socket is hot and the service slow; the top frequencies after it.
        fn hot(&mut self, service: &str, batch: &str) -> Vec<(u32, u64)> {
            self.now_s += self.params.power_period_s;
            let seen = observe(&self.setup, self.now_s);
            let seen = seen.power(&[99.0]).frequencies(&[2_000_000; 8]).done();
            let scene = Scene::new(&self.setup, &seen);
            let (service, batch) = (cpus(service), cpus(batch));
            self.power.step(&mut self.ledger, &scene, &self.params, (&service, &batch));
            let top = |cpu| match self.ledger.standing(&Knob::FrequencyMax { cpu }) {
                Some(Setting::Frequency(khz)) => Some((cpu, khz.0)),
                _ => None,
            };
            (0..8).filter_map(top).collect()
        }
    }

    #[test]
    fn a_domain_of_four_cpus_that_is_batchs_alone_is_slowed_by_its_one_knob() {
        let mut hot = Loop::new(clusters());
        assert_eq!(hot.hot("4-7", "0-3"), [(0, 2_900_000)]);
        assert_eq!(hot.hot("4-7", "0-3"), [(0, 2_800_000)]);
    }

    #[test]
    fn a_domain_that_a_service_shares_is_left_alone_and_given_back_when_it_comes() {
        let mut hot = Loop::new(clusters());
        assert_eq!(hot.hot("1-7", "0"), []);
        assert_eq!(hot.hot("6-7", "0-5"), [(0, 2_900_000)], "4 and 5 share theirs with 6 and 7");
        assert_eq!(hot.hot("3-7", "0-2"), [], "the service came");
        let mut alone = Loop::new(clusters());
        assert_eq!(alone.hot("", "0-7"), [], "nobody to slow batch for");
    }

    #[test]
    fn cpus_belong_to_a_knob_of_their_core_or_else_to_the_one_below_on_their_socket() {
        let of = |setup: &Setup| -> Vec<(u32, String)> {
            frequency_domains(setup).iter().map(|(knob, cpus)| (*knob, cpus.to_string())).collect()
        };
        let named = |pairs: [(u32, &str); 2]| pairs.map(|(knob, cpus)| (knob, cpus.to_owned()));
        assert_eq!(of(&clusters()), named([(0, "0-3"), (4, "4-7")]));
        let mut part = clusters();
        part.managed_cpus = cpus("0-5");
        assert_eq!(of(&part), named([(0, "0-3"), (4, "4-5")]));
        // Sockets take turns in the numbers: CPU 0, 2, 4, 6 and 1, 3, 5, 7.
        let mut turns = clusters();
        turns.topology.cpus.iter_mut().for_each(|cpu| cpu.socket = cpu.id % 2);
        let knob = |cpu: u32| Knob::FrequencyMax { cpu };
        let range = turns.knobs.remove(&knob(4)).expect("it has one");
        turns.knobs.insert(knob(1), range);
        assert_eq!(of(&turns), named([(0, "0,2,4,6"), (1, "1,3,5,7")]));
        // Threads of a core are far apart: 0 and 4, 1 and 5 …
        let mut threads = clusters();
        threads.topology.cpus.iter_mut().for_each(|cpu| cpu.core = cpu.id % 4);
        let range = threads.knobs.remove(&knob(4)).expect("it has one");
        threads.knobs.extend((1..4).map(|cpu| (knob(cpu), range.clone())));
        let each: Vec<(u32, String)> = (0..4).map(|c| (c, format!("{c},{}", c + 4))).collect();
        assert_eq!(of(&threads), each);
        let none = setup(4).build();
        assert!(frequency_domains(&none).is_empty());
    }
}
