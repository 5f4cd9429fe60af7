//! The checked-in objects and how they become maps and programs.

use crate::error::{EbpfError, chain};
use aya::maps::{Map, MapError};
use aya::programs::{Program, ProgramError};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};

/// Request meter, egress accounting and marks.
pub(crate) static PACKETS: &[u8] = include_bytes_aligned!("../bpf/packets.bpf.o");
/// Run-queue waits.
pub(crate) static RUN_QUEUE: &[u8] = include_bytes_aligned!("../bpf/runqueue.bpf.o");
/// Behind whom tasks stand for a CPU.
pub(crate) static CONTENTION: &[u8] = include_bytes_aligned!("../bpf/contention.bpf.o");

/// Creates the maps of an object; programs are loaded one by one later.
pub(crate) fn load(
    object: &'static str,
    bytes: &[u8],
    loader: &mut EbpfLoader<'_>,
) -> Result<Ebpf, EbpfError> {
    loader.load(bytes).map_err(|error| EbpfError::Object { object, why: chain(&error) })
}

/// Takes a map out of the object, typed.
pub(crate) fn take<M>(ebpf: &mut Ebpf, name: &'static str) -> Result<M, EbpfError>
where
    M: TryFrom<Map, Error = MapError>,
{
    let absent = || EbpfError::Map { map: name, why: "the object has no such map".into() };
    M::try_from(ebpf.take_map(name).ok_or_else(absent)?).map_err(EbpfError::map(name))
}

/// A program of the object, typed.
pub(crate) fn program<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, EbpfError>
where
    &'a mut P: TryFrom<&'a mut Program, Error = ProgramError>,
{
    let absent =
        || EbpfError::Program { program: name, why: "the object has no such program".into() };
    ebpf.program_mut(name).ok_or_else(absent)?.try_into().map_err(EbpfError::program(name))
}
