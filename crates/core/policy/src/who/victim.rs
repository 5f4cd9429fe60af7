//! What is known about one service's suffering.

mod choice;
mod company;
mod crew;
mod elsewhere;
mod settling;
mod toll;
mod witness;

use super::batch::{demands, held_back};
use elsewhere::without_idle;
use quell_model::blame::{
    Company, CompanyParams, Cpi2, Cpi2Params, Cpi2Sample, Crew, Demand, Evidence, Felt, Finding,
    FindingParams, Gauge, PulseParams, Pulses, Rival, Settling, Signal, Slight, Suffering, Told,
    Toll, VictimSigns, Waiting, WaitingParams, When, judge, parts, rivals, undecided,
};
use quell_types::{ExperimentTrace, Observation, ServiceObservation, Tenant, Time, Waits};
use std::collections::{BTreeMap, BTreeSet};
use witness::Witness;

/// A service that uses, or wants, so much CPU is asked for something.
const WORKING_CPUS: f64 = 0.05;
/// A look made while the CPUs share no cache shows nothing of harm by one, so likely.
const APART_VOID_FRAC: f64 = 0.8;

/// One service with all evidence about it.
#[derive(Debug)]
pub(super) struct Victim {
    work: Witness,
    latency: Witness,
    pulses: Pulses,
    /// Looks in the moment that is not over yet: should it be too long for one, they speak of what is usual.
    in_moment: Vec<(ExperimentTrace, bool)>,
    cpi2: Cpi2,
    company: Company,
    /// What that says now.
    told: BTreeMap<Tenant, Told>,
    /// Those who are taken to hurt together by what it says, and the CPUs that they use.
    crew: Crew,
    crew_cpus: f64,
    waiting: Waiting,
    toll: Toll,
    slight: Slight,
    settling: Settling,
    /// As they were given; [`Victim::params`] are those that hold.
    given: FindingParams,
    /// Whether nobody is named for the CPU of whom it was not seen what he wants, however long that takes.
    patient: bool,
    /// For this share of the time the CPUs share no cache, so that nobody hurts by one.
    apart_frac: f64,
    /// Those who were out of their own quota in the last sample.
    held_back: BTreeSet<Tenant>,
    looks: u32,
    requests_per_s: Option<f64>,
    finding: Option<Finding>,
}

impl Victim {
    pub(super) fn new(name: &Tenant, params: FindingParams) -> Self {
        Self {
            work: Witness::new(name, Signal::Work),
            latency: Witness::new(name, Signal::Latency),
            pulses: Pulses::new(name.clone(), PulseParams::default()),
            in_moment: Vec::new(),
            cpi2: Cpi2::new(Cpi2Params::default()),
            company: Company::new(CompanyParams::default()),
            told: BTreeMap::new(),
            crew: Crew::default(),
            crew_cpus: 0.0,
            waiting: Waiting::new(WaitingParams::default()),
            toll: Toll::default(),
            slight: Slight::default(),
            settling: Settling::default(),
            given: params,
            patient: false,
            apart_frac: 0.0,
            held_back: BTreeSet::new(),
            looks: 0,
            requests_per_s: None,
            finding: None,
        }
    }

    /// From now on these are the suspects, who use so much.
    pub(super) fn face(&mut self, suspects: &[Tenant], now: Time, cpus: &BTreeMap<Tenant, f64>) {
        self.face_crew(suspects, cpus);
        self.latency.guilt.keep(suspects);
        self.work.guilt.size(now, cpus);
        self.latency.guilt.size(now, cpus);
        self.pulses.keep(suspects);
        self.pulses.size(now, cpus);
        self.company.keep(suspects);
        self.waiting.keep(suspects);
        self.slight.keep(suspects);
    }

    /// Begins anew with one of them.
    pub(super) fn forget(&mut self, suspect: &Tenant) {
        self.work.guilt.forget(suspect);
        self.latency.guilt.forget(suspect);
        self.pulses.forget(suspect);
        self.company.forget(suspect);
        self.crew.forget(suspect);
        self.waiting.forget(suspect);
        self.slight.forget(suspect);
        self.settling.forget(suspect);
        self.work.guilt.settle(self.settling.seen_frac(), self.settling.most_seen_frac());
    }

    /// Whether all that is known makes it less likely than at first that one slows it, by whatever is
    /// seen in looks: usually, and in slow moments.
    pub(super) fn acquits(&self, suspect: &Tenant) -> bool {
        if self.accuses_crew_of(suspect) {
            return false;
        }
        let usually_ln = self.work.guilt.evidence_ln(suspect);
        usually_ln < 0.0 && self.pulses.guilt().evidence_ln(suspect) <= 0.0
    }

