//! Quantities that carry their unit in their type, so that seconds never meet microseconds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
    };
}

quantity!(
    /// A number of bytes.
    Bytes,
    u64
);
quantity!(
    /// Bytes per second.
    BytesPerSecond,
    f64
);
quantity!(
    /// Processor time per time: 1.0 is one CPU fully used.
    Cpus,
    f64
);
quantity!(
    /// A share of a whole, 0..1 (may exceed 1 where a definition allows it, as EMU does).
    Fraction,
    f64
);
quantity!(
    /// Electric power.
    Watts,
    f64
);
quantity!(
    /// Temperature in degrees Celsius.
    Celsius,
    f64
);
quantity!(
    /// Clock frequency as cpufreq speaks of it.
    Kilohertz,
    u64
);

/// A moment of the platform's monotonic clock, in nanoseconds since an arbitrary start.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The time since `earlier`, zero if `earlier` is later (a monotonic clock never does that;
    /// a replayed or damaged journal may).
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the clock's start.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        Duration::from_nanos(self.0).as_secs_f64()
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl BytesPerSecond {
    /// From a rate in bits per second, the unit in which links are named.
    #[must_use]
    pub fn from_bits(bits_per_second: f64) -> Self {
        Self(bits_per_second / 8.0)
    }

    /// The rate in bits per second.
    #[must_use]
    pub fn bits(self) -> f64 {
        self.0 * 8.0
    }
}
