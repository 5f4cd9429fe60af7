//! A virtual machine in libvirt's words: a domain, its state, its CPUs, its parameters.

use crate::xdr::{Malformed, Reader, Writer};
use quell_types::CpuSet;
use std::fmt;
use std::str::FromStr;

/// What a machine keeps through all of its starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Uuid {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        const WRONG: Malformed = Malformed("no UUID");
        let digits: Option<Vec<u32>> =
            text.chars().filter(|c| *c != '-').map(|c| c.to_digit(16)).collect();
        let bytes: Vec<u8> =
            digits.ok_or(WRONG)?.chunks(2).map(|pair| pair.iter().fold(0, nibble)).collect();
        let uuid = Self(bytes.try_into().map_err(|_| WRONG)?);
        if uuid.to_string().eq_ignore_ascii_case(text) { Ok(uuid) } else { Err(WRONG) }
    }
}

fn nibble(byte: u8, digit: &u32) -> u8 {
    (byte << 4) | (*digit as u8)
}

/// A machine that libvirt knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// libvirt's name.
    pub name: String,
    /// The same through all starts.
    pub uuid: Uuid,
    /// Another one at each start; none while it does not run.
    pub id: Option<u32>,
}

impl Domain {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let name = reader.text()?;
        let uuid = reader.fixed(16)?.try_into().map_err(|_| Malformed("no UUID"))?;
        Ok(Self { name, uuid: Uuid(uuid), id: u32::try_from(reader.i32()?).ok() })
    }

    pub(crate) fn write(&self, writer: Writer) -> Writer {
        let id = self.id.and_then(|id| i32::try_from(id).ok()).unwrap_or(-1);
        writer.text(&self.name).fixed(&self.uuid.0).i32(id)
    }
}

/// What a machine does (`virDomainState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It waits for a resource.
    Blocked,
    /// It is paused.
    Paused,
    /// It is about to shut down.
    ShuttingDown,
    /// It does not run.
    ShutOff,
    /// It crashed.
    Crashed,
    /// Its guest sleeps.
    Suspended,
    /// None, or one that this version does not know.
    Other(i32),
}

impl From<i32> for State {
    fn from(number: i32) -> Self {
        match number {
            1 => State::Running,
            2 => State::Blocked,
            3 => State::Paused,
            4 => State::ShuttingDown,
            5 => State::ShutOff,
            6 => State::Crashed,
            7 => State::Suspended,
            other => State::Other(other),
        }
    }
}

/// The size of a machine and what it used (`virDomainInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// What it does.
    pub state: State,
    /// The memory it may have, in KiB.
    pub max_memory_kib: u64,
    /// The memory it has, in KiB.
    pub memory_kib: u64,
    /// Its CPUs.
    pub vcpus: u32,
    /// CPU time used, in nanoseconds.
    pub cpu_time_ns: u64,
}

impl Info {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            state: State::from(reader.i32()?),
            max_memory_kib: reader.u64()?,
            memory_kib: reader.u64()?,
            vcpus: reader.u32()?,
            cpu_time_ns: reader.u64()?,
        })
    }
}

/// One CPU of a machine (`virVcpuInfo`) and where it may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vcpu {
    /// Which, from 0.
    pub number: u32,
    /// CPU time used, in nanoseconds.
    pub cpu_time_ns: u64,
    /// The host's CPU it runs on; none while it is off line.
    pub cpu: Option<u32>,
    /// The host's CPUs it may run on now.
    pub affinity: CpuSet,
}

impl Vcpu {
    /// Without where it may run: that comes apart.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let number = reader.u32()?;
        let _state = reader.i32()?;
        let (cpu_time_ns, cpu) = (reader.u64()?, u32::try_from(reader.i32()?).ok());
        Ok(Self { number, cpu_time_ns, cpu, affinity: CpuSet::new() })
    }
}

/// A value with its type (`virTypedParameterType`).
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// 32 bits with a sign.
    Int(i32),
    /// 32 bits.
    Uint(u32),
    /// 64 bits with a sign.
    Long(i64),
    /// 64 bits.
    Ulong(u64),
    /// A fraction.
    Double(f64),
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(String),
}

/// A named value (`virTypedParameter`), such as `vcpu_quota`.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub field: String,
    /// Its value.
    pub value: Value,
}

