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
//! what was sent, may be compared with that beside the others. A request counts, as a whole, as one
//! beside those who had the other CPUs when it *began*: how long it takes is not known then, so that
//! on average it costs the same beside all who do no harm, whoever wakes with the victim or runs
//! after it (Wald's identity). To put down what is done while somebody has a CPU, which was tried
//! first, gives the parts of requests at both ends of his turn to him: innocents were named for it.
//!
//! ```text
//! x(g) = ln(CPU time of the victim beside g / its sends meanwhile)
//! v(g) = request variance / sends + what company is not by chance alone
//! y(g) = x(g) - mean of x over the others, weighted by 1 / v
//! ```
//!
//! y is the harm that one CPU of g does, in ln, and stands beside what looks measured ([`Guilt`]): it
//! is told anew with each sample, so that it never adds up, however long the same accident lasts. It
//! only accuses. Who does harm by what he leaves in the cache does it beside all others too, so that
//! no difference acquits nobody; and nobody is named by it without looks in which he was held.
//!
//! What is not by chance: groups wake with their own timers and with the victim's clients, so that
//! beside some other requests begin. Seen of groups that do no harm, when parts of requests still
//! counted: 4 %
//! ([measured](../../../../../docs/experiments/polluter.md#company)). Idle CPUs halt, which changes
//! clocks and wake-ups far more, so they count for little; the clients themselves, and whoever is no
//! suspect, run when a request begins or ends and are left out.
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
use std::collections::BTreeMap;

/// How company is weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompanyParams {
    /// After so many seconds a third of what was seen is left.
    pub memory_s: f64,
    /// Sends beside somebody before anything is told of him.
    pub least_sends: f64,
    /// Standard deviation of what beside somebody is different for reasons other than his work, in ln.
    pub other_sd: f64,
    /// The same of idle CPUs.
    pub idle_sd: f64,
    /// Of so many at most it is told.
    pub most: usize,
}

impl Default for CompanyParams {
    fn default() -> Self {
        Self { memory_s: 20.0, least_sends: 100.0, other_sd: 0.05, idle_sd: 0.2, most: 4 }
    }
}

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
struct Row<'a> {
    suspect: Option<&'a Tenant>,
    ln_cost: f64,
    variance: f64,
    sends: f64,
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
        self.suspects.retain(|tenant, _| suspects.contains(tenant));
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
        let weight: f64 = rows.iter().map(|row| 1.0 / row.variance).sum();
        let mean: f64 = rows.iter().map(|row| row.ln_cost / row.variance).sum();
        let against_others = |row: &Row<'_>| {
            let own = 1.0 / row.variance;
            let others = weight - own;
            let variance = row.variance + 1.0 / others;
            let harm_ln = row.ln_cost - (mean - own * row.ln_cost) / others;
            Some((row.suspect?.clone(), Told { harm_ln, variance, sends: row.sends }))
        };
        if rows.len() < 2 {
            return BTreeMap::new();
        }
        let mut told: Vec<(Tenant, Told)> = rows.iter().filter_map(against_others).collect();
        told.retain(|(_, told)| told.harm_ln > 0.0);
        let stands_out = |told: &Told| told.harm_ln / libm::sqrt(told.variance);
        told.sort_by(|(_, a), (_, b)| stands_out(b).total_cmp(&stands_out(a)));
        told.truncate(self.params.most);
        told.into_iter().collect()
    }

    /// Those of whom enough was seen.
    fn rows(&self, request_variance: f64) -> Vec<Row<'_>> {
        let row = |suspect, sum: &Sum, sd: f64| {
            (sum.sends >= self.params.least_sends && sum.cpu_s > 0.0).then(|| Row {
                suspect,
                ln_cost: libm::log(sum.cpu_s / sum.sends),
                variance: request_variance / sum.sends + sd * sd,
                sends: sum.sends,
            })
        };
        let suspects = self.suspects.iter();
        let suspects = suspects.filter_map(|(t, sum)| row(Some(t), sum, self.params.other_sd));
        suspects.chain(row(None, &self.nobody, self.params.idle_sd)).collect()
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
