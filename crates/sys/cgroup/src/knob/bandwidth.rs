//! CPU bandwidth: the CPU time a group may use in each period.
//!
//! v1 keeps quota and period in two files, and refuses a quota whose share of its period exceeds
//! that of any group above (or falls below that of any group below); v2 keeps both in `cpu.max` and
//! takes the least of the path. In both, a burst larger than the quota makes the kernel refuse the
//! quota, so it is cut first.

use super::GroupKnob;
use crate::group::{Group, Place};
use crate::layout::Version;
use crate::raw::{self, RawFile};
use crate::{CgroupError, file, parse};
use quell_types::{CpuBandwidth, Cpus, Gap, KnobRange, Reading, Setting};
use std::path::{Path, PathBuf};

const MIN_QUOTA_US: u64 = 1000;
const MIN_PERIOD_US: u64 = 1000;
const MAX_PERIOD_US: u64 = 1_000_000;
/// The largest quota (the kernel's `MAX_BW`).
const MAX_QUOTA_US: u64 = (1 << 44) - 1;
/// The kernel compares quotas of different periods as 20-bit fractions.
const RATIO_BITS: u32 = 20;

/// Quota (none = no limit) and period in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    quota_us: Option<u64>,
    period_us: u64,
}

impl Limit {
    /// The share of the period, as the kernel compares it; `u64::MAX` without a limit.
    fn ratio(self) -> u64 {
        let share = |quota| (u128::from(quota) << RATIO_BITS) / u128::from(self.period_us.max(1));
        self.quota_us.map_or(u64::MAX, |quota| u64::try_from(share(quota)).unwrap_or(u64::MAX))
    }

    fn setting(self) -> Setting {
        let cpus = |quota| Cpus(quota as f64 / self.period_us.max(1) as f64);
        let limit_cpus = self.quota_us.map(cpus);
        Setting::Bandwidth(CpuBandwidth { limit_cpus, period_us: self.period_us })
    }

    fn quota_text(self) -> String {
        self.quota_us.map_or_else(|| "-1".to_owned(), |quota| quota.to_string())
    }
}

/// What the kernel accepts that comes nearest to `wanted` without giving more: a quota under 1 ms
/// is kept as a share by a longer period, as long as there is one.
fn nearest(wanted: CpuBandwidth) -> Limit {
    let period_us = wanted.period_us.clamp(MIN_PERIOD_US, MAX_PERIOD_US);
    let Some(Cpus(cpus)) = wanted.limit_cpus else { return Limit { quota_us: None, period_us } };
    // A saturating cast: what is no number or negative becomes 0.
    let quota = (cpus * period_us as f64).round() as u64;
    if quota >= MIN_QUOTA_US {
        return Limit { quota_us: Some(quota.min(MAX_QUOTA_US)), period_us };
    }
    let longer = (MIN_QUOTA_US as f64 / cpus.max(f64::MIN_POSITIVE)).ceil();
    let period_us = (longer as u64).clamp(period_us, MAX_PERIOD_US);
    Limit { quota_us: Some(MIN_QUOTA_US), period_us }
}

/// The CPU bandwidth of a group.
#[derive(Clone, Debug)]
pub struct BandwidthKnob {
    place: Place,
}

impl BandwidthKnob {
    /// The bandwidth of this group.
    ///
    /// # Errors
    /// A gap if the group is in no hierarchy with the cpu controller.
    pub fn new(group: &Group) -> Reading<Self> {
        Ok(Self { place: group.place("cpu")?.clone() })
    }

    fn files(&self) -> Vec<PathBuf> {
        let names: &[&str] = match self.place.version {
            Version::V1 => &["cpu.cfs_quota_us", "cpu.cfs_period_us"],
            Version::V2 => &["cpu.max"],
        };
        names.iter().map(|name| self.place.file(name)).collect()
    }

    fn burst_file(&self) -> PathBuf {
        let v1 = self.place.version == Version::V1;
        self.place.file(if v1 { "cpu.cfs_burst_us" } else { "cpu.max.burst" })
    }