impl Parameter {
    /// A named value.
    #[must_use]
    pub fn new(field: &str, value: Value) -> Self {
        Self { field: field.to_owned(), value }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let field = reader.text()?;
        let value = match reader.u32()? {
            1 => Value::Int(reader.i32()?),
            2 => Value::Uint(reader.u32()?),
            3 => Value::Long(reader.i64()?),
            4 => Value::Ulong(reader.u64()?),
            5 => Value::Double(reader.f64()?),
            6 => Value::Flag(reader.i32()? != 0),
            7 => Value::Text(reader.text()?),
            _ => return Err(Malformed("a parameter of no known type")),
        };
        Ok(Self { field, value })
    }

    pub(crate) fn write(&self, writer: Writer) -> Writer {
        let writer = writer.text(&self.field);
        match &self.value {
            Value::Int(value) => writer.u32(1).i32(*value),
            Value::Uint(value) => writer.u32(2).u32(*value),
            Value::Long(value) => writer.u32(3).i64(*value),
            Value::Ulong(value) => writer.u32(4).u64(*value),
            Value::Double(value) => writer.u32(5).f64(*value),
            Value::Flag(value) => writer.u32(6).i32(i32::from(*value)),
            Value::Text(value) => writer.u32(7).text(value),
        }
    }
}

/// A CPU set as libvirt has it: bit n % 8 of byte n / 8 is CPU n.
pub(crate) fn cpu_map(cpus: &CpuSet) -> Vec<u8> {
    let mut map = Vec::new();
    for cpu in cpus.iter() {
        let byte = (cpu / 8) as usize;
        if map.len() <= byte {
            map.resize(byte + 1, 0u8);
        }
        map[byte] |= 1 << (cpu % 8);
    }
    map
}

pub(crate) fn cpus_of(map: &[u8]) -> CpuSet {
    let bits = |(at, byte): (usize, &u8)| {
        let byte = *byte;
        (0..8u32).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| at as u32 * 8 + bit)
    };
    map.iter().enumerate().flat_map(bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cpus_stand_in_bytes_from_the_lowest_bit() {
        for (list, map) in [("0", vec![1]), ("0-1,9", vec![3, 2]), ("7-8", vec![0x80, 1])] {
            let cpus: CpuSet = list.parse().unwrap();
            assert_eq!(cpu_map(&cpus), map, "{list}");
            assert_eq!(cpus_of(&map), cpus, "{list}");
        }
        assert_eq!(cpus_of(&[0; 256]), CpuSet::new());
    }

    #[test]
    fn a_uuid_is_read_as_it_is_written() {
        let text = "c7a5fdbd-edaf-9455-926a-d65c16db1809";
        assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text);
        for wrong in ["", "c7a5", "c7a5fdbdedaf9455926ad65c16db1809", &text[1..], "x7a5"] {
            assert!(wrong.parse::<Uuid>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn machines_and_parameters_come_back(
            name in ".{0,40}", uuid in any::<[u8; 16]>(), id in proptest::option::of(0..1000u32),
            long in any::<i64>(), field in "[a-z_]{0,80}",
        ) {
            let domain = Domain { name, uuid: Uuid(uuid), id };
            prop_assert_eq!(domain.uuid.to_string().parse::<Uuid>(), Ok(domain.uuid));
            let values = [
                Value::Int(long as i32), Value::Uint(long as u32), Value::Long(long),
                Value::Ulong(long as u64), Value::Double(long as f64), Value::Flag(long > 0),
                Value::Text(field.clone()),
            ];
            let list: Vec<_> = values.into_iter().map(|value| Parameter::new(&field, value)).collect();
            let written = list.iter().fold(domain.write(Writer::default()), |w, p| p.write(w));
            let bytes = written.finish();
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Domain::read(&mut reader), Ok(domain));
            for parameter in list {
                prop_assert_eq!(Parameter::read(&mut reader), Ok(parameter));
            }
            prop_assert_eq!(reader.left(), 0);
        }

        #[test]
        fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Domain::read(&mut Reader::new(&bytes));
            let _ = Info::read(&mut Reader::new(&bytes));
            let _ = Vcpu::read(&mut Reader::new(&bytes));
            let _ = Parameter::read(&mut Reader::new(&bytes));
            prop_assert_eq!(cpus_of(&cpu_map(&cpus_of(&bytes))), cpus_of(&bytes));
        }
    }
}
