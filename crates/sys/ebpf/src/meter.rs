//! From the meter's raw counters to a reading, or to the reason why there is none.

use quell_types::{Gap, LogHistogram, Reading, RequestReading};

/// The share of answers since the last reading that may be untold before the latency is a gap.
/// The untold ones are never in the histogram, so below it the number stands for the others.
pub const AMBIGUOUS_FRAC: f64 = 0.05;

/// Payload in without one answer, ever, from which a service is held to be one-way.
const ONE_WAY_SEGMENTS: u64 = 200;

/// Words of `struct service` in bpf/packets.h before the slots.
pub(crate) const COUNTERS: usize = 15;
/// All its words.
pub(crate) const WORDS: usize = COUNTERS + quell_types::SLOTS;
pub(crate) type RawService = [u64; WORDS];

/// What the meter counted of one service, summed over CPUs. All only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterCounters {
    /// Requests answered; a batch that cannot be told apart counts once.
    pub requests: u64,
    /// Payload bytes received, retransmissions left out.
    pub bytes_in: u64,
    /// Segments that brought them.
    pub segments_in: u64,
    /// Segments that came while a request waited: parts of large or slowly sent requests.
    pub pieces: u64,
    /// Segments received again: the network lost the first, or its acknowledgement.
    pub duplicates_in: u64,
    /// Segments that were looked into and held several requests.
    pub batches: u64,
    /// Requests sent before the answer to the last one had arrived.
    pub overlaps: u64,
    /// Segments received on HTTP/2 connections.
    pub multiplexed_in: u64,
    /// Connections on which payload came.
    pub connections: u64,
    /// Payload bytes sent, retransmissions left out.
    pub bytes_out: u64,
    /// Segments (before they are cut to size) that carried them.
    pub segments_out: u64,
    /// Segments sent again.
    pub duplicates_out: u64,
    /// Segments sent on connections on which nothing was ever asked: pushed.
    pub unasked_out: u64,
    /// Segments sent after the first of an answer: more of it, or pushed.
    pub more_out: u64,
    /// Answers whose request cannot be told apart.
    pub untold: u64,
    /// Segments sent on HTTP/2 connections.
    pub multiplexed_out: u64,
}

/// The sum over CPUs.
pub(crate) fn sum<'a>(values: impl Iterator<Item = &'a RawService>) -> RawService {
    let mut total = [0; WORDS];
    for value in values {
        for (all, one) in total.iter_mut().zip(value) {
            *all += one;
        }
    }
    total
}

impl MeterCounters {
    pub(crate) fn of(raw: &RawService) -> Self {
        let told: u64 = raw[COUNTERS..].iter().sum();
        Self {
            requests: told + raw[13],
            bytes_in: raw[0],
            segments_in: raw[1],
            pieces: raw[2],
            duplicates_in: raw[3],
            batches: raw[4],
            overlaps: raw[5],
            multiplexed_in: raw[6],
            connections: raw[7],
            bytes_out: raw[8],
            segments_out: raw[9],
            duplicates_out: raw[10],
            unasked_out: raw[11],
            more_out: raw[12],
            untold: raw[13],
            multiplexed_out: raw[14],
        }
    }
}

/// Judges from reading to reading whether a service's latency can be told.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    last: MeterCounters,
    verdict: Option<Gap>,
}

impl Judge {
    /// The reading of these counters. Without traffic since the last one its verdict stands.
    pub(crate) fn read(&mut self, raw: &RawService) -> RequestReading {
        let now = MeterCounters::of(raw);
        if now.segments_in != self.last.segments_in || now.requests != self.last.requests {
            self.verdict = judge(&self.last, &now);
            self.last = now;
        }
        let latency_ns: Reading<LogHistogram> = match &self.verdict {
            Some(gap) => Err(gap.clone()),
            None => Ok(LogHistogram::from_counts(&raw[COUNTERS..])),
        };
        RequestReading {
            requests: now.requests,
            bytes_in: now.bytes_in,
            bytes_out: now.bytes_out,
            latency_ns,
        }
    }
}

fn judge(last: &MeterCounters, now: &MeterCounters) -> Option<Gap> {
    let since = |field: fn(&MeterCounters) -> u64| field(now).saturating_sub(field(last));
    let ambiguous = |why: String| Some(Gap::Ambiguous(why));
    let too_many = |part: u64, all: u64| part as f64 > AMBIGUOUS_FRAC * all as f64;
    if now.requests == 0 && now.multiplexed_in == 0 && now.segments_in >= ONE_WAY_SEGMENTS {
        return ambiguous(format!(
            "one-way: {} segments of payload came in and none was ever answered",
            now.segments_in
        ));
    }
    let (multiplexed, segments) = (since(|c| c.multiplexed_in), since(|c| c.segments_in));
    if too_many(multiplexed, segments) {
        return ambiguous(format!(
            "multiplexed: {multiplexed} of {segments} segments came on HTTP/2 connections"
        ));
    }
    let (untold, requests) = (since(|c| c.untold), since(|c| c.requests));
    if too_many(untold, requests) {
        return ambiguous(format!(
            "pipelined: {untold} of {requests} answers were to requests that cannot be told apart \
             ({} batches, {} sent before the last answer had arrived)",
            since(|c| c.batches),
            since(|c| c.overlaps)
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(set: &[(usize, u64)], answered: u64) -> RawService {
        let mut raw = [0; WORDS];
        for &(at, value) in set {
            raw[at] = value;
        }
        raw[COUNTERS + 80] = answered;
        raw
    }

    #[test]
    fn a_few_untold_answers_leave_the_number_standing() {
        let mut judge = Judge::default();
        let reading = judge.read(&raw(&[(1, 100), (13, 4)], 96));
        assert_eq!((reading.requests, reading.latency_ns.unwrap().count()), (100, 96));
    }

    #[test]
    fn many_untold_answers_are_a_gap_until_they_cease() {
        let mut judge = Judge::default();
        let gap = judge.read(&raw(&[(1, 100), (4, 3), (13, 50)], 50)).latency_ns.unwrap_err();
        assert!(matches!(&gap, Gap::Ambiguous(why) if why.starts_with("pipelined: 50 of 100")));
        let quiet = judge.read(&raw(&[(1, 100), (4, 3), (13, 50)], 50)).latency_ns;
        assert_eq!(quiet.unwrap_err(), gap, "no traffic tells nothing new");
        assert!(judge.read(&raw(&[(1, 200), (4, 3), (13, 51)], 149)).latency_ns.is_ok());
    }

    #[test]
    fn multiplexed_and_one_way_traffic_are_gaps() {
        let mut judge = Judge::default();
        let gap = judge.read(&raw(&[(1, 10), (6, 9)], 1)).latency_ns.unwrap_err();
        assert!(gap.to_string().contains("multiplexed: 9 of 10"), "{gap}");
        let gap = Judge::default().read(&raw(&[(1, 500)], 0)).latency_ns.unwrap_err();
        assert!(gap.to_string().contains("one-way"), "{gap}");
        assert!(
            Judge::default().read(&raw(&[(1, 20)], 0)).latency_ns.is_ok(),
            "a service that is merely slow is not one-way"
        );
    }
}
