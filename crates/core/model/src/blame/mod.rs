//! Who hurts whom: one model of evidence for machines with and without counters.
//!
//! # Problem
//! A victim is slower than it would be alone. A few of many groups cause it, or none does: its own
//! load, its own quota and the hypervisor slow it too. Nobody may be named who did not do it, and
//! every look costs: a group that is held for an experiment loses that time.
//!
//! # Idea
//! A suspect's *harm* is ln of the factor by which one CPU of its work lengthens the victim's CPU
//! time per request. Logarithms of slowdowns add up, so every piece of evidence is one linear
//! measurement:
//!
//! ```text
//! y = sum over guilty suspects s of dose(s) * harm(s) + noise
//! ```
//!
//! * An experiment holds a *set* of suspects for some chips and lets it run for others: y is ln of
//!   the ratio of the victim's cost in both, dose(s) the CPUs that s lost by it. Suspects are
//!   weighed together like parcels on one scale, so n of them need about log n looks.
//! * The scheduler's own randomness is such a measurement as well: from one sample to the next
//!   each suspect uses a little more or less, and the victim's cost moves with the culprit's use.
//!   Weaker (load and host speed move too), so its variance is larger, but it costs nobody anything.
//! * Within a sample it makes far more of them: hundreds of times a second now this group, now that
//!   one runs on the other CPUs ([`Company`]). What a request costs beside each says who is bad
//!   company: thousands of requests in place of forty. It accuses; looks convict.
//!
//! Few are guilty: nobody, one, or two at once. So each such *hypothesis* has a weight and, for its
//! guilty ones, what is believed of their harm (mean and covariance). A measurement multiplies each
//! weight by how well the hypothesis foretold it. A set that is held without effect acquits all its
//! members at once; that a culprit must explain *all* measurements keeps chance from naming
//! somebody. Weights sink back to what was assumed at first as time passes, since groups change
//! their ways. The next set to hold is the one about whose effect the hypotheses disagree most:
//! about half of the guilt, so bisection comes out of the arithmetic.
//!
//! Several who hurt together, each too little to be found, are one more suspect where company tells of them
//! ([`Crew`]).
//!
//! CPU time per request does not tell of waiting for a CPU; the scheduler does, exactly: who ran
//! while the victim's threads stood ready ([`Waiting`]). Its effects are in ln as well and add up
//! with the others, so that one group may be named for the CPU and another for the cache. To share
//! a CPU is no offence: only who asks for more than its turn is named for it: who never sleeps, not
//! even with most of a CPU while the others are held ([`rivals`]). Those who sleep then, and want more together than
//! there is, are told as [`Cause::Overcommitted`], nobody named. Where the scheduler
//! does not tell, latency is weighed in the same way beside CPU time, and who lengthens only that is
//! *suspected*.
//!
//! What a culprit left in the caches does harm for a while after he is held, longer than a look for a service that
//! keeps much there; how long is learnt from the looks ([`Settling`]), and what they show is taken for the part that
//! it is.
//!
//! Over what they fight, counters would say. Where there are none a reporter does ([`Signature`]): short
//! bursts of timed accesses on a CPU that is idle anyway. It names nobody. Where the kernel traps bus locks
//! it tells who made any ([`Traps`]): that says whom to look at first, and names nobody either. Who locks the
//! bus now is told by a gauge in the kernel ([`Gauge`]), which times accesses that only bus locks hold back,
//! while this group or that one has the other CPUs; and where the victim suffers then, that names. It tells
//! besides who loads memory and who drives out what lies in the caches: that makes guilt likelier, and the
//! latter suspects whoever was not shown to do no harm ([`Slight`]).
//!
//! A victim that is slow for moments only is looked at in these, by hypotheses of their own
//! ([`Pulses`]): what is seen between them would acquit whoever makes them. And what is seen in them
//! stays out of the others, once moments are known.
//!
//! # Units
//! Harm: ln per CPU. Doses: CPUs. Costs: seconds of CPU time per request; only ratios are used.
//!
//! # Pseudo-code
//! ```text
//! each sample:   fade(dt); if the victim's cost is known: measure(drift of doses, drift of cost)
//! each trace:    measure(doses lost while held, ln(cost running / cost held), noise by requests)
//! measure:       for each hypothesis H: foretold = doses(H) . harm(H); weight(H) *= likelihood;
//!                Kalman step for harm(H)
//! to look again: grow the set on which the hypotheses disagree most, while another member helps
//! each sample:   waiting(s) = stood behind s / what the victim needs anyway, a mean over windows
//! finding:       guilt(s) = sum of the weights of hypotheses with s
//!                effect(s) = harm(s) * CPUs of s
//!                named      guilt and P(effect > least) high, held at least twice
//!                named      stood behind s, P(effect > least) high, s never sleeps, with most of a CPU
//!                suspected  less than that, but more likely than not, and not seen to sleep
//! ```
//!
//! # Degradation
//! Without a freezer there are no experiments: then only drift and CPI²-style correlation speak,
//! and nobody is ever named by them, only suspected. Without requests there is no cost, so no
//! finding (a gap). Above [`GuiltParams::most_for_pairs`] suspects only one at a time is thought of.
//!
//! Source: A-2, A-3, R-2, R-3; issue "Name the polluter and limit only it".

mod choose;
mod company;
mod cpi2;
mod crew;
mod finding;
mod gauge;
mod guilt;
mod hypothesis;
mod judge;
mod measure;
mod normal;
mod pulses;
mod reported;
mod rivals;
mod settling;
mod signature;
mod slight;
mod traps;
mod waiting;

pub use choose::{Candidate, ChooseParams, choose};
pub use company::{Company, CompanyParams, Told};
pub use cpi2::{Cpi2, Cpi2Params, Cpi2Sample};
pub use crew::Crew;
pub use finding::{Cause, Culprit, Finding, FindingParams, Resource, Standing};
pub use gauge::{DrivesOut, Gauge, GaugeParams, Loads, Locker, Pressing, Suffering, Toll, Window};
pub use guilt::{Belief, Guilt, GuiltParams, Measurement};
pub use judge::{Evidence, VictimSigns, judge};
pub use measure::{MeasureParams, Measurer, Signal, Steps, doses};
pub use pulses::{Felt, PulseParams, Pulses, When};
pub use reported::{counts_much, report};
pub use rivals::{Rival, parts, rivals, undecided};
pub use settling::Settling;
pub use signature::{Contention, Inflations, Reporter, Signature, SignatureParams};
pub use slight::{Expected, Likely, Slight};
pub use traps::{TrapParams, Traps};
pub use waiting::{Crowding, Demand, Tried, Waiting, WaitingParams};
