//! Bursts of a reporter: where one may run, and the process that plays it.

use super::Linux;
use crate::clock;
use crate::reporter::Reporter;
use quell_platform::{IdleCpus, PlatformError, Undo};
use quell_types::{Burst, BurstReport, BurstTrace, Gap};

/// The reporter of a server.
#[derive(Default)]
pub(super) struct Reporting {
    /// Bursts that ended.
    pub(super) traces: Vec<BurstTrace>,
    /// The process, and the journal's key of it.
    process: Option<(Reporter, String)>,
    idle: IdleCpus,
}

impl Reporting {
    /// When it wants to be stepped next.
    pub(super) fn next_edge(&self) -> Option<quell_types::Time> {
        self.process.as_ref()?.0.next_edge()
    }

    fn not_played(&mut self, id: u64, why: String) {
        let report = BurstReport { cpu_ns: 0, times: Err(Gap::NotYet(why)) };
        self.traces.push(BurstTrace { id, cpu: None, time: clock::now(), report });
    }
}

impl Linux {
    /// Begins a burst, if a CPU is idle.
    pub(super) fn burst(&mut self, burst: &Burst) -> Result<Result<(), String>, PlatformError> {
        if self.options.reporter_program.is_empty() {
            return Ok(Err("no program that reports was named".into()));
        }
        if self.reporting.process.as_ref().is_some_and(|(reporter, _)| reporter.is_playing()) {
            return Ok(Err("another burst is under way".into()));
        }
        let (topology, managed) = (&self.setup.topology, &self.setup.managed_cpus);
        let cpu = match self.reporting.idle.choose(topology, managed, &burst.not_on) {
            Ok(cpu) => cpu,
            Err(why) => {
                self.reporting.not_played(burst.id, why);
                return Ok(Ok(()));
            }
        };
        if self.reporting.process.is_none()
            && let Err(why) = self.start_reporter()?
        {
            return Ok(Err(why));
        }
        if let Some((reporter, _)) = &mut self.reporting.process {
            reporter.play(burst, cpu);
        }
        Ok(Ok(()))
    }

    fn start_reporter(&mut self) -> Result<Result<(), String>, PlatformError> {
        let group = match self.probe_group()? {
            Ok(group) => group,
            Err(why) => return Ok(Err(why)),
        };
        let procs: Vec<_> = group.places().iter().map(|p| p.file("cgroup.procs")).collect();
        let reporter = match Reporter::start(&self.options.reporter_program, &procs) {
            Ok(reporter) => reporter,
            Err(error) => return Ok(Err(format!("what should report: {error}"))),
        };
        let pid = reporter.pid();
        let start_ns = self.machine.process(pid).map_or(0, |process| process.start_ns);
        let key = format!("reporter process {pid} started at {start_ns}");
        // Dropped on an error: then it is killed.
        self.journal.before_write(&key, || vec![Undo::EndProcess { pid, start_ns }])?;
        self.reporting.process = Some((reporter, key));
        Ok(Ok(()))
    }

    /// Plays an edge that is due.
    pub(super) fn step_reporter(&mut self) {
        let Some((reporter, _)) = &mut self.reporting.process else { return };
        match reporter.step() {
            None => reporter.wait(),
            Some((trace, well)) => {
                self.reporting.traces.push(trace);
                if !well {
                    self.end_reporter();
                }
            }
        }
    }

    /// Ends the process.
    pub(super) fn end_reporter(&mut self) {
        if let Some((reporter, key)) = self.reporting.process.take() {
            drop(reporter);
            self.forget_process(&key);
        }
    }

    /// Sees how busy CPUs were, at a full sample.
    pub(super) fn see_idle_cpus(&mut self) {
        if self.options.reporter_program.is_empty() {
            return;
        }
        // What cannot be read leaves no CPU idle, which is said when a burst is asked for.
        if let Ok(times) = self.machine.cpu_times_by_cpu() {
            let busy = times.into_iter().map(|(cpu, times)| (cpu, times.busy_ns + times.steal_ns));
            self.reporting.idle.see(clock::now(), busy);
        }
    }
}
