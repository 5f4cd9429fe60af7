//! What was started for a measurement, and how it is started once more.

use super::output::{self, Count};
use super::source::{Counter, Source};
use super::{Group, Metric, repeated};
use crate::ProfileError;
use quell_pressure::Bound;
use quell_types::CpuSet;
use std::fmt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Find = dyn Fn(&Group) -> Vec<Box<dyn Counter>> + Send + Sync;

/// Finds what can count a group's work from outside, the most telling first.
#[derive(Clone)]
pub struct Counters(Arc<Find>);

impl Counters {
    /// These.
    pub fn new(of: impl Fn(&Group) -> Vec<Box<dyn Counter>> + Send + Sync + 'static) -> Counters {
        Counters(Arc::new(of))
    }

    /// Of a group, and the bytes of its system calls, which always are there.
    pub(super) fn sources(&self, group: &Group) -> Vec<Source> {
        let others = (self.0)(group).into_iter().map(Source::Other);
        others.chain(std::iter::once(Source::io())).collect()
    }
}

impl Default for Counters {
    fn default() -> Counters {
        Counters::new(|_| Vec::new())
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counters")
    }
}

/// By what the progress of a program is seen.
#[derive(Clone, Debug)]
pub(super) enum By {
    /// By what it prints.
    Output(Count, Metric),
    /// From outside; nobody hears what it prints.
    Counters(Counters),
}

/// How a program is started.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) words: Vec<String>,
    pub(super) cpus: CpuSet,
    pub(super) by: By,
}

impl Start {
    /// Its name.
    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }

    /// Starts it; gives what may count its work, too.
    pub(super) fn begin(self) -> Result<(Started, Vec<Source>), ProfileError> {
        let begun = Instant::now();
        let (child, sources) = self.child()?;
        Ok((Started { start: self, child, begun }, sources))
    }

    fn child(&self) -> Result<(Bound, Vec<Source>), ProfileError> {
        match &self.by {
            By::Counters(counters) => {
                let child = repeated::start(&self.words, &self.cpus, Stdio::null())?;
                let sources = counters.sources(&Group::Process(child.id()));
                Ok((child, sources))
            }
            By::Output(count, metric) => {
                let failed = |e| ProfileError::subject(self.name(), e);
                let mut child = repeated::start(&self.words, &self.cpus, Stdio::piped())?;
                let none = || failed(std::io::ErrorKind::BrokenPipe.into());
                let out = child.take_stdout().ok_or_else(none)?;
                let counter = output::count(out, count.clone()).map_err(failed)?;
                Ok((child, vec![Source::Output(counter, *metric)]))
            }
        }
    }
}

/// A program that was started, and is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) start: Start,
    pub(super) child: Bound,
    begun: Instant,
}

impl Started {
    /// It and what it started.
    pub(super) fn group(&self) -> Group {
        Group::Process(self.child.id())
    }

    /// Whether it has ended by so much later at the latest; an error unless it ended well.
    pub(super) fn ends_within(&self, time: Duration) -> Result<bool, ProfileError> {
        let ended = self.child.wait(time);
        let ended = ended.map_err(|e| ProfileError::subject(self.start.name(), e))?;
        ended
            .map(|how| repeated::success(&self.start.words, how, self.begun.elapsed()))
            .transpose()?;
        Ok(ended.is_some())
    }

    /// Starts it again, to be counted in the same.
    pub(super) fn again(&mut self, metric: Metric) -> Result<Source, ProfileError> {
        let (child, sources) = self.start.child()?;
        (self.child, self.begun) = (child, Instant::now());
        let same = sources.into_iter().find(|source| source.metric() == metric);
        same.ok_or_else(|| ProfileError::Stalled(self.start.name().to_owned()))
    }
}
