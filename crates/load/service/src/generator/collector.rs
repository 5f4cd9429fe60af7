//! Puts the threads' books together: windows as they close, and the report at the end.

use super::LoadPlan;
use super::pacer::Timeline;
use super::session::{Batch, End, Record};
use crate::LoadError;
use crate::clock::{Realtime, thread_cpu_ns};
use crate::report::{GeneratorReport, RunReport};
use crate::stats::Latencies;
use crate::window::{Joiner, Slice, Window};
use crate::wire::UNKNOWN_NS;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

#[derive(Default)]
struct Totals {
    offered: u64,
    answered: u64,
    failed: u64,
    unanswered: u64,
    sojourn: Latencies,
    queue: Latencies,
    service: Latencies,
    server_queue: Latencies,
}

pub(super) struct Collector {
    clients: usize,
    measured_ns: u64,
    /// Where the slice that is put together next begins.
    slice_start_ns: u64,
    joiner: Joiner,
    /// Batches that came, by slice.
    waiting: BTreeMap<u64, Vec<Batch>>,
    next: u64,
    /// Last slice of each thread that has ended.
    ended: Vec<u64>,
    totals: Totals,
    windows: Vec<Window>,
    backlog_samples: Vec<u64>,
    requests: Option<(PathBuf, BufWriter<File>)>,
    cpu_ns: u64,
}

impl Collector {
    pub(super) fn new(
        plan: &LoadPlan,
        timeline: &Timeline,
        clients: u32,
    ) -> Result<Self, LoadError> {
        let open = |path: &PathBuf| match File::create(path) {
            Ok(file) => Ok((path.clone(), BufWriter::new(file))),
            Err(source) => Err(LoadError::Write { path: path.clone(), source }),
        };
        Ok(Self {
            clients: clients as usize,
            measured_ns: timeline.measured_ns,
            slice_start_ns: timeline.measured_ns,
            joiner: Joiner::new(plan.window, timeline.measured_ns),
            waiting: BTreeMap::new(),
            next: 0,
            ended: Vec::new(),
            totals: Totals::default(),
            windows: Vec::new(),
            backlog_samples: Vec::new(),
            requests: plan.requests_file.as_ref().map(open).transpose()?,
            cpu_ns: 0,
        })
    }

    /// Takes batches until all threads have ended.
    pub(super) fn collect(
        &mut self,
        batches: &Receiver<Batch>,
        on_window: &mut dyn FnMut(&Window),
    ) -> Result<(), LoadError> {
        while let Ok(batch) = batches.recv() {
            let cpu = thread_cpu_ns();
            let closed = self.take(batch)?;
            self.cpu_ns += thread_cpu_ns() - cpu;
            // What the caller does with a window is not the generator's work.
            for window in closed {
                on_window(&window);
                self.windows.push(window);
            }
        }
        if let Some(window) = self.joiner.finish() {
            on_window(&window);
            self.windows.push(window);
        }
        if let Some((path, mut file)) = self.requests.take() {
            file.flush().map_err(|source| LoadError::Write { path, source })?;
        }
        Ok(())
    }

    fn take(&mut self, batch: Batch) -> Result<Vec<Window>, LoadError> {
        if batch.last {
            self.ended.push(batch.number);
        }
        self.waiting.entry(batch.number).or_default().push(batch);
        let mut closed = Vec::new();
        while let Some(batches) = self.whole() {
            let slice = self.merge(batches)?;
            closed.extend(self.joiner.push(slice));
        }
        Ok(closed)
    }

    /// The batches of the next slice, once every thread that still runs has sent its own.
    fn whole(&mut self) -> Option<Vec<Batch>> {
        let gone = self.ended.iter().filter(|&&last| last < self.next).count();
        let here = self.waiting.get(&self.next)?.len();
        if here + gone < self.clients {
            return None;
        }
        let batches = self.waiting.remove(&self.next);
        self.next += 1;
        batches
    }

    fn merge(&mut self, batches: Vec<Batch>) -> Result<Slice, LoadError> {
        let mut slice = Slice { start_ns: self.slice_start_ns, ..Slice::default() };
        let mut samples: Vec<u64> = Vec::new();
        for batch in batches {
            slice.end_ns = slice.end_ns.max(batch.end_ns);
            slice.offered += batch.offered;
            slice.failed += batch.failed;
            slice.backlog += batch.backlog;
            samples.resize(samples.len().max(batch.backlog_samples.len()), 0);
            samples.iter_mut().zip(&batch.backlog_samples).for_each(|(sum, one)| *sum += one);
            for record in &batch.records {
                slice.answered += u64::from(record.answered);
                slice.sojourns_ns.push(record.sojourn_ns);
                self.totals.count(record);
                self.write(record)?;
            }
        }
        self.slice_start_ns = slice.end_ns;
        self.totals.offered += slice.offered;
        self.totals.failed += slice.failed;
        self.backlog_samples.extend(samples);
        Ok(slice)
    }

