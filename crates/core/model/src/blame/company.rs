//! Beside whom a victim gets less done: experiments that the scheduler makes by itself.
//!
//! # Problem
//! A look holds somebody, so it is short and rare, and where requests are few it tells little: 40 on
//! either side of one say a difference of a fifth or none. Meanwhile thousands of requests are
//! answered while now this group, now that one has the other CPUs.
//!
//! # Idea
//! Which group runs elsewhere while the victim runs is decided by the scheduler, a few hundred times
//! a second, and hardly by the victim. So the cost of a request beside each group, CPU time over
//! what was sent, may be compared with that beside the others. What the victim does from one waking to
//! the next, a *stretch*, counts as a whole as done beside those who had the other CPUs when it *began*:
//! how long it takes is not known then, so that
//! on average it costs the same beside all who do no harm, whoever wakes with the victim or runs
//! after it (Wald's identity). To put down what is done while somebody has a CPU, which was tried
//! first, gives the parts of requests at both ends of his turn to him: innocents were named for it. To put
//! down single requests, which was tried next, takes the first of many that are answered in a row, to which
//! waking and cold caches belong, for one like the others, and it has its own company: innocents were named for
//! it beside a service whose clients ask for fifty things at once.
//!
//! ```text
//! x(g) = ln(CPU time of the victim beside g / its sends meanwhile)
//! v(g) = request variance / sends + what company is not by chance alone, as all but the one who is
//!        judged are apart
//! y(g) = x(g) - mean of x over the others, weighted by 1 / v
//! ```
//!
//! y is the harm that one CPU of g does, in ln, and stands beside what looks measured ([`Guilt`]): it
//! is told anew with each sample, so that it never adds up, however long the same accident lasts. It
//! only accuses. Who does harm by what he leaves in the cache does it beside all others too, so that
//! no difference acquits nobody, a small one takes nothing back that looks have shown ([how](super::guilt)), and
//! nobody is named by it without looks in which he was held.
//!
//! What is not by chance: groups wake with their own timers and with the victim's clients, so that
//! beside some other stretches begin. Seen of groups that do no harm, when parts of requests still
//! counted: 4 %
//! ([measured](../../../../../docs/experiments/polluter-history.md#company)). How far the *others* are apart
//! says how much it is here, so 5 % is only what is assumed before they tell, and the most: were it
//! more, a second culprit would hide the first. Idle CPUs halt, which changes
//! clocks and wake-ups far more, so they count for little; the clients themselves, and whoever is no
//! suspect, run when one begins or ends and are left out.
//!
//! # Units
//! CPU seconds, sends, ln per CPU.
//!
//! # Pseudo-code
//! ```text
//! each sample: age all sums; add what was done beside whom
//! told:        y, variance for each group with enough sends; the few that stand out most
//! ```
//!
//! # Degradation
//! Where everything else is idle, or only one group runs elsewhere, it is compared with idle CPUs. A
//! group that runs elsewhere all the time has nothing to be compared with, and gives none. On many
//! CPUs others run beside the same group as well, which makes differences smaller, never greater,
//! unless two always run together: looks part these. Before Linux 6.3 (5.16 where programs may hook
//! functions), or for a service that sends nothing, nothing is told.
//!
//! Source: issue "Name the polluter and limit only it" (the scheduler's own randomness as a free
//! experiment); R-3.
//!
//! [`Guilt`]: super::Guilt

use quell_types::{Beside, CompanyReading, Tenant};
use std::collections::{BTreeMap, BTreeSet};

/// How company is weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompanyParams {
    /// After so many seconds a third of what was seen is left.
    pub memory_s: f64,
    /// Sends beside somebody before anything is told of him.
    pub least_sends: f64,
    /// Standard deviation of what beside somebody is different for reasons other than his work, in ln,
    /// before others tell, and at most.
    pub other_sd: f64,
    /// The least of it, however alike others are.
    pub least_other_sd: f64,
    /// So many groups does the assumption stand for.
    pub assumed_groups: f64,
    /// The same of idle CPUs.
    pub idle_sd: f64,
    /// Of so many at most it is told.
    pub most: usize,
}

impl Default for CompanyParams {
    fn default() -> Self {
        Self {
            memory_s: 20.0,
            least_sends: 100.0,
            other_sd: 0.05,
            least_other_sd: 0.02,
            assumed_groups: 2.0,
            idle_sd: 0.2,
            most: 4,
        }
    }
}

/// For each of whom it is told, so many are compared with all others.
const COMPARED: usize = 3;

/// What the company of one suspect says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Told {
    /// ln of a request's cost beside it over that beside others.
    pub harm_ln: f64,
    /// Variance of that.
    pub variance: f64,
    /// What was sent beside it, old sends counting less.
    pub sends: f64,
}

/// What was done beside one.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    cpu_s: f64,
    sends: f64,
}

impl Sum {
    fn add(&mut self, beside: Beside) {
        self.cpu_s += beside.cpu_ns as f64 / 1e9;
        self.sends += beside.sends as f64;
    }

    fn age(&mut self, share: f64) {
        self.cpu_s *= share;
        self.sends *= share;
    }
}

