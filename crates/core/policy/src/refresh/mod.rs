//! What services tolerate, found anew while they are guarded.
//!
//! **Problem.** A profile is of one day: loads, data and neighbours change, and with them what a
//! service tolerates. To measure it anew apart from production is what nobody does (the limit of
//! R-1); to press on a service in use may cost its objective.
//!
//! **Idea.** A service that has slack can spare some. Now and then one that has plenty is pressed on for
//! a second: windows of pressure with quiet ones around them, all within a moment, so that load, host
//! and neighbours are the same in both (R-2: bubble probes). What a request costs in CPU time tells what
//! the shared resource costs it; waiting for a CPU is not in it, so that what presses may live in the
//! idle class on a CPU that others use too. Intensity grows from little, at most twofold from what was
//! kept before, until it is known between which two intensities the quality of service is lost (B-6).
//!
//! ```text
//! bank    += dt * share, at most one probe's bound; a probe pays its bound, the unused part comes back
//! under way: any service's fast slack < end_slack  ->  end it ("slack-fell")
//! else, if bank >= bound and every service's slack and fast slack >= start_slack:
//!     of all (service, resource) with requests enough for a window: the one probed longest ago
//!     probe at its ladder's next intensity ("probe-tolerance")
//! trace:  speed = (CPU per request in the quiet windows beside) / (the same under pressure)
//!         kept  = median speed >= threshold and the tail under pressure within the objective
//!         pressed = intensity * the share of the time in which what presses really ran
//!         kept: low = (intensity, pressed)     lost: high = (intensity, pressed)
//! ladder, by intensity: nothing known: 10; no high: twice low; high - low > 10: between;
//!         else low and high in turn, so that a change shows: low lost -> low halves,
//!         high kept -> high is forgotten
//! ```
//!
//! The result is what was pressed at `low`, with what was pressed at `high` as the upper end of its
//! interval (100 where even the full intensity was kept): the highest intensity that was kept beside
//! the batch that ran at that time, on top of it. An offline profile is of the service alone.
//!
//! **Units.** Intensities 0..100; slack and speed as shares; seconds. **Cost.** At most `max_share` of
//! all time, pressure's own preparation included. **Degradation.** Without slack, requests or CPU time of
//! a service nothing is probed, nor below 600 requests a second, which tell too little. One probe may
//! err all the same; later ones put that right. A probe that the platform refuses or loses is
//! forgotten after its bound; one that is ended early tells something only if the objective was missed
//! under pressure.
//! Off by default. **Sources.** B-6, B-9, R-1, R-2.
//!
//! | rule | when |
//! |---|---|
//! | `probe-tolerance` | bank and slack are there: press once |
//! | `slack-fell` | slack of some service is short: end it |

mod ladder;
#[cfg(test)]
mod tests;
mod verdict;

use crate::Policy;
use ladder::{Ladder, Level};
use quell_types::{
    Input, Observation, Precedence, Probe, ProbeTrace, Proposal, ServiceObservation, Setup,
    SharedResource, Tenant, Time, Wish,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often slack is looked at.
const PERIOD: Duration = Duration::from_millis(250);
/// Windows of pressure.
const PRESSED: u32 = 3;
/// Requests that a window wants: their CPU times differ much, and a loss of 5 % is to be seen.
const REQUESTS: f64 = 150.0;
/// Lengths of windows.
const WINDOW_S: (f64, f64) = (0.05, 0.25);
/// What presses must be ready by then: a large cache's worth of memory takes its time to be touched.
const READY: Duration = Duration::from_secs(2);
/// A trace comes at the latest so long after the bound.
const LATE: Duration = Duration::from_secs(2);

/// Bounds of the probes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefreshParams {
    /// The most of all time in which there may be pressure, 0..0.01.
    pub max_share_frac: f64,
    /// Slack that every service needs before a probe.
    pub start_slack_frac: f64,
    /// Slack below which a probe is ended.
    pub end_slack_frac: f64,
    /// The share of its speed that a service has to keep.
    pub threshold_frac: f64,
}

