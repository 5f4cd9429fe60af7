//! The two loops. Each follows the clock by itself from a common start, so that nobody has to be woken
//! between two slices.

use super::Placement;
use super::line::Line;
use super::look::{Nearest, Turn, judge};
use super::watch::Eyes;
use crate::desk::{DESK_NICE, prioritise};
use crate::stats::median;
use quell_pressure::{Chase, Registers, bind_all, run_before_others};
use quell_types::CpuSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A slice of a look.
const SLICE: Duration = Duration::from_micros(500);
/// What is left out at both of its ends: the other one may be late by as much.
const MARGIN: Duration = Duration::from_micros(25);
/// For waking both and raising the clock.
const AHEAD: Duration = Duration::from_micros(400);
/// Rounds of three slices.
const ROUNDS: u32 = 3;
/// A look in which only a line is passed.
const LINE_SLICE: Duration = Duration::from_micros(200);
/// What is read of memory, and how often for how long.
const READ_BYTES: usize = 4 << 20;
const READS: usize = 5;
const READ_FOR: Duration = Duration::from_micros(300);
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_millis(500);

/// A wish: on this CPU, from this moment on.
struct Wish {
    cpu: u32,
    start: Instant,
    song: Song,
    answer: Sender<Sung>,
    /// What the first is to pass on to the second before it begins. Whoever asks for a look may be on the first
    /// one's CPU, and would come to ask the second only when the first has ended.
    pass_on: Option<Box<Wish>>,
}

/// What is done in a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Song {
    /// Rounds of loops, and a line is passed.
    Whole,
    /// A line is passed.
    Line,
}

/// What one of the two has to say: its rounds, and what a line took each way, in ns.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sung {
    turns: Vec<Turn>,
    passes_ns: Option<f64>,
}

/// The loops, asleep between looks.
#[derive(Debug)]
pub(super) struct Canary {
    /// To the first of the two.
    wishes: Option<Sender<Wish>>,
    threads: Vec<JoinHandle<()>>,
    nearest: Nearest,
}

impl Canary {
    /// For looks at CPUs that are free; none if no threads are to be had.
    pub(super) fn start() -> Option<Canary> {
        Self::with(|| prioritise(DESK_NICE))
    }

    /// The same for CPUs at which others work: these are made to wait, where that is permitted.
    pub(super) fn before_others() -> Option<Canary> {
        Self::with(|| run_before_others().unwrap_or_else(|_| prioritise(DESK_NICE)))
    }

    fn with(rise: fn()) -> Option<Canary> {
        let (wishes, first) = channel();
        let (passed_on, second) = channel();
        let line = Arc::new(Line::default());
        let nearest = Nearest::where_memory_takes(memory_ns());
        let mut canary = Canary { wishes: Some(wishes), threads: Vec::new(), nearest };
        for (place, heard, second) in [(0, first, Some(passed_on)), (1, second, None)] {
            let line = Arc::clone(&line);
            let singer = Singer { place, line, second };
            let named = std::thread::Builder::new().name(format!("quell-canary-{place}"));
            canary.threads.push(named.spawn(move || singer.sing(rise, &heard)).ok()?);
        }
        Some(canary)
    }

    /// What a line takes each way between two CPUs, in ns, in some hundred microseconds that it takes them from
    /// whoever has them; none where they were not to be had.
    pub(super) fn passes_ns(&self, first: u32, second: u32) -> Option<f64> {
        self.sung(Song::Line, first, second)[0].passes_ns
    }

    /// Whether that is so long that they can share no cache.
    pub(super) fn are_distant(&mut self, first: u32, second: u32) -> bool {
        let way_ns = self.passes_ns(first, second);
        self.nearest.is_farther(way_ns)
    }

    /// What the two have to say.
    fn sung(&self, song: Song, first: u32, second: u32) -> [Sung; 2] {
        let start = Instant::now() + AHEAD;
        let wish = |cpu, pass_on| {
            let (answer, told) = channel();
            (Wish { cpu, start, song, answer, pass_on }, told)
        };
        let (wish_of_second, told_by_second) = wish(second, None);
        let (wish_of_first, told_by_first) = wish(first, Some(Box::new(wish_of_second)));
        if let Some(wishes) = &self.wishes {
            let _ = wishes.send(wish_of_first);
        }
        let wait = |told: Receiver<Sung>| told.recv_timeout(PATIENCE).unwrap_or_default();
        [wait(told_by_first), wait(told_by_second)]
    }
}

/// What a read from memory takes here, in ns, in some milliseconds of the calling thread; none where lines cannot
/// be flushed, or no memory is to be had.
pub(super) fn memory_ns() -> Option<f64> {
    let mut chase = Chase::FLUSHES.then(|| Chase::new(READ_BYTES).ok()).flatten()?;
    let seen: Vec<f64> = (0..READS).filter_map(|_| chase.far_access_ns(READ_FOR)).collect();
    median(&seen)
}

