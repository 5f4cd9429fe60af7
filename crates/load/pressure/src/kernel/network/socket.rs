//! What a flow asks of its socket, and reads of it.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// So much of a flow's data waits here until the link has room for more, as long as its part of the link is not known;
/// then so much as it carries in `AHEAD`, within these. What waits is still sent when the flow is told to send nothing:
/// a socket takes some megabytes, seconds of a slow link.
const LEAST_AHEAD: usize = 16 * 1024;
const MOST_AHEAD: usize = 128 * 1024;
const AHEAD: Duration = Duration::from_millis(1);

/// Bytes in the socket that the peer has not acknowledged (SIOCOUTQ, tcp(7)).
pub(super) fn queued(stream: &TcpStream) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (TIOCOUTQ) writes one int, to `bytes`.
    let answer = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(u64::try_from(bytes).unwrap_or(0)) }
}

/// Paces a socket to so many bytes per second; u64::MAX lifts the limit.
pub(super) fn set_pace(stream: &TcpStream, bytes_per_s: u64) {
    // SAFETY: the option reads 8 bytes at the address given, which are those of `bytes_per_s`. A
    // refusal leaves the flow unpaced, and its work then shows it.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_s).cast(),
            8,
        )
    };
}

/// Lets no more wait in the socket than a flow of such a rate, in bytes a second, sends soon.
pub(super) fn keep_ahead(stream: &TcpStream, rate: Option<f64>) {
    set_ahead(stream, ahead_bytes(rate));
}

/// How much of a flow of such a rate, in bytes a second, is to wait here.
fn ahead_bytes(rate: Option<f64>) -> usize {
    let ahead = rate.map(|rate| (rate * AHEAD.as_secs_f64()) as usize);
    ahead.map_or(MOST_AHEAD, |bytes| bytes.clamp(LEAST_AHEAD, MOST_AHEAD))
}

/// Takes no more data while so many bytes were not sent yet (tcp(7), `TCP_NOTSENT_LOWAT`).
fn set_ahead(stream: &TcpStream, bytes: usize) {
    let bytes = libc::c_uint::try_from(bytes).unwrap_or(libc::c_uint::MAX);
    // SAFETY: the option reads one unsigned int at the address given, which is `bytes`. A refusal leaves more waiting.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const bytes).cast(),
            size_of::<libc::c_uint>() as libc::socklen_t,
        )
    };
}

/// The smoothed round-trip time as TCP sees it; none before the first acknowledgement.
pub(super) fn round_trip(stream: &TcpStream) -> Option<Duration> {
    // SAFETY: all zeroes are a valid tcp_info: it holds numbers only.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which is that long.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (answer == 0 && info.tcpi_rtt > 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_millisecond_of_a_flow_waits_within_bounds() {
        for (rate, bytes) in [
            (None, MOST_AHEAD),
            (Some(3e6), LEAST_AHEAD),
            (Some(31e6), 31_000),
            (Some(1e9), MOST_AHEAD),
        ] {
            assert_eq!(ahead_bytes(rate), bytes, "{rate:?}");
        }
    }

    #[test]
    fn the_kernel_takes_the_bound() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_ahead(&stream, 20_000);
        let (mut bytes, mut length): (libc::c_uint, libc::socklen_t) = (0, 4);
        // SAFETY: the kernel writes at most `length` bytes, 4, to `bytes`, which is that long.
        let answer = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_NOTSENT_LOWAT,
                (&raw mut bytes).cast(),
                &raw mut length,
            )
        };
        assert_eq!((answer, bytes), (0, 20_000));
    }
}