impl Default for RefreshParams {
    fn default() -> Self {
        Self {
            max_share_frac: 0.01,
            start_slack_frac: 0.3,
            end_slack_frac: 0.1,
            threshold_frac: 0.95,
        }
    }
}

/// What a service tolerates of one shared resource, as far as probes have told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// The highest intensity that was kept, 0..100.
    pub kept_percent: f64,
    /// The lowest that was lost; 100 if none was.
    pub lost_percent: f64,
    /// Probes that told something.
    pub probes: u32,
    /// When the last of them ended.
    pub time: Time,
}

type Key = (Tenant, SharedResource);

/// See the module.
pub struct Refresh {
    params: RefreshParams,
    bank_s: f64,
    last: Option<Time>,
    ladders: BTreeMap<Key, Ladder>,
    under_way: Option<UnderWay>,
    next_id: u64,
}

/// A probe on its way.
struct UnderWay {
    probe: Probe,
    since: Time,
    ended: bool,
}

impl Refresh {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(params: RefreshParams) -> Self {
        Self {
            params,
            bank_s: 0.0,
            last: None,
            ladders: BTreeMap::new(),
            under_way: None,
            next_id: 1,
        }
    }

    fn fill(&mut self, time: Time) {
        let dt = self.last.map_or(0.0, |last| time.since(last).as_secs_f64());
        self.last = Some(time);
        let most = bound(WINDOW_S.1).as_secs_f64();
        self.bank_s = (self.bank_s + dt * self.params.max_share_frac.clamp(0.0, 0.01)).min(most);
    }

    /// Takes in traces, and forgets what was lost.
    fn learn(&mut self, setup: &Setup, seen: &Observation) {
        for trace in &seen.probes {
            let is_it = |way: &mut UnderWay| way.probe.id == trace.probe.id;
            if self.under_way.take_if(is_it).is_some() {
                self.bank_s += unused_s(trace);
                self.take(setup, trace, seen.time);
            }
        }
        let lost = |way: &mut UnderWay| seen.time.since(way.since) > way.probe.bound() + LATE;
        let _ = self.under_way.take_if(lost);
    }

    fn take(&mut self, setup: &Setup, trace: &ProbeTrace, time: Time) {
        let Some(spec) = setup.services.iter().find(|s| s.name == trace.probe.service) else {
            return;
        };
        let key = (trace.probe.service.clone(), trace.probe.resource);
        if let Some((kept, percent)) = verdict::of(trace, spec, self.params.threshold_frac) {
            let at = Level { asked: trace.probe.intensity_percent, pressed: percent };
            self.ladders.entry(key).or_default().tell(kept, at, time);
        }
    }

    /// The end of a probe that cannot be afforded any more.
    fn end(&mut self, seen: &Observation) -> Option<Proposal> {
        let short = seen.services.values().filter_map(least_slack).reduce(f64::min)?;
        let way = self.under_way.as_mut().filter(|way| !way.ended)?;
        if short >= self.params.end_slack_frac {
            return None;
        }
        way.ended = true;
        let inputs = vec![
            Input::new("least_slack_frac", short),
            Input::new("end_slack_frac", self.params.end_slack_frac),
        ];
        Some(proposal(Wish::EndProbe { id: way.probe.id }, "slack-fell", inputs))
    }

