//! Phases and ticks of one generator thread: what is due when.

use super::{Extent, LoadPlan, seconds_ns};
use crate::arrivals::Arrivals;
use crate::clock::SECOND_NS;
use crate::controls::Controls;

/// Ten times a second the backlog is sampled and the controls are looked at.
pub(crate) const TICK_NS: u64 = SECOND_NS / 10;

/// While nothing is due at all, the controls are looked at as often as this: somebody waits for it to go on.
pub(crate) const SILENT_NS: u64 = 4_000_000;

/// The phases, the same for all threads, in nanoseconds of the monotonic clock.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) start_ns: u64,
    pub(crate) measured_ns: u64,
    /// None if the measured phase is a number of requests.
    pub(crate) end_ns: Option<u64>,
    pub(crate) window_ns: u64,
}

impl Timeline {
    pub(crate) fn new(plan: &LoadPlan, start_ns: u64) -> Self {
        let warmup_s = match plan.warmup {
            Extent::Seconds(s) => s,
            Extent::Requests(n) => plan.profile.time_of(0.0, n as f64),
        };
        let measured_ns = start_ns + seconds_ns(warmup_s);
        let end_ns = match plan.measured {
            Extent::Seconds(s) => Some(measured_ns + seconds_ns(s)),
            Extent::Requests(_) => None,
        };
        let window_ns = seconds_ns(plan.window.length_s).max(1);
        Self { start_ns, measured_ns, end_ns, window_ns }
    }
}

/// A request that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) scheduled_ns: u64,
    /// Whether it belongs to the measured phase.
    pub(crate) measured: bool,
}

/// Hands out arrivals until the measured phase ends.
#[derive(Debug)]
pub(crate) struct Pacer {
    pub(crate) timeline: Timeline,
    arrivals: Arrivals,
    controls: Controls,
    /// Measured requests still to come, where they are counted.
    left: Option<u64>,
    /// Set once there are no more arrivals.
    ended_ns: Option<u64>,
}

impl Pacer {
    pub(crate) fn new(
        plan: &LoadPlan,
        timeline: Timeline,
        controls: Controls,
        client: u32,
        clients: u32,
    ) -> Self {
        let arrivals = Arrivals::new(plan.profile.clone(), plan.seed, client, clients);
        let left = match plan.measured {
            Extent::Seconds(_) => None,
            Extent::Requests(n) => {
                let (client, clients) = (u64::from(client), u64::from(clients));
                Some(n / clients + u64::from(client < n % clients))
            }
        };
        Self { timeline, arrivals, controls, left, ended_ns: None }
    }

