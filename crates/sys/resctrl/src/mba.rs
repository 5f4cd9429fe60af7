//! Memory bandwidth throttle: units and rounding (A-26, T-26).

use quell_types::{Gap, Reading};

/// In what the MB line counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MbaUnit {
    /// Percent of full bandwidth (Intel).
    Percent,
    /// Eighths of GB/s, 2048 = no limit (AMD).
    EighthGigabytes,
    /// MB/s, kept by the kernel's software controller (mount option `mba_MBps`).
    MegabytesPerSecond,
}

/// The value by which AMD says "no limit".
pub const AMD_UNLIMITED: u64 = 2048;

/// What values the MB line takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MbaRules {
    /// In what it counts.
    pub unit: MbaUnit,
    /// Smallest value.
    pub min: u64,
    /// Step.
    pub step: u64,
    /// Whether the delay grows linearly; else only powers of two.
    pub linear: bool,
}

impl MbaRules {
    /// The largest value: no throttle.
    #[must_use]
    pub fn max(&self) -> u64 {
        match self.unit {
            MbaUnit::Percent => 100,
            MbaUnit::EighthGigabytes => AMD_UNLIMITED,
            MbaUnit::MegabytesPerSecond => u64::from(u32::MAX),
        }
    }

    /// A percentage as the value that the kernel will hold: not under the minimum, linear ones
    /// rounded up to the step as the kernel does, others so that the delay 100 − value is 0 or the
    /// next power of two. On AMD 100 % is [`AMD_UNLIMITED`] and less is a share of it, so a
    /// machine whose memory gives less than 256 GB/s feels only the low percentages.
    ///
    /// # Errors
    /// Absent with `mba_MBps`: there is no percentage then.
    pub fn to_value(&self, percent: u32) -> Reading<u64> {
        let percent = u64::from(percent.min(100));
        match self.unit {
            MbaUnit::MegabytesPerSecond => Err(self.no_percent()),
            MbaUnit::EighthGigabytes => {
                let value = (percent * AMD_UNLIMITED + 50) / 100;
                Ok(self.round_up(value.max(1)))
            }
            MbaUnit::Percent if self.linear => Ok(self.round_up(percent)),
            MbaUnit::Percent => Ok(self.round_delay(percent)),
        }
    }

    /// The percentage that a value stands for.
    ///
    /// # Errors
    /// Absent with `mba_MBps`; failed for a value beyond the range.
    pub fn to_percent(&self, value: u64) -> Reading<u32> {
        if value > self.max() {
            return Err(Gap::failed(format!("MB value {value} is above {}", self.max())));
        }
        match self.unit {
            MbaUnit::MegabytesPerSecond => Err(self.no_percent()),
            MbaUnit::Percent => Ok(value as u32),
            MbaUnit::EighthGigabytes => {
                Ok(((value * 100 + AMD_UNLIMITED / 2) / AMD_UNLIMITED) as u32)
            }
        }
    }

    /// The percentage that will be read back after `percent` is written.
    ///
    /// # Errors
    /// As [`MbaRules::to_value`].
    pub fn round(&self, percent: u32) -> Reading<u32> {
        self.to_percent(self.to_value(percent)?)
    }

    /// Smallest percentage and step, as a range shows them.
    ///
    /// # Errors
    /// Absent with `mba_MBps`.
    pub fn percent_range(&self) -> Reading<(u32, u32)> {
        let step = match self.unit {
            MbaUnit::Percent => u32::try_from(self.step).unwrap_or(100).clamp(1, 100),
            _ => 1,
        };
        Ok((self.round(0)?, step))
    }

    fn round_up(&self, value: u64) -> u64 {
        let wanted = value.max(self.min);
        // Steps beyond all numbers come only from a damaged file.
        wanted.checked_next_multiple_of(self.step.max(1)).unwrap_or(u64::MAX).min(self.max())
    }

    fn round_delay(&self, percent: u64) -> u64 {
        let max_delay = 100 - self.min.min(100);
        match 100 - percent {
            0 => 100,
            delay => {
                let rounded = delay.next_power_of_two();
                // The largest power of two that the hardware takes caps it.
                let cap = if max_delay == 0 { 0 } else { 1 << max_delay.ilog2() };
                100 - rounded.min(cap)
            }
        }
    }

    fn no_percent(&self) -> Gap {
        Gap::absent(
            "resctrl is mounted with mba_MBps: bandwidth is set in MB/s there, not in percent; \
             mount it without that option",
        )
    }
}
