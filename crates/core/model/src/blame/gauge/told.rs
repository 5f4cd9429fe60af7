//! What is said of those who lock the bus, load memory or fill the caches.
//!
//! To press on caches or memory is no harm: a service need not have use for them. So who does is suspected as
//! far as looks leave it likely that it does a little ([`Slight`]), and neither named nor limited.

use super::{DrivesOut, Gauge, Loads, Locker, Toll};
use crate::blame::finding::{Cause, Culprit, Finding, FindingParams, Resource, Standing};
use crate::blame::judge::rank;
use crate::blame::pulses::usual_apart_s;
use crate::blame::slight::{Expected, Likely, Slight};
use quell_types::Tenant;
use std::collections::{BTreeMap, BTreeSet};

/// Who surely drives out so much in a millisecond is suspected, unless looks say that it does no harm: more than
/// what small tables and compression do (`gzip` less than 0.06), less than who goes through a shared cache without
/// leaving it (0.09 to 0.11).
const PRESSES_FROM: f64 = 0.07;

/// Harm that is expected of who does so, and its standard deviation, in ln: a tenth, however much it drives out,
/// since that is lost once, and who takes more is told by looks.
const PRESSES_LN: f64 = 0.1;
const PRESSES_SD: f64 = 0.08;
/// That much of who uses so many CPUs. Of who uses less, less in proportion: what it drives out in its few turns
/// is back before the next.
const PRESSES_CPUS: f64 = 0.2;
/// It is told where the CPUs are if they were apart for so much of the time.
const TOLD_APART_FRAC: f64 = 0.05;
/// A variance is above 0.
const LEAST_SHARE: f64 = 1e-3;

/// What is known of a victim besides its finding.
#[derive(Clone, Copy, Debug)]
pub struct Suffering<'a> {
    /// What it suffers while accesses are held back.
    pub toll: &'a Toll,
    /// What looks say of little harm.
    pub slight: &'a Slight,
    /// CPUs that each of those uses who are there.
    pub cpus: &'a BTreeMap<Tenant, f64>,
}

impl DrivesOut {
    /// Whether that is so much that it may do harm.
    fn presses(&self) -> bool {
        self.per_ms >= PRESSES_FROM
    }
}

impl Gauge {
    /// Adds to a finding who locks the bus while this victim suffers from it, and, as suspects, who drives out
    /// what lies in the caches, or loads memory, and may do a little harm; and says over what those fight who are
    /// accused.
    pub fn tell(&self, finding: &mut Finding, of: Suffering<'_>, params: &FindingParams) {
        self.tell_of_locks(finding, of.toll, params);
        self.suspect_who_presses(finding, of, params);
        self.tell_of_caches(finding);
        self.tell_of_memory(finding);
        self.tell_where_cpus_are(finding);
        rank(&mut finding.culprits);
    }

    /// Who is named there for more is named for bus locks now. Where somebody else who was there in the same samples is
    /// suspected for what looks show, it may as well be that one: looks will say.
    fn tell_of_locks(&self, finding: &mut Finding, toll: &Toll, params: &FindingParams) {
        let looked: Vec<Tenant> = suspected_by_looks(finding, params).cloned().collect();
        for locker in self.lockers() {
            let or_another = looked.iter().any(|other| self.was_there_too(&locker, other));
            let suffers = toll.suffers(params.least_ln);
            finding.evidence.push(in_words(&locker, suffers));
            let Some((effect_ln, confidence)) = suffers else { continue };
            if confidence < params.suspected_frac {
                continue;
            }
            let shown = locker.alone && !or_another && confidence >= params.named_frac;
            let serious = toll.suffers(params.serious_ln);
            let told = Culprit {
                confidence,
                serious_frac: serious.map_or(0.0, |(_, frac)| frac),
                status: if shown { Standing::Named } else { Standing::Suspected },
                resource: Resource::BusLock,
                slowdown: libm::exp(effect_ln).max(1.0),
                share_frac: 1.0,
                harm_ln_per_cpu: effect_ln,
                experiments: 0,
                stood_frac: None,
                elsewhere_frac: 0.0,
                held_back_frac: Some(locker.slow_frac),
                workload: locker.workload,
            };
            add(finding, told);
        }
    }

