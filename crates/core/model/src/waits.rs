//! From waits and company that only grow to threads that stand, and to what was done beside whom.

use quell_types::{
    Beside, CompanyReading, Elsewhere, ElsewhereReading, Gap, LogHistogram, Reading, Tenant,
    TenantReading, Time, WaitReading, Waits,
};
use std::collections::BTreeMap;

/// What the rates of a service's waits need.
#[derive(Debug, Default)]
pub(crate) struct WaitCounters {
    last: Option<(Time, u64, WaitReading)>,
}

impl WaitCounters {
    /// Where its threads' time went since the last sample that tells. Every stretch of time is in
    /// one answer only.
    pub(crate) fn observe(&mut self, time: Time, reading: &TenantReading) -> Reading<Waits> {
        let (waits, cpu_ns) = (reading.waits.clone()?, reading.cpu_ns.clone()?);
        let before = self.last.replace((time, cpu_ns, waits.clone()));
        let Some((then, old_cpu_ns, old)) = before else {
            return Err(Gap::not_yet("one sample so far"));
        };
        let seconds = time.since(then).as_secs_f64();
        if seconds <= 0.0 {
            return Err(Gap::not_yet("no time has passed"));
        }
        let threads = |now: u64, then: u64| -> Reading<f64> {
            let grown = now.checked_sub(then);
            let ns = grown.ok_or_else(|| Gap::not_yet("the counter began anew"))?;
            Ok(ns as f64 / 1e9 / seconds)
        };
        Ok(Waits {
            seconds,
            running: threads(cpu_ns, old_cpu_ns)?,
            behind: by_tenant(&waits.behind_ns, &old.behind_ns, threads)?,
            own: threads(waits.own_ns, old.own_ns)?,
            others: threads(waits.others_ns, old.others_ns)?,
            nobody: threads(waits.nobody_ns, old.nobody_ns)?,
            elsewhere: elsewhere(&waits.elsewhere, &old.elsewhere, threads)?,
        })
    }
}

/// Rates of sums by tenant; `threads` makes one of a sum now and then.
fn by_tenant(
    now_ns: &BTreeMap<Tenant, u64>,
    then_ns: &BTreeMap<Tenant, u64>,
    threads: impl Fn(u64, u64) -> Reading<f64>,
) -> Reading<BTreeMap<Tenant, f64>> {
    let one = |(tenant, ns): (&Tenant, &u64)| {
        let before = then_ns.get(tenant).copied().unwrap_or(0);
        Ok((tenant.clone(), threads(*ns, before)?))
    };
    now_ns.iter().map(one).collect()
}

/// Who had the other CPUs meanwhile.
fn elsewhere(
    now: &ElsewhereReading,
    then: &ElsewhereReading,
    threads: impl Fn(u64, u64) -> Reading<f64>,
) -> Reading<Elsewhere> {
    Ok(Elsewhere {
        cpus: now.cpus,
        tenants: by_tenant(&now.tenants_ns, &then.tenants_ns, &threads)?,
        others: threads(now.others_ns, then.others_ns)?,
        nobody: threads(now.nobody_ns, then.nobody_ns)?,
    })
}

/// What differences of a service's company need.
#[derive(Debug, Default)]
pub(crate) struct CompanyCounters {
    last: Option<CompanyReading>,
}

impl CompanyCounters {
    /// What it did beside whom since the last sample that tells.
    pub(crate) fn observe(&mut self, company: &Reading<CompanyReading>) -> Reading<CompanyReading> {
        let now = company.clone()?;
        let before = self.last.replace(now.clone());
        let old = before.ok_or_else(|| Gap::not_yet("one sample so far"))?;
        let less = |now: Beside, then: Beside| -> Reading<Beside> {
            let grown = |now: u64, then: u64| {
                now.checked_sub(then).ok_or_else(|| Gap::not_yet("the counter began anew"))
            };
            Ok(Beside {
                cpu_ns: grown(now.cpu_ns, then.cpu_ns)?,
                sends: grown(now.sends, then.sends)?,
            })
        };
        let each = now.tenants.iter().map(|(tenant, beside)| {
            let then = old.tenants.get(tenant).copied().unwrap_or_default();
            Ok((tenant.clone(), less(*beside, then)?))
        });
        Ok(CompanyReading {
            tenants: each.collect::<Reading<_>>()?,
            others: less(now.others, old.others)?,
            nobody: less(now.nobody, old.nobody)?,
        })
    }
}

