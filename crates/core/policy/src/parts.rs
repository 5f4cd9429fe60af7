//! Building blocks that several laws share: timers, the worst service, memory traffic, splits of
//! cores and cache ways, ceilings of links, and how batch is halted.

mod cores;
mod domains;
mod every;
mod halt;
mod held_time;
mod link;
mod overruns;
mod partition;
mod quota;
mod scene;
mod traffic;
mod unreachable;
mod ways;
mod worst;

pub(crate) use cores::Cores;
pub(crate) use domains::{cpus_of, frequency_domains, sockets};
pub(crate) use every::{Every, seconds};
pub use halt::OnDisable;
pub(crate) use halt::{can_halt, halt, keep_running_tasks, resume};
pub(crate) use held_time::HeldTime;
pub(crate) use link::{link_degradations, service_rate, share_out};
pub(crate) use overruns::Overruns;
pub(crate) use partition::{Partition, Share, must_keep_a_core};
pub(crate) use quota::{runs_on, short_period};
pub(crate) use scene::Scene;
pub(crate) use traffic::Traffic;
pub(crate) use unreachable::Unreachable;
pub(crate) use ways::WayLayout;
pub(crate) use worst::{Worst, has_work, slack_of};

/// Fails with `what` unless all `values` are finite and lie within `range`.
pub(crate) fn check(
    range: std::ops::RangeInclusive<f64>,
    values: &[(&str, f64)],
) -> Result<(), String> {
    match values.iter().find(|(_, v)| !range.contains(v)) {
        None => Ok(()),
        Some((name, value)) => {
            Err(format!("{name} = {value} is not within {} to {}", range.start(), range.end()))
        }
    }
}