    /// Learns from a look that came with this sample, in which the CPUs were `apart` or not. What is seen in a
    /// slow moment speaks of these only, and what is seen between them of the rest: else who was held in the ones
    /// with somebody else, and the other alone between them, would make that one guilty.
    pub(super) fn take(
        &mut self,
        trace: &ExperimentTrace,
        (seen, service): (&Observation, &ServiceObservation),
        apart: bool,
    ) {
        self.latency.take(trace, 0.0);
        self.pulses.compare_ends(trace);
        match self.pulses.when(trace, self.felt(seen, service).as_ref()) {
            When::Usual => self.look_usually(trace, apart),
            When::Moment(over_frac) => {
                // It may be void.
                let _ = self.pulses.take(trace, over_frac);
                if self.pulses.count() > 0 {
                    self.in_moment.push((trace.clone(), apart));
                } else {
                    // It may as well be the begin of how it is from now on.
                    self.look_usually(trace, apart);
                }
            }
            When::Edge => {}
        }
    }

    /// What is usual shows in a look; little of it while the CPUs share no cache.
    fn look_usually(&mut self, trace: &ExperimentTrace, apart: bool) {
        let void_frac = if apart { APART_VOID_FRAC } else { 0.0 };
        if let Some(look) = self.work.take(trace, void_frac).filter(|_| !apart) {
            self.slight.measure(&look);
            self.settle(trace, &look);
        }
    }

    /// What it is like in this sample.
    fn felt(&self, seen: &Observation, service: &ServiceObservation) -> Option<Felt> {
        let qps = self.requests_per_s?;
        let used = service.cpu.as_ref().ok()?;
        Some(Felt {
            time: seen.time,
            cost_s: used.0 / qps,
            requests: qps * seen.interval_s,
            interval_s: seen.interval_s,
        })
    }

    /// Feels whether it is slow for a moment, after the looks that came with this sample.
    pub(super) fn feel(
        &mut self,
        seen: &Observation,
        service: &ServiceObservation,
        cpus: &BTreeMap<Tenant, f64>,
    ) {
        if let Some(felt) = self.felt(seen, service) {
            self.pulses.feel(felt, cpus);
        }
        if self.pulses.is_overlong() {
            let looks = std::mem::take(&mut self.in_moment);
            looks.iter().for_each(|(trace, apart)| self.look_usually(trace, *apart));
        } else if !self.pulses.is_slow() {
            self.in_moment.clear();
        }
    }

    /// A look was played meanwhile: what drifted did not do so by itself.
    pub(super) fn interrupt(&mut self) {
        self.work.measurer.interrupt();
    }

    /// Sees how busy the victim is, and behind whom its threads stand. While it is out of its own
    /// quota they stand behind nobody, whatever the kernel counts. What those want who were `held`
    /// meanwhile is not seen.
    pub(super) fn see(
        &mut self,
        seen: &Observation,
        service: &ServiceObservation,
        held: &BTreeSet<Tenant>,
    ) {
        self.requests_per_s = service.qps.as_ref().ok().copied().filter(|qps| *qps > 0.0);
        self.held_back = held_back(seen);
        let throttled = service.throttled.as_ref().is_ok_and(|frac| frac.0 > 0.0);
        let waits = service.waits.as_ref().ok();
        let Some(waits) = waits.filter(|_| !(throttled || self.is_quiet(service))) else {
            self.waiting.pass(seen.interval_s);
            return;
        };
        let steal_frac = seen.host.steal.as_ref().map_or(0.0, |steal| steal.0);
        self.waiting.see(&without_idle(waits, seen), &demands(seen, held), steal_frac);
    }

    /// Whether nobody is named for the CPU of whom it was not seen what he wants, however long that takes.
    pub(super) fn wait_for_looks(&mut self, patient: bool) {
        self.patient = patient;
    }

    /// From when on somebody is named, suspected or limited for it: moments are felt, whatever few looks in them
    /// measure.
    fn params(&self) -> FindingParams {
        let mut params = self.given;
        if self.patient {
            params.relief_patience_s = f64::INFINITY;
        }
        if self.has_moments() {
            params.serious_experiments = 0;
        }
        params
    }

    /// The same of harm that looks show, which are made while the CPUs share a cache.
    fn looked_params(&self) -> FindingParams {
        self.params().where_apart(self.apart_frac)
    }

    /// Of what suspects use, the share that is too little to starve anybody.
    pub(super) fn unheld_frac(&self) -> f64 {
        self.given.unheld_frac
    }

    /// Learns what suspects asked for and had in a sample in so much of which others were held.
    pub(super) fn relieve(
        &mut self,
        demands: &BTreeMap<Tenant, Demand>,
        held_frac: f64,
        fed: bool,
    ) {
        self.waiting.relieve(demands, held_frac, fed);
    }

    /// Those behind whom it stands who never sleep, if others may starve them.
    pub(super) fn rivals(&self, early: bool) -> Vec<Rival> {
        rivals(&self.waiting, self.work.guilt.suspects().iter(), early, &self.params())
    }

