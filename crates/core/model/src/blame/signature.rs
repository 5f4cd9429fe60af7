//! What a reporter's accesses say: which shared resource neighbours fight over.
//!
//! # Problem
//! Looks and waits tell *who* slows a victim, not over what: a request that costs more CPU time says
//! nothing of caches, memory or bus. Counters would, where there are any. The victim itself is no
//! good instrument: its requests differ and its load moves.
//!
//! # Idea
//! A short burst of known accesses on a CPU that is idle anyway is slowed by the same neighbours,
//! each pattern in its own way:
//!
//! | fought over | registers | private hits | shared hits | memory |
//! |---|---|---|---|---|
//! | nothing | as ever | as ever | as ever | as ever |
//! | last-level cache | as ever | as ever | longer | hardly longer |
//! | memory | as ever | as ever | longer, as it is pushed out | longer |
//! | bus locks | as ever | longer | longer | longer |
//! | clock, sibling, stolen time | longer | as much longer | longer | longer or not |
//!
//! A bus lock holds back every access of every core, hits too, but no operation on registers: that
//! tells it from a slow clock. A hit that was pushed out of the cache becomes an access to memory,
//! several times as long, so the shared pattern always moves most; memory is the resource only if
//! its own accesses take a fair part of that.
//!
//! *As ever* is what the same CPU saw in its quietest moments of late: a low quantile of all bursts
//! of the last minutes, those among them that ran while suspects were held. So a neighbour that was
//! there from the begin shows as soon as one look holds it. The host drifts too, so old bursts are
//! forgotten, and private hits are taken relative to registers: both follow the same clock.
//! A low quantile lies below the middle of its own noise, so as much of the scatter of recent bursts
//! is taken off: noise alone inflates nothing.
//!
//! # Units
//! Inflations: ln of the present time of an access over that in quiet moments. Seconds.
//!
//! # Pseudo-code
//! ```text
//! each burst:   keep (time, held?, ln r, ln p - ln r, ln s, ln m) of its CPU
//! for each k:   quiet(k)  = 5 % quantile of all bursts of this CPU within ten minutes
//!               now(k)    = median of those of the last 20 s in which nobody was held
//!               sd(k)     = their scatter, at least 2 %
//!               up(k)     = now(k) - quiet(k) - 1.645 sd(k)
//!               sure(k)   = P(up(k) > least), by sd(k) and the number of bursts
//! up(s), up(m) less up(r) where that is above 0
//! bus locks     if sure(p), up(s) and up(m) are at least half of up(p), and r is not up
//! nothing told  else, if sure(p): the core itself
//! memory        else, if sure(m) and up(m) >= 0.15 up(s)
//! cache         else, if sure(s)
//! ```
//!
//! # Degradation
//! Too few bursts, on one CPU, within 20 s: a gap. Where no CPU is ever idle there are none. A
//! neighbour that is always there and never held looks like the machine itself: nothing is told. No
//! finding names anybody by this: it says over what, not who.
//!
//! Source: A-1, A-9, B-1, S-6, Q-23, Q-30; issue "Name the polluter and limit only it" (reporters).

use super::normal::probability_below;
use quell_types::{AccessTimes, Gap, Reading, Time};
use std::collections::{BTreeMap, VecDeque};

/// How bursts are weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignatureParams {
    /// For so many seconds a burst counts as how things were.
    pub memory_s: f64,
    /// For so many seconds it counts as how they are.
    pub recent_s: f64,
    /// Bursts outside of holds that the present needs.
    pub least_recent: usize,
    /// Bursts of all kinds that the past needs.
    pub least_bursts: usize,
    /// Bursts that are kept of a CPU.
    pub most_bursts: usize,
    /// The quantile that counts as quiet...
    pub quiet_frac: f64,
    /// ... and by how many standard deviations that of a normal distribution lies below its middle.
    pub quiet_sds: f64,
    /// The least scatter of one burst, as ln.
    pub least_sd: f64,
    /// The least inflation that counts, as ln.
    pub least_ln: f64,
    /// Probability from which a resource is told.
    pub told_frac: f64,
    /// Of the inflation of private hits, the least that the others must show for a bus lock.
    pub lock_share: f64,
    /// Of the inflation of shared hits, the least that memory must show to be the resource.
    pub memory_share: f64,
}

