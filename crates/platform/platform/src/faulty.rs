//! Any platform with faults thrown at it.

mod hardware;
mod readings;

use crate::life::Life;
use crate::platform::{Platform, PlatformError, Scope};
use quell_types::{
    Action, CapabilityReport, Knob, Outcome, Sample, Setup, Tenant, TenantReading, Time,
};
use readings::Spoiled;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What goes wrong: with the next write, or with the sensors of one sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The next write is lost without a word.
    LoseWrite,
    /// The next write is refused.
    RefuseWrite(String),
    /// The next write arrives this many samples late.
    DelayWrite(u32),
    /// The agent dies just before the next write.
    DieBefore,
    /// The agent dies just after the next write.
    DieAfter,
    /// A tenant's sensors give nothing in this sample.
    Blind(Tenant),
    /// A tenant is gone in this sample.
    Gone(Tenant),
    /// A tenant is not in this sample at all.
    Vanish(Tenant),
    /// The sample is the one before, at a new time: a sensor that stalls.
    Stall,
    /// A tenant's counters read this many times what they are.
    Lie(Tenant, u32),
    /// A tenant's counters jump ahead by this much, for good.
    Jump(Tenant, u64),
    /// A tenant's counters come to the end of their range and begin anew, for good.
    Wrap(Tenant),
    /// A tenant has another identity from now on, though its counters go on.
    Rename(Tenant),
    /// The machine slept: its clock jumps ahead, for good.
    Sleep(Duration),
    /// Somebody sets the clock that people read, by this many milliseconds, for good.
    SetClock(i64),
    /// The machine's own sensors (bus locks, temperatures, power) show what they showed in the
    /// sample before.
    HardwareStall,
    /// They read this many times what they are.
    HardwareLie(u32),
    /// They tell nothing of these CPUs; without a CPU they are gone altogether.
    HardwareVanish(Vec<u32>),
}

impl Fault {
    /// Whether it befalls a write rather than a sample.
    #[must_use]
    pub fn is_of_write(&self) -> bool {
        use Fault::{DelayWrite, DieAfter, DieBefore, LoseWrite, RefuseWrite};
        matches!(self, LoseWrite | RefuseWrite(_) | DelayWrite(_) | DieBefore | DieAfter)
    }
}

/// Throws faults by the number of the sample (from 1), or when it is told to, so that a run can be
/// repeated exactly.
#[derive(Debug)]
pub struct Faulty<P> {
    inner: P,
    faults: BTreeMap<u64, Vec<Fault>>,
    samples: u64,
    armed: VecDeque<Fault>,
    /// Faults of sensors that last, with the number of their last sample.
    lasting: Vec<(u64, Fault)>,
    /// Those that befell the last sample.
    befell: Vec<Fault>,
    late: Vec<(u64, Action)>,
    refused: Vec<Outcome>,
    last: Option<Sample>,
    time: Time,
    spoiled: Spoiled,
    life: Life,
}

impl<P: Platform> Faulty<P> {
    /// Wraps a platform.
    #[must_use]
    pub fn new(inner: P, faults: BTreeMap<u64, Vec<Fault>>) -> Self {
        Self {
            inner,
            faults,
            samples: 0,
            armed: VecDeque::new(),
            lasting: Vec::new(),
            befell: Vec::new(),
            late: Vec::new(),
            refused: Vec::new(),
            last: None,
            time: Time(0),
            spoiled: Spoiled::default(),
            life: Life::default(),
        }
    }

    /// The same with a life of its own, shared with the stores that the agent writes to.
    #[must_use]
    pub fn with_life(self, life: Life) -> Self {
        Self { life, ..self }
    }

    /// Throws a fault now: at the next write, or at so many samples from the next one on.
    pub fn throw(&mut self, fault: Fault, samples: u32) {
        if fault.is_of_write() {
            self.armed.push_back(fault);
        } else {
            self.lasting.push((self.samples + u64::from(samples), fault));
        }
    }

    /// Forgets faults that were thrown and have not come about, and ends those that last. What
    /// they did to counters and clocks stays.
    pub fn calm(&mut self) {
        self.armed.clear();
        self.lasting.clear();
    }

