//! Several who hurt together, each of them too little to be found alone.
//!
//! # Problem
//! Guilt is of one, or of two at once. A tenant that splits its work over ten groups, or a job of ten workers, makes a
//! request half as dear again with all of them, and with each by a twentieth: to hold one of them shows nothing, the
//! less since the others have its CPU meanwhile. So everybody was acquitted.
//!
//! # Idea
//! Beside *any* of them a request costs more than beside the others, and company says so of each, whatever the others
//! do. Where three or more stand out so from the rest of the groups, they are a *crew*: one more suspect, which
//! uses what all of its members use, and is held by holding them all. All that is known of suspects holds of it: looks
//! convict it, company only accuses, and what was seen when some of its members were held speaks for it or against
//! it. Whoever of them alone explains what looks show keeps the others from being blamed: a crew is told of only if looks
//! fit it clearly better than any one or two ([`Guilt`](super::Guilt)).
//!
//! ```text
//! rest:     groups beside which requests cost least, at least two
//! out(g) =  (x(g) - mean of x over the rest) / its standard deviation, what is not by chance included
//! crew:     all others, three at least, if each is out by 3 and by 0.1 in ln
//! ```
//!
//! Of all divisions that are such the one with the widest gap counts. A crew stays until one of its members, of which
//! enough is seen, does not stand out any more, is gone, or is forgotten; or until another one stands out as they do.
//! Then all begins anew: nobody is convicted for looks that were made at others.
//!
//! # Units
//! ln of a request's cost, for each CPU.
//!
//! # Degradation
//! Where the kernel does not tell of company, or fewer than two groups do no harm, there is no crew. Groups that seldom
//! run elsewhere while the service runs are not told of.
//!
//! Source: issue "Name the polluter and limit only it" (a polluter that splits over ten groups).

use super::company::{Company, Row, Told};
use quell_types::Tenant;

/// One or two are found without.
const LEAST_MEMBERS: usize = 3;
/// The rest has at least so many groups, to be compared with.
const LEAST_REST: usize = 2;
/// Standard deviations by which a member stands out to be one, ...
const ENTERS_SD: f64 = 3.0;
/// ... and to remain one.
const STAYS_SD: f64 = 1.0;
/// It does so by that much at least, in ln for each CPU.
const LEAST_HARM_LN: f64 = 0.1;

/// Those who are taken to hurt together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Crew {
    /// In the order of their names; empty if there is none.
    members: Vec<Tenant>,
    told: Option<Told>,
}

impl Crew {
    /// Who they are; empty if there is none.
    #[must_use]
    pub fn members(&self) -> &[Tenant] {
        &self.members
    }

    /// The name by which it is suspected: no workload has a `+` in its own.
    #[must_use]
    pub fn name(&self) -> Option<Tenant> {
        let names: Vec<&str> = self.members.iter().map(Tenant::as_str).collect();
        (!names.is_empty()).then(|| Tenant::new(names.join("+")))
    }

    /// What company says of all of them against the rest.
    #[must_use]
    pub fn told(&self) -> Option<Told> {
        self.told
    }

    /// From now on these are the suspects.
    pub fn keep(&mut self, suspects: &[Tenant]) {
        if self.members.iter().any(|member| !suspects.contains(member)) {
            *self = Self::default();
        }
    }

    /// Begins anew with one of them.
    pub fn forget(&mut self, suspect: &Tenant) {
        if self.members.contains(suspect) {
            *self = Self::default();
        }
    }

