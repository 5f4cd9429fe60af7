//! CPU time: quota, weight, idle class (kernel/sched/core.c).

use super::{Kernel, Refusal, Version, above, refuse};
use rustix::io::Errno;

const USUAL_SHARES: u64 = 1024;
const USUAL_WEIGHT: u64 = 100;
/// What the idle class reads as shares.
const IDLE_SHARES: u64 = 3;
const LEAST_QUOTA_US: u64 = 1000;

#[derive(Clone, Debug)]
pub(super) struct Cpu {
    quota_us: Option<u64>,
    period_us: u64,
    burst_us: u64,
    /// Shares in v1, the weight in v2.
    weight: Option<u64>,
    idle: bool,
}

impl Default for Cpu {
    fn default() -> Self {
        Self { quota_us: None, period_us: 100_000, burst_us: 0, weight: None, idle: false }
    }
}

pub(super) fn files(version: Version) -> &'static [&'static str] {
    match version {
        Version::V1 => &[
            "cpu.cfs_quota_us",
            "cpu.cfs_period_us",
            "cpu.cfs_burst_us",
            "cpu.shares",
            "cpu.idle",
            "cpu.stat",
            "cpuacct.usage",
        ],
        Version::V2 => &["cpu.max", "cpu.max.burst", "cpu.weight", "cpu.idle"],
    }
}

impl Cpu {
    /// The share of the period as a 20-bit fraction, as the kernel compares it.
    fn ratio(&self) -> Option<u64> {
        self.quota_us.map(|quota| (quota << 20) / self.period_us)
    }

    fn is_sound(&self) -> bool {
        (1000..=1_000_000).contains(&self.period_us)
            && self.quota_us.is_none_or(|quota| quota >= LEAST_QUOTA_US && self.burst_us <= quota)
    }
}

impl Kernel {
    pub(super) fn cpu_text(&self, group: &str, file: &str) -> String {
        let of = &self.groups[group].cpu;
        let used = self.opened;
        match file {
            "cpu.cfs_quota_us" => of.quota_us.map_or("-1\n".into(), |quota| format!("{quota}\n")),
            "cpu.cfs_period_us" => format!("{}\n", of.period_us),
            "cpu.cfs_burst_us" | "cpu.max.burst" => format!("{}\n", of.burst_us),
            "cpu.max" => {
                let quota = of.quota_us.map_or("max".into(), |quota| quota.to_string());
                format!("{quota} {}\n", of.period_us)
            }
            "cpu.shares" if of.idle => format!("{IDLE_SHARES}\n"),
            "cpu.shares" => format!("{}\n", of.weight.unwrap_or(USUAL_SHARES)),
            "cpu.weight" if of.idle => "1\n".into(),
            "cpu.weight" => format!("{}\n", of.weight.unwrap_or(USUAL_WEIGHT)),
            "cpu.idle" => super::flag(of.idle),
            "cpuacct.usage" => format!("{}\n", used * 1000),
            "cpu.stat" if self.version == Version::V1 => {
                format!("nr_periods {used}\nnr_throttled 0\nthrottled_time 0\n")
            }
            _ => {
                format!("usage_usec {used}\nnr_periods {used}\nnr_throttled 0\nthrottled_usec 0\n")
            }
        }
    }

    pub(super) fn write_cpu(&mut self, group: &str, file: &str, text: &str) -> Result<(), Refusal> {
        match file {
            "cpu.cfs_quota_us" => {
                let Ok(quota) = text.parse::<i64>() else { return refuse(Errno::INVAL) };
                self.limit(group, |cpu| cpu.quota_us = u64::try_from(quota).ok())
            }
            "cpu.cfs_period_us" => {
                let Ok(period_us) = text.parse() else { return refuse(Errno::INVAL) };
                self.limit(group, |cpu| cpu.period_us = period_us)
            }
            "cpu.cfs_burst_us" | "cpu.max.burst" => {
                let Ok(burst_us) = text.parse() else { return refuse(Errno::INVAL) };
                self.limit(group, |cpu| cpu.burst_us = burst_us)
            }
            "cpu.max" => self.write_max(group, text),
            "cpu.shares" | "cpu.weight" => self.write_weight(group, text),
            "cpu.idle" => match text.parse::<i64>() {
                Ok(idle @ (0 | 1)) => {
                    let cpu = &mut self.group(group).cpu;
                    // Whoever leaves the idle class has the usual weight.
                    (cpu.idle, cpu.weight) = (idle == 1, None);
                    Ok(())
                }
                _ => refuse(Errno::INVAL),
            },
            _ => refuse(Errno::INVAL),
        }
    }

    fn write_max(&mut self, group: &str, text: &str) -> Result<(), Refusal> {
        let mut parts = text.split_ascii_whitespace();
        let quota_us = match parts.next() {
            Some("max") => None,
            Some(quota) => match quota.parse::<u64>() {
                Ok(quota) => Some(quota),
                Err(_) => return refuse(Errno::INVAL),
            },
            None => return refuse(Errno::INVAL),
        };
        let period = parts.next().map(str::parse::<u64>).transpose();
        let Ok(period) = period else { return refuse(Errno::INVAL) };
        self.limit(group, |cpu| {
            cpu.quota_us = quota_us;
            cpu.period_us = period.unwrap_or(cpu.period_us);
        })
    }

    fn write_weight(&mut self, group: &str, text: &str) -> Result<(), Refusal> {
        let Ok(weight) = text.parse::<u64>() else { return refuse(Errno::INVAL) };
        let version = self.version;
        if version == Version::V2 && !(1..=10_000).contains(&weight) {
            return refuse(Errno::RANGE);
        }
        let cpu = &mut self.group(group).cpu;
        if cpu.idle {
            return refuse(Errno::INVAL);
        }
        cpu.weight = Some(match version {
            Version::V1 => weight.clamp(2, 1 << 18),
            Version::V2 => weight,
        });
        Ok(())
    }

    /// Changes a limit if what comes of it is sound, alone and among the groups above and below.
    fn limit(&mut self, group: &str, change: impl FnOnce(&mut Cpu)) -> Result<(), Refusal> {
        let before = self.groups[group].cpu.clone();
        change(&mut self.group(group).cpu);
        let nested = self.version == Version::V2 || self.groups.keys().all(|g| self.is_nested(g));
        if self.groups[group].cpu.is_sound() && nested {
            return Ok(());
        }
        self.group(group).cpu = before;
        refuse(Errno::INVAL)
    }

    /// In v1 no group may have a larger share than one above it.
    fn is_nested(&self, group: &str) -> bool {
        let Some(own) = self.groups[group].cpu.ratio() else { return true };
        let mut limits = above(group).skip(1).filter_map(|g| self.groups[g].cpu.ratio());
        limits.all(|limit| own <= limit)
    }
}
