//! Waiting for a sample and reading it.

use super::Linux;
use crate::clock;
use crate::experiment::Player;
use crate::knobs::Managers;
use crate::tenant::{TenantState, machine};
use crate::undoer::is_moot;
use quell_platform::{PlatformError, Scope, Undo};
use quell_types::{
    BandwidthReading, Celsius, Gap, HostReading, Reading, Sample, Tenant, TenantReading, Time,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Full samples between two looks for a service's listening sockets.
const METER_EVERY: u64 = 5;
/// The longest sleep at a stretch: a watchdog may want to hear of the agent every second.
const PULSE: Duration = Duration::from_millis(250);

impl Linux {
    /// Finds groups again that were made anew (a restarted service), and services' sockets.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn refind(&mut self) -> Result<(), PlatformError> {
        let mut anew = false;
        let root = self.options.root.clone();
        let proc = root.join("proc");
        let retry_meter = self.full_samples.is_multiple_of(METER_EVERY);
        for (name, tenant) in &mut self.tenants {
            if tenant.look() {
                anew = true;
                if tenant.refind(&self.layout, &mut self.vms, &mut self.meter, &root) {
                    let (group, is_service) = (&tenant.group, tenant.is_service());
                    let vm = machine(&mut self.vms, &root, &tenant.selector);
                    let vm = vm.as_ref().map(|vm| (vm, proc.as_path()));
                    let managers = Managers { systemctl: self.systemctl.as_ref(), vm };
                    self.knobs.install(name, group, is_service, managers);
                    self.traffic.track(name, group);
                    self.locks.track(name, group);
                } else {
                    self.traffic.forget(name);
                    self.locks.forget(name);
                }
            } else if retry_meter && tenant.wants_metering() {
                tenant.begin_metering(&mut self.meter, &root);
            }
        }
        // What stood in a group that is gone nobody is owed any more. Without this a service that is
        // restarted again and again would leave its records until the agent ends.
        let machine = &self.machine;
        let moot = |undo: &[Undo]| !undo.is_empty() && undo.iter().all(|u| is_moot(u, machine));
        if anew {
            self.journal.forget_if(|_, undo| moot(undo))?;
        }
        Ok(())
    }

    /// Waits, playing the edges of an experiment meanwhile.
    pub(super) fn wait_until(&mut self, moment: Time) {
        loop {
            let edge = self.next_edge();
            let next = edge.map_or(moment, |edge| edge.min(moment));
            (self.pulse)();
            clock::sleep_until(next.min(clock::now() + PULSE));
            let now = clock::now();
            if edge.is_some_and(|edge| now >= edge) {
                self.step_player();
                self.step_prober();
                self.step_reporter();
            } else if now >= moment {
                return;
            }
        }
    }

    /// The next edge of an experiment, a probe or a burst.
    fn next_edge(&self) -> Option<Time> {
        let player = self.player.as_ref().map(Player::next_edge);
        let prober = self.prober.as_ref().map(|(prober, _)| prober.next_edge());
        player.into_iter().chain(prober).chain(self.reporting.next_edge()).min()
    }

    pub(super) fn step_player(&mut self) {
        let due = |player: &&mut Player| player.next_edge() <= clock::now();
        let Some(player) = self.player.as_mut().filter(due) else { return };
        if let Some(trace) = player.step(&mut self.tenants, &mut self.meter) {
            self.traces.push(trace);
            self.player = None;
        }
    }

    fn host(&mut self, time: Time, scope: Scope) -> HostReading {
        let bus_locks = self.locks.of_cpus().map(Arc::new);
        if scope == Scope::Fast {
            let rest = HostReading::missing(&Gap::not_yet("read in full samples only"));
            let online_cpus = self.machine.online_cpus();
            return HostReading { online_cpus, bus_locks, gauge: self.meter.gauge(), ..rest };
        }
        HostReading {
            cpu: self.machine.cpu_times(),
            pressure: self.machine.pressure(),
            memory: self.memory(),
            power: self.hardware.power(time),
            frequency_khz: self.hardware.frequency_khz(),
            online_cpus: self.machine.online_cpus(),
            bus_locks,
            temperature: self.temperature(),
            cpu_busy_ns: self.cpu_busy_ns(),
            lock_traps: self.lock_traps.of_tenants(),
            gauge: self.meter.gauge(),
        }
    }

    /// Of each CPU, where a law asks for it: it is one small file for each core.
    fn temperature(&self) -> Reading<BTreeMap<u32, Celsius>> {
        match self.options.read_temperatures {
            true => self.hardware.temperature(&self.setup.topology),
            false => Err(Gap::absent("no law of this configuration looks at temperatures")),
        }
    }

    fn cpu_busy_ns(&self) -> Reading<BTreeMap<u32, u64>> {
        match self.options.read_temperatures {
            true => {
                let times = self.machine.cpu_times_by_cpu()?;
                Ok(times.into_iter().map(|(cpu, times)| (cpu, times.busy_ns)).collect())
            }
            false => Err(Gap::absent("no law of this configuration looks at single CPUs")),
        }
    }

    /// Memory traffic of the machine, counted by the same means as that of the tenants.
    fn memory(&self) -> Reading<BandwidthReading> {
        match self.resources.counts_bandwidth() {
            Ok(()) => self.resources.host(),
            Err(_) => self.traffic.host(),
        }
    }

    pub(super) fn read(&mut self, scope: Scope) -> Result<Sample, PlatformError> {
        let lost = |error: crate::QueueError| PlatformError::Lost(error.to_string());
        let full = scope == Scope::Full;
        self.tasks.reap(&self.queue).map_err(lost)?;
        let time = clock::now();
        if full {
            self.tasks.sweep(&mut self.journal, &self.machine)?;
            self.resources.prepare(&mut self.journal, self.tenants.values());
            self.traffic.count();
            self.locks.count();
            let groups = self.tenants.iter().map(|(name, state)| (name, &state.group));
            self.lock_traps.look(&self.layout, groups, time);
            self.see_idle_cpus();
        }
        let (meter, counted) = (&mut self.meter, (&self.resources, &self.traffic, &self.locks));
        let one = |tenant: &mut TenantState| {
            if full { tenant.read(meter, counted) } else { tenant.read_fast(meter) }
        };
        let tenants = each(&mut self.tenants, one);
        let mut knobs = if full { self.knobs.read() } else { self.knobs.last() };
        if full {
            self.knobs.follow(&mut self.journal)?;
        }
        knobs.extend(if full { self.resources.read() } else { self.resources.last() });
        let (links, ceilings) = self.links.read();
        knobs.extend(ceilings);
        Ok(Sample {
            time,
            wall_unix_ms: clock::wall_unix_ms(),
            host: self.host(time, scope),
            tenants,
            links,
            knobs: Arc::new(knobs),
            tasks: self.tasks.records(&self.queue).map_err(lost)?,
            experiments: std::mem::take(&mut self.traces),
            probes: std::mem::take(&mut self.probed),
            bursts: std::mem::take(&mut self.reporting.traces),
            outcomes: std::mem::take(&mut self.outcomes),
            link_capacity: self.setup.links.iter().map(|l| (l.name.clone(), l.capacity)).collect(),
        })
    }
}

fn each(
    tenants: &mut BTreeMap<Tenant, TenantState>,
    mut read: impl FnMut(&mut TenantState) -> TenantReading,
) -> BTreeMap<Tenant, TenantReading> {
    tenants.iter_mut().map(|(name, tenant)| (name.clone(), read(tenant))).collect()
}
