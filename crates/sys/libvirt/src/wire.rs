//! libvirt's frames (`virnetprotocol.x`): a length that counts itself, six words of header, then
//! arguments, an answer, or an error.

use crate::domain::Domain;
use crate::xdr::{Malformed, Reader, Writer};

/// The program whose procedures these are (`REMOTE_PROGRAM`); keep-alives and QEMU's own are others.
pub(crate) const PROGRAM: u32 = 0x2000_8086;
const VERSION: u32 = 1;
/// Length and header, in bytes.
pub(crate) const HEAD: usize = 28;
/// The longest message that is taken, in bytes, length and header included. libvirt itself stops
/// at 16 MiB; a list of 16,384 machines, the most it sends, with names of 200 bytes has 4 MiB.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;

/// The procedures that are called, by their numbers in `remote_protocol.x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Procedure {
    ConnectOpen = 1,
    ConnectClose = 2,
    DomainGetInfo = 16,
    DomainGetMaxVcpus = 18,
    DomainGetVcpus = 20,
    DomainLookupByName = 23,
    DomainLookupByUuid = 24,
    AuthList = 66,
    AuthPolkit = 70,
    ConnectGetLibVersion = 157,
    DomainGetState = 212,
    DomainSetSchedulerParametersFlags = 219,
    DomainGetSchedulerParametersFlags = 223,
    DomainPinVcpuFlags = 225,
    DomainGetVcpuPinInfo = 230,
    ConnectListAllDomains = 273,
    DomainPinEmulator = 279,
    DomainGetEmulatorPinInfo = 280,
    DomainGetIothreadInfo = 351,
    DomainPinIothread = 352,
}

impl Procedure {
    /// What it does, for messages.
    pub(crate) fn call(self) -> &'static str {
        match self {
            Procedure::ConnectOpen => "opening a connection",
            Procedure::ConnectClose => "closing the connection",
            Procedure::DomainGetInfo => "asking for a machine's size",
            Procedure::DomainGetMaxVcpus => "asking for the most CPUs of a machine",
            Procedure::DomainGetVcpus => "asking for a machine's CPUs",
            Procedure::DomainLookupByName => "looking up a machine's name",
            Procedure::DomainLookupByUuid => "looking up a machine's UUID",
            Procedure::AuthList => "asking how to log in",
            Procedure::AuthPolkit => "logging in by polkit",
            Procedure::ConnectGetLibVersion => "asking for the version",
            Procedure::DomainGetState => "asking for a machine's state",
            Procedure::DomainSetSchedulerParametersFlags => "setting a machine's CPU time",
            Procedure::DomainGetSchedulerParametersFlags => "asking for a machine's CPU time",
            Procedure::DomainPinVcpuFlags => "pinning a machine's CPU",
            Procedure::DomainGetVcpuPinInfo => "asking where a machine's CPUs are pinned",
            Procedure::ConnectListAllDomains => "listing machines",
            Procedure::DomainPinEmulator => "pinning a machine's emulator",
            Procedure::DomainGetEmulatorPinInfo => "asking where a machine's emulator is pinned",
            Procedure::DomainGetIothreadInfo => "asking where a machine's I/O threads are pinned",
            Procedure::DomainPinIothread => "pinning a machine's I/O thread",
        }
    }
}

/// What kind of message it is (`virNetMessageType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Reply,
    /// Events and streams, which nobody here has asked for.
    Other,
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: i32,
    pub(crate) kind: Kind,
    pub(crate) serial: u32,
    /// Whether an error follows in place of an answer.
    pub(crate) failed: bool,
}

impl Header {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (program, version, procedure) = (reader.u32()?, reader.u32()?, reader.i32()?);
        let kind = match reader.u32()? {
            0 => Kind::Call,
            1 => Kind::Reply,
            2..=5 => Kind::Other,
            _ => return Err(Malformed("a message of no known kind")),
        };
        let serial = reader.u32()?;
        let failed = match reader.u32()? {
            0 | 2 => false,
            1 => true,
            _ => return Err(Malformed("a message of no known status")),
        };
        Ok(Self { program, version, procedure, kind, serial, failed })
    }

    /// Whether it is the answer to this call.
    pub(crate) fn answers(&self, procedure: Procedure, serial: u32) -> bool {
        self.version == VERSION && self.procedure == procedure as i32 && self.serial == serial
    }
}