impl Eyes for Canary {
    /// One look at two CPUs, about seven milliseconds. Both have to be free.
    fn look(&mut self, first: u32, second: u32) -> Placement {
        let sung = self.sung(Song::Whole, first, second);
        let rounds = sung[0].turns.iter().zip(&sung[1].turns).map(|(a, b)| [*a, *b]);
        let said = judge(&rounds.collect::<Vec<_>>());
        let farther = self.nearest.is_farther(sung[0].passes_ns);
        if farther && said != Placement::Together { Placement::Distant } else { said }
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.wishes = None;
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// One of the two.
struct Singer {
    place: usize,
    line: Arc<Line>,
    /// To the second, for the first.
    second: Option<Sender<Wish>>,
}

impl Singer {
    /// Answers wishes until there will be none.
    fn sing(self, rise: fn(), wishes: &Receiver<Wish>) {
        rise();
        let mut registers = Registers::new();
        while let Ok(mut wish) = wishes.recv() {
            if let Some((second, passed_on)) = self.second.as_ref().zip(wish.pass_on.take()) {
                let _ = second.send(*passed_on);
            }
            let sung = match bind_all(&CpuSet::of(wish.cpu)) {
                Ok(()) => self.sung(&mut registers, &wish),
                Err(_) => Sung::default(),
            };
            let _ = wish.answer.send(sung);
        }
    }

    /// What it sings.
    fn sung(&self, registers: &mut Registers, wish: &Wish) -> Sung {
        let Self { place, line, .. } = self;
        match wish.song {
            Song::Whole => Sung {
                turns: turns(*place, registers, wish.start),
                passes_ns: passes_ns(*place, line, wish.start + SLICE * ROUNDS * 3, SLICE),
            },
            Song::Line => Sung {
                turns: Vec::new(),
                passes_ns: passes_ns(*place, line, wish.start, LINE_SLICE),
            },
        }
    }
}

/// The rounds of one of the two.
fn turns(place: usize, registers: &mut Registers, start: Instant) -> Vec<Turn> {
    while Instant::now() < start {
        registers.work();
    }
    let slice = |index: usize| start + SLICE * u32::try_from(index).unwrap_or(0);
    let mut round = |round: usize| {
        // The first is alone in the first slice, the second in the last; both work in the middle.
        let mut own = |at: usize| timed(registers, slice(3 * round + at));
        let (alone_ns, beside_ns) = match place {
            0 => (own(0), own(1)),
            _ => {
                let beside = own(1);
                (own(2), beside)
            }
        };
        wait_for(slice(3 * round + 3));
        Turn { alone_ns, beside_ns }
    };
    (0..ROUNDS as usize).map(&mut round).collect()
}

/// What a line takes each way in the slice of this length that begins then, by the one who passes it on.
fn passes_ns(place: usize, line: &Line, begin: Instant, slice: Duration) -> Option<f64> {
    let (from, to) = (begin + MARGIN, begin + slice - MARGIN);
    wait_for(from);
    match place {
        0 => line.passes_ns(to),
        _ => {
            line.answers(to);
            None
        }
    }
}

/// What an operation takes in the slice that begins then; none if it is late for it.
fn timed(registers: &mut Registers, begin: Instant) -> Option<f64> {
    wait_for(begin + MARGIN);
    let left = (begin + SLICE - MARGIN).checked_duration_since(Instant::now())?;
    (left > SLICE / 2).then(|| registers.operation_ns(left)).flatten()
}

/// Awake, and out of the other's way.
fn wait_for(moment: Instant) {
    while Instant::now() < moment {
        (0..8).for_each(|_| std::hint::spin_loop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_pressure::allowed_cpus;

    #[test]
    fn a_look_ends_and_who_has_no_cpu_cannot_tell() {
        let mut canary = Canary::start().unwrap();
        let cpus: Vec<u32> = allowed_cpus().unwrap().iter().collect();
        // What a machine that tests run on says is its own business; that it answers is ours.
        for _ in 0..3 {
            let said = canary.look(cpus[0], cpus[cpus.len() - 1]);
            assert!(cpus.len() > 1 || said == Placement::Unknown, "{said:?}: one CPU has no other");
        }
        assert_eq!(canary.look(cpus[0], 60_000), Placement::Unknown);
        assert_eq!(canary.threads.len(), 2);
    }

    #[test]
    fn who_is_late_says_nothing() {
        let past = Instant::now().checked_sub(Duration::from_millis(100)).unwrap();
        let turns = turns(0, &mut Registers::new(), past);
        assert_eq!(turns, vec![Turn::default(); ROUNDS as usize]);
    }
}
