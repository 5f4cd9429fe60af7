//! Who looks at caches and memory: a thread of its own, on a CPU of its own or on the kernel's.

use super::bench::{Bench, Order, gap};
use crate::ProfileError;
use crate::desk::pause;
use crate::stats::median;
use quell_pressure::{
    Chase, Footprint, InPlace, Intensity, Options, PressureError, Running, Stop, bind_all,
};
use quell_types::{CpuSet, Topology};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A kernel that is muted has ended its burst by then; what it left in the cache is to be looked at soon.
const FALLS_ASLEEP: Duration = Duration::from_millis(1);
/// So much longer than a window is it waited for the first look in which the thread was not interrupted.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks when it is asked to, and else leaves its CPU alone.
pub(super) struct Prober {
    words: String,
    way: Way,
    ask: Sender<Order>,
    answers: Receiver<Result<Option<f64>, PressureError>>,
    thread: Option<JoinHandle<()>>,
}

/// How the kernel and the looks at it take turns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Both at the same time.
    Beside,
    /// The kernel works for this long, then it is looked at what it has.
    After(Duration),
    /// The kernel is the prober's own, on its thread.
    InPlace,
}

impl Prober {
    /// Fills a cache of so many bytes with its own lines, waits while a kernel on other CPUs works, and
    /// times how long its lines take: the more of them were driven out, the longer. A cache that is too
    /// large to be filled is probed in part.
    pub(super) fn beside(cpus: &CpuSet, bytes: usize) -> Result<Prober, ProfileError> {
        Prober::always(cpus, Way::Beside, move || Bench::beside(bytes))
    }

    /// Reads from memory, past all caches where a program may flush its lines, in looks of this length.
    pub(super) fn of_memory(
        cpus: &CpuSet,
        bytes: usize,
        look: Duration,
    ) -> Result<Prober, ProfileError> {
        Prober::always(cpus, Way::Beside, move || Ok(Bench::Memory(Chase::new(bytes)?, look)))
    }

    /// Reads of so many bytes, of which the caches hold what they can, in looks of this length.
    pub(super) fn of_cache(
        cpus: &CpuSet,
        bytes: usize,
        look: Duration,
    ) -> Result<Prober, ProfileError> {
        Prober::always(cpus, Way::Beside, move || Ok(Bench::Cache(Chase::new(bytes)?, look)))
    }

    /// How much of a kernel's footprint a cache holds. None where that cannot be told here. The kernel has
    /// to rest meanwhile.
    pub(super) fn of_footprint(
        cpus: &CpuSet,
        mut print: Footprint,
    ) -> Result<Option<Prober>, ProfileError> {
        let way = Way::After(gap(print.bytes()));
        let make =
            move || Ok((Chase::FLUSHES && print.learn()?).then_some(Bench::Footprint(print)));
        Prober::start(cpus, way, make)
    }

    /// On the kernel's CPU, in turns with a kernel of its own; none for what cannot be probed so.
    pub(super) fn in_place(
        options: Options,
        topology: &Topology,
        stop: &Stop,
    ) -> Result<Option<Prober>, ProfileError> {
        let (cpus, topology, stop) = (options.cpus.first(1), topology.clone(), stop.clone());
        let make = move || Ok(InPlace::of(&options, &topology, &stop)?.map(Bench::InPlace));
        Prober::start(&cpus, Way::InPlace, make)
    }

    fn always(
        cpus: &CpuSet,
        way: Way,
        make: impl FnOnce() -> Result<Bench, PressureError> + Send + 'static,
    ) -> Result<Prober, ProfileError> {
        Prober::start(cpus, way, move || make().map(Some))?.ok_or_else(gone)
    }

    fn start(
        cpus: &CpuSet,
        way: Way,
        make: impl FnOnce() -> Result<Option<Bench>, PressureError> + Send + 'static,
    ) -> Result<Option<Prober>, ProfileError> {
        let (ask, orders) = channel();
        let (tell, answers) = channel();
        let (ready, is_ready) = channel();
        let cpus = cpus.clone();
        let body = move || match bind_all(&cpus).and_then(|()| make()) {
            Ok(Some(mut bench)) => {
                let _ = ready.send(Ok(Some(bench.words())));
                orders
                    .iter()
                    .take_while(|&order| tell.send(bench.obey(order)).is_ok())
                    .for_each(drop);
            }
            other => _ = ready.send(other.map(|_| None)),
        };
        let named = std::thread::Builder::new().name("quell-probe".to_owned());
        let thread = named.spawn(body).map_err(|e| ProfileError::subject("a probe", e))?;
        let words = is_ready.recv().map_err(|_| gone())??;
        Ok(words.map(|words| Prober { words, way, ask, answers, thread: Some(thread) }))
    }

    /// What it is, for people.
    pub(super) fn words(&self) -> &str {
        &self.words
    }

    /// Whether the kernel is its own: then no other is to be let run.
    pub(super) fn is_in_place(&self) -> bool {
        self.way == Way::InPlace
    }

    /// Whether it turns the kernel itself, or has its own.
    pub(super) fn turns_the_kernel(&self) -> bool {
        self.way != Way::Beside
    }

