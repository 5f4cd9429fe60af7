//! What faults do to the sensors of the machine itself: bus locks, temperatures, power.

use quell_types::{Celsius, Gap, HostReading, Sample, Watts};
use std::sync::Arc;

/// They show what they showed; everything else goes on.
pub(super) fn stall(sample: &mut Sample, last: Option<&Sample>) {
    let Some(last) = last else { return };
    let HostReading { power, bus_locks, temperature, .. } = last.host.clone();
    let now = std::mem::replace(&mut sample.host, HostReading::missing(&Gap::Pending));
    sample.host = HostReading { power, bus_locks, temperature, ..now };
    for (tenant, reading) in &mut sample.tenants {
        if let Some(before) = last.tenants.get(tenant) {
            reading.bus_locks = before.bus_locks.clone();
        }
    }
}

/// They read `times` what they are.
pub(super) fn lie(sample: &mut Sample, times: u32) {
    let locks = |count: &mut u64| *count = count.saturating_mul(u64::from(times));
    if let Ok(by_cpu) = &mut sample.host.bus_locks {
        Arc::make_mut(by_cpu).values_mut().for_each(locks);
    }
    sample.tenants.values_mut().filter_map(|t| t.bus_locks.as_mut().ok()).for_each(locks);
    if let Ok(by_cpu) = &mut sample.host.temperature {
        by_cpu.values_mut().for_each(|t| *t = Celsius(t.0 * f64::from(times)));
    }
    if let Ok(by_socket) = &mut sample.host.power {
        by_socket.values_mut().for_each(|w| *w = Watts(w.0 * f64::from(times)));
    }
}

/// They tell nothing of these CPUs; without a CPU they are gone altogether.
pub(super) fn vanish(sample: &mut Sample, cpus: &[u32]) {
    if cpus.is_empty() {
        let gap = || Gap::Failed("the sensor is gone".into());
        sample.host.bus_locks = Err(gap());
        sample.host.temperature = Err(gap());
        sample.host.power = Err(gap());
        sample.tenants.values_mut().for_each(|t| t.bus_locks = Err(gap()));
        return;
    }
    for cpu in cpus {
        if let Ok(by_cpu) = &mut sample.host.bus_locks {
            Arc::make_mut(by_cpu).remove(cpu);
        }
        if let Ok(by_cpu) = &mut sample.host.temperature {
            by_cpu.remove(cpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_types::{TenantReading, Time};
    use std::collections::BTreeMap;

    fn sample(locks: u64, celsius: f64) -> Sample {
        let missing = Gap::not_yet("not in this test");
        let of_group = TenantReading { bus_locks: Ok(locks), ..TenantReading::missing(&missing) };
        Sample {
            time: Time(locks),
            wall_unix_ms: 0,
            host: HostReading {
                bus_locks: Ok(Arc::new(BTreeMap::from([(0, locks), (1, 0)]))),
                temperature: Ok(BTreeMap::from([(0, Celsius(celsius)), (1, Celsius(40.0))])),
                power: Ok(BTreeMap::from([(0, Watts(50.0))])),
                ..HostReading::missing(&missing)
            },
            tenants: BTreeMap::from([("jobs".into(), of_group)]),
            links: BTreeMap::new(),
            knobs: std::sync::Arc::default(),
            tasks: vec![],
            experiments: vec![],
            probes: vec![],
            bursts: vec![],
            outcomes: vec![],
            link_capacity: BTreeMap::new(),
        }
    }

    #[test]
    fn sensors_that_stall_show_what_they_showed_while_time_goes_on() {
        let (last, mut now) = (sample(10, 50.0), sample(90, 70.0));
        stall(&mut now, Some(&last));
        assert_eq!((now.time, &now.host), (Time(90), &last.host));
        assert_eq!(now.tenants, last.tenants);
    }

    #[test]
    fn sensors_that_lie_read_a_multiple() {
        let mut now = sample(10, 50.0);
        lie(&mut now, 3);
        assert_eq!(now.host.bus_locks.unwrap()[&0], 30);
        assert_eq!(now.host.temperature.unwrap()[&0], Celsius(150.0));
        assert_eq!(now.host.power.unwrap()[&0], Watts(150.0));
        assert_eq!(now.tenants[&"jobs".into()].bus_locks, Ok(30));
    }

    #[test]
    fn sensors_that_vanish_leave_gaps_or_lack_cpus() {
        let (mut some, mut all) = (sample(10, 50.0), sample(10, 50.0));
        vanish(&mut some, &[0]);
        assert_eq!(some.host.bus_locks.unwrap().keys().copied().collect::<Vec<_>>(), [1]);
        assert_eq!(some.host.temperature.unwrap().len(), 1);
        vanish(&mut all, &[]);
        assert!(all.host.bus_locks.is_err() && all.host.temperature.is_err());
        assert!(all.host.power.is_err() && all.tenants[&"jobs".into()].bus_locks.is_err());
    }
}