/// A whole message.
pub(crate) fn message(
    procedure: Procedure,
    kind: Kind,
    serial: u32,
    failed: bool,
    body: &[u8],
) -> Vec<u8> {
    let kind = match kind {
        Kind::Call => 0,
        Kind::Reply => 1,
        Kind::Other => 2,
    };
    let length = u32::try_from(HEAD + body.len()).unwrap_or(u32::MAX);
    let head = Writer::default().u32(length).u32(PROGRAM).u32(VERSION).i32(procedure as i32);
    let head = head.u32(kind).u32(serial).u32(u32::from(failed));
    [head.finish().as_slice(), body].concat()
}

/// The length that a message says it has, without the four bytes that say so.
pub(crate) fn rest_of(length: [u8; 4]) -> Result<usize, Malformed> {
    match u32::from_be_bytes(length) as usize {
        length if length < HEAD => Err(Malformed("a message shorter than its header")),
        length if length > MAX_MESSAGE => Err(Malformed("a message of over 4 MiB")),
        length => Ok(length - 4),
    }
}

/// libvirt's error (`remote_error`): what it says of code, part and words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteError {
    pub(crate) code: i32,
    pub(crate) part: i32,
    pub(crate) message: String,
}

impl RemoteError {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (code, part) = (reader.i32()?, reader.i32()?);
        let message = reader.optional(Reader::text)?;
        let _level = reader.i32()?;
        let _machine = reader.optional(Domain::read)?;
        let detail = reader.optional(Reader::text)?;
        // The rest (two texts, two numbers, a network) says nothing that the message does not.
        let message = message.or(detail).unwrap_or_else(|| "no reason is given".into());
        Ok(Self { code, part, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Uuid;
    use proptest::prelude::*;

    #[test]
    fn a_call_stands_as_libvirt_has_it() {
        let bytes = message(Procedure::AuthList, Kind::Call, 0, false, &[]);
        let wanted = [
            0, 0, 0, 28, 0x20, 0, 0x80, 0x86, 0, 0, 0, 1, 0, 0, 0, 66, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0,
        ];
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn lengths_outside_the_protocol_are_refused() {
        assert_eq!(rest_of(28u32.to_be_bytes()), Ok(24));
        assert!(rest_of(27u32.to_be_bytes()).is_err());
        assert!(rest_of((MAX_MESSAGE as u32 + 1).to_be_bytes()).is_err());
        assert!(rest_of(u32::MAX.to_be_bytes()).is_err());
    }

    #[test]
    fn an_error_is_read_with_its_machine() {
        let domain = Domain { name: "g1".into(), uuid: Uuid([7; 16]), id: None };
        let writer = Writer::default().i32(55).i32(10).optional_text(Some("not running")).i32(2);
        let bytes = domain.write(writer.u32(1)).u32(0).u32(0).u32(0).i32(0).i32(0).u32(0).finish();
        let error = RemoteError::read(&mut Reader::new(&bytes)).unwrap();
        let wanted = RemoteError { code: 55, part: 10, message: "not running".into() };
        assert_eq!(error, wanted);
    }

    proptest! {
        #[test]
        fn headers_come_back(serial in any::<u32>(), failed in any::<bool>()) {
            let bytes = message(Procedure::DomainPinEmulator, Kind::Reply, serial, failed, b"body");
            let length = rest_of([bytes[0], bytes[1], bytes[2], bytes[3]]).unwrap();
            prop_assert_eq!(length, bytes.len() - 4);
            let mut reader = Reader::new(&bytes[4..]);
            let header = Header::read(&mut reader).unwrap();
            prop_assert!(header.answers(Procedure::DomainPinEmulator, serial));
            prop_assert!(!header.answers(Procedure::DomainPinVcpuFlags, serial));
            prop_assert_eq!((header.kind, header.failed), (Kind::Reply, failed));
            prop_assert_eq!(reader.fixed(4), Ok(&b"body"[..]));
        }

        #[test]
        fn no_bytes_make_a_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Header::read(&mut Reader::new(&bytes));
            let _ = RemoteError::read(&mut Reader::new(&bytes));
        }
    }
}