impl Default for SignatureParams {
    fn default() -> Self {
        Self {
            memory_s: 600.0,
            recent_s: 20.0,
            least_recent: 5,
            least_bursts: 12,
            most_bursts: 400,
            quiet_frac: 0.05,
            quiet_sds: 1.645,
            least_sd: 0.02,
            least_ln: 0.1,
            told_frac: 0.9,
            lock_share: 0.5,
            memory_share: 0.15,
        }
    }
}

/// What neighbours fight over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contention {
    /// The bus, by locks that hold back everybody's accesses.
    BusLocks,
    /// Room or bandwidth of the last-level cache.
    LastLevelCache,
    /// Bandwidth of memory.
    Memory,
}

/// The place of shared hits among the patterns.
const SHARED: usize = 2;

/// By how much each pattern takes longer than in quiet moments, as ln; 0 = not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inflations {
    /// Operations on registers.
    pub arithmetic: f64,
    /// Hits in the private cache, beyond what the registers show.
    pub private: f64,
    /// Accesses to the shared cache.
    pub shared: f64,
    /// Accesses to memory.
    pub memory: f64,
}

/// What a reporter says at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signature {
    /// Where it ran.
    pub cpu: u32,
    /// What is fought over; none if nothing is, or it cannot be told.
    pub contention: Option<Contention>,
    /// Probability that the patterns which tell it really take longer; where nothing is told, the
    /// highest that one does.
    pub confidence: f64,
    /// What was seen.
    pub inflation: Inflations,
    /// Recent bursts that speak for it.
    pub bursts: usize,
}

/// One burst: what it saw, private hits relative to registers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    time: Time,
    held: bool,
    ln: [f64; 4],
}

/// One pattern: how much longer, and how sure that is.
#[derive(Clone, Copy, Debug)]
struct Up {
    ln: f64,
    error: f64,
}

impl Up {
    fn sure(self, least_ln: f64) -> f64 {
        probability_below((self.ln - least_ln) / self.error)
    }

    /// The same after a part is explained otherwise.
    fn less(self, ln: f64) -> Self {
        Self { ln: self.ln - ln.max(0.0), ..self }
    }
}

/// Follows a reporter over its bursts.
#[derive(Clone, Debug)]
pub struct Reporter {
    params: SignatureParams,
    seen: BTreeMap<u32, VecDeque<Seen>>,
    /// Where the last burst ran.
    cpu: Option<u32>,
}

impl Reporter {
    /// Nothing was seen.
    #[must_use]
    pub fn new(params: SignatureParams) -> Self {
        Self { params, seen: BTreeMap::new(), cpu: None }
    }

    /// Takes in a burst on a CPU; `held` if suspects were held meanwhile. Times that are not above
    /// 0 say nothing.
    pub fn take(&mut self, time: Time, cpu: u32, times: &AccessTimes, held: bool) {
        let all = times.all();
        if all.iter().any(|ns| !(ns.is_finite() && *ns > 0.0)) {
            return;
        }
        let [registers, private, shared, memory] = all.map(libm::log);
        let ln = [registers, private - registers, shared, memory];
        self.cpu = Some(cpu);
        let of_cpu = self.seen.entry(cpu).or_default();
        of_cpu.push_back(Seen { time, held, ln });
        if of_cpu.len() > self.params.most_bursts {
            of_cpu.pop_front();
        }
        let old = |seen: &Seen| time.since(seen.time).as_secs_f64() > self.params.memory_s;
        for bursts in self.seen.values_mut() {
            while bursts.front().is_some_and(old) {
                bursts.pop_front();
            }
        }
        self.seen.retain(|_, bursts| !bursts.is_empty());
    }

    /// Bursts that are remembered.
    #[must_use]
    pub fn bursts(&self) -> usize {
        self.seen.values().map(VecDeque::len).sum()
    }

