//! RAPL: energy and power limits of sockets, by powercap sysfs.

use crate::file::{self, entries};
use quell_types::{Gap, Reading, Time, Watts};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// More than any socket draws; used where a zone tells no limit.
const MOST_WATTS: f64 = 2000.0;

/// What a zone measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneKind {
    /// A whole socket (or one die of it).
    Package,
    /// Its cores.
    Core,
    /// Its graphics or other uncore part.
    Uncore,
    /// Its memory.
    Dram,
    /// The whole platform.
    Platform,
    /// Anything else.
    Other,
}

/// One energy counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The kernel's name, as `package-0`.
    pub name: String,
    /// What it measures.
    pub kind: ZoneKind,
    /// The socket that it belongs to.
    pub socket: Option<u32>,
    dir: PathBuf,
}

/// Power limits of a zone; AMD has none.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerLimits {
    /// What it may draw for long.
    pub long_term: Reading<Watts>,
    /// What it may draw for an instant.
    pub short_term: Reading<Watts>,
    /// What it is designed for (TDP), as the zone tells it.
    pub design: Reading<Watts>,
}

/// All zones of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rapl {
    zones: Vec<Zone>,
}

impl Rapl {
    /// Finds the zones below `root`/sys/class/powercap.
    ///
    /// # Errors
    /// Absent if there is none (virtual machines, ARM, old kernels).
    pub fn discover(root: &Path) -> Reading<Self> {
        let none =
            || Gap::absent("no RAPL zones in /sys/class/powercap (usual in virtual machines)");
        let dir = root.join("sys/class/powercap");
        let mut paths = entries(&dir).map_err(|_| none())?;
        paths.sort();
        let mut zones: Vec<Zone> = Vec::new();
        for path in &paths {
            // The mmio zones count the same packages once more.
            let id = path.file_name().and_then(|name| name.to_str());
            let Some(id) = id.and_then(|name| name.strip_prefix("intel-rapl:")) else { continue };
            let Ok(name) = file::text(&path.join("name")) else { continue };
            let top = id.split(':').next().unwrap_or(id);
            let parent = file::text(&dir.join(format!("intel-rapl:{top}/name"))).ok();
            let socket = parent.as_deref().and_then(parse_socket);
            zones.push(Zone { kind: parse_kind(&name), name, socket, dir: path.clone() });
        }
        if zones.is_empty() { Err(none()) } else { Ok(Self { zones }) }
    }

    /// All zones, by the kernel's order.
    #[must_use]
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// The design power of each socket (its long-term limit where it tells no other), which
    /// Heracles' power loop needs (H-2).
    ///
    /// # Errors
    /// Absent where the zones tell no limit (AMD): the configuration must name it.
    pub fn design_power(&self) -> Reading<BTreeMap<u32, Watts>> {
        let mut sockets: BTreeMap<u32, Watts> = BTreeMap::new();
        for zone in self.packages() {
            let limits = zone.limits();
            let watts = limits.design.or(limits.long_term)?;
            *sockets.entry(zone.socket.unwrap_or(0)).or_default() += watts;
        }
        if sockets.is_empty() { Err(Gap::absent("no RAPL package zone")) } else { Ok(sockets) }
    }

    fn packages(&self) -> impl Iterator<Item = &Zone> {
        self.zones.iter().filter(|zone| zone.kind == ZoneKind::Package)
    }
}

impl Zone {
    /// The counter, in microjoules; it wraps at [`Zone::range_uj`].
    ///
    /// # Errors
    /// Failed without root.
    pub fn energy_uj(&self) -> Reading<u64> {
        file::number(&self.dir.join("energy_uj"))
    }

    /// Where the counter wraps, in microjoules.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn range_uj(&self) -> Reading<u64> {
        file::number(&self.dir.join("max_energy_range_uj"))
    }

    /// Its limits.
    #[must_use]
    pub fn limits(&self) -> PowerLimits {
        PowerLimits {
            long_term: self.constraint("long_term", "power_limit_uw"),
            short_term: self.constraint("short_term", "power_limit_uw"),
            design: self.constraint("long_term", "max_power_uw"),
        }
    }

    fn constraint(&self, name: &str, what: &str) -> Reading<Watts> {
        let missing = || Gap::absent(format!("{} has no {name} limit", self.name));
        let of = |nth: usize, field: &str| self.dir.join(format!("constraint_{nth}_{field}"));
        let named = |nth: &usize| file::text(&of(*nth, "name")).is_ok_and(|found| found == name);
        let nth = (0..4).find(named).ok_or_else(missing)?;
        match file::number(&of(nth, what))? {
            0 => Err(missing()),
            microwatts => Ok(Watts(microwatts as f64 / 1e6)),
        }
    }
}

