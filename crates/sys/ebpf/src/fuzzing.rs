//! Private readers, for the fuzz targets.

use crate::listen;
use std::net::SocketAddr;

/// Address and inode of a listening socket in a line of `/proc/net/tcp` or `tcp6`.
#[must_use]
pub fn listener(line: &str) -> Option<(SocketAddr, u64)> {
    listen::listener(line)
}