/// One group, or idleness, as it enters the comparison.
pub(super) struct Row<'a> {
    pub(super) suspect: Option<&'a Tenant>,
    pub(super) ln_cost: f64,
    /// Variance of that by chance.
    pub(super) chance: f64,
    pub(super) sends: f64,
}

/// What one victim did beside whom.
#[derive(Clone, Debug)]
pub struct Company {
    params: CompanyParams,
    suspects: BTreeMap<Tenant, Sum>,
    nobody: Sum,
}

impl Company {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(params: CompanyParams) -> Self {
        Self { params, suspects: BTreeMap::new(), nobody: Sum::default() }
    }

    /// Forgets those who are no suspects any more.
    pub fn keep(&mut self, suspects: &[Tenant]) {
        let kept: BTreeSet<&Tenant> = suspects.iter().collect();
        self.suspects.retain(|tenant, _| kept.contains(tenant));
    }

    /// Forgets what is known of one.
    pub fn forget(&mut self, suspect: &Tenant) {
        self.suspects.remove(suspect);
    }

    /// Takes in what was done since the last sample, which is so many seconds long.
    pub fn see(&mut self, company: &CompanyReading, interval_s: f64) {
        let share = libm::exp(-interval_s / self.params.memory_s);
        self.suspects.values_mut().for_each(|sum| sum.age(share));
        self.nobody.age(share);
        for (tenant, beside) in &company.tenants {
            self.suspects.entry(tenant.clone()).or_default().add(*beside);
        }
        self.nobody.add(company.nobody);
    }

    /// What company says of those who stand out most, where the cost of one request scatters by this
    /// relative variance.
    #[must_use]
    pub fn told(&self, request_variance: f64) -> BTreeMap<Tenant, Told> {
        let rows = self.rows(request_variance);
        if rows.len() < 2 {
            return BTreeMap::new();
        }
        let judged = self.worst(&rows);
        let judged = judged.into_iter().filter_map(|judged| self.against_others(&rows, judged));
        let mut told: Vec<(Tenant, Told)> = judged.collect();
        told.retain(|(_, told)| told.harm_ln > 0.0);
        let stands_out = |told: &Told| told.harm_ln / libm::sqrt(told.variance);
        told.sort_by(|(_, a), (_, b)| stands_out(b).total_cmp(&stands_out(a)));
        told.truncate(self.params.most);
        told.into_iter().collect()
    }

