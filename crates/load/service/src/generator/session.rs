//! One generator thread's books: what was due, answered and lost, slice by slice.

use super::pacer::{Arrival, Pacer, SILENT_NS, TICK_NS};
use super::{LoadPlan, seconds_ns};
use crate::clock::{Realtime, make_realtime, now_ns, sharpen_timers, thread_cpu_ns};
use crate::stats::Latencies;
use std::sync::mpsc::Sender;

/// Something that sends requests as a session says, until it is over.
pub(super) trait Client: Send {
    fn run(self: Box<Self>, session: Session) -> End;
}

/// One request of the measured phase that is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) sojourn_ns: u64,
    pub(super) service_ns: Option<u64>,
    pub(super) server_queue_ns: Option<u64>,
    /// False if it was given up; the sojourn is its age then.
    pub(super) answered: bool,
}

/// A window's worth of one thread.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) client: u32,
    pub(super) number: u64,
    /// No more come from this thread.
    pub(super) last: bool,
    pub(super) end_ns: u64,
    pub(super) offered: u64,
    pub(super) failed: u64,
    pub(super) backlog: u64,
    pub(super) backlog_samples: Vec<u64>,
    pub(super) records: Vec<Record>,
}

/// What a thread leaves behind.
#[derive(Debug)]
pub(super) struct End {
    pub(super) ended_ns: u64,
    pub(super) drained_ns: u64,
    pub(super) warmup: u64,
    pub(super) in_time: u64,
    pub(super) served: u64,
    pub(super) cpu_ns: u64,
    pub(super) service_cpu_ns: Option<u64>,
    pub(super) late: Latencies,
    pub(super) reconnects: u64,
    pub(super) realtime: Realtime,
}

pub(super) struct Session {
    pacer: Pacer,
    batches: Sender<Batch>,
    batch: Batch,
    next_tick_ns: u64,
    next_boundary_ns: u64,
    drain_ns: u64,
    min_sleep_ns: u64,
    warmup: u64,
    in_time: u64,
    /// Answers during the measured phase, to whatever request.
    served: u64,
    /// CPU time at the start of the measured phase.
    cpu_start_ns: Option<u64>,
    late: Latencies,
    wants_realtime: bool,
    realtime: Realtime,
}

impl Session {
    pub(super) fn new(pacer: Pacer, plan: &LoadPlan, client: u32, batches: Sender<Batch>) -> Self {
        let measured_ns = pacer.timeline.measured_ns;
        Self {
            next_tick_ns: measured_ns + TICK_NS,
            next_boundary_ns: measured_ns + pacer.timeline.window_ns,
            pacer,
            batches,
            batch: Batch { client, ..Batch::default() },
            drain_ns: seconds_ns(plan.drain_s),
            min_sleep_ns: plan.min_sleep_ns,
            warmup: 0,
            in_time: 0,
            served: 0,
            cpu_start_ns: None,
            late: Latencies::default(),
            wants_realtime: plan.realtime,
            realtime: Realtime::Off,
        }
    }

    /// Makes the calling thread precise. To be called by the client once its helpers, who would
    /// inherit the priority, have been started.
    pub(super) fn sharpen(&mut self) {
        sharpen_timers();
        self.realtime = make_realtime(self.wants_realtime);
    }