    fn write(&mut self, record: &Record) -> Result<(), LoadError> {
        let Some((path, file)) = &mut self.requests else { return Ok(()) };
        let service = record.service_ns.unwrap_or(UNKNOWN_NS);
        let queue = record.queue_ns().unwrap_or(UNKNOWN_NS);
        [queue, service, record.sojourn_ns]
            .iter()
            .try_for_each(|ns| file.write_all(&ns.to_le_bytes()))
            .map_err(|source| LoadError::Write { path: path.clone(), source })
    }

    pub(super) fn report(
        self,
        plan: &LoadPlan,
        ends: Vec<End>,
        connections: u32,
    ) -> Result<RunReport, LoadError> {
        let ended_ns = ends.iter().map(|end| end.ended_ns).max().unwrap_or(self.measured_ns);
        let measured_s = ended_ns.saturating_sub(self.measured_ns).max(1) as f64 / 1e9;
        let in_time: u64 = ends.iter().map(|end| end.in_time).sum();
        let served: u64 = ends.iter().map(|end| end.served).sum();
        let warmup_requests = ends.iter().map(|end| end.warmup).sum();
        let totals = self.totals;
        let nothing = LoadError::NothingAnswered { offered: totals.offered, failed: totals.failed };
        Ok(RunReport {
            seed: plan.seed,
            measured_s,
            warmup_requests,
            offered: totals.offered,
            answered: totals.answered,
            answered_in_time: in_time,
            failed: totals.failed,
            unanswered: totals.unanswered,
            offered_qps: totals.offered as f64 / measured_s,
            answered_qps: in_time as f64 / measured_s,
            served_qps: served as f64 / measured_s,
            sojourn: totals.sojourn.summary().ok_or(nothing)?,
            queue: totals.queue.summary(),
            service: totals.service.summary(),
            server_queue: totals.server_queue.summary(),
            windows: self.windows,
            backlog_samples: self.backlog_samples,
            generator: generator_report(&ends, self.cpu_ns, self.measured_ns, connections),
        })
    }
}

impl Record {
    fn queue_ns(&self) -> Option<u64> {
        self.service_ns.map(|service| self.sojourn_ns.saturating_sub(service))
    }
}

impl Totals {
    fn count(&mut self, record: &Record) {
        self.answered += u64::from(record.answered);
        self.unanswered += u64::from(!record.answered);
        self.sojourn.record(record.sojourn_ns);
        let parts = [
            (&mut self.queue, record.queue_ns()),
            (&mut self.service, record.service_ns),
            (&mut self.server_queue, record.server_queue_ns),
        ];
        for (latencies, ns) in parts {
            if let Some(ns) = ns {
                latencies.record(ns);
            }
        }
    }
}

fn generator_report(
    ends: &[End],
    collector_cpu_ns: u64,
    measured_ns: u64,
    connections: u32,
) -> GeneratorReport {
    let mut late = Latencies::default();
    ends.iter().for_each(|end| late.merge(&end.late));
    let late_us = |p| late.percentile_ms(p).unwrap_or_default() * 1e3;
    let cpu_ns = collector_cpu_ns + ends.iter().map(|end| end.cpu_ns).sum::<u64>();
    let drained_ns = ends.iter().map(|end| end.drained_ns).max().unwrap_or(measured_ns);
    let service: Option<Vec<u64>> = ends.iter().map(|end| end.service_cpu_ns).collect();
    // One refusal is worth telling even if other threads were lucky.
    let refused = ends.iter().find(|end| matches!(end.realtime, Realtime::Refused(_)));
    let realtime = refused.or(ends.first()).map_or(Realtime::Off, |end| end.realtime.clone());
    GeneratorReport {
        cpu_s: cpu_ns as f64 / 1e9,
        cpu_frac: cpu_ns as f64 / drained_ns.saturating_sub(measured_ns).max(1) as f64,
        service_cpu_s: service.map(|ns| ns.iter().sum::<u64>() as f64 / 1e9),
        late_p50_us: late_us(0.5),
        late_p99_us: late_us(0.99),
        realtime,
        threads: ends.len() as u32,
        connections,
        reconnects: ends.iter().map(|end| end.reconnects).sum(),
    }
}
