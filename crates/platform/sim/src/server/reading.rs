//! From the world to a sample.

use super::body::Body;
use quell_platform::Scope;
use quell_types::{
    BandwidthReading, Beside, Celsius, CompanyReading, CpuTimes, ElsewhereReading, Gap,
    GaugeCounts, GaugeReading, HostReading, Link, LinkReading, PassCounts, PauseCounts, Pressure,
    Reading, RequestReading, Sample, Tenant, TenantReading, Throttling, Time, WaitReading, Watts,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Reading takes time: two samples are never of the same moment.
const LEAST_NS: u64 = 1_000;
/// When people's clocks show the begin of a simulation: 2024-01-01, so that journals repeat.
const EPOCH_MS: u64 = 1_704_067_200_000;

impl Body {
    pub(crate) fn sample(&mut self, after: Duration, scope: Scope) -> Sample {
        let due = (self.last + after.as_nanos() as u64).max(self.world.now + LEAST_NS);
        self.run_until(due);
        self.last = due;
        self.world.settle_all();
        self.see_idle_cpus();
        self.look_at_locks();
        let names = self.tenants.clone();
        let tenants = names.into_iter().enumerate();
        let mut sample = Sample {
            time: Time(due),
            wall_unix_ms: EPOCH_MS + due / 1_000_000,
            host: self.host(scope),
            tenants: tenants.map(|(g, name)| (name, self.tenant_now(g, scope))).collect(),
            links: self.links(),
            knobs: self.knobs.read(),
            tasks: self.tasks.records(),
            experiments: std::mem::take(&mut self.traces),
            probes: std::mem::take(&mut self.probed),
            bursts: std::mem::take(&mut self.reporting.traces),
            outcomes: std::mem::take(&mut self.outcomes),
            link_capacity: self.setup.links.iter().map(|l| (l.name.clone(), l.capacity)).collect(),
        };
        self.hide_gone(&mut sample);
        sample
    }

    fn host(&self, scope: Scope) -> HostReading {
        if scope == Scope::Fast {
            let rest = HostReading::missing(&Gap::not_yet("read in full samples only"));
            let online_cpus = Ok(self.online_cpus());
            let (bus_locks, gauge) = (self.bus_locks(), self.gauge());
            return HostReading { online_cpus, bus_locks, gauge, ..rest };
        }
        let world = &self.world;
        let all = world.now * world.cpus.len() as u64;
        let cpu = CpuTimes {
            busy_ns: world.busy_ns,
            idle_ns: all - world.busy_ns - world.stolen_ns,
            steal_ns: world.stolen_ns,
        };
        let pressure = Pressure { cpu_some_ns: world.waited_ns, ..Pressure::default() };
        let bytes = self.monitored().map(|s| BandwidthReading { bytes: s.host_bytes as u64 });
        HostReading {
            cpu: Ok(cpu),
            pressure: Ok(pressure),
            memory: bytes,
            power: self
                .powered(world.machine.power_sensor, "power")
                .map(|s| (0..).zip(s.watts.iter().map(|w| Watts(*w))).collect()),
            frequency_khz: self
                .powered(world.machine.clock.controllable, "frequency")
                .map(|s| (0..).zip(s.khz.iter().copied()).collect()),
            online_cpus: Ok(self.online_cpus()),
            bus_locks: self.bus_locks(),
            temperature: self
                .powered(world.machine.power_sensor, "temperature")
                .map(|s| (0..).zip(s.celsius(world).into_iter().map(Celsius)).collect()),
            cpu_busy_ns: Ok((0..).zip(world.cpus.iter().map(|cpu| cpu.busy_ns)).collect()),
            lock_traps: self.lock_traps(),
            gauge: self.gauge(),
        }
    }

    /// Who made a bus lock at all, where the kernel traps them.
    fn lock_traps(&self) -> Reading<BTreeMap<Tenant, u64>> {
        if self.world.machine.bus_lock_limit.is_none() {
            return Err(Gap::absent("the simulated kernel traps no bus locks"));
        }
        let tenants = self.tenants.iter().zip(&self.world.groups);
        let made = tenants.filter(|(_, group)| group.bus_locks >= 1.0);
        Ok(made.map(|(name, _)| (name.clone(), 1)).collect())
    }

    fn gauge(&self) -> Reading<Arc<GaugeReading>> {
        if !self.world.machine.lock_gauge || self.world.cpus.len() < 2 {
            return Err(Gap::absent("the simulated kernel has no gauge of bus locks"));
        }
        let counted = &self.world.gauge;
        let known = self.tenants.len().min(counted.beside.len());
        let (tenants, strangers) = counted.beside.split_at(known);
        let mut others = GaugeCounts::from(&Default::default());
        strangers.iter().for_each(|more| more.add_to(&mut others));
        let named = self.tenants.iter().zip(tenants);
        let there = named.filter(|(_, samples)| samples.any());
        let beside = there.map(|(name, samples)| (name.clone(), samples.into())).collect();
        // A CPU's timer is late whether or not the hypervisor says that it took the CPU.
        let (said_ns, hidden_ns) = (self.world.stolen_ns, self.world.hidden_ns);
        let pauses =
            PauseCounts { timed_ns: self.world.busy_ns + said_ns, lost_ns: hidden_ns + said_ns };
        let all = (&counted.all).into();
        // Its CPUs stay where they are.
        let passes = PassCounts::default();
        Ok(Arc::new(GaugeReading { all, beside, others, pauses, passes }))
    }

    fn bus_locks(&self) -> Reading<Arc<BTreeMap<u32, u64>>> {
        let counted = self.powered(self.world.machine.lock_counter, "bus locks");
        counted.map(|_| self.told_locks.clone())
    }

    /// Notes what counters of bus locks show: what was told last where none has grown, as nearly
    /// always.
    fn look_at_locks(&mut self) {
        let counted = self.powered(self.world.machine.lock_counter, "bus locks");
        let counted = counted.map_or(&[][..], |latched| &latched.bus_locks);
        let locks = counted.iter().map(|locks| *locks as u64);
        if !locks.clone().eq(self.told_locks.values().copied()) {
            self.told_locks = Arc::new((0..).zip(locks).collect());
        }
    }

    fn monitored(&self) -> Reading<&super::sensors::Latched> {
        let why = "this machine does not monitor its caches and its memory bandwidth";
        let there = self.world.machine.monitoring;
        if there { self.sensors.read(self.world.now) } else { Err(Gap::absent(why)) }
    }

    fn powered(&self, there: bool, what: &str) -> Reading<&super::sensors::Latched> {
        let absent = || Gap::absent(format!("this machine does not tell its {what}"));
        if there { self.sensors.read(self.world.now) } else { Err(absent()) }
    }

    pub(super) fn tenant(&self, group: usize, scope: Scope) -> TenantReading {
        let of = &self.world.groups[group];
        let is_service = group < self.setup.services.len();
        if scope == Scope::Fast {
            let rest = TenantReading::missing(&Gap::not_yet("read in full samples only"));
            return if is_service {
                TenantReading {
                    identity: Ok(group as u64 + 1),
                    cpu_ns: Ok(of.cpu_ns),
                    requests: self.requests(&self.tenants[group]),
                    ..rest
                }
            } else {
                rest
            };
        }
        let sensed = self.monitored();
        let bytes = |list: &Vec<f64>| list[group] as u64;
        TenantReading {
            identity: Ok(group as u64 + 1),
            cpu_ns: Ok(of.cpu_ns),
            throttling: Ok(Throttling {
                periods: of.periods,
                throttled_periods: of.throttled_periods,
                throttled_ns: of.throttled_ns,
            }),
            pressure: Ok(Pressure { cpu_some_ns: of.waited_ns, ..Pressure::default() }),
            page_faults: Err(Gap::absent("the simulated kernel counts no page faults")),
            run_queue_ns: Ok(of.run_queue.clone()),
            waits: self.waits(group),
            company: self.company(group),
            requests: self.requests(&self.tenants[group]),
            egress_bytes: Ok(self.egress(group) as u64),
            memory: sensed.clone().map(|s| BandwidthReading { bytes: bytes(&s.group_bytes) }),
            llc_bytes: sensed.map(|s| bytes(&s.llc_bytes)),
            memory_used_bytes: Ok(self.world.memory_of(group)),
            bus_locks: self
                .powered(self.world.machine.lock_counter, "bus locks")
                .map(|s| s.group_locks[group] as u64),
        }
    }

    /// Behind whom a service's threads stood; a gap for batch.
    fn waits(&self, group: usize) -> Reading<WaitReading> {
        let [stood @ .., nobody_ns] = &self.world.groups[group].stood_ns[..] else {
            return Err(Gap::absent("followed for services only"));
        };
        let each = self.tenants.iter().zip(stood).enumerate();
        let others = each.filter(|(row, (_, ns))| *row != group && **ns > 0);
        Ok(WaitReading {
            behind_ns: others.map(|(_, (name, ns))| (name.clone(), *ns)).collect(),
            own_ns: stood[group],
            others_ns: 0,
            nobody_ns: *nobody_ns,
            elsewhere: self.elsewhere(group),
        })
    }

    /// Who had the other CPUs meanwhile.
    fn elsewhere(&self, group: usize) -> ElsewhereReading {
        let [ran @ .., nobody_ns] = &self.world.groups[group].elsewhere_ns[..] else {
            return ElsewhereReading::default();
        };
        let each = self.tenants.iter().zip(ran).enumerate();
        let others = each.filter(|(row, (_, ns))| *row != group && **ns > 0);
        ElsewhereReading {
            cpus: self.world.cpus.len() as u32 - 1,
            tenants_ns: others.map(|(_, (name, ns))| (name.clone(), *ns)).collect(),
            others_ns: ran[group],
            nobody_ns: *nobody_ns,
        }
    }

    /// What a service did beside whom; a gap for batch.
    fn company(&self, group: usize) -> Reading<CompanyReading> {
        let number = self.service_number(&self.tenants[group]).map_err(Gap::absent)?;
        let company = &self.world.services[number].company;
        let (known, strangers) =
            company.groups.split_at(self.tenants.len().min(company.groups.len()));
        let did = |beside: &Beside| *beside != Beside::default();
        let others = strangers.iter().fold(Beside::default(), |sum, beside| Beside {
            cpu_ns: sum.cpu_ns + beside.cpu_ns,
            sends: sum.sends + beside.sends,
        });
        let known = self.tenants.iter().cloned().zip(known.iter().copied());
        let tenants = known.filter(|(_, beside)| did(beside)).collect();
        Ok(CompanyReading { tenants, others, nobody: company.nobody })
    }

    fn egress(&self, group: usize) -> f64 {
        let on_links = self.world.links.iter().map(|link| link.classes[group].sent);
        self.world.groups[group].egress_bytes + on_links.sum::<f64>()
    }

    /// Requests of a service; a gap for batch.
    pub(crate) fn requests(&self, tenant: &Tenant) -> Reading<RequestReading> {
        let number = self.service_number(tenant).map_err(Gap::absent)?;
        let service = &self.world.services[number];
        Ok(RequestReading {
            requests: service.requests,
            bytes_in: service.bytes_in,
            bytes_out: service.bytes_out,
            latency_ns: Ok(service.latency.clone()),
        })
    }

    fn links(&self) -> BTreeMap<Link, LinkReading> {
        let batch = |link: &Link| {
            let names = self.setup.batch.iter().filter(|b| b.links.contains(link));
            names.map(|b| b.name.clone()).collect::<Vec<Tenant>>()
        };
        let specs = self.setup.links.iter().zip(&self.world.links);
        let read = |(spec, link): (&quell_types::LinkSpec, &crate::model::egress::LinkState)| {
            let by_tenant = batch(&spec.name).into_iter().filter_map(|name| {
                let sent = link.classes[self.group(&name).ok()?].sent as u64;
                Some((name, Ok(sent)))
            });
            let reading = LinkReading {
                sent_bytes: Ok(link.sent() as u64),
                by_tenant_bytes: by_tenant.collect(),
                backlog_bytes: Ok(link.backlog() as u64),
                drops: Ok((link.dropped / 1_500.0) as u64),
            };
            (spec.name.clone(), reading)
        };
        specs.map(read).collect()
    }
}
