//! The few system calls that std does not offer, each wrapped once.

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

const NETLINK_CAP_ACK: c_int = 10;
const NETLINK_EXT_ACK: c_int = 11;
const ETHTOOL_GSET: u32 = 1;
const SIOCETHTOOL: u64 = 0x8946;
/// An answer of the kernel comes within microseconds; this only keeps a lost one from hanging us.
const ANSWER_TIMEOUT: libc::timeval = libc::timeval { tv_sec: 5, tv_usec: 0 };

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sets a socket option whose value is plain data.
pub(crate) fn set_option<T: Copy>(
    socket: impl AsFd,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is valid for `length` bytes during the call; the kernel only reads it.
    check(unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), length) })?;
    Ok(())
}

/// Sets the class of all later packets of a socket (`SO_PRIORITY`, a class id needs root).
pub(crate) fn set_priority(socket: impl AsFd, class: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, &class)
}

/// Chooses the TCP congestion control of a socket, by name of at most 15 letters.
pub(crate) fn set_congestion(socket: impl AsFd, name: &str) -> io::Result<()> {
    let mut text = [0u8; 16];
    let length = name.len().min(15);
    text[..length].copy_from_slice(&name.as_bytes()[..length]);
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &text)
}

/// A NETLINK_ROUTE socket in the calling thread's network namespace.
pub(crate) fn netlink_socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let fd = check(unsafe {
        libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
    })?;
    // SAFETY: the descriptor was just made and belongs to nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all-zero bytes are a valid sockaddr_nl.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a valid sockaddr_nl of `length` bytes; the kernel only reads it.
    check(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), length) })?;
    set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &ANSWER_TIMEOUT)?;
    // Kernels before 4.12 know neither; errors then come without a text.
    let _ = set_option(&fd, libc::SOL_NETLINK, NETLINK_EXT_ACK, &1i32);
    let _ = set_option(&fd, libc::SOL_NETLINK, NETLINK_CAP_ACK, &1i32);
    Ok(fd)
}

/// Sends one datagram.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    loop {
        // SAFETY: the buffer is valid for its length; the kernel only reads it.
        let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent >= 0 {
            return Ok(());
        }
        interrupted_or_error()?;
    }
}

/// Receives one datagram into `buffer`; one that does not fit is an error, never cut silently.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let fd = socket.as_fd().as_raw_fd();
    loop {
        // SAFETY: the buffer is writable for its length.
        let got =
            unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_TRUNC) };
        match usize::try_from(got) {
            Ok(length) if length <= buffer.len() => return Ok(length),
            Ok(length) => {
                return Err(io::Error::other(format!("answer of {length} bytes is too long")));
            }
            Err(_) => interrupted_or_error()?,
        }
    }
}

fn interrupted_or_error() -> io::Result<()> {
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

/// The nominal speed in Mbit/s that a link's driver reports; none if it reports none.
pub(crate) fn link_speed_mbit(socket: impl AsFd, name: &str) -> Option<u32> {
    // struct ethtool_cmd: cmd u32, supported, advertising, speed u16 at 12 … speed_hi u16 at 28.
    #[repr(C, align(8))]
    struct EthtoolCommand([u8; 44]);
    let mut command = EthtoolCommand([0; 44]);
    command.0[..4].copy_from_slice(&ETHTOOL_GSET.to_ne_bytes());
    // SAFETY: all-zero bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = command.0.as_mut_ptr().cast();
    // SAFETY: `request` is a valid ifreq with a zero-terminated name whose data points to a
    // writable ethtool_cmd; the kernel writes no more than its 44 bytes.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCETHTOOL as _, &mut request) };
    let half = |at: usize| u32::from(u16::from_ne_bytes([command.0[at], command.0[at + 1]]));
    let speed = half(12) | half(28) << 16;
    // Drivers say "unknown" as all ones, in 16 or 32 bits.
    (result == 0 && speed != 0 && speed != u32::MAX && speed != 0xffff).then_some(speed)
}

/// Moves the calling thread, and only it, into a network namespace.
pub(crate) fn enter_network_namespace(namespace: impl AsFd) -> io::Result<()> {
    // SAFETY: the descriptor is open; setns with CLONE_NEWNET affects the calling thread only.
    check(unsafe { libc::setns(namespace.as_fd().as_raw_fd(), libc::CLONE_NEWNET) })?;
    Ok(())
}

/// Moves the calling thread, and only it, into a new and empty network namespace.
pub(crate) fn new_network_namespace() -> io::Result<()> {
    // SAFETY: no pointers; unsharing the network namespace affects the calling thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    Ok(())
}
