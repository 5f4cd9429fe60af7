//! Private readers, for the fuzz targets: what is written must read back.

use crate::domain::Info;
use crate::wire::{Header, RemoteError, rest_of};
use crate::xdr::{Reader, Writer};
use crate::{Domain, Parameter, Role, Vcpu, calls, process};
use quell_types::CpuSet;

/// Every reader of an answer's bytes, one after the other; how many of them took it.
#[must_use]
pub fn answers(bytes: &[u8]) -> usize {
    let length = bytes.first_chunk::<4>().is_some_and(|length| rest_of(*length).is_ok());
    let taken = [
        length,
        Header::read(&mut Reader::new(bytes)).is_ok(),
        RemoteError::read(&mut Reader::new(bytes)).is_ok(),
        Info::read(&mut Reader::new(bytes)).is_ok(),
        calls::maps(&mut Reader::new(bytes)).is_ok(),
        Reader::new(bytes).list(16_384, Vcpu::read).is_ok(),
    ];
    taken.into_iter().filter(|taken| *taken).count()
}

/// Machines of a list, as they are written again.
#[must_use]
pub fn domains(bytes: &[u8]) -> Option<(Vec<Domain>, Vec<u8>)> {
    let list = Reader::new(bytes).list(16_384, Domain::read).ok()?;
    let head = Writer::default().u32(u32::try_from(list.len()).ok()?);
    let written = list.iter().fold(head, |writer, domain| domain.write(writer));
    Some((list, written.finish()))
}

/// Parameters of a list, as they are written again.
#[must_use]
pub fn parameters(bytes: &[u8]) -> Option<(Vec<Parameter>, Vec<u8>)> {
    let list = Reader::new(bytes).list(16, Parameter::read).ok()?;
    let head = Writer::default().u32(u32::try_from(list.len()).ok()?);
    let written = list.iter().fold(head, |writer, parameter| parameter.write(writer));
    Some((list, written.finish()))
}

/// What a thread of this name does, and where one with this status may run.
#[must_use]
pub fn thread(text: &str) -> (Role, Option<CpuSet>) {
    (process::role(text), process::allowed(text))
}