    /// Whether a fault is still to come, lasts, or a write is still on its way.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.armed.is_empty() && self.lasting.is_empty() && self.late.is_empty()
    }

    /// Whether the last sample hid what became of a tenant.
    #[must_use]
    pub fn hid(&self, tenant: &Tenant) -> bool {
        self.befell.iter().any(|fault| match fault {
            Fault::Stall => true,
            Fault::Blind(of) | Fault::Gone(of) | Fault::Vanish(of) => of == tenant,
            _ => false,
        })
    }

    /// The platform itself.
    #[must_use]
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// The platform itself, past all faults.
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// Without its wrapping.
    pub fn into_inner(self) -> P {
        self.inner
    }

    fn apply_late(&mut self) -> Result<(), PlatformError> {
        let due = self.samples;
        let (now, later) =
            std::mem::take(&mut self.late).into_iter().partition(|(at, _)| *at <= due);
        self.late = later;
        let now: Vec<(u64, Action)> = now;
        now.iter().try_for_each(|(_, action)| self.inner.apply(action))
    }

    fn spoil(&mut self, sample: &mut Sample) {
        for fault in self.faults.remove(&self.samples).unwrap_or_default() {
            self.throw(fault, 0);
        }
        let now = self.samples;
        let lasting = std::mem::take(&mut self.lasting);
        self.befell = lasting.iter().map(|(_, fault)| fault.clone()).collect();
        for (until, fault) in lasting {
            match (&fault, &self.last) {
                (Fault::Stall, last) => stall(sample, last.as_ref()),
                (Fault::HardwareStall, last) => hardware::stall(sample, last.as_ref()),
                _ => self.spoiled.befall(&fault, sample),
            }
            if until > now && !Spoiled::is_for_good(&fault) {
                self.lasting.push((until, fault));
            }
        }
        self.spoiled.apply(sample);
    }

    fn alive(&self) -> Result<(), PlatformError> {
        match self.life.is_over() {
            true => Err(PlatformError::Lost("the agent is dead".into())),
            false => Ok(()),
        }
    }

    fn write(&mut self, action: &Action) -> Result<(), PlatformError> {
        match self.armed.pop_front() {
            Some(Fault::LoseWrite) => Ok(()),
            Some(Fault::DelayWrite(samples)) => {
                self.late.push((self.samples + u64::from(samples), action.clone()));
                Ok(())
            }
            Some(Fault::RefuseWrite(why)) => {
                let time = self.time;
                self.refused.push(Outcome { action: action.clone(), time, error: Some(why) });
                Ok(())
            }
            Some(Fault::DieBefore) => {
                self.life.end();
                self.alive()
            }
            Some(Fault::DieAfter) => {
                self.inner.apply(action)?;
                self.life.end();
                self.alive()
            }
            _ => self.inner.apply(action),
        }
    }
}

/// Sensors show what they showed; what the agent itself did is known all the same.
fn stall(sample: &mut Sample, last: Option<&Sample>) {
    let Some(last) = last else { return };
    let own = Sample {
        time: sample.time,
        outcomes: std::mem::take(&mut sample.outcomes),
        experiments: std::mem::take(&mut sample.experiments),
        probes: std::mem::take(&mut sample.probes),
        bursts: std::mem::take(&mut sample.bursts),
        ..last.clone()
    };
    *sample = own;
}

impl<P: Platform> Platform for Faulty<P> {
    fn setup(&self) -> &Setup {
        self.inner.setup()
    }

    fn capabilities(&self) -> Vec<CapabilityReport> {
        self.inner.capabilities()
    }

    fn sample(&mut self, after: Duration, scope: Scope) -> Result<Sample, PlatformError> {
        self.alive()?;
        self.samples += 1;
        self.apply_late()?;
        let mut sample = self.inner.sample(after, scope)?;
        self.spoil(&mut sample);
        sample.outcomes.append(&mut self.refused);
        self.time = sample.time;
        self.last = Some(sample.clone());
        Ok(sample)
    }

    fn apply(&mut self, action: &Action) -> Result<(), PlatformError> {
        self.alive()?;
        self.write(action)
    }

    fn restore(&mut self) -> Result<(), PlatformError> {
        self.alive()?;
        // Whatever is still on its way ends with the agent that sent it.
        self.late.clear();
        self.inner.restore()
    }

    fn disown(&mut self, knob: &Knob) -> Result<(), PlatformError> {
        self.alive()?;
        self.inner.disown(knob)
    }
}