    /// Places of those who stand out, roughly: to compare each with all others costs more the more there are.
    fn worst(&self, rows: &[Row<'_>]) -> Vec<usize> {
        let mean = rows.iter().map(|row| row.ln_cost).sum::<f64>() / rows.len() as f64;
        let other = self.params.other_sd * self.params.other_sd;
        let out = |row: &Row<'_>| (row.ln_cost - mean) / libm::sqrt(row.chance + other);
        let mut places: Vec<(f64, usize)> =
            rows.iter().enumerate().map(|(place, row)| (out(row), place)).collect();
        places.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        places.truncate(COMPARED * self.params.most);
        places.into_iter().map(|(_, place)| place).collect()
    }

    /// One beside the others; none if it is no suspect.
    fn against_others(&self, rows: &[Row<'_>], judged: usize) -> Option<(Tenant, Told)> {
        let row = rows.get(judged)?;
        let other_variance = self.other_variance(rows, judged);
        let variance = |row: &Row<'_>| {
            let idle = self.params.idle_sd * self.params.idle_sd;
            row.chance + if row.suspect.is_some() { other_variance } else { idle }
        };
        let others = rows.iter().enumerate().filter(|(place, _)| *place != judged);
        let (weight, sum) = others.fold((0.0, 0.0), |(weight, sum), (_, row)| {
            (weight + 1.0 / variance(row), sum + row.ln_cost / variance(row))
        });
        let told = Told {
            harm_ln: row.ln_cost - sum / weight,
            variance: variance(row) + 1.0 / weight,
            sends: row.sends,
        };
        Some((row.suspect?.clone(), told))
    }

    /// Variance of what beside somebody is different for reasons other than his work, as all groups but
    /// the one who is judged are apart by more than chance.
    fn other_variance(&self, rows: &[Row<'_>], judged: usize) -> f64 {
        let (most, least) = (self.params.other_sd, self.params.least_other_sd);
        let (most, least) = (most * most, least * least);
        let others = rows.iter().enumerate();
        let others = others.filter(|(place, row)| *place != judged && row.suspect.is_some());
        let others: Vec<&Row<'_>> = others.map(|(_, row)| row).collect();
        let count = others.len() as f64;
        if count < 2.0 {
            return most;
        }
        let mean = others.iter().map(|row| row.ln_cost).sum::<f64>() / count;
        let apart: f64 = others.iter().map(|row| (row.ln_cost - mean) * (row.ln_cost - mean)).sum();
        let chance: f64 = others.iter().map(|row| row.chance * (1.0 - 1.0 / count)).sum();
        let assumed = self.params.assumed_groups;
        let seen = (assumed * most + (apart - chance).max(0.0)) / (assumed + count - 1.0);
        seen.clamp(least, most)
    }

    /// The most variance of what beside somebody is different for reasons other than his work.
    pub(super) fn most_other_variance(&self) -> f64 {
        self.params.other_sd * self.params.other_sd
    }

    /// Those of whom enough was seen.
    pub(super) fn rows(&self, request_variance: f64) -> Vec<Row<'_>> {
        let row = |suspect, sum: &Sum| {
            (sum.sends >= self.params.least_sends && sum.cpu_s > 0.0).then(|| Row {
                suspect,
                ln_cost: libm::log(sum.cpu_s / sum.sends),
                chance: request_variance / sum.sends,
                sends: sum.sends,
            })
        };
        let suspects = self.suspects.iter().filter_map(|(tenant, sum)| row(Some(tenant), sum));
        suspects.chain(row(None, &self.nobody)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request costs 200 us beside nobody who does harm.
    fn beside(sends: u64, cost_us: u64) -> Beside {
        Beside { cpu_ns: sends * cost_us * 1000, sends }
    }

    fn seen(tenants: &[(&str, Beside)], nobody: Beside) -> Company {
        let mut company = Company::new(CompanyParams::default());
        let tenants = tenants.iter().map(|(name, beside)| (Tenant::from(*name), *beside));
        let reading =
            CompanyReading { tenants: tenants.collect(), others: beside(900, 999), nobody };
        company.see(&reading, 0.25);
        company
    }

    #[test]
    fn beside_a_culprit_requests_cost_more_than_beside_the_others() {
        let groups =
            [("bad", beside(2000, 260)), ("a", beside(2000, 200)), ("b", beside(1000, 200))];
        let told = seen(&groups, Beside::default()).told(1.0);
        let bad = told[&"bad".into()];
        assert!((bad.harm_ln - libm::log(1.3)).abs() < 0.01, "{bad:?}");
        assert!(bad.variance < 0.01 && bad.sends > 1900.0, "{bad:?}");
        assert_eq!(told.len(), 1, "the others are cheap beside that: {told:?}");
    }

    #[test]
    fn a_lone_group_is_compared_with_idle_cpus_for_what_that_is_worth() {
        let told = seen(&[("bad", beside(2000, 260))], beside(2000, 200)).told(1.0);
        let sd = libm::sqrt(told[&"bad".into()].variance);
        assert!(sd > 0.2, "idle CPUs halt: {sd}");
        assert!(seen(&[("bad", beside(2000, 260))], Beside::default()).told(1.0).is_empty());
    }

    #[test]
    fn few_sends_tell_nothing_and_more_tell_more() {
        let sd = |sends: u64| {
            let groups = [("bad", beside(sends, 260)), ("a", beside(2000, 200))];
            let told = seen(&groups, Beside::default()).told(1.0);
            told.get(&"bad".into()).map(|told| libm::sqrt(told.variance))
        };
        assert_eq!(sd(50), None);
        assert!(sd(200).unwrap() > sd(2000).unwrap());
        assert!(sd(1_000_000).unwrap() > 0.05, "what is not chance remains");
    }

    #[test]
    fn how_far_others_are_apart_says_what_may_be_no_harm() {
        let sd = |costs: [u64; 4]| {
            let names = ["a", "b", "c", "d"];
            let others = names.iter().zip(costs).map(|(name, cost)| (*name, beside(100_000, cost)));
            let groups: Vec<(&str, Beside)> =
                others.chain([("bad", beside(100_000, 260))]).collect();
            libm::sqrt(seen(&groups, Beside::default()).told(1.0)[&"bad".into()].variance)
        };
        let (alike, apart, far) =
            (sd([200; 4]), sd([200, 210, 190, 200]), sd([200, 300, 200, 200]));
        assert!((0.02..0.045).contains(&alike), "{alike}");
        assert!(apart > alike && far > apart, "{alike} {apart} {far}");
        assert!(far < 0.06, "a second culprit does not hide the first: {far}");
    }

    #[test]
    fn only_those_who_stand_out_most_are_told() {
        let names: Vec<String> = (0..20).map(|i| format!("g{i:02}")).collect();
        let cost = |i: usize| 200 + 10 * (i as u64);
        let groups: Vec<(&str, Beside)> =
            names.iter().enumerate().map(|(i, n)| (n.as_str(), beside(1000, cost(i)))).collect();
        let told = seen(&groups, Beside::default()).told(1.0);
        let told: Vec<&str> = told.keys().map(Tenant::as_str).collect();
        assert_eq!(told, ["g16", "g17", "g18", "g19"]);
    }

    #[test]
    fn who_is_forgotten_or_gone_is_not_told_and_old_company_counts_less() {
        let groups = [("bad", beside(2000, 260)), ("a", beside(2000, 200))];
        let mut company = seen(&groups, Beside::default());
        company.see(&CompanyReading::default(), 20.0);
        let sends = company.told(1.0)[&"bad".into()].sends;
        assert!((sends - 2000.0 * libm::exp(-1.0)).abs() < 1.0, "{sends}");
        company.forget(&"bad".into());
        company.keep(&["bad".into()]);
        assert!(company.told(1.0).is_empty());
    }
}
