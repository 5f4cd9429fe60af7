//! What is asked of libvirt and told to it, call by call.

use crate::connection::Connection;
use crate::domain::{cpu_map, cpus_of};
use crate::wire::Procedure;
use crate::xdr::{Malformed, Reader, Writer};
use crate::{Domain, Info, LibvirtError, Parameter, State, Uuid, Vcpu};
use quell_types::CpuSet;
use std::fmt;

/// Machines in a list (`REMOTE_DOMAIN_LIST_MAX`).
const MAX_DOMAINS: usize = 16_384;
/// CPUs of a machine (`REMOTE_VCPUINFO_MAX`).
const MAX_VCPUS: u32 = 16_384;
/// CPUs of a machine whose pins are asked for at once: as many as an answer has room for, and more
/// than QEMU gives one.
const MAX_PINS: u32 = 8192;
/// I/O threads of a machine (`REMOTE_IOTHREAD_INFO_MAX`).
const MAX_IOTHREADS: usize = 16_384;
/// Bytes of one CPU map (`REMOTE_CPUMAP_MAX`).
const MAX_MAP: usize = 2048;
/// Scheduler parameters of a machine (`REMOTE_DOMAIN_SCHEDULER_PARAMETERS_MAX`).
const MAX_PARAMETERS: u32 = 16;
/// Bytes of a map that has room for every CPU of the host: 2,048, the most that older versions of
/// the protocol let one say (`REMOTE_CPUMAP_MAX` was 256).
pub const EVERY_CPU_BYTES: u32 = 256;
/// Machines that run (`VIR_CONNECT_LIST_DOMAINS_ACTIVE`).
const ACTIVE: u32 = 1;
/// The running machine and not its definition (`VIR_DOMAIN_AFFECT_LIVE`).
const LIVE: u32 = 1;
/// Why a machine is paused: it is being started (`VIR_DOMAIN_PAUSED_STARTING_UP`).
const STARTING_UP: i32 = 11;

/// libvirt's version, as it counts it: 9.1.2 is 9001002.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0 / 1_000_000, self.0 / 1000 % 1000, self.0 % 1000)
    }
}

/// The arguments of a call begin with its machine.
fn of(domain: &Domain) -> Writer {
    domain.write(Writer::default())
}

impl Connection {
    /// A call and what its answer says.
    fn ask<T>(
        &mut self,
        procedure: Procedure,
        arguments: Writer,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, Malformed>,
    ) -> Result<T, LibvirtError> {
        let answer = self.call(procedure, arguments)?;
        self.read(procedure, &answer, read)
    }

    /// The daemon's version.
    ///
    /// # Errors
    /// As any call: refused, too late, or broken.
    pub fn version(&mut self) -> Result<Version, LibvirtError> {
        let number = |reader: &mut Reader<'_>| reader.u64();
        self.ask(Procedure::ConnectGetLibVersion, Writer::default(), number).map(Version)
    }

    /// The machines that run, paused ones too.
    ///
    /// # Errors
    /// As any call: refused, too late, or broken.
    pub fn running(&mut self) -> Result<Vec<Domain>, LibvirtError> {
        let with_results = 1;
        let arguments = Writer::default().i32(with_results).u32(ACTIVE);
        let list = |reader: &mut Reader<'_>| reader.list(MAX_DOMAINS, Domain::read);
        self.ask(Procedure::ConnectListAllDomains, arguments, list)
    }

    /// The machine of this name, running or not.
    ///
    /// # Errors
    /// There is none ([`LibvirtError::is_gone`]); or as any call.
    pub fn by_name(&mut self, name: &str) -> Result<Domain, LibvirtError> {
        self.ask(Procedure::DomainLookupByName, Writer::default().text(name), Domain::read)
    }

    /// The machine of this UUID, running or not.
    ///
    /// # Errors
    /// There is none ([`LibvirtError::is_gone`]); or as any call.
    pub fn by_uuid(&mut self, uuid: &Uuid) -> Result<Domain, LibvirtError> {
        self.ask(Procedure::DomainLookupByUuid, Writer::default().fixed(&uuid.0), Domain::read)
    }

    /// What a machine does.
    ///
    /// # Errors
    /// As any call: refused, too late, or broken.
    pub fn state(&mut self, domain: &Domain) -> Result<State, LibvirtError> {
        self.state_and_reason(domain).map(|(state, _)| state)
    }

