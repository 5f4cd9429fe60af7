//! One thread of pressure.

use crate::dial::{Course, Dial};
use crate::kernel::Kernel;
use crate::meter::Slot;
use crate::resource::Scales;
use crate::{Duty, Idle, Plan, PressureError, Step, Stop, affinity};
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Working time between two latency samples.
const SAMPLE: Duration = Duration::from_micros(200);
/// The longest a thread sleeps or spins without looking whether it shall end.
const LOOK: Duration = Duration::from_millis(100);

/// What all threads of a polluter share.
pub(crate) struct Orders {
    pub(crate) plan: Plan,
    /// Where the owner turns it by hand.
    pub(crate) dial: Dial,
    /// A fresh duty cycle.
    pub(crate) duty: Duty,
    pub(crate) idle: Idle,
    /// What intensity scales.
    pub(crate) scales: Scales,
    /// Every thread ends by itself after this.
    pub(crate) limit: Duration,
    pub(crate) stop: Stop,
    /// The owner of the threads has enough.
    pub(crate) cancelled: AtomicBool,
    /// Set once, when pressure starts.
    pub(crate) start: OnceLock<Instant>,
}

impl Orders {
    fn over(&self, now: Duration) -> bool {
        now >= self.limit || self.cancelled.load(Relaxed) || self.stop.requested()
    }

    /// What to do at `now` with intensity `share` (0..1).
    fn step(&self, (duty, used): (&mut Duty, &mut Used), now: Duration, share: f64) -> Step {
        match self.scales {
            Scales::Time if self.idle == Idle::Pace => duty.after(now, used.take(), share),
            Scales::Time => duty.next(now, share),
            Scales::TogetherInTime => duty.on_the_grid(now, share),
            Scales::Itself => duty.next(now, f64::from(u8::from(share > 0.0))),
        }
    }

    /// Waits for the start; none if it is over before.
    fn await_start(&self) -> Option<Instant> {
        loop {
            if let Some(start) = self.start.get() {
                return Some(*start);
            }
            if self.over(Duration::ZERO) {
                return None;
            }
            std::thread::park_timeout(LOOK);
        }
    }
}

/// CPU time of this thread since it was last asked for.
struct Used(Duration);

impl Used {
    fn take(&mut self) -> Duration {
        let now = cpu_time();
        now.saturating_sub(std::mem::replace(&mut self.0, now))
    }
}

/// Binds the thread, makes and prepares the kernel there, and says so before it waits for the start.
/// Gives the kernel's notes at the end.
pub(crate) fn run(
    orders: &Orders,
    slot: &Slot,
    cpu: Option<u32>,
    make: impl FnOnce() -> Box<dyn Kernel>,
    ready: impl FnOnce(Result<(), PressureError>),
) -> Vec<String> {
    if let Err(e) = cpu.map_or(Ok(()), affinity::bind) {
        ready(Err(e));
        return Vec::new();
    }
    let mut kernel = make();
    kernel.prepare();
    kernel.set_intensity(orders.plan.at(Duration::ZERO));
    ready(Ok(()));
    let mut notes = Vec::new();
    if let Some(start) = orders.await_start() {
        notes.extend(press(orders, slot, start, kernel.as_mut()).err());
        slot.note_last(start.elapsed());
    }
    slot.set_cpu(cpu_time());
    notes.extend(kernel.notes());
    notes
}

/// Bursts and idles until it is over. An error is what the kernel cannot go on with.
fn press(
    orders: &Orders,
    slot: &Slot,
    start: Instant,
    kernel: &mut dyn Kernel,
) -> Result<(), String> {
    let (mut duty, mut used) = (orders.duty.clone(), Used(cpu_time()));
    let mut next_sample = Duration::ZERO;
    let mut now = start.elapsed();
    while !orders.over(now) {
        let Course::At(intensity) = orders.dial.course(&orders.plan, now) else {
            // Whoever turns the dial unparks.
            std::thread::park_timeout(LOOK);
            now = start.elapsed();
            continue;
        };
        kernel.set_intensity(intensity);
        match orders.step((&mut duty, &mut used), now, intensity.share()) {
            Step::Idle(rest) => {
                give_back(slot, kernel, intensity.share())?;
                idle(orders, start, now + rest.min(LOOK));
                now = start.elapsed();
            }
            Step::Work => {
                slot.add_work(kernel.burst()?);
                if now >= next_sample {
                    sample(slot, kernel);
                    next_sample = now + SAMPLE;
                }
                let then = start.elapsed();
                slot.note_first(then);
                slot.add_busy(then.saturating_sub(now));
                now = then;
            }
        }
    }
    slot.set_footprint(kernel.footprint_bytes());
    Ok(())
}

/// At intensity 0 a kernel that occupied something gets one more burst, in which it lets go.
fn give_back(slot: &Slot, kernel: &mut dyn Kernel, share: f64) -> Result<(), String> {
    if share > 0.0 || slot.counts().footprint_bytes == 0 {
        return Ok(());
    }
    if kernel.footprint_bytes() > 0 {
        slot.add_work(kernel.burst()?);
    }
    slot.set_footprint(kernel.footprint_bytes());
    Ok(())
}

fn sample(slot: &Slot, kernel: &mut dyn Kernel) {
    if let Some(probe) = kernel.probe() {
        slot.add_latency(probe.took, probe.accesses);
    }
    slot.set_footprint(kernel.footprint_bytes());
    slot.set_cpu(cpu_time());
}

/// Spins or sleeps until `until`, or until it is over.
fn idle(orders: &Orders, start: Instant, until: Duration) {
    let mut now = start.elapsed();
    let set = orders.dial.setting();
    while now < until && !orders.over(now) && orders.dial.setting() == set {
        if orders.idle != Idle::Spin {
            std::thread::park_timeout(until - now);
        } else {
            for _ in 0..8 {
                std::hint::spin_loop();
            }
        }
        now = start.elapsed();
    }
}

/// CPU time of the calling thread.
pub(crate) fn cpu_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(used.tv_sec), u32::try_from(used.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}
