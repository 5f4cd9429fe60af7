//! Latency windows: as short as they can be and still mean something.

use quell_types::{Gap, LogHistogram, Reading, Tails};
use std::collections::VecDeque;

/// When a window is full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowParams {
    /// Shortest window in seconds.
    pub min_s: f64,
    /// Fewest requests.
    pub min_requests: u64,
    /// Longest window in seconds: then it is used with whatever it holds.
    pub max_s: f64,
}

/// What one interval brought.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestDelta {
    /// Length in seconds.
    pub seconds: f64,
    /// Requests answered.
    pub requests: u64,
    /// CPU time of the service in seconds, where known.
    pub cpu_s: Option<f64>,
    /// Payload bytes in.
    pub bytes_in: u64,
    /// Payload bytes out.
    pub bytes_out: u64,
    /// Latencies in nanoseconds; none where they could not be told.
    pub latency_ns: Option<LogHistogram>,
}

impl RequestDelta {
    fn add(&mut self, other: &RequestDelta) {
        self.seconds += other.seconds;
        // A counter that jumps or wraps tells absurd growth.
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes_in = self.bytes_in.saturating_add(other.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(other.bytes_out);
        self.cpu_s = self.cpu_s.zip(other.cpu_s).map(|(a, b)| a + b);
        match (&mut self.latency_ns, &other.latency_ns) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine, _) => *mine = None,
        }
    }

    /// CPU time per request in seconds.
    ///
    /// # Errors
    /// Without requests, or without CPU readings.
    pub fn cpu_per_request_s(&self) -> Reading<f64> {
        let cpu_s = self.cpu_s.ok_or_else(|| Gap::not_yet("no CPU time over this window"))?;
        if self.requests == 0 {
            return Err(Gap::not_yet("no requests in this window"));
        }
        Ok(cpu_s / self.requests as f64)
    }

    /// Payload bytes per request, in and out.
    ///
    /// # Errors
    /// Without requests.
    pub fn bytes_per_request(&self) -> Reading<(f64, f64)> {
        if self.requests == 0 {
            return Err(Gap::not_yet("no requests in this window"));
        }
        let n = self.requests as f64;
        Ok((self.bytes_in as f64 / n, self.bytes_out as f64 / n))
    }

    /// Percentiles, with the objective's among them.
    ///
    /// # Errors
    /// Without latencies.
    pub fn tails(&self, slo_percentile: f64) -> Reading<Tails> {
        let h = self.latency_ns.as_ref().ok_or_else(|| Gap::not_yet("no latencies"))?;
        let ns = h.quantiles([0.5, 0.95, 0.99, 0.999, slo_percentile]);
        let ns = ns.ok_or_else(|| Gap::not_yet("no requests in this window"))?;
        let [p50_s, p95_s, p99_s, p999_s, slo_s] = ns.map(|ns| ns / 1e9);
        let (requests, window_s) = (self.requests, self.seconds);
        Ok(Tails { requests, window_s, p50_s, p95_s, p99_s, p999_s, slo_s })
    }
}

/// The recent past of one service, interval by interval.
#[derive(Clone, Debug, Default)]
pub struct RequestWindow {
    past: VecDeque<RequestDelta>,
}

impl RequestWindow {
    /// Adds an interval and forgets what no window can need any more.
    pub fn push(&mut self, delta: RequestDelta, keep_s: f64) {
        self.past.push_back(delta);
        let mut total: f64 = self.past.iter().map(|d| d.seconds).sum();
        while let Some(first) = self.past.front() {
            if total - first.seconds < keep_s {
                break;
            }
            total -= first.seconds;
            self.past.pop_front();
        }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.past.clear();
    }

    /// The shortest recent stretch that satisfies `params`.
    ///
    /// # Errors
    /// [`Gap::NotYet`] while there is none.
    pub fn recent(&self, params: WindowParams) -> Reading<RequestDelta> {
        let mut newest = self.past.iter().rev();
        let mut sum = newest.next().cloned().ok_or_else(|| Gap::not_yet("no interval yet"))?;
        loop {
            let full = sum.seconds >= params.min_s && sum.requests >= params.min_requests;
            if full || sum.seconds >= params.max_s {
                return Ok(sum);
            }
            let Some(older) = newest.next() else {
                return Err(Gap::not_yet(format!(
                    "{} requests in {:.2} s",
                    sum.requests, sum.seconds
                )));
            };
            sum.add(older);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(seconds: f64, requests: u64, latency_ns: u64) -> RequestDelta {
        let mut h = LogHistogram::new();
        h.record_many(latency_ns, requests);
        let cpu_s = Some(requests as f64 * 1e-4);
        RequestDelta { seconds, requests, cpu_s, latency_ns: Some(h), ..RequestDelta::default() }
    }

    const PARAMS: WindowParams = WindowParams { min_s: 1.0, min_requests: 300, max_s: 5.0 };

    #[test]
    fn a_busy_service_gets_the_shortest_window() {
        let mut w = RequestWindow::default();
        for _ in 0..20 {
            w.push(delta(0.25, 500, 1000), 10.0);
        }
        let recent = w.recent(PARAMS).unwrap();
        assert_eq!((recent.seconds, recent.requests), (1.0, 2000));
        assert!((recent.cpu_per_request_s().unwrap() - 1e-4).abs() < 1e-12);
    }

    #[test]
    fn a_quiet_service_gets_a_longer_one() {
        let mut w = RequestWindow::default();
        for _ in 0..20 {
            w.push(delta(0.25, 25, 1000), 10.0);
        }
        assert_eq!(w.recent(PARAMS).unwrap().requests, 300);
    }

    #[test]
    fn an_idle_service_gets_the_longest_and_has_no_tails() {
        let mut w = RequestWindow::default();
        for _ in 0..60 {
            w.push(delta(0.25, 0, 1000), 10.0);
        }
        let recent = w.recent(PARAMS).unwrap();
        assert_eq!(recent.seconds, 5.0);
        assert!(matches!(recent.tails(0.95), Err(Gap::NotYet(_))));
        assert!(matches!(recent.cpu_per_request_s(), Err(Gap::NotYet(_))));
    }

    #[test]
    fn one_interval_without_latencies_leaves_the_window_without() {
        let mut w = RequestWindow::default();
        w.push(delta(1.0, 200, 1000), 10.0);
        w.push(RequestDelta { latency_ns: None, ..delta(1.0, 200, 0) }, 10.0);
        assert!(w.recent(PARAMS).unwrap().tails(0.95).is_err());
    }

    #[test]
    fn absurd_growth_is_no_overflow() {
        let mut w = RequestWindow::default();
        for _ in 0..3 {
            w.push(
                RequestDelta { requests: u64::MAX, bytes_in: u64::MAX, ..delta(0.5, 1, 9) },
                10.0,
            );
        }
        assert_eq!(w.recent(PARAMS).unwrap().requests, u64::MAX);
    }

    #[test]
    fn too_little_past_is_not_yet() {
        let mut w = RequestWindow::default();
        assert!(w.recent(PARAMS).is_err());
        w.push(delta(0.25, 10, 1000), 10.0);
        assert!(w.recent(PARAMS).is_err());
    }
}
