//! Lines of `/proc/net/tcp` and `tcp6`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_ebpf::fuzzing::listener;
use quell_fuzz::{Numbers, text};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

fuzz_target!(|data: &[u8]| {
    let text = text(data);
    for line in text.lines() {
        if let Some((address, inode)) = listener(line) {
            let again = line_of(address, inode);
            assert_eq!(listener(&again), Some((address, inode)), "{line:?}");
        }
    }
    let mut numbers = Numbers(data);
    let ip = match numbers.u8() & 1 {
        0 => IpAddr::from(numbers.take::<4>()),
        _ => IpAddr::V6(Ipv6Addr::from(numbers.take::<16>())),
    };
    let (address, inode) = (SocketAddr::new(ip, numbers.u16()), numbers.u64());
    assert_eq!(listener(&line_of(address, inode)), Some((address, inode)));
});

/// As the kernel prints it.
fn line_of(address: SocketAddr, inode: u64) -> String {
    let octets = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let word = |w: &[u8; 4]| format!("{:08X}", u32::from_ne_bytes(*w));
    let host: String = octets.as_chunks::<4>().0.iter().map(word).collect();
    let port = address.port();
    format!(
        "   0: {host}:{port:04X} {host}:0000 0A 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0"
    )
}