    /// The next request that is due by now. Requests of the next window are held back until
    /// [`Session::tick`] has closed this one, so that each counts where it was due even if this
    /// thread has overslept.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<Arrival> {
        let arrival = self.pacer.due(now_ns.min(self.next_boundary_ns - 1))?;
        if arrival.measured {
            self.batch.offered += 1;
            self.late.record(now_ns - arrival.scheduled_ns);
        } else {
            self.warmup += 1;
        }
        Some(arrival)
    }

    pub(super) fn answered(
        &mut self,
        arrival: Arrival,
        done_ns: u64,
        service_ns: Option<u64>,
        server_queue_ns: Option<u64>,
    ) {
        let sojourn_ns = done_ns.saturating_sub(arrival.scheduled_ns);
        self.pacer.count(sojourn_ns, service_ns);
        let in_time = self.pacer.ended_ns().is_none_or(|ended| done_ns <= ended);
        if in_time && done_ns >= self.pacer.timeline.measured_ns {
            self.served += 1;
        }
        if !arrival.measured {
            return;
        }
        self.in_time += u64::from(in_time);
        let answered = true;
        self.batch.records.push(Record { sojourn_ns, service_ns, server_queue_ns, answered });
    }

    pub(super) fn failed(&mut self, arrival: Arrival) {
        self.pacer.count_failed();
        self.batch.failed += u64::from(arrival.measured);
    }

    /// Whether a tick or the end of a window is due: then call [`Session::tick`] with the books
    /// up to date.
    pub(super) fn tick_due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_tick_ns.min(self.next_boundary_ns)
            || (self.cpu_start_ns.is_none() && now_ns >= self.pacer.timeline.measured_ns)
    }

    /// Samples the backlog, closes windows, looks at the controls.
    pub(super) fn tick(&mut self, now_ns: u64, backlog: u64) {
        if self.cpu_start_ns.is_none() && now_ns >= self.pacer.timeline.measured_ns {
            self.cpu_start_ns = Some(thread_cpu_ns());
        }
        let ended = self.pacer.ended_ns().is_some();
        while now_ns >= self.next_tick_ns {
            if !ended {
                self.batch.backlog_samples.push(backlog);
            }
            self.next_tick_ns += TICK_NS;
        }
        // The last window stays open until the drain is over.
        if !ended && now_ns >= self.next_boundary_ns && !self.at_end(self.next_boundary_ns) {
            let boundary = self.next_boundary_ns;
            self.next_boundary_ns += self.pacer.timeline.window_ns;
            self.send(boundary, backlog, false);
        }
        if ended || self.at_end(self.next_boundary_ns) {
            self.next_boundary_ns = u64::MAX;
        }
    }

    fn at_end(&self, boundary_ns: u64) -> bool {
        self.pacer.timeline.end_ns.is_some_and(|end| boundary_ns >= end)
    }

    /// Whether all is answered, or given up.
    pub(super) fn is_over(&self, now_ns: u64, backlog: u64) -> bool {
        let drained = |ended: u64| backlog == 0 || now_ns >= ended.saturating_add(self.drain_ns);
        self.pacer.ended_ns().is_some_and(drained)
    }

    /// Whether all requests were handed out and only answers are waited for.
    pub(super) fn is_draining(&self) -> bool {
        self.pacer.ended_ns().is_some()
    }

    /// Looks at the controls; cheap enough for every turn.
    pub(super) fn follow_controls(&mut self, now_ns: u64) {
        self.pacer.follow_controls(now_ns);
    }

    /// When there is something to do even if no answer comes.
    pub(super) fn wake_ns(&self, now_ns: u64) -> u64 {
        // Before the measured phase, too, the controls are looked at ten times a second.
        let look_ns = if self.pacer.is_silent() { SILENT_NS } else { TICK_NS };
        let tick = self.next_tick_ns.min(self.next_boundary_ns).min(now_ns + look_ns);
        let drained = self.pacer.ended_ns().map_or(u64::MAX, |e| e.saturating_add(self.drain_ns));
        let measured = self.pacer.timeline.measured_ns;
        let start = if self.cpu_start_ns.is_none() { measured } else { u64::MAX };
        let arrival = self.pacer.wake_ns().max(now_ns + self.min_sleep_ns);
        arrival.min(tick).min(drained).min(start)
    }

    /// Closes the books; `open` are the requests that were never answered.
    pub(super) fn finish(
        mut self,
        open: impl IntoIterator<Item = Arrival>,
        service_cpu_ns: Option<u64>,
        reconnects: u64,
    ) -> End {
        let now = now_ns();
        for arrival in open.into_iter().filter(|arrival| arrival.measured) {
            self.batch.records.push(Record {
                sojourn_ns: now.saturating_sub(arrival.scheduled_ns),
                service_ns: None,
                server_queue_ns: None,
                answered: false,
            });
        }
        let open = self.batch.records.iter().filter(|record| !record.answered).count() as u64;
        // The window ends with the phase, so that its rates are right; late answers count in it.
        let ended = self.pacer.ended_ns().unwrap_or(now);
        self.send(ended, open, true);
        let cpu_start = self.cpu_start_ns.unwrap_or_else(thread_cpu_ns);
        End {
            ended_ns: ended,
            drained_ns: now,
            warmup: self.warmup,
            in_time: self.in_time,
            served: self.served,
            cpu_ns: thread_cpu_ns() - cpu_start,
            service_cpu_ns,
            late: self.late,
            reconnects,
            realtime: self.realtime,
        }
    }

    fn send(&mut self, end_ns: u64, backlog: u64, last: bool) {
        let next = Batch {
            client: self.batch.client,
            number: self.batch.number + 1,
            // As many answers as in this window will likely come in the next.
            records: Vec::with_capacity(self.batch.records.len() + 64),
            ..Batch::default()
        };
        let full = std::mem::replace(&mut self.batch, next);
        // If the collector is gone, the run has failed and its error is on the way.
        let _ = self.batches.send(Batch { end_ns, backlog, last, ..full });
    }
}