    /// Learns who stands out now, where the cost of one request scatters by this relative variance.
    pub fn follow(&mut self, company: &Company, request_variance: f64) {
        let rows = company.rows(request_variance);
        let other_variance = company.most_other_variance();
        let mut told: Vec<(&Tenant, &Row<'_>)> =
            rows.iter().filter_map(|row| Some((row.suspect?, row))).collect();
        told.sort_by(|(_, a), (_, b)| a.ln_cost.total_cmp(&b.ln_cost));
        if self.stays(&told, other_variance) {
            return;
        }
        *self = formed(&told, other_variance);
    }

    /// Whether it is as it was: all members of whom enough is seen stand out, and nobody else does.
    fn stays(&mut self, told: &[(&Tenant, &Row<'_>)], other_variance: f64) -> bool {
        if self.members.is_empty() {
            return false;
        }
        let is_member = |of: &&(&Tenant, &Row<'_>)| self.members.contains(of.0);
        let (members, rest): (Vec<_>, Vec<_>) = told.iter().partition(is_member);
        let Some(rest) = Rest::of(rest.iter().map(|(_, row)| *row), other_variance) else {
            // As long as too little is seen of them nothing speaks against it.
            return true;
        };
        let all_stand_out = members.iter().all(|(_, row)| rest.out_sd(row) >= STAYS_SD);
        let joined = told.iter().filter(|of| !is_member(of)).any(|(_, row)| rest.stands_out(row));
        if members.len() == self.members.len() {
            self.told = Some(rest.told(members.iter().map(|(_, row)| *row)));
        }
        all_stand_out && !joined
    }
}

/// The crew of those of whom something is told, the least dear company first.
fn formed(told: &[(&Tenant, &Row<'_>)], other_variance: f64) -> Crew {
    let most_rest = told.len().saturating_sub(LEAST_MEMBERS);
    let divided = |at: usize| {
        let (rest, members) = told.split_at(at);
        let gap = members.first()?.1.ln_cost - rest.last()?.1.ln_cost;
        let rest = Rest::of(rest.iter().map(|(_, row)| *row), other_variance)?;
        members.iter().all(|(_, row)| rest.stands_out(row)).then_some((gap, at, rest))
    };
    let all = (LEAST_REST..=most_rest).filter_map(divided);
    let Some((_, at, rest)) = all.max_by(|(a, ..), (b, ..)| a.total_cmp(b)) else {
        return Crew::default();
    };
    let mut members: Vec<Tenant> = told[at..].iter().map(|(name, _)| (*name).clone()).collect();
    members.sort();
    Crew { members, told: Some(rest.told(told[at..].iter().map(|(_, row)| *row))) }
}

/// Those who are no members: mean and variance of what a request costs beside them, in ln.
struct Rest {
    mean: f64,
    variance: f64,
    other_variance: f64,
}

impl Rest {
    /// None of too few.
    fn of<'a>(rows: impl Iterator<Item = &'a Row<'a>>, other_variance: f64) -> Option<Self> {
        let (mut count, mut weight, mut sum) = (0, 0.0, 0.0);
        for row in rows {
            let own = 1.0 / (row.chance + other_variance);
            count += 1;
            weight += own;
            sum += own * row.ln_cost;
        }
        let variance = 1.0 / weight;
        (count >= LEAST_REST).then_some(Self { mean: sum / weight, variance, other_variance })
    }

    fn out_sd(&self, row: &Row<'_>) -> f64 {
        (row.ln_cost - self.mean) / libm::sqrt(row.chance + self.other_variance + self.variance)
    }

    fn stands_out(&self, row: &Row<'_>) -> bool {
        row.ln_cost - self.mean >= LEAST_HARM_LN && self.out_sd(row) >= ENTERS_SD
    }

    /// What the company of all of these says: what is not by chance may be the same for all.
    fn told<'a>(&self, rows: impl Iterator<Item = &'a Row<'a>>) -> Told {
        let (mut weight, mut sum, mut sends) = (0.0, 0.0, 0.0);
        for row in rows {
            weight += 1.0 / row.chance;
            sum += row.ln_cost / row.chance;
            sends += row.sends;
        }
        let variance = 1.0 / weight + self.other_variance + self.variance;
        Told { harm_ln: sum / weight - self.mean, variance, sends }
    }
}

#[cfg(test)]
mod tests {
    use super::super::company::CompanyParams;
    use super::*;
    use quell_types::{Beside, CompanyReading};

    /// What was done beside each, in us for each of two thousand requests.
    fn company(costs: &[(&str, u64)]) -> Company {
        let beside = |cost_us: u64| Beside { cpu_ns: 2000 * cost_us * 1000, sends: 2000 };
        let tenants = costs.iter().map(|(name, cost_us)| ((*name).into(), beside(*cost_us)));
        let reading = CompanyReading { tenants: tenants.collect(), ..CompanyReading::default() };
        let mut company = Company::new(CompanyParams::default());
        company.see(&reading, 0.25);
        company
    }

    fn members(costs: &[(&str, u64)]) -> String {
        let mut crew = Crew::default();
        crew.follow(&company(costs), 0.64);
        crew.name().map_or_else(String::new, |name| name.to_string())
    }

    #[test]
    fn three_and_more_that_stand_out_from_two_and_more_are_a_crew() {
        let table = [
            (&[("a", 200), ("b", 205), ("p", 260), ("q", 300), ("r", 280)][..], "p+q+r"),
            // Two are found without.
            (&[("a", 200), ("b", 205), ("c", 198), ("q", 300), ("r", 280)], ""),
            // Nothing to compare them with.
            (&[("a", 200), ("p", 260), ("q", 300), ("r", 280)], ""),
            // No more than what is not harm.
            (&[("a", 200), ("b", 205), ("p", 215), ("q", 218), ("r", 220)], ""),
            // One of them is neither: the widest gap divides.
            (&[("a", 200), ("b", 206), ("m", 225), ("p", 300), ("q", 300), ("r", 310)], "p+q+r"),
            (&[], ""),
        ];
        for (costs, wanted) in table {
            assert_eq!(members(costs), wanted, "{costs:?}");
        }
    }

    #[test]
    fn what_is_told_of_it_is_how_much_dearer_requests_are_beside_any_of_them() {
        let mut crew = Crew::default();
        crew.follow(&company(&[("a", 200), ("b", 200), ("p", 300), ("q", 300), ("r", 300)]), 0.64);
        let told = crew.told().unwrap();
        assert!((told.harm_ln - libm::log(1.5)).abs() < 1e-6, "{told:?}");
        assert!(told.variance < 0.1 * 0.1 && (told.sends - 6000.0).abs() < 1.0, "{told:?}");
    }

    #[test]
    fn it_stays_while_its_members_stand_out_or_are_not_seen_and_begins_anew_with_others() {
        let all = [("a", 200), ("b", 200), ("p", 300), ("q", 300), ("r", 300), ("s", 205)];
        let mut crew = Crew::default();
        crew.follow(&company(&all), 0.64);
        let first = crew.name();
        // Limited, they hardly run.
        crew.follow(&company(&[all[0], all[1], all[2], all[5]]), 0.64);
        assert_eq!(crew.name(), first);
        // Nobody else is seen enough either.
        crew.follow(&company(&all[..1]), 0.64);
        assert_eq!(crew.name(), first);
        let mut with = all;
        with[5].1 = 300;
        crew.follow(&company(&with), 0.64);
        assert_eq!(crew.name(), Some("p+q+r+s".into()));
        with[2].1 = 200;
        crew.follow(&company(&with), 0.64);
        assert_eq!(crew.name(), Some("q+r+s".into()));
        crew.forget(&"a".into());
        assert_eq!(crew.members().len(), 3);
        crew.forget(&"q".into());
        assert_eq!((crew.name(), crew.told()), (None, None));
    }

    #[test]
    fn without_one_who_is_gone_there_is_none() {
        let mut crew = Crew::default();
        crew.follow(&company(&[("a", 200), ("b", 200), ("p", 300), ("q", 300), ("r", 300)]), 0.64);
        crew.keep(&["a", "b", "p", "q", "r"].map(Tenant::from));
        assert_eq!(crew.members().len(), 3);
        crew.keep(&["a", "b", "p", "q"].map(Tenant::from));
        assert!(crew.members().is_empty());
    }
}