    /// All suspects that use CPU, each with its part of what they use, the greatest first.
    pub(super) fn parts(&self) -> Vec<(Tenant, f64)> {
        parts(&self.waiting, self.work.guilt.suspects().iter())
    }

    /// Whether it stands behind somebody of whom samples without a hold have to tell more.
    pub(super) fn is_undecided(&self) -> bool {
        undecided(&self.waiting, self.work.guilt.suspects().iter(), &self.params())
    }

    /// Learns from a sample in which nothing was played.
    pub(super) fn watch(
        &mut self,
        seen: &Observation,
        service: &ServiceObservation,
        cpus: &BTreeMap<Tenant, f64>,
    ) {
        let (Some(qps), Ok(used)) = (self.requests_per_s, &service.cpu) else {
            self.work.measurer.interrupt();
            return;
        };
        let cost_s = used.0 / qps;
        let drift = self.work.measurer.drift(seen.time, (cost_s, qps), seen.interval_s, cpus);
        if let Some(measurement) = drift {
            self.work.guilt.measure(&measurement);
        }
        self.cpi2.add(Cpi2Sample {
            time: seen.time,
            cost: cost_s,
            victim_cpus: used.0,
            suspects_cpus: cpus.clone(),
        });
    }

    /// Whether nothing is asked of it. Of a service whose requests nobody counts that is not known.
    /// One that works, or would if it had a CPU, is not quiet: on connections that are older than the meter
    /// requests are counted only once these were silent, which may take seconds where a service is starved.
    fn is_quiet(&self, service: &ServiceObservation) -> bool {
        let used_cpus = service.cpu.as_ref().map_or(0.0, |cpu| cpu.0);
        let standing = service.waits.as_ref().map_or(0.0, Waits::standing);
        self.requests_per_s.is_none() && service.qps.is_ok() && used_cpus + standing < WORKING_CPUS
    }

    /// Says what is known now, where the kernel trapped these `lockers` and bus locks do harm; nothing before any
    /// request was seen, or any wait of a service whose requests nobody counts.
    pub(super) fn judge(
        &mut self,
        seen: &Observation,
        service: &ServiceObservation,
        cpus: &BTreeMap<Tenant, f64>,
        (lockers, gauge): (&[Tenant], &Gauge),
    ) {
        self.work.guilt.fade(seen.time);
        self.latency.guilt.fade(seen.time);
        self.pulses.fade(seen.time);
        let waits = !self.is_quiet(service) && self.waiting.tells();
        if self.requests_per_s.is_none() && !waits {
            return;
        }
        self.apart_frac = gauge.apart_frac();
        let params = self.params();
        let signs = VictimSigns {
            throttled_frac: service.throttled.as_ref().ok().map(|throttled| throttled.0),
            load_frac: service.load.as_ref().ok().map(|load| load.0),
            steal_frac: seen.host.steal.as_ref().ok().map(|steal| steal.0),
        };
        let correlated = self.cpi2.suspected();
        let (work, latency) = (&self.work.guilt, &self.latency.guilt);
        let waiting = &self.waiting;
        let with_crew = self.with_crew(cpus);
        let evidence = Evidence { work, latency, cpus: &with_crew, correlated, lockers, waiting };
        let mut finding = judge(&evidence, &signs, &self.looked_params());
        self.tell_crew(&mut finding, cpus);
        self.pulses.tell(&mut finding, &params);
        let suffering = Suffering { toll: &self.toll, slight: &self.slight, cpus };
        gauge.tell(&mut finding, suffering, &params);
        self.tell_company(&mut finding);
        self.tell_settling(&mut finding);
        self.finding = Some(finding);
    }

    pub(super) fn looked(&mut self) {
        self.looks += 1;
    }

    pub(super) fn looks(&self) -> u32 {
        self.looks
    }

    pub(super) fn requests_per_s(&self) -> Option<f64> {
        self.requests_per_s
    }

    pub(super) fn finding(&self) -> Option<Finding> {
        self.finding.clone()
    }

    /// Whether it is slow for a moment: what can be told of that, can be told now.
    pub(super) fn is_slow(&self) -> bool {
        self.pulses.is_slow()
    }

    /// Whether it is slow by turns that are shorter than a sample.
    pub(super) fn has_short_moments(&self) -> bool {
        self.pulses.are_short()
    }

    /// Whether it is, or was, slow for a moment.
    pub(super) fn has_moments(&self) -> bool {
        self.pulses.is_slow() || self.pulses.count() > 0
    }

    /// The CPUs that somebody uses who is shown to make it slow for moments, while it does; and the
    /// usual time in seconds from one moment to the next.
    pub(super) fn pulse_of(&self, suspect: &Tenant) -> Option<(f64, f64)> {
        let named = self.pulses.named(&self.params());
        let culprit = named.into_iter().find(|culprit| culprit.workload == *suspect)?;
        let used_cpus = libm::log(culprit.slowdown) / culprit.harm_ln_per_cpu;
        Some((used_cpus, self.pulses.apart_s()?))
    }
}