fn parse_kind(name: &str) -> ZoneKind {
    match name {
        "core" => ZoneKind::Core,
        "uncore" => ZoneKind::Uncore,
        "dram" => ZoneKind::Dram,
        "psys" => ZoneKind::Platform,
        _ if parse_socket(name).is_some() => ZoneKind::Package,
        _ => ZoneKind::Other,
    }
}

/// `package-1` or `package-1-die-0`.
fn parse_socket(name: &str) -> Option<u32> {
    name.strip_prefix("package-")?.split('-').next()?.parse().ok()
}

/// Energy and power of each socket.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerReading {
    /// Joules since the meter was made.
    pub joules: BTreeMap<u32, f64>,
    /// Mean power since the last reading.
    pub watts: Reading<BTreeMap<u32, Watts>>,
}

/// Sums up the wrapping counters of the package zones.
#[derive(Clone, Debug)]
pub struct EnergyMeter {
    zones: Vec<Metered>,
    last: Option<Time>,
}

#[derive(Clone, Debug)]
struct Metered {
    zone: Zone,
    last_uj: Option<u64>,
    sum_uj: u64,
}

impl EnergyMeter {
    /// For all sockets.
    #[must_use]
    pub fn new(rapl: &Rapl) -> Self {
        let metered = |zone: &Zone| Metered { zone: zone.clone(), last_uj: None, sum_uj: 0 };
        Self { zones: rapl.packages().map(metered).collect(), last: None }
    }

    /// Reads all sockets at the moment `now`. The first reading is the start.
    ///
    /// # Errors
    /// If one cannot be read; the next reading covers what it missed.
    pub fn read(&mut self, now: Time) -> Reading<PowerReading> {
        if self.zones.is_empty() {
            return Err(Gap::absent("no RAPL package zone"));
        }
        let energies: Vec<u64> =
            self.zones.iter().map(|metered| metered.zone.energy_uj()).collect::<Reading<_>>()?;
        let seconds = self.last.replace(now).map(|last| now.since(last).as_secs_f64());
        let mut joules: BTreeMap<u32, f64> = BTreeMap::new();
        let mut deltas: BTreeMap<u32, f64> = BTreeMap::new();
        let mut doubt = None;
        for (metered, energy) in self.zones.iter_mut().zip(energies) {
            let socket = metered.zone.socket.unwrap_or(0);
            let unseen = seconds.and_then(|span| metered.may_have_wrapped_twice(span));
            let delta = metered.advance(energy);
            doubt = doubt.or(unseen).or(delta.clone().err());
            *joules.entry(socket).or_default() += metered.sum_uj as f64 / 1e6;
            *deltas.entry(socket).or_default() += delta.unwrap_or(0) as f64 / 1e6;
        }
        let watts = match (seconds, doubt) {
            (_, Some(gap)) => Err(gap),
            (Some(span), None) if span > 0.0 => {
                Ok(deltas.into_iter().map(|(socket, j)| (socket, Watts(j / span))).collect())
            }
            _ => Err(Gap::not_yet("power needs two readings")),
        };
        Ok(PowerReading { joules, watts })
    }
}

impl Metered {
    /// What was used since the last reading. A counter that fell has gone round; if it is not
    /// known where, that interval is lost and said to be.
    fn advance(&mut self, energy_uj: u64) -> Reading<u64> {
        let delta = match self.last_uj.replace(energy_uj) {
            None => 0,
            Some(last) if energy_uj >= last => energy_uj - last,
            Some(last) => energy_uj.saturating_add(self.zone.range_uj()?.saturating_sub(last)),
        };
        self.sum_uj = self.sum_uj.saturating_add(delta);
        Ok(delta)
    }

    /// Between two readings that far apart the counter may have gone round more than once.
    fn may_have_wrapped_twice(&self, seconds: f64) -> Option<Gap> {
        let limits = self.zone.limits();
        let most = limits.short_term.or(limits.long_term).map_or(MOST_WATTS, |w| 2.0 * w.0);
        let round_s = self.zone.range_uj().ok()? as f64 / 1e6 / most;
        (seconds > round_s).then(|| {
            Gap::Ambiguous(format!(
                "{} was not read for {seconds:.0} s and may have wrapped unseen",
                self.zone.name
            ))
        })
    }
}
