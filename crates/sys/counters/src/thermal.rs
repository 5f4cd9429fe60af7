//! Temperatures: thermal zones and the processors' own sensors (coretemp, k10temp).

use crate::file::{self, entries, numbered};
use quell_types::{Celsius, Gap, Reading};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Drivers of hwmon that measure processors.
const CPU_DRIVERS: [&str; 4] = ["coretemp", "k10temp", "zenpower", "cpu_thermal"];

/// Where a sensor sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A whole socket.
    Socket(u32),
    /// One core of a socket.
    Core {
        /// The socket.
        socket: u32,
        /// The core's number within it.
        core: u32,
    },
    /// The kernel does not tell.
    Unknown,
}

/// One sensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// The driver (`coretemp`) or the thermal zone's type (`x86_pkg_temp`).
    pub source: String,
    /// Its label, as `Package id 0`, `Core 3`, `Tctl`; empty for a zone.
    pub label: String,
    /// Where it sits.
    pub place: Place,
    input: PathBuf,
    critical: PathBuf,
}

impl Sensor {
    /// The temperature now.
    ///
    /// # Errors
    /// If the sensor does not answer.
    pub fn read(&self) -> Reading<Celsius> {
        millidegrees(&self.input)
    }

    /// The temperature at which the hardware throttles or stops.
    ///
    /// # Errors
    /// Absent if the sensor does not tell.
    pub fn critical(&self) -> Reading<Celsius> {
        millidegrees(&self.critical)
    }
}

fn millidegrees(path: &Path) -> Reading<Celsius> {
    Ok(Celsius(file::signed(path)? as f64 / 1000.0))
}

/// All sensors that tell of processors, and all thermal zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thermal {
    sensors: Vec<Sensor>,
}

impl Thermal {
    /// Finds them below `root`/sys/class.
    ///
    /// # Errors
    /// Absent if there is none.
    pub fn discover(root: &Path) -> Reading<Self> {
        let mut sensors = hwmon_sensors(&root.join("sys/class/hwmon"));
        sensors.extend(zones(&root.join("sys/class/thermal")));
        if sensors.is_empty() {
            return Err(Gap::absent("no thermal zones and no processor sensors in hwmon"));
        }
        Ok(Self { sensors })
    }

    /// All sensors, processors' own first.
    #[must_use]
    pub fn sensors(&self) -> &[Sensor] {
        &self.sensors
    }

    /// The temperature of each core by (socket, core).
    ///
    /// # Errors
    /// Absent if only whole sockets are measured; the sensor's gap if one fails.
    pub fn cores(&self) -> Reading<BTreeMap<(u32, u32), Celsius>> {
        let mut cores = BTreeMap::new();
        for sensor in &self.sensors {
            if let Place::Core { socket, core } = sensor.place {
                cores.insert((socket, core), sensor.read()?);
            }
        }
        if cores.is_empty() {
            let why = "only whole sockets tell their temperature: cores cannot be told apart";
            return Err(Gap::absent(why));
        }
        Ok(cores)
    }

    /// The temperature of each socket, of those that tell their place.
    ///
    /// # Errors
    /// Absent if none tells; the sensor's gap if one fails.
    pub fn sockets(&self) -> Reading<BTreeMap<u32, Celsius>> {
        let mut sockets = BTreeMap::new();
        for sensor in &self.sensors {
            if let Place::Socket(socket) = sensor.place {
                sockets.insert(socket, sensor.read()?);
            }
        }
        if sockets.is_empty() {
            Err(Gap::absent("no sensor tells its socket"))
        } else {
            Ok(sockets)
        }
    }
}

fn hwmon_sensors(dir: &Path) -> Vec<Sensor> {
    let monitors = numbered(dir, "hwmon").unwrap_or_default();
    let named = monitors.into_iter().filter_map(|(_, path)| {
        let name = file::text(&path.join("name")).ok()?;
        CPU_DRIVERS.contains(&name.as_str()).then_some((name, path))
    });
    let named: Vec<(String, PathBuf)> = named.collect();
    let alone = named.len() == 1;
    named.iter().flat_map(|(name, path)| monitor_sensors(name, path, alone)).collect()
}

fn monitor_sensors(source: &str, dir: &Path, alone: bool) -> Vec<Sensor> {
    let mut found = Vec::new();
    for path in entries(dir).unwrap_or_default() {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.strip_suffix("_input").filter(|stem| stem.starts_with("temp"));
        let Some(stem) = stem else { continue };
        let number: u32 = stem["temp".len()..].parse().unwrap_or(u32::MAX);
        let label = file::text(&dir.join(format!("{stem}_label"))).unwrap_or_default();
        let critical = dir.join(format!("{stem}_crit"));
        found.push((number, label, path.clone(), critical));
    }
    found.sort();
    let package = found.iter().find_map(|(_, label, ..)| parse_after(label, "Package id "));
    // AMD's monitors do not say which socket they belong to: known only if there is but one.
    let socket = package.or(alone.then_some(0));
    let sensor = |(_, label, input, critical): (u32, String, PathBuf, PathBuf)| Sensor {
        source: source.to_owned(),
        place: place(&label, socket),
        label,
        input,
        critical,
    };
    found.into_iter().map(sensor).collect()
}

fn place(label: &str, socket: Option<u32>) -> Place {
    let Some(socket) = socket else { return Place::Unknown };
    if let Some(core) = parse_after(label, "Core ") {
        return Place::Core { socket, core };
    }
    // Tctl is what AMD throttles by; Tdie (where there is one) is the same without an offset.
    let whole = parse_after(label, "Package id ").is_some() || label == "Tctl";
    if whole { Place::Socket(socket) } else { Place::Unknown }
}

fn parse_after(label: &str, prefix: &str) -> Option<u32> {
    label.strip_prefix(prefix)?.parse().ok()
}

fn zones(dir: &Path) -> Vec<Sensor> {
    let zones = numbered(dir, "thermal_zone").unwrap_or_default();
    let sensor = |(_, path): (u32, PathBuf)| Sensor {
        source: file::text(&path.join("type")).unwrap_or_else(|_| "thermal zone".to_owned()),
        label: String::new(),
        place: Place::Unknown,
        critical: path.join("trip_point_0_temp"),
        input: path.join("temp"),
    };
    zones.into_iter().map(sensor).collect()
}