    fn limit(&self) -> Result<Limit, CgroupError> {
        limit_of(self.place.version, &self.place.dir)
    }

    /// v1 refuses more than any group above has: that is the most to ask for. A v2 group takes any
    /// number, and the least of the path counts.
    fn cap(&self, limit: Limit) -> Limit {
        if self.place.version == Version::V2 || limit.quota_us.is_none() {
            return limit;
        }
        let above = self.place.dir.ancestors().skip(1);
        let inside =
            above.take_while(|dir| dir.starts_with(&self.place.top) && **dir != *self.place.top);
        let limits = inside.filter_map(|dir| limit_of(Version::V1, dir).ok());
        let least = limits.min_by_key(|limit| limit.ratio());
        match least {
            Some(Limit { quota_us: Some(quota), period_us })
                if Limit { quota_us: Some(quota), period_us }.ratio() < limit.ratio() =>
            {
                let share =
                    u128::from(quota) * u128::from(limit.period_us) / u128::from(period_us.max(1));
                let quota = u64::try_from(share).unwrap_or(MAX_QUOTA_US).max(MIN_QUOTA_US);
                Limit { quota_us: Some(quota), ..limit }
            }
            _ => limit,
        }
    }

    /// A burst over the quota makes the kernel refuse the quota.
    fn cut_burst(&self, limit: Limit) -> Result<(), CgroupError> {
        let path = self.burst_file();
        let burst = match file::read(&path) {
            Ok(text) => parse::number(&text).unwrap_or(0),
            Err(CgroupError::Unsupported { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        match limit.quota_us {
            Some(quota) if burst > quota => file::write(&path, &quota.to_string()),
            _ => Ok(()),
        }
    }

    /// Two files, so something stands in between: the way that never gives more than before or
    /// after is tried first; the other, and that through "no limit", only where groups above or
    /// below make the kernel refuse it.
    fn write_v1(&self, now: Limit, wanted: Limit) -> Result<(), CgroupError> {
        let quota = |text: &str| file::write(&self.place.file("cpu.cfs_quota_us"), text);
        let period =
            || file::write(&self.place.file("cpu.cfs_period_us"), &wanted.period_us.to_string());
        let quota_first = || quota(&wanted.quota_text()).and_then(|()| period());
        let period_first = || period().and_then(|()| quota(&wanted.quota_text()));
        if now.period_us == wanted.period_us {
            return quota(&wanted.quota_text());
        }
        let between = Limit { quota_us: wanted.quota_us, period_us: now.period_us };
        let tight = between.ratio() <= now.ratio().max(wanted.ratio());
        let done = if tight { quota_first() } else { period_first() };
        let other = done.or_else(|_| if tight { period_first() } else { quota_first() });
        other.or_else(|_| {
            quota("-1")?;
            // Never left without a limit: what was there comes back if the new one is refused.
            period_first().inspect_err(|_| {
                let _ =
                    file::write(&self.place.file("cpu.cfs_period_us"), &now.period_us.to_string());
                let _ = quota(&now.quota_text());
            })
        })
    }

    fn write_v2(&self, wanted: Limit) -> Result<(), CgroupError> {
        let quota = wanted.quota_us.map_or_else(|| "max".to_owned(), |quota| quota.to_string());
        file::write(&self.place.file("cpu.max"), &format!("{quota} {}", wanted.period_us))
    }
}

fn limit_of(version: Version, dir: &Path) -> Result<Limit, CgroupError> {
    match version {
        Version::V2 => {
            let path = dir.join("cpu.max");
            let text = file::read(&path)?;
            let found = parse::cpu_max(&text).ok_or_else(|| raw::malformed(&path, &text))?;
            Ok(Limit { quota_us: found.0, period_us: found.1 })
        }
        Version::V1 => {
            let (quota, period) = (dir.join("cpu.cfs_quota_us"), dir.join("cpu.cfs_period_us"));
            let text = file::read(&quota)?;
            let quota_us = match text.trim() {
                "-1" => None,
                _ => Some(parse::number(&text).ok_or_else(|| raw::malformed(&quota, &text))?),
            };
            let text = file::read(&period)?;
            let period_us = parse::number(&text).ok_or_else(|| raw::malformed(&period, &text))?;
            Ok(Limit { quota_us, period_us })
        }
    }
}

impl GroupKnob for BandwidthKnob {
    fn read(&self) -> Reading<Setting> {
        self.limit().map(Limit::setting).map_err(Gap::from)
    }

    fn range(&self) -> Reading<KnobRange> {
        self.limit().map_err(Gap::from)?;
        Ok(KnobRange::Bandwidth {
            min_quota_us: MIN_QUOTA_US,
            min_period_us: MIN_PERIOD_US,
            max_period_us: MAX_PERIOD_US,
        })
    }

    /// To whole microseconds, a quota of at least 1 ms and a period of 1 ms to 1 s, never more than
    /// was wanted as long as the kernel lets that be: 2 % of a CPU in periods of 10 ms becomes 1 ms
    /// in 50 ms. In v1 also no more than the groups above have.
    fn round(&self, wanted: &Setting) -> Setting {
        match wanted {
            Setting::Bandwidth(bandwidth) => self.cap(nearest(*bandwidth)).setting(),
            other => other.clone(),
        }
    }

    fn write(&self, wanted: &Setting) -> Result<(), CgroupError> {
        let Setting::Bandwidth(bandwidth) = wanted else {
            return Err(CgroupError::WrongSetting {
                knob: "a CPU bandwidth",
                setting: wanted.clone(),
            });
        };
        let (now, wanted) = (self.limit()?, self.cap(nearest(*bandwidth)));
        if now == wanted {
            return Ok(());
        }
        self.cut_burst(wanted)?;
        match self.place.version {
            Version::V1 => self.write_v1(now, wanted)?,
            Version::V2 => self.write_v2(wanted)?,
        }
        raw::verify(&self.files()[0], &wanted.setting(), &self.limit()?.setting())
    }

    fn raw_files(&self) -> Result<Vec<RawFile>, CgroupError> {
        let mut files = raw::save(self.files())?;
        match raw::save([self.burst_file()]) {
            Ok(burst) => files.extend(burst),
            Err(CgroupError::Unsupported { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn limit(cpus: f64, period_ms: u64) -> Limit {
        nearest(CpuBandwidth::limited(cpus, Duration::from_millis(period_ms)))
    }

    #[test]
    fn a_small_share_is_kept_by_a_longer_period() {
        for (cpus, period_ms, quota_us, period_us) in [
            (0.5, 100, 50_000, 100_000),
            (0.5, 2, 1000, 2000),
            (0.02, 10, 1000, 50_000),
            (0.3, 1, 1000, 3334),
            (0.0001, 100, 1000, 1_000_000),
            (0.0, 100, 1000, 1_000_000),
            (-3.0, 100, 1000, 1_000_000),
            (f64::NAN, 100, 1000, 1_000_000),
            (64.0, 5000, 64_000_000, 1_000_000),
            (f64::INFINITY, 100, MAX_QUOTA_US, 100_000),
        ] {
            let wanted = Limit { quota_us: Some(quota_us), period_us };
            assert_eq!(limit(cpus, period_ms), wanted, "{cpus} per {period_ms} ms");
        }
    }

    proptest! {
        #[test]
        fn rounding_stays_in_range_and_stands(cpus in 0.0f64..256.0, period_us in 0u64..5_000_000) {
            let once = nearest(CpuBandwidth { limit_cpus: Some(Cpus(cpus)), period_us });
            let quota = once.quota_us.unwrap();
            prop_assert!((MIN_QUOTA_US..=MAX_QUOTA_US).contains(&quota));
            prop_assert!((MIN_PERIOD_US..=MAX_PERIOD_US).contains(&once.period_us));
            let Setting::Bandwidth(again) = once.setting() else { panic!("another kind") };
            prop_assert_eq!(nearest(again), once);
            if cpus >= 0.001 {
                let given = quota as f64 / once.period_us as f64;
                prop_assert!(given <= cpus + 0.5 / once.period_us as f64 + 1e-12);
            }
        }
    }
}
