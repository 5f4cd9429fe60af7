//! Where processes listen on TCP, from /proc.

use crate::EbpfError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// A listening TCP socket that a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListeningSocket {
    /// Where it listens.
    pub address: SocketAddr,
    /// The inode of its network namespace.
    pub netns: u32,
    /// Its own inode.
    pub inode: u64,
    /// A process that holds it.
    pub pid: u32,
}

/// The listening TCP sockets that these processes hold, each once, by address. Works across
/// network namespaces and for sockets inherited from whoever opened them. `proc` is `/proc` or a
/// tree of the same shape. Processes that are gone are passed over.
///
/// # Errors
/// A file of a living process cannot be read (not root).
pub fn listening_sockets(proc: &Path, pids: &[u32]) -> Result<Vec<ListeningSocket>, EbpfError> {
    let mut owners: BTreeMap<u32, (u32, BTreeMap<u64, u32>)> = BTreeMap::new();
    for &pid in pids {
        let Some(netns) = present(netns_of(proc, pid))? else { continue };
        let Some(inodes) = present(socket_inodes(proc, pid))? else { continue };
        let (_, held) = owners.entry(netns).or_insert((pid, BTreeMap::new()));
        held.extend(inodes.into_iter().map(|inode| (inode, pid)));
    }
    let mut found = BTreeSet::new();
    for (netns, (pid, held)) in owners {
        for table in ["tcp", "tcp6"] {
            let path = proc.join(format!("{pid}/net/{table}"));
            for (address, inode) in present(listeners(&path))?.unwrap_or_default() {
                if let Some(&pid) = held.get(&inode) {
                    found.insert(ListeningSocket { address, netns, inode, pid });
                }
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// None for what is no longer (or never was) there.
fn present<T>(result: Result<T, EbpfError>) -> Result<Option<T>, EbpfError> {
    match result {
        Ok(value) => Ok(Some(value)),
        // ESRCH: the process ended between opening and reading.
        Err(EbpfError::Read { source, .. })
            if source.kind() == ErrorKind::NotFound || source.raw_os_error() == Some(3) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn failed(path: PathBuf) -> impl FnOnce(io::Error) -> EbpfError {
    move |source| EbpfError::Read { path, source }
}

/// The number in a link's text like `net:[4026531840]`.
fn number_in(link: &Path, prefix: &str) -> Option<u64> {
    link.to_str()?.strip_prefix(prefix)?.strip_suffix(']')?.parse().ok()
}

fn netns_of(proc: &Path, pid: u32) -> Result<u32, EbpfError> {
    let path = proc.join(format!("{pid}/ns/net"));
    let link = fs::read_link(&path).map_err(failed(path.clone()))?;
    let inode = number_in(&link, "net:[").and_then(|inode| u32::try_from(inode).ok());
    inode.ok_or_else(|| {
        let why = format!("not a network namespace: {}", link.display());
        failed(path)(io::Error::new(ErrorKind::InvalidData, why))
    })
}

fn socket_inodes(proc: &Path, pid: u32) -> Result<Vec<u64>, EbpfError> {
    let path = proc.join(format!("{pid}/fd"));
    let entries = fs::read_dir(&path).map_err(failed(path))?;
    // A descriptor that was closed meanwhile is no listening socket.
    let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    Ok(links.filter_map(|link| number_in(&link, "socket:[")).collect())
}

/// Addresses and inodes of the listening sockets in a table like /proc/net/tcp. The kernel lists
/// them first, so that a server's thousands of connections behind them are not read.
fn listeners(path: &Path) -> Result<Vec<(SocketAddr, u64)>, EbpfError> {
    let file = fs::File::open(path).map_err(failed(path.to_owned()))?;
    let mut found = Vec::new();
    for line in BufReader::new(file).lines().skip(1) {
        let line = line.map_err(failed(path.to_owned()))?;
        match listener(&line) {
            Some(socket) => found.push(socket),
            None => break,
        }
    }
    Ok(found)
}

pub(crate) fn listener(line: &str) -> Option<(SocketAddr, u64)> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_ascii_whitespace();
    let local = fields.nth(1)?;
    if fields.nth(1)? != LISTEN {
        return None;
    }
    Some((address(local)?, fields.nth(5)?.parse().ok()?))
}

/// `0100007F:18EB`: the address as words in host order, the port as a number.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |i: usize| {
        let digits = address.get(8 * i..8 * i + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let octets = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue\n";
    const TCP: &str = "   0: 0100007F:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 ff 100 0 0 10 0\n   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1 ff 100 0 0 10 0\n   2: 0100007F:18EB 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 333 1 ff 20 4 30 10 -1\n";
    const TCP6: &str = "   0: 00000000000000000000000001000000:18EB 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 444 1 ff 100 0 0 10 0\n";

    fn process(proc: &Path, pid: u32, netns: u32, sockets: &[u64]) {
        let dir = proc.join(pid.to_string());
        for sub in ["fd", "ns", "net"] {
            fs::create_dir_all(dir.join(sub)).unwrap();
        }
        symlink(format!("net:[{netns}]"), dir.join("ns/net")).unwrap();
        symlink("/dev/null", dir.join("fd/0")).unwrap();
        for (fd, inode) in sockets.iter().enumerate() {
            symlink(format!("socket:[{inode}]"), dir.join(format!("fd/{}", fd + 3))).unwrap();
        }
        fs::write(dir.join("net/tcp"), format!("{HEAD}{TCP}")).unwrap();
        fs::write(dir.join("net/tcp6"), format!("{HEAD}{TCP6}")).unwrap();
    }

    #[test]
    fn finds_what_the_processes_listen_on_and_nothing_else() {
        let proc = tempfile::tempdir().unwrap();
        process(proc.path(), 10, 5, &[111, 333]);
        process(proc.path(), 11, 5, &[444]);
        let found = listening_sockets(proc.path(), &[10, 11, 12]).unwrap();
        let shown: Vec<String> =
            found.iter().map(|s| format!("{} {} {}", s.address, s.inode, s.pid)).collect();
        assert_eq!(shown, ["127.0.0.1:6379 111 10", "[::1]:6379 444 11"]);
        assert!(found.iter().all(|s| s.netns == 5));
    }

    #[test]
    fn refuses_tables_that_are_none() {
        for line in ["", "x", "0: 0100007F:18EB", "0: 0100007F:XX x 0A a b c d e 1", "0: :1 x 0A"] {
            assert_eq!(listener(line), None, "{line:?}");
        }
    }
}