    /// Suspects those who drive out what lies in the caches, or surely load memory, if they may do a little harm.
    fn suspect_who_presses(
        &self,
        finding: &mut Finding,
        of: Suffering<'_>,
        params: &FindingParams,
    ) {
        let caches = self.driving_out.iter().filter(|(_, drives)| drives.presses());
        let pressing = caches.map(|(tenant, _)| tenant).chain(self.memory.surely_load());
        for tenant in pressing.collect::<BTreeSet<&Tenant>>() {
            if finding.culprits.iter().all(|c| c.workload != *tenant) {
                let Some(used) = of.cpus.get(tenant).copied() else { continue };
                let told = suspect((tenant, used), of.slight, self.expected(tenant, used), params);
                told.into_iter().for_each(|told| add(finding, told));
            }
        }
    }

    /// What harm is to be expected of somebody who presses and uses so many CPUs: of both kinds the greater.
    fn expected(&self, tenant: &Tenant, used_cpus: f64) -> Expected {
        let loads = self.memory.loads(tenant).filter(|loads| loads.is_sure()).map(Loads::expected);
        let share = (used_cpus / PRESSES_CPUS).clamp(LEAST_SHARE, 1.0);
        let (effect_ln, sd) = (share * PRESSES_LN, share * PRESSES_SD);
        let fills = Expected { effect_ln, variance: sd * sd };
        let presses = self.driving_out.get(tenant).is_some_and(DrivesOut::presses);
        match loads {
            Some(loads) if !presses || loads.effect_ln > fills.effect_ln => loads,
            _ => fills,
        }
    }

    /// Says for how much of the time there was nothing to fight over, where somebody is accused of harm by memory.
    fn tell_where_cpus_are(&self, finding: &mut Finding) {
        let of_memory = |c: &Culprit| !matches!(c.resource, Resource::Cpu | Resource::BusLock);
        let by_memory = finding.culprits.iter().any(of_memory);
        let apart_frac = self.passes.share().filter(|frac| by_memory && *frac >= TOLD_APART_FRAC);
        finding.evidence.extend(apart_frac.map(|frac| {
            format!(
                "for {:.0} % of the last minute the host had the CPUs on cores without a common cache: nobody hurts \
                 by one then",
                100.0 * frac
            )
        }));
    }

    /// Says of those who are accused that they drive out what lies in the caches.
    fn tell_of_caches(&self, finding: &mut Finding) {
        for culprit in &mut finding.culprits {
            let drives = self.driving_out.get(&culprit.workload).filter(|drives| drives.presses());
            let Some(drives) = drives else { continue };
            culprit.fights_over(Resource::LastLevelCache);
            finding.evidence.push(of_caches(&culprit.workload, *drives));
        }
    }

    /// Says of those who are accused that they load memory: that is what they fight over then.
    fn tell_of_memory(&self, finding: &mut Finding) {
        for culprit in &mut finding.culprits {
            let loads = self.memory.loads(&culprit.workload).filter(|loads| loads.is_sure());
            let Some(loads) = loads else { continue };
            culprit.fights_over(Resource::MemoryBandwidth);
            finding.evidence.push(format!(
                "while {} had another CPU, a read of memory took {:.2} times as long as beside others \
                 ({:.0} samples; give or take {:.0} %)",
                culprit.workload,
                libm::exp(loads.more_ln),
                loads.samples,
                100.0 * loads.sd
            ));
        }
    }

    /// The CPUs that somebody uses while it holds accesses back, and the usual time in seconds from the begin
    /// of one such stretch to that of the next, 0 before the second; none if nobody is held back by it.
    #[must_use]
    pub fn pulse_of(&self, suspect: &Tenant) -> Option<(f64, f64)> {
        let told = self.lockers().iter().any(|locker| locker.workload == *suspect);
        let peak_cpus = self.peaks.get(suspect).copied().filter(|_| told)?;
        Some((peak_cpus, usual_apart_s(&self.begun).unwrap_or(0.0)))
    }
}