/// How many threads of a batch group stand in run queues.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    last: Option<(Time, LogHistogram)>,
}

impl Standing {
    pub(crate) fn observe(&mut self, time: Time, waits: &Reading<LogHistogram>) -> Reading<f64> {
        let waits = waits.as_ref().map_err(Clone::clone)?;
        let Some((then, before)) = self.last.replace((time, waits.clone())) else {
            return Err(Gap::not_yet("one sample so far"));
        };
        let seconds = time.since(then).as_secs_f64();
        if seconds <= 0.0 {
            return Err(Gap::not_yet("no time has passed"));
        }
        Ok(waits.since(&before).total() / 1e9 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Time {
        Time(second * 1_000_000_000)
    }

    fn reading(cpu_ms: u64, jobs_ms: u64, own_ms: u64) -> TenantReading {
        let mut reading = TenantReading::missing(&Gap::absent("not in this test"));
        reading.cpu_ns = Ok(cpu_ms * 1_000_000);
        reading.waits = Ok(WaitReading {
            behind_ns: [("jobs".into(), jobs_ms * 1_000_000)].into(),
            own_ns: own_ms * 1_000_000,
            elsewhere: ElsewhereReading {
                cpus: 1,
                tenants_ns: [("loop".into(), jobs_ms * 500_000)].into(),
                nobody_ns: jobs_ms * 500_000,
                ..ElsewhereReading::default()
            },
            ..WaitReading::default()
        });
        reading
    }

    #[test]
    fn waits_become_threads_that_stand_each_stretch_of_time_once() {
        let mut counters = WaitCounters::default();
        assert!(matches!(counters.observe(at(1), &reading(0, 0, 0)), Err(Gap::NotYet(_))));
        let left_out = TenantReading::missing(&Gap::not_yet("fast"));
        assert!(counters.observe(at(2), &left_out).is_err());
        let seen = counters.observe(at(3), &reading(600, 1000, 200)).unwrap();
        assert_eq!((seen.seconds, seen.running, seen.own), (2.0, 0.3, 0.1));
        assert_eq!(seen.behind, [("jobs".into(), 0.5)].into());
        assert_eq!((seen.others, seen.nobody), (0.0, 0.0));
        assert_eq!(seen.elsewhere.tenants, [("loop".into(), 0.25)].into());
        assert_eq!((seen.elsewhere.cpus, seen.elsewhere.nobody), (1, 0.25));
    }

    #[test]
    fn a_counter_that_went_back_is_a_gap_and_not_a_wait() {
        let mut counters = WaitCounters::default();
        let _ = counters.observe(at(1), &reading(10, 500, 0));
        assert!(matches!(counters.observe(at(2), &reading(20, 100, 0)), Err(Gap::NotYet(_))));
        let seen = counters.observe(at(3), &reading(30, 100, 0)).unwrap();
        assert_eq!(seen.behind[&"jobs".into()], 0.0);
    }

    #[test]
    fn company_is_what_was_done_since_the_last_sample() {
        let reading = |cpu_ns: u64, sends: u64| {
            let beside = Beside { cpu_ns, sends };
            Ok(CompanyReading { tenants: [("jobs".into(), beside)].into(), ..Default::default() })
        };
        let mut counters = CompanyCounters::default();
        assert!(matches!(counters.observe(&reading(10, 1)), Err(Gap::NotYet(_))));
        assert!(counters.observe(&Err(Gap::not_yet("fast"))).is_err());
        let seen = counters.observe(&reading(50, 4)).unwrap();
        assert_eq!(seen.tenants[&"jobs".into()], Beside { cpu_ns: 40, sends: 3 });
        assert!(matches!(counters.observe(&reading(20, 9)), Err(Gap::NotYet(_))), "it went back");
        assert_eq!(counters.observe(&reading(30, 9)).unwrap().nobody, Beside::default());
    }

    #[test]
    fn who_waits_three_quarters_of_the_time_stands_for_as_much() {
        let mut standing = Standing::default();
        let mut waits = LogHistogram::new();
        assert!(standing.observe(at(1), &Ok(waits.clone())).is_err());
        waits.record_many(3_000_000, 500);
        let seen = standing.observe(at(3), &Ok(waits)).unwrap();
        assert!((seen - 0.75).abs() < 0.05, "{seen}");
    }
}