    fn begin(&mut self, setup: &Setup, seen: &Observation) -> Option<Proposal> {
        let least = self.spare(setup, seen)?;
        let (key, window_s) = self.candidate(setup, seen)?;
        let cost_s = bound(window_s).as_secs_f64();
        if self.bank_s < cost_s {
            return None;
        }
        self.bank_s -= cost_s;
        let ladder = self.ladders.entry(key.clone()).or_default();
        ladder.last = Some(seen.time);
        let probe = Probe {
            id: self.next_id,
            service: key.0,
            resource: key.1,
            intensity_percent: ladder.next(),
            window_us: (window_s * 1e6) as u64,
            pressed: PRESSED,
            bound_us: (cost_s * 1e6) as u64,
        };
        self.next_id += 1;
        let inputs = vec![
            Input::new("least_slack_frac", least),
            Input::new("intensity_percent", probe.intensity_percent),
            Input::new("kept_percent", ladder.kept()),
        ];
        self.under_way = Some(UnderWay { probe: probe.clone(), since: seen.time, ended: false });
        Some(proposal(Wish::Probe(probe), "probe-tolerance", inputs))
    }

    /// The least slack, if every service has enough to spare, now and over the last full window.
    fn spare(&self, setup: &Setup, seen: &Observation) -> Option<f64> {
        let of = |name: &Tenant| {
            let service = seen.services.get(name)?;
            let full = service.slack.as_ref().ok().copied()?;
            Some(least_slack(service).map_or(full, |fast| fast.min(full)))
        };
        let all = setup.services.iter().map(|s| of(&s.name)).collect::<Option<Vec<f64>>>()?;
        all.into_iter().reduce(f64::min).filter(|least| *least >= self.params.start_slack_frac)
    }

    /// The one probed longest ago, and the length of its windows.
    fn candidate(&self, setup: &Setup, seen: &Observation) -> Option<(Key, f64)> {
        let window = |name: &Tenant| {
            let qps = *seen.services.get(name)?.qps.as_ref().ok()?;
            let wanted = REQUESTS / qps.max(1e-9);
            (wanted <= WINDOW_S.1).then(|| wanted.max(WINDOW_S.0))
        };
        let keys = setup.services.iter().flat_map(|s| {
            let window = window(&s.name);
            let pair = move |r| window.map(|window| ((s.name.clone(), r), window));
            SharedResource::ALL.into_iter().filter_map(pair)
        });
        keys.min_by_key(|(key, _)| self.ladders.get(key).and_then(|ladder| ladder.last))
    }
}

impl Policy for Refresh {
    fn name(&self) -> &'static str {
        "refresh"
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn step(&mut self, setup: &Setup, seen: &Observation) -> Vec<Proposal> {
        self.fill(seen.time);
        self.learn(setup, seen);
        let wish = match self.under_way {
            Some(_) => self.end(seen),
            None => self.begin(setup, seen),
        };
        wish.into_iter().collect()
    }

    fn tolerances(&self) -> BTreeMap<Tenant, BTreeMap<SharedResource, Tolerance>> {
        let mut all: BTreeMap<Tenant, BTreeMap<SharedResource, Tolerance>> = BTreeMap::new();
        for ((service, resource), ladder) in &self.ladders {
            if let Some(found) = ladder.tolerance() {
                all.entry(service.clone()).or_default().insert(*resource, found);
            }
        }
        all
    }
}

/// The slack that shows a danger first.
fn least_slack(service: &ServiceObservation) -> Option<f64> {
    service.fast_slack.as_ref().ok().or(service.slack.as_ref().ok()).copied()
}

/// The latest end of a probe with windows of this length.
fn bound(window_s: f64) -> Duration {
    READY + Duration::from_secs_f64(window_s * f64::from(2 * PRESSED + 1))
}

/// The part of a probe's bound in which nothing pressed any more.
fn unused_s(trace: &ProbeTrace) -> f64 {
    let windows: f64 =
        trace.windows.iter().map(|window| window.to.since(window.from).as_secs_f64()).sum();
    (trace.probe.bound().as_secs_f64() - READY.as_secs_f64() - windows).max(0.0)
}

fn proposal(wish: Wish, rule: &'static str, inputs: Vec<Input>) -> Proposal {
    Proposal {
        policy: "refresh".into(),
        precedence: Precedence::Admission,
        wish,
        rule: rule.into(),
        inputs,
    }
}