    /// Whether libvirt is still at starting a machine: its groups and pins are not all there yet, and
    /// whoever changes them meanwhile makes the start fail.
    ///
    /// # Errors
    /// As any call: refused, broken, or too late, as libvirt may be busy with the start.
    pub fn is_starting(&mut self, domain: &Domain) -> Result<bool, LibvirtError> {
        Ok(self.state_and_reason(domain)? == (State::Paused, STARTING_UP))
    }

    fn state_and_reason(&mut self, domain: &Domain) -> Result<(State, i32), LibvirtError> {
        let no_flags = 0;
        let both = |reader: &mut Reader<'_>| Ok((State::from(reader.i32()?), reader.i32()?));
        self.ask(Procedure::DomainGetState, of(domain).u32(no_flags), both)
    }

    /// A machine's size and use.
    ///
    /// # Errors
    /// As any call: refused, too late, or broken.
    pub fn info(&mut self, domain: &Domain) -> Result<Info, LibvirtError> {
        self.ask(Procedure::DomainGetInfo, of(domain), Info::read)
    }

    /// How many CPUs a running machine may have: those that it has, and those that can be plugged in
    /// while it runs.
    ///
    /// # Errors
    /// It does not run; or as any call.
    pub fn max_vcpus(&mut self, domain: &Domain) -> Result<u32, LibvirtError> {
        let number = |reader: &mut Reader<'_>| reader.u32();
        self.ask(Procedure::DomainGetMaxVcpus, of(domain), number)
    }

    /// The CPUs of a machine that runs, rising.
    ///
    /// # Errors
    /// It does not run; or as any call.
    pub fn vcpus(&mut self, domain: &Domain) -> Result<Vec<Vcpu>, LibvirtError> {
        let count = self.info(domain)?.vcpus.min(MAX_VCPUS);
        let arguments = of(domain).u32(count).u32(EVERY_CPU_BYTES);
        self.ask(Procedure::DomainGetVcpus, arguments, |reader| {
            let mut list = reader.list(MAX_VCPUS as usize, Vcpu::read)?;
            let maps = maps(reader)?;
            for (vcpu, affinity) in list.iter_mut().zip(maps) {
                vcpu.affinity = affinity;
            }
            Ok(list)
        })
    }

    /// The host's CPUs that each CPU of a running machine is pinned to, from number 0 on; all of
    /// them where it is not pinned. Those that are not plugged in are among them: their pins wait
    /// for them.
    ///
    /// # Errors
    /// It does not run; or as any call.
    pub fn vcpu_pins(&mut self, domain: &Domain) -> Result<Vec<CpuSet>, LibvirtError> {
        let count = match self.max_vcpus(domain) {
            // Then those that it has: better than none.
            Err(LibvirtError::Refused { .. }) => self.info(domain)?.vcpus,
            most => most?,
        };
        let count = count.min(MAX_PINS);
        let arguments = of(domain).u32(count).u32(EVERY_CPU_BYTES).u32(LIVE);
        self.ask(Procedure::DomainGetVcpuPinInfo, arguments, |reader| {
            let mut pins = maps(reader)?;
            pins.truncate(usize::try_from(reader.i32()?).unwrap_or(0));
            Ok(pins)
        })
    }

    /// Pins a CPU of a running machine to CPUs of the host. One that is not plugged in can be pinned
    /// too, and is so from its first instruction.
    ///
    /// # Errors
    /// It does not run or can have no such CPU, or the host has none of these; or as any call.
    pub fn pin_vcpu(
        &mut self,
        domain: &Domain,
        vcpu: u32,
        cpus: &CpuSet,
    ) -> Result<(), LibvirtError> {
        let arguments = of(domain).u32(vcpu).bytes(&cpu_map(cpus)).u32(LIVE);
        self.call(Procedure::DomainPinVcpuFlags, arguments).map(drop)
    }

