//! What a reporter adds to a finding: over what victim and culprit fight.
//!
//! The reporter names nobody: it runs beside all of them alike. Where somebody is named or suspected
//! because requests cost more CPU time, it says over what, as sure as its signature is; what others say
//! of that, as the kernel's gauge, is weighed with it ([`Culprit::fights_over`]). Where the processor
//! counts bus locks and counts hardly any, a signature of bus locks is told, and not believed.
//!
//! [`Culprit::fights_over`]: super::finding::Culprit

use super::finding::{Finding, Resource};
use super::signature::{Contention, Signature};

/// Fewer bus locks a second than this, of all CPUs together, hold nobody back: a thousand cycles
/// each, they take less than a ten-thousandth of the time.
const FEW_LOCKS_PER_S: f64 = 100.0;

/// Whether so many bus locks a second, of all CPUs together, hold anybody back.
#[must_use]
pub fn counts_much(locks_per_s: f64) -> bool {
    locks_per_s >= FEW_LOCKS_PER_S
}

/// Tells a finding what a reporter saw; `locks_per_s` are the bus locks that the processor counts,
/// none where it does not.
pub fn report(finding: &mut Finding, signature: &Signature, locks_per_s: Option<f64>) {
    let harmed = finding.culprits.iter().any(|c| c.resource != Resource::Cpu);
    if signature.contention.is_none() && !harmed {
        return;
    }
    let counted = locks_per_s.filter(|per_s| !counts_much(*per_s));
    let denied = counted.filter(|_| signature.contention == Some(Contention::BusLocks));
    finding.evidence.push(in_words(signature, denied));
    if denied.is_some() {
        return;
    }
    let Some(contention) = signature.contention else { return };
    for culprit in &mut finding.culprits {
        culprit.fights_over(match contention {
            Contention::BusLocks => Resource::BusLock,
            Contention::LastLevelCache => Resource::LastLevelCache,
            Contention::Memory => Resource::MemoryBandwidth,
        });
    }
}

fn in_words(signature: &Signature, denied: Option<f64>) -> String {
    let Signature { cpu, bursts, confidence, .. } = signature;
    let seen = &signature.inflation;
    let of = libm::exp;
    let verdict = match signature.contention {
        Some(Contention::BusLocks) => "bus locks hold all accesses back",
        Some(Contention::LastLevelCache) => "the last-level cache is fought over",
        Some(Contention::Memory) => "memory bandwidth is fought over",
        None => "none of them is told to be fought over",
    };
    let certain = match signature.contention {
        Some(_) => format!(" (certain to {:.1} %)", 100.0 * confidence),
        None => String::new(),
    };
    let denial = denied.map_or_else(String::new, |per_s| {
        format!("; the processor counts {per_s:.0} bus locks a second, so it is something else")
    });
    format!(
        "{bursts} bursts on idle CPU {cpu}: shared cache {:.2}, memory {:.2}, own cache {:.2}, \
         registers {:.2} times as long as in quiet moments: {verdict}{certain}{denial}",
        of(seen.shared),
        of(seen.memory),
        of(seen.private),
        of(seen.arithmetic),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::{Cause, Culprit, Standing};
    use super::super::signature::Inflations;
    use super::*;

    fn signature(contention: Option<Contention>) -> Signature {
        let inflation = Inflations { shared: libm::log(1.5), ..Inflations::default() };
        Signature { cpu: 3, contention, confidence: 0.97, inflation, bursts: 12 }
    }

    fn finding(resource: Option<Resource>) -> Finding {
        let culprit = |resource| Culprit {
            workload: "jobs".into(),
            confidence: 0.995,
            serious_frac: 0.995,
            status: Standing::Named,
            resource,
            slowdown: 1.3,
            share_frac: 1.0,
            harm_ln_per_cpu: 0.5,
            experiments: 3,
            stood_frac: None,
            elsewhere_frac: 0.0,
            held_back_frac: None,
        };
        let culprits: Vec<Culprit> = resource.into_iter().map(culprit).collect();
        Finding { slowdown: 1.3, cause: Cause::Neighbour, culprits, evidence: vec!["held".into()] }
    }

    fn reported(
        resource: Option<Resource>,
        contention: Option<Contention>,
        locks: Option<f64>,
    ) -> Finding {
        let mut finding = finding(resource);
        report(&mut finding, &signature(contention), locks);
        finding
    }

    #[test]
    fn it_says_over_what_and_how_sure_that_is() {
        let table = [
            (Contention::BusLocks, Resource::BusLock, "bus locks"),
            (Contention::LastLevelCache, Resource::LastLevelCache, "last-level cache"),
            (Contention::Memory, Resource::MemoryBandwidth, "memory bandwidth"),
        ];
        for (contention, resource, word) in table {
            let told = reported(Some(Resource::Memory), Some(contention), None);
            assert_eq!(told.culprits[0].resource, resource);
            assert_eq!(told.evidence.len(), 2);
            let said = &told.evidence[1];
            assert!(said.contains(word) && said.contains("97.0 %"), "{said}");
            assert!(said.contains("12 bursts on idle CPU 3: shared cache 1.50"), "{said}");
        }
    }

    #[test]
    fn it_names_nobody_and_leaves_waits_for_a_cpu_alone() {
        let alone = reported(None, Some(Contention::Memory), None);
        assert_eq!((alone.culprits.len(), alone.evidence.len()), (0, 2));
        let waits = reported(Some(Resource::Cpu), Some(Contention::Memory), None);
        assert_eq!(waits.culprits[0].resource, Resource::Cpu);
        let before = finding(Some(Resource::Memory)).culprits;
        let nothing = reported(Some(Resource::Memory), None, None);
        assert_eq!((&nothing.culprits, nothing.evidence.len()), (&before, 2));
        assert_eq!(reported(None, None, None).evidence.len(), 1, "nothing is to be said");
    }

    #[test]
    fn what_explains_most_is_told_whoever_said_more_before() {
        use Resource::{BusLock, Cpu, LastLevelCache, MemoryBandwidth};
        let table = [
            (LastLevelCache, Contention::BusLocks, BusLock),
            (MemoryBandwidth, Contention::BusLocks, BusLock),
            (LastLevelCache, Contention::Memory, MemoryBandwidth),
            (MemoryBandwidth, Contention::LastLevelCache, MemoryBandwidth),
            (BusLock, Contention::Memory, BusLock),
            (Cpu, Contention::BusLocks, Cpu),
        ];
        for (before, contention, after) in table {
            let told = reported(Some(before), Some(contention), None);
            assert_eq!(told.culprits[0].resource, after, "{before:?} and {contention:?}");
        }
        let denied = reported(Some(LastLevelCache), Some(Contention::BusLocks), Some(3.0));
        assert_eq!(denied.culprits[0].resource, LastLevelCache);
    }

    #[test]
    fn a_processor_that_counts_no_bus_locks_is_believed() {
        let told = reported(Some(Resource::Memory), Some(Contention::BusLocks), Some(3.0));
        assert_eq!(told.culprits[0].resource, Resource::Memory);
        assert!(told.evidence[1].contains("counts 3 bus locks"), "{:?}", told.evidence);
        let told = reported(Some(Resource::Memory), Some(Contention::BusLocks), Some(5e4));
        assert_eq!(told.culprits[0].resource, Resource::BusLock);
        let told = reported(Some(Resource::Memory), Some(Contention::Memory), Some(3.0));
        assert_eq!(told.culprits[0].resource, Resource::MemoryBandwidth);
    }
}
