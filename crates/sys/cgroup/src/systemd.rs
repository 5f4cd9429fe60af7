//! What systemd owns is set through systemd: a limit written behind its back is lost at the next
//! `daemon-reload`.

use crate::CgroupError;
use quell_types::{CpuBandwidth, CpuSet, Cpus};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A property of a unit that Quell sets.
#[derive(Clone, Debug, PartialEq)]
pub enum SystemdProperty {
    /// `CPUQuota` and `CPUQuotaPeriodSec`.
    Bandwidth(CpuBandwidth),
    /// `CPUWeight` 1..10000; none = not set.
    Weight(Option<u32>),
    /// `CPUWeight=idle` (systemd 252 and later).
    Idle,
    /// `AllowedCPUs`; empty = not set.
    Cpus(CpuSet),
}

impl SystemdProperty {
    /// Its assignments, as `systemctl set-property` takes them. The quota is given in percent of
    /// one CPU, with two digits behind the point as systemd keeps it.
    #[must_use]
    pub fn assignments(&self) -> Vec<String> {
        match self {
            SystemdProperty::Bandwidth(CpuBandwidth { limit_cpus, period_us }) => {
                let percent = |cpus: Cpus| format!("{:.2}%", (cpus.0 * 100.0).max(0.01));
                let quota = limit_cpus.map(percent).unwrap_or_default();
                vec![format!("CPUQuota={quota}"), format!("CPUQuotaPeriodSec={period_us}us")]
            }
            SystemdProperty::Weight(Some(weight)) => vec![format!("CPUWeight={weight}")],
            SystemdProperty::Weight(None) => vec!["CPUWeight=".into()],
            SystemdProperty::Idle => vec!["CPUWeight=idle".into()],
            SystemdProperty::Cpus(cpus) => vec![format!("AllowedCPUs={cpus}")],
        }
    }
}

/// The `systemctl` program of a machine whose PID 1 is systemd.
#[derive(Clone, Debug)]
pub struct Systemctl {
    program: PathBuf,
}

impl Systemctl {
    /// Whether systemd is PID 1 below this root: it makes `/run/systemd/system` at its start.
    #[must_use]
    pub fn detect(root: &Path) -> Option<Self> {
        let comm = std::fs::read_to_string(root.join("proc/1/comm")).unwrap_or_default();
        let booted = root.join("run/systemd/system").is_dir() && comm.trim() == "systemd";
        booted.then(|| Self { program: "systemctl".into() })
    }