    /// The host's CPUs that the rest of a running machine's process is pinned to: what emulates
    /// its devices.
    ///
    /// # Errors
    /// It does not run; or as any call.
    pub fn emulator_pin(&mut self, domain: &Domain) -> Result<CpuSet, LibvirtError> {
        let arguments = of(domain).u32(EVERY_CPU_BYTES).u32(LIVE);
        let first = |reader: &mut Reader<'_>| {
            maps(reader)?.into_iter().next().ok_or(Malformed("no map of CPUs"))
        };
        self.ask(Procedure::DomainGetEmulatorPinInfo, arguments, first)
    }

    /// Pins the rest of a running machine's process to CPUs of the host.
    ///
    /// # Errors
    /// It does not run, or the host has none of these; or as any call.
    pub fn pin_emulator(&mut self, domain: &Domain, cpus: &CpuSet) -> Result<(), LibvirtError> {
        let arguments = of(domain).bytes(&cpu_map(cpus)).u32(LIVE);
        self.call(Procedure::DomainPinEmulator, arguments).map(drop)
    }

    /// The host's CPUs that each I/O thread of a running machine is pinned to, by the threads'
    /// numbers; all of them where it is not pinned.
    ///
    /// # Errors
    /// It does not run, or its QEMU has no such threads; or as any call.
    pub fn iothread_pins(&mut self, domain: &Domain) -> Result<Vec<(u32, CpuSet)>, LibvirtError> {
        let one = |reader: &mut Reader<'_>| Ok((reader.u32()?, cpus_of(reader.bytes(MAX_MAP)?)));
        let list = |reader: &mut Reader<'_>| reader.list(MAX_IOTHREADS, one);
        self.ask(Procedure::DomainGetIothreadInfo, of(domain).u32(LIVE), list)
    }

    /// Pins an I/O thread of a running machine to CPUs of the host.
    ///
    /// # Errors
    /// It does not run or has no such thread, or the host has none of these; or as any call.
    pub fn pin_iothread(
        &mut self,
        domain: &Domain,
        number: u32,
        cpus: &CpuSet,
    ) -> Result<(), LibvirtError> {
        let arguments = of(domain).u32(number).bytes(&cpu_map(cpus)).u32(LIVE);
        self.call(Procedure::DomainPinIothread, arguments).map(drop)
    }

    /// How a running machine gets CPU time: `cpu_shares`; period and quota in microseconds of each
    /// of its CPUs (`vcpu_period`, `vcpu_quota`), of the whole machine (`global_…`), of the
    /// emulator (`emulator_…`) and of I/O threads (`iothread_…`). A quota below 0, or one of over
    /// 2^43, is none.
    ///
    /// # Errors
    /// It does not run, or the daemon has no cpu controller; or as any call.
    pub fn scheduler(&mut self, domain: &Domain) -> Result<Vec<Parameter>, LibvirtError> {
        let arguments = of(domain).u32(MAX_PARAMETERS).u32(LIVE);
        let list = |reader: &mut Reader<'_>| reader.list(MAX_PARAMETERS as usize, Parameter::read);
        self.ask(Procedure::DomainGetSchedulerParametersFlags, arguments, list)
    }

    /// Sets some of these parameters of a running machine, in this order.
    ///
    /// # Errors
    /// It does not run, or a value is out of range; or as any call.
    pub fn set_scheduler(
        &mut self,
        domain: &Domain,
        parameters: &[Parameter],
    ) -> Result<(), LibvirtError> {
        let count = u32::try_from(parameters.len()).unwrap_or(u32::MAX);
        let list = parameters.iter().fold(of(domain).u32(count), |w, p| p.write(w));
        self.call(Procedure::DomainSetSchedulerParametersFlags, list.u32(LIVE)).map(drop)
    }
}

/// Maps of [`EVERY_CPU_BYTES`] each, one after the other.
pub(crate) fn maps(reader: &mut Reader<'_>) -> Result<Vec<CpuSet>, Malformed> {
    let each = EVERY_CPU_BYTES as usize;
    let bytes = reader.bytes(each * MAX_VCPUS as usize)?;
    Ok(bytes.chunks(each).map(cpus_of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_told_as_libvirt_tells_it() {
        assert_eq!(Version(9_000_000).to_string(), "9.0.0");
        assert_eq!(Version(10_001_002).to_string(), "10.1.2");
    }

    #[test]
    fn maps_are_told_apart_by_their_length() {
        let mut bytes = vec![0; 2 * EVERY_CPU_BYTES as usize];
        bytes[0] = 1;
        bytes[EVERY_CPU_BYTES as usize] = 6;
        let written = Writer::default().bytes(&bytes).finish();
        let maps = maps(&mut Reader::new(&written)).unwrap();
        assert_eq!(maps, ["0".parse().unwrap(), "1-2".parse::<CpuSet>().unwrap()]);
    }
}