/// Those whom looks or company accuse of harm by memory.
fn suspected_by_looks<'a>(
    finding: &'a Finding,
    params: &'a FindingParams,
) -> impl Iterator<Item = &'a Tenant> {
    let shown = |c: &&Culprit| c.stood_frac.is_none() && c.resource != Resource::Cpu;
    let accused = finding.culprits.iter().filter(shown);
    accused.filter(|c| c.confidence >= params.suspected_frac).map(|c| &c.workload)
}

/// Somebody who presses on caches or memory, if it may do a little harm; how much is not known before a look
/// says it.
fn suspect(
    (tenant, used): (&Tenant, f64),
    slight: &Slight,
    expected: Expected,
    params: &FindingParams,
) -> Option<Culprit> {
    let Likely { effect_ln, confidence, looks } =
        slight.likely(tenant, used, Some(expected), params.least_pressing_ln)?;
    let effect_ln = if looks > 0 { effect_ln } else { 0.0 };
    (confidence >= params.suspected_frac).then(|| Culprit {
        workload: tenant.clone(),
        confidence,
        serious_frac: 0.0,
        status: Standing::Suspected,
        resource: Resource::Memory,
        slowdown: libm::exp(effect_ln).max(1.0),
        share_frac: 0.0,
        harm_ln_per_cpu: effect_ln / used,
        experiments: looks,
        stood_frac: None,
        elsewhere_frac: 0.0,
        held_back_frac: None,
    })
}

fn of_caches(tenant: &Tenant, drives: DrivesOut) -> String {
    let DrivesOut { per_ms, anyhow_per_ms, line_ns, left_ms, read_ns, samples } = drives;
    let percent = |per_ms: f64| 100.0 * (1.0 - libm::exp(-per_ms));
    format!(
        "{tenant} surely drives out {:.0} % of what lies in the caches in a millisecond: {left_ms:.1} ms after it \
         got a CPU a line that had been read there took {line_ns:.0} ns ({samples:.0} samples), where a read of \
         memory takes {read_ns:.0}; while those have one who drive out least, {:.0} % go",
        percent(per_ms),
        percent(anyhow_per_ms),
    )
}

/// Puts one in; of who is there already the stronger evidence stays, and over what they fight is known now.
fn add(finding: &mut Finding, told: Culprit) {
    let known = finding.culprits.iter().position(|c| c.workload == told.workload);
    let named = |c: &Culprit| c.status == Standing::Named;
    finding.slowdown = finding.slowdown.max(told.slowdown);
    if named(&told) || finding.cause == Cause::None {
        finding.cause = Cause::Neighbour;
    }
    let Some(at) = known else {
        finding.culprits.push(told);
        return;
    };
    let before = &mut finding.culprits[at];
    if named(before)
        && before.stood_frac.is_none()
        && before.harm_ln_per_cpu >= told.harm_ln_per_cpu
        || named(before) && !named(&told)
    {
        before.fights_over(told.resource);
        before.held_back_frac = told.held_back_frac;
    } else {
        *before = told;
    }
}

fn in_words(locker: &Locker, suffers: Option<(f64, f64)>) -> String {
    let Locker { workload, slow_frac, other_frac, samples, alone } = locker;
    let (beside, else_) = (100.0 * slow_frac, 100.0 * other_frac);
    let also = if *alone { "" } else { " Somebody else was there in most of these, too." };
    let victim = match suffers {
        Some((effect_ln, confidence)) => format!(
            "the victim is {:.2} times as slow then (certain to {:.1} %)",
            libm::exp(effect_ln),
            100.0 * confidence
        ),
        None => "what that does to the victim is not seen yet".into(),
    };
    format!(
        "bus locks: while {workload} had another CPU, accesses to a core's own second cache were held back \
         in {beside:.0} % of samples ({samples:.0} slow ones), and else in {else_:.0} %; {victim}.{also}"
    )
}