    /// What it says now.
    ///
    /// # Errors
    /// A gap if there are too few bursts on the CPU of the last one.
    pub fn signature(&self, now: Time) -> Reading<Signature> {
        let few = || Gap::not_yet("too few bursts on an idle CPU");
        let cpu = self.cpu.ok_or_else(few)?;
        let all = self.seen.get(&cpu).ok_or_else(few)?;
        let recent: Vec<&Seen> = all.iter().filter(|seen| self.is_recent(seen, now)).collect();
        if recent.len() < self.params.least_recent || all.len() < self.params.least_bursts {
            return Err(few());
        }
        let up: [Up; 4] = std::array::from_fn(|k| {
            let past = all.iter().map(|seen| seen.ln[k]).collect();
            self.up(recent.iter().map(|seen| seen.ln[k]).collect(), past)
        });
        Ok(self.tell(cpu, up, recent.len()))
    }

    /// What a burst that ran while suspects were held says of them: ln of the time of accesses to the
    /// shared cache in recent bursts outside of holds over that in this one, and its variance. That
    /// pattern moves with every resource. None where there are too few to compare with.
    #[must_use]
    pub fn relief(&self, now: Time, cpu: u32, times: &AccessTimes) -> Option<(f64, f64)> {
        let all = self.seen.get(&cpu)?.iter();
        let mut recent: Vec<f64> =
            all.filter(|seen| self.is_recent(seen, now)).map(|seen| seen.ln[SHARED]).collect();
        if recent.len() < self.params.least_recent || times.shared_ns <= 0.0 {
            return None;
        }
        let sd = self.scatter(&mut recent);
        let relief = median(&mut recent) - libm::log(times.shared_ns);
        Some((relief, sd * sd * (1.0 + 1.57 / recent.len() as f64)))
    }

    fn is_recent(&self, seen: &Seen, now: Time) -> bool {
        !seen.held && now.since(seen.time).as_secs_f64() <= self.params.recent_s
    }

    /// How far the recent values of a pattern stand above the quiet ones.
    fn up(&self, mut recent: Vec<f64>, mut past: Vec<f64>) -> Up {
        let params = &self.params;
        past.sort_by(f64::total_cmp);
        let quiet = past[(params.quiet_frac * (past.len() - 1) as f64) as usize];
        let sd = self.scatter(&mut recent);
        let middle = median(&mut recent);
        // Errors of a median and of a low quantile, in variances of one value.
        let variances = 1.57 / recent.len() as f64 + 4.5 / past.len() as f64;
        Up { ln: middle - quiet - params.quiet_sds * sd, error: sd * libm::sqrt(variances) }
    }

    /// Standard deviation of values, by those around their median: outliers do not count.
    fn scatter(&self, values: &mut [f64]) -> f64 {
        let middle = median(values);
        let mut apart: Vec<f64> = values.iter().map(|ln| (ln - middle).abs()).collect();
        // Of a normal distribution, half lies within 0.6745 standard deviations.
        (median(&mut apart) / 0.6745).max(self.params.least_sd)
    }

    fn tell(&self, cpu: u32, up: [Up; 4], bursts: usize) -> Signature {
        let [registers, private, shared, memory] = up;
        let (shared, memory) = (shared.less(registers.ln), memory.less(registers.ln));
        let (contention, confidence) = self.decide([registers, private, shared, memory]);
        let shown = |up: Up| up.ln.max(0.0);
        let inflation = Inflations {
            arithmetic: shown(registers),
            private: shown(private),
            shared: shown(shared),
            memory: shown(memory),
        };
        Signature { cpu, contention, confidence, inflation, bursts }
    }

    fn decide(&self, [registers, private, shared, memory]: [Up; 4]) -> (Option<Contention>, f64) {
        let params = &self.params;
        let sure = |up: Up| up.sure(params.least_ln);
        let (p, s, m) = (sure(private), sure(shared), sure(memory));
        if p >= params.told_frac {
            let alike = shared.ln.min(memory.ln) >= params.lock_share * private.ln;
            let locks = alike && sure(registers) < 0.5;
            return if locks { (Some(Contention::BusLocks), p.min(s).min(m)) } else { (None, p) };
        }
        if m >= params.told_frac && memory.ln >= params.memory_share * shared.ln {
            return (Some(Contention::Memory), m);
        }
        if s >= params.told_frac {
            return (Some(Contention::LastLevelCache), s);
        }
        (None, s.max(m))
    }
}

/// The value in the middle, of at least one.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

#[cfg(test)]
mod tests;