    /// The next arrival if it is due by `now_ns`.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<Arrival> {
        if self.ended_ns.is_some() {
            return None;
        }
        if self.left == Some(0) {
            self.ended_ns = Some(now_ns);
            return None;
        }
        let scheduled_ns = self.next_arrival_ns();
        if let Some(end) = self.timeline.end_ns.filter(|&end| scheduled_ns >= end) {
            self.ended_ns = (now_ns >= end).then_some(end);
            return None;
        }
        if scheduled_ns > now_ns {
            return None;
        }
        self.arrivals.next();
        self.controls.count_asked();
        let measured = scheduled_ns >= self.timeline.measured_ns;
        if measured {
            self.left = self.left.map(|left| left - 1);
        }
        Some(Arrival { scheduled_ns, measured })
    }

    /// Takes what the controls say into account.
    pub(crate) fn follow_controls(&mut self, now_ns: u64) {
        if self.controls.is_stopped() && self.ended_ns.is_none() {
            self.ended_ns = Some(now_ns);
        }
        let since = now_ns.saturating_sub(self.timeline.start_ns);
        self.arrivals.follow(&self.controls, since as f64 / SECOND_NS as f64);
    }

    /// Whether nothing will ever be due at the present rate.
    pub(crate) fn is_silent(&self) -> bool {
        self.ended_ns.is_none() && self.next_arrival_ns() == u64::MAX
    }

    /// Counts an answer where the controls can see it.
    pub(crate) fn count(&self, sojourn_ns: u64, service_ns: Option<u64>) {
        self.controls.count(sojourn_ns, service_ns);
    }

    /// Counts one that failed.
    pub(crate) fn count_failed(&self) {
        self.controls.count_failed();
    }

    /// When the measured phase ended; none while it lasts.
    pub(crate) fn ended_ns(&self) -> Option<u64> {
        self.ended_ns
    }

    /// When to look again: the next arrival or the end of the phase.
    pub(crate) fn wake_ns(&self) -> u64 {
        let end = self.timeline.end_ns.unwrap_or(u64::MAX);
        match self.ended_ns {
            Some(_) => u64::MAX,
            None => self.next_arrival_ns().min(end),
        }
    }

    fn next_arrival_ns(&self) -> u64 {
        let due_s = self.arrivals.peek();
        if due_s.is_finite() { self.timeline.start_ns + seconds_ns(due_s) } else { u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    const START: u64 = 5 * SECOND_NS;

    fn plan(warmup: Extent, measured: Extent) -> LoadPlan {
        LoadPlan {
            profile: Profile::Constant { qps: 1000.0 },
            warmup,
            measured,
            ..LoadPlan::default()
        }
    }

    fn pacer(plan: &LoadPlan, client: u32, clients: u32) -> Pacer {
        Pacer::new(plan, Timeline::new(plan, START), Controls::default(), client, clients)
    }

    fn all(mut pacer: Pacer) -> (Vec<Arrival>, u64) {
        let mut arrivals = Vec::new();
        let mut now = START;
        while pacer.ended_ns().is_none() {
            now = pacer.wake_ns().clamp(now, now + SECOND_NS);
            while let Some(arrival) = pacer.due(now) {
                arrivals.push(arrival);
            }
        }
        (arrivals, pacer.ended_ns().unwrap())
    }

    #[test]
    fn counted_requests_are_exact_over_all_threads() {
        let plan = plan(Extent::Requests(500), Extent::Requests(1001));
        let measured: usize = (0..3)
            .map(|client| all(pacer(&plan, client, 3)).0.iter().filter(|a| a.measured).count())
            .sum();
        assert_eq!(measured, 1001);
    }

    #[test]
    fn warm_up_comes_first_and_is_about_as_long_as_asked() {
        let (arrivals, _) = all(pacer(&plan(Extent::Requests(500), Extent::Requests(100)), 0, 1));
        let warm = arrivals.iter().take_while(|a| !a.measured).count();
        assert!((400..600).contains(&warm), "{warm}");
        assert!(arrivals[warm..].iter().all(|a| a.measured));
    }

    #[test]
    fn timed_phases_end_on_time() {
        let plan = plan(Extent::Seconds(1.0), Extent::Seconds(2.0));
        let (arrivals, ended) = all(pacer(&plan, 0, 1));
        assert_eq!(ended, START + 3 * SECOND_NS);
        assert!(arrivals.iter().all(|a| a.scheduled_ns < ended));
        let measured = arrivals.iter().filter(|a| a.measured).count();
        assert!((1800..2200).contains(&measured), "{measured}");
    }

    #[test]
    fn late_calls_lose_no_arrival() {
        let plan = plan(Extent::Seconds(0.0), Extent::Seconds(2.0));
        let (prompt, _) = all(pacer(&plan, 0, 1));
        let mut late = pacer(&plan, 0, 1);
        let found: Vec<_> = std::iter::from_fn(|| late.due(START + 60 * SECOND_NS)).collect();
        assert_eq!(found, prompt);
    }

    #[test]
    fn a_stop_ends_at_once() {
        let mut pacer = pacer(&plan(Extent::Seconds(0.0), Extent::Seconds(60.0)), 0, 1);
        pacer.controls.stop();
        pacer.follow_controls(START + 7);
        assert_eq!((pacer.due(START + SECOND_NS), pacer.ended_ns()), (None, Some(START + 7)));
    }
}