    /// Whether what it sees is a share of the kernel's own footprint: that needs nothing to be judged beside.
    pub(super) fn sees_shares(&self) -> bool {
        matches!(self.way, Way::After(_))
    }

    /// What it sees in a window, in ns for an access or in percent of the footprint: the median of as many looks
    /// as fit. The kernel is muted at the end if the prober [turns](Prober::turns_the_kernel) it.
    pub(super) fn see(
        &mut self,
        kernel: &Running,
        intensity: Intensity,
        window: Duration,
        stop: &Stop,
    ) -> Result<f64, ProfileError> {
        if self.way == Way::Beside {
            self.asked(Order::Ready)?;
        }
        let (begun, mut seen) = (Instant::now(), Vec::new());
        let end = window + PATIENCE;
        while begun.elapsed() < window || (seen.is_empty() && begun.elapsed() < end) {
            if stop.requested() {
                return Err(ProfileError::Stopped);
            }
            if let Way::After(gap) = self.way {
                self.let_work(kernel, intensity, gap, stop)?;
            }
            seen.extend(self.asked(Order::Look(intensity))?);
        }
        median(&seen).ok_or_else(gone)
    }

    /// Lets the kernel work anew for so long, and rest.
    fn let_work(
        &self,
        kernel: &Running,
        intensity: Intensity,
        gap: Duration,
        stop: &Stop,
    ) -> Result<(), ProfileError> {
        kernel.mute();
        pause(FALLS_ASLEEP, stop)?;
        self.asked(Order::Ready)?;
        kernel.turn_to(intensity);
        pause(gap, stop)?;
        kernel.mute();
        pause(FALLS_ASLEEP, stop)
    }

    fn asked(&self, order: Order) -> Result<Option<f64>, ProfileError> {
        self.ask.send(order).map_err(|_| gone())?;
        Ok(self.answers.recv().map_err(|_| gone())??)
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        // Without anybody who asks the thread ends.
        self.ask = channel().0;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone() -> ProfileError {
    ProfileError::Stalled("the probe".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_pressure::Resource;

    const LOOK: Duration = Duration::from_millis(1);

    /// A kernel that rests.
    fn kernel(options: &Options, stop: &Stop) -> Running {
        crate::desk::ready(options, &Topology::default(), stop).unwrap()
    }

    #[test]
    fn a_probe_answers_and_ends() {
        let cpus = quell_pressure::allowed_cpus().unwrap().first(1);
        let stop = Stop::new().unwrap();
        let mut options = Options::new(Resource::L1Data);
        (options.cpus, options.cache_bytes) = (cpus.clone(), Some(32 << 10));
        let (topology, kernel) = (Topology::default(), kernel(&options, &stop));
        let in_place = Prober::in_place(options.clone(), &topology, &stop).unwrap().unwrap();
        for (mut prober, own, words) in [
            (in_place, true, "32 KiB, same thread"),
            (Prober::beside(&cpus, 8 << 20).unwrap(), false, "probe of 8192 KiB on the other CPU"),
            (Prober::of_memory(&cpus, 8 << 20, LOOK).unwrap(), false, "on the other CPU"),
            (
                Prober::of_cache(&cpus, 1 << 20, LOOK).unwrap(),
                false,
                "reads within 1024 KiB on the other CPU",
            ),
        ] {
            assert!(prober.words().ends_with(words), "{}", prober.words());
            let turns = (prober.is_in_place(), prober.turns_the_kernel(), prober.sees_shares());
            assert_eq!(turns, (own, own, false));
            let window = Duration::from_millis(1);
            assert!(prober.see(&kernel, Intensity::FULL, window, &stop).unwrap() > 0.0);
        }
        options.resource = Resource::Integer;
        assert!(Prober::in_place(options, &topology, &stop).unwrap().is_none());
        assert!(Prober::beside(&CpuSet::of(60_000), 1 << 20).is_err());
    }

    #[test]
    fn a_footprint_is_seen() {
        // On the kernel's own CPU, by turns: a host may have two CPUs on cores without a common cache.
        let cpus = quell_pressure::allowed_cpus().unwrap().first(1);
        let stop = Stop::new().unwrap();
        // More than a core has for itself: of 2 MiB where it has as much half was seen as a fifth to a quarter.
        let mut options = Options::new(Resource::LlcCapacity);
        (options.cpus, options.llc_bytes) = (cpus.clone(), Some(8 << 20));
        let kernel = kernel(&options, &stop);
        let print = kernel.footprint().expect("a capacity of a cache has one");
        if !Chase::FLUSHES {
            return;
        }
        // Other tests may use all of the cache for a while.
        let prober = (0..20).find_map(|_| Prober::of_footprint(&cpus, print.clone()).unwrap());
        let mut prober = prober.expect("a flushed line is farther than one that was just read");
        assert!(prober.sees_shares() && prober.turns_the_kernel() && !prober.is_in_place());
        assert!(prober.words().contains("share of 8192 KiB"), "{}", prober.words());
        let mut seen = |percent| {
            let intensity = crate::desk::percent(percent);
            prober.see(&kernel, intensity, Duration::from_millis(60), &stop).unwrap()
        };
        let (none, half) = (seen(0.0), seen(50.0));
        assert!(none < 10.0 && (30.0..70.0).contains(&half), "{none} and {half} %");
    }
}