    /// Another program that takes the same arguments.
    #[must_use]
    pub fn with_program(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    fn run(&self, arguments: &[String]) -> Result<String, CgroupError> {
        let failed = |why: String| CgroupError::Systemctl {
            command: format!("{} {}", self.program.display(), arguments.join(" ")),
            why,
        };
        let output = Command::new(&self.program)
            .args(arguments)
            .env("LC_ALL", "C")
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(failed(format!("{}: {said}", output.status)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The path of a unit's group.
    ///
    /// # Errors
    /// The unit is unknown or does not run.
    pub fn control_group(&self, unit: &str) -> Result<String, CgroupError> {
        let text =
            self.run(&show_arguments(unit, &["ControlGroup", "LoadState", "ActiveState"]))?;
        let shown = parse_show(&text);
        let get = |key: &str| shown.get(key).cloned().unwrap_or_default();
        match get("ControlGroup") {
            path if path.starts_with('/') && path != "/" => Ok(path),
            _ => {
                let why = format!("it is {} and {}", get("LoadState"), get("ActiveState"));
                Err(CgroupError::NoUnit { unit: unit.to_owned(), why })
            }
        }
    }

    /// Whether systemd leaves the groups below this unit's to others (`Delegate=`).
    ///
    /// # Errors
    /// `systemctl` failed.
    pub fn delegates(&self, unit: &str) -> Result<bool, CgroupError> {
        let text = self.run(&show_arguments(unit, &["Delegate"]))?;
        Ok(parse_show(&text).get("Delegate").is_some_and(|value| value == "yes"))
    }
}

fn show_arguments(unit: &str, properties: &[&str]) -> Vec<String> {
    vec!["show".into(), format!("--property={}", properties.join(",")), "--".into(), unit.into()]
}

/// `KEY=VALUE` lines.
pub(crate) fn parse_show(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect()
}

/// A unit whose limits are set through systemd, for as long as the machine runs (`--runtime`).
#[derive(Clone, Debug)]
pub struct SystemdUnit {
    unit: String,
    systemctl: Systemctl,
}

const SAVED: &[&str] = &["CPUQuotaPerSecUSec", "CPUQuotaPeriodUSec", "CPUWeight", "AllowedCPUs"];

impl SystemdUnit {
    /// This unit of this systemd.
    pub fn new(unit: impl Into<String>, systemctl: Systemctl) -> Self {
        Self { unit: unit.into(), systemctl }
    }

    /// The arguments that set these properties.
    #[must_use]
    pub fn set_arguments(&self, properties: &[SystemdProperty]) -> Vec<String> {
        let assignments = properties.iter().flat_map(SystemdProperty::assignments);
        self.set_raw_arguments(assignments)
    }

    fn set_raw_arguments(&self, assignments: impl IntoIterator<Item = String>) -> Vec<String> {
        let head = ["set-property", "--runtime", "--", &self.unit].map(str::to_owned);
        head.into_iter().chain(assignments).collect()
    }

    /// Sets these properties.
    ///
    /// # Errors
    /// `systemctl` failed.
    pub fn set(&self, properties: &[SystemdProperty]) -> Result<(), CgroupError> {
        self.systemctl.run(&self.set_arguments(properties)).map(|_| ())
    }

    /// The present limits as assignments that bring them back; one that is not set has an empty
    /// value.
    ///
    /// # Errors
    /// `systemctl` failed.
    pub fn save(&self) -> Result<Vec<String>, CgroupError> {
        let text = self.systemctl.run(&show_arguments(&self.unit, SAVED))?;
        Ok(saved_assignments(&parse_show(&text)))
    }

    /// Brings saved limits back.
    ///
    /// # Errors
    /// `systemctl` failed.
    pub fn restore(&self, saved: &[String]) -> Result<(), CgroupError> {
        self.systemctl.run(&self.set_raw_arguments(saved.iter().cloned())).map(|_| ())
    }
}

pub(crate) fn saved_assignments(shown: &BTreeMap<String, String>) -> Vec<String> {
    let get = |key: &str| shown.get(key).map(String::as_str).unwrap_or_default();
    let quota = match timespan_us(get("CPUQuotaPerSecUSec")) {
        Some(us) => format!("{:.2}%", us as f64 / 1e4),
        None => String::new(),
    };
    let period = timespan_us(get("CPUQuotaPeriodUSec")).map(|us| format!("{us}us"));
    let weight = match get("CPUWeight") {
        "[not set]" | "18446744073709551615" => "",
        "0" => "idle",
        weight => weight,
    };
    vec![
        format!("CPUQuota={quota}"),
        format!("CPUQuotaPeriodSec={}", period.unwrap_or_default()),
        format!("CPUWeight={weight}"),
        // Printed with spaces between ranges.
        format!("AllowedCPUs={}", get("AllowedCPUs")),
    ]
}

/// A time span as systemd prints it (`1s 500ms`, `1min`, `infinity`) in microseconds; none for
/// infinity and for what is no time span.
pub(crate) fn timespan_us(text: &str) -> Option<u64> {
    let unit_us = |unit: &str| {
        Some(match unit {
            "us" => 1.0,
            "ms" => 1e3,
            "s" | "" => 1e6,
            "min" => 6e7,
            "h" => 3.6e9,
            "d" => 8.64e10,
            _ => return None,
        })
    };
    let part = |part: &str| {
        let digits = part.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        Some(digits.parse::<f64>().ok()? * unit_us(&part[digits.len()..])?)
    };
    let parts: Option<Vec<f64>> = text.split_ascii_whitespace().map(part).collect();
    parts.filter(|parts| !parts.is_empty()).map(|parts| parts.iter().sum::<f64>().round() as u64)
}

/// Who may set a group's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody in particular: the files are written.
    Free,
    /// systemd, as this unit.
    Systemd {
        /// The unit.
        unit: String,
    },
    /// Who was given the groups below this unit.
    Delegated {
        /// The unit.
        unit: String,
    },
}

/// Who owns the group at `path`, where systemd runs: the innermost unit on the path, or, if the
/// path goes on below it and `delegates` says so of the unit, its delegate.
pub fn owner_of(path: &str, delegates: impl Fn(&str) -> bool) -> Owner {
    const KINDS: &[&str] = &[".slice", ".service", ".scope", ".socket", ".mount", ".swap"];
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_unit = |part: &&str| KINDS.iter().any(|kind| part.ends_with(kind));
    // Below a delegated unit, names mean nothing to systemd: the outermost of those decides.
    let outer = parts.iter().enumerate().find(|(at, part)| {
        let leaf = at + 1 == parts.len();
        is_unit(part) && !part.ends_with(".slice") && !leaf && delegates(part)
    });
    if let Some((_, unit)) = outer {
        return Owner::Delegated { unit: (*unit).to_owned() };
    }
    let top = parts.first().is_some_and(|part| is_unit(part) || *part == "init.scope");
    let unit = parts.iter().rev().find(|part| is_unit(part)).filter(|_| top);
    unit.map_or(Owner::Free, |unit| Owner::Systemd { unit: (*unit).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn arguments_of_set_property() {
        let unit = SystemdUnit::new("redis.service", Systemctl::with_program("false"));
        let half = CpuBandwidth::limited(0.5, Duration::from_millis(10));
        for (property, wanted) in [
            (SystemdProperty::Bandwidth(half), "CPUQuota=50.00% CPUQuotaPeriodSec=10000us"),
            (
                SystemdProperty::Bandwidth(CpuBandwidth::unlimited()),
                "CPUQuota= CPUQuotaPeriodSec=100000us",
            ),
            (SystemdProperty::Weight(Some(20)), "CPUWeight=20"),
            (SystemdProperty::Weight(None), "CPUWeight="),
            (SystemdProperty::Idle, "CPUWeight=idle"),
            (SystemdProperty::Cpus("0-1,3".parse().unwrap()), "AllowedCPUs=0-1,3"),
        ] {
            let line = unit.set_arguments(&[property]).join(" ");
            assert_eq!(line, format!("set-property --runtime -- redis.service {wanted}"));
        }
    }

    #[test]
    fn time_spans_of_systemd() {
        for (text, us) in [
            ("500ms", Some(500_000)),
            ("1s 500ms", Some(1_500_000)),
            ("1min", Some(60_000_000)),
            ("infinity", None),
            ("", None),
            ("12parsec", None),
        ] {
            assert_eq!(timespan_us(text), us, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_set_comes_back_as_not_set() {
        let show = |text: &str| saved_assignments(&parse_show(text)).join(" ");
        let unset = "CPUQuotaPerSecUSec=infinity\nCPUQuotaPeriodUSec=infinity\nCPUWeight=[not set]\nAllowedCPUs=\n";
        assert_eq!(show(unset), "CPUQuota= CPUQuotaPeriodSec= CPUWeight= AllowedCPUs=");
        let set =
            "CPUQuotaPerSecUSec=200ms\nCPUQuotaPeriodUSec=10ms\nCPUWeight=20\nAllowedCPUs=0-1 3\n";
        assert_eq!(
            show(set),
            "CPUQuota=20.00% CPUQuotaPeriodSec=10000us CPUWeight=20 AllowedCPUs=0-1 3"
        );
    }

    #[test]
    fn owners() {
        let delegates = |unit: &str| unit == "docker.service" || unit == "user@0.service";
        let systemd = |unit: &str| Owner::Systemd { unit: unit.into() };
        let delegated = |unit: &str| Owner::Delegated { unit: unit.into() };
        for (path, owner) in [
            ("/batch", Owner::Free),
            ("/quell-batch/redis.service", Owner::Free),
            ("/system.slice/redis.service", systemd("redis.service")),
            ("/system.slice", systemd("system.slice")),
            ("/system.slice/redis.service/inner", systemd("redis.service")),
            ("/system.slice/docker.service", systemd("docker.service")),
            ("/system.slice/docker.service/ab12", delegated("docker.service")),
            ("/user.slice/user@0.service/app.slice/x.service", delegated("user@0.service")),
            ("/init.scope", systemd("init.scope")),
        ] {
            assert_eq!(owner_of(path, delegates), owner, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "([0-9]{1,25}|s|ms|ä| |=|/|.slice|\n){0,20}") {
            let _ = (timespan_us(&text), saved_assignments(&parse_show(&text)));
            let _ = owner_of(&text, |_| true);
        }
    }
}
