//! Keys that name things: groups, units, interfaces, paths, endpoints.

use super::kinds::not_a;
use super::{Accept, Fault};
use crate::checked::Metrics;
use crate::quantity::clip;
use crate::raw::{Node, Value};
use std::net::SocketAddr;

/// The longest path that Linux takes in one call, with its final zero.
const PATH_MAX: usize = 4096;
/// The longest path of a Unix socket.
const SOCKET_PATH_MAX: usize = 107;
/// The longest name of an interface.
const INTERFACE_MAX: usize = 15;
/// The longest name of a service or batch group.
const NAME_MAX: usize = 63;

/// A name of a service or batch group: it becomes a label and the name of a cgroup.
pub(crate) struct Name;

impl Accept for Name {
    type Out = String;

    fn expects(&self) -> String {
        format!(
            "a name of up to {NAME_MAX} letters, digits and _ . @ -, beginning with a letter \
                 or digit"
        )
    }

    fn read(&self, node: &Node) -> Result<String, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "name"))?;
        if is_name(text) { Ok(text.to_owned()) } else { Err(not_a(node, "name")) }
    }
}

pub(crate) fn is_name(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "_.@-".contains(c);
    text.len() <= NAME_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(known)
}

/// A cgroup's path below the root of its hierarchy.
pub(crate) struct GroupPath;

impl Accept for GroupPath {
    type Out = String;

    fn expects(&self) -> String {
        "a path from the hierarchy's root such as \"/batch\"".to_owned()
    }

    fn read(&self, node: &Node) -> Result<String, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "path"))?;
        if text.starts_with("/sys/fs/cgroup") {
            let problem = "the path begins with the mount point of a hierarchy";
            return Err(Fault::new(node, problem).with_help(
                "the path below the hierarchy's root: \"/batch\", not \
                 \"/sys/fs/cgroup/cpu/batch\"; it is looked up in every hierarchy",
            ));
        }
        if text == "/" {
            let problem = "the root group holds everything, the agent too, and has no limits";
            return Err(Fault::new(node, problem).with_help("a group below it"));
        }
        normal_path(node, text)
    }
}

/// A systemd unit that has a cgroup.
pub(crate) struct UnitName;

impl Accept for UnitName {
    type Out = String;

    fn expects(&self) -> String {
        "a unit with its suffix (.service, .scope or .slice) such as \"redis.service\"".to_owned()
    }

    fn read(&self, node: &Node) -> Result<String, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "unit"))?;
        let known = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
        if text.is_empty() || text.len() > 255 || !text.chars().all(known) {
            return Err(not_a(node, "unit's name"));
        }
        let stem = [".service", ".scope", ".slice"].iter().find_map(|end| text.strip_suffix(end));
        match stem {
            Some("") => Err(not_a(node, "unit's name")),
            Some(_) => Ok(text.to_owned()),
            None => Err(Fault::new(node, format!("\"{text}\" has no suffix of a unit"))
                .with_help(format!("did you mean \"{text}.service\"?"))),
        }
    }
}

/// A virtual machine.
pub(crate) struct MachineName;

impl Accept for MachineName {
    type Out = String;

    fn expects(&self) -> String {
        "the name that `virsh list` shows, such as \"build-7\"".to_owned()
    }

    fn read(&self, node: &Node) -> Result<String, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "virtual machine"))?;
        // libvirt keeps a file of that name.
        let whole = !text.is_empty() && !text.starts_with('.') && text.len() <= 255;
        if !whole || text.chars().any(|c| c == '/' || c == ',' || c.is_control()) {
            return Err(not_a(node, "virtual machine's name"));
        }
        Ok(text.to_owned())
    }
}

/// A network interface.
pub(crate) struct InterfaceName;

impl Accept for InterfaceName {
    type Out = String;

    fn expects(&self) -> String {
        format!("the name of an interface such as \"eth0\", up to {INTERFACE_MAX} characters")
    }

    fn read(&self, node: &Node) -> Result<String, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "interface"))?;
        let fits = !text.is_empty() && text.len() <= INTERFACE_MAX && text != "." && text != "..";
        if fits && text.chars().all(|c| c.is_ascii_graphic() && c != '/' && c != ':') {
            return Ok(text.to_owned());
        }
        Err(not_a(node, "interface's name"))
    }
}

/// An absolute path.
pub(crate) struct AbsolutePath;

impl Accept for AbsolutePath {
    type Out = String;

    fn expects(&self) -> String {
        "an absolute path".to_owned()
    }

    fn read(&self, node: &Node) -> Result<String, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "path"))?;
        normal_path(node, text)
    }
}

fn normal_path(node: &Node, text: &str) -> Result<String, Fault> {
    let fault = |problem: &str| Err(Fault::new(node, format!("\"{}\" {problem}", clip(text))));
    if !text.starts_with('/') || text.len() >= PATH_MAX {
        return fault("is no absolute path");
    }
    if text.chars().any(char::is_control) {
        return fault("has control characters");
    }
    let body = text[1..].strip_suffix('/').unwrap_or(&text[1..]);
    if body.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return fault("has empty, . or .. parts");
    }
    Ok(format!("/{body}"))
}

/// Where metrics are served.
pub(crate) struct MetricsPlace;

impl Accept for MetricsPlace {
    type Out = Metrics;

    fn expects(&self) -> String {
        "the path of a Unix socket, an address with a port such as \"127.0.0.1:9464\", or \"off\""
            .to_owned()
    }

    fn read(&self, node: &Node) -> Result<Metrics, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "metrics address"))?;
        if text == "off" {
            return Ok(Metrics::Off);
        }
        if text.starts_with('/') {
            return socket_path(node, text).map(Metrics::Unix);
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if address.port() > 0 => Ok(Metrics::Address(address)),
            Ok(_) => Err(Fault::new(node, "port 0 is no place to be found at")),
            Err(_) => Err(not_a(node, "metrics address")),
        }
    }
}

/// The path of a Unix socket.
pub(crate) struct SocketPath;

impl Accept for SocketPath {
    type Out = String;

    fn expects(&self) -> String {
        format!("an absolute path of at most {SOCKET_PATH_MAX} bytes")
    }

    fn read(&self, node: &Node) -> Result<String, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "path"))?;
        socket_path(node, text)
    }
}

fn socket_path(node: &Node, text: &str) -> Result<String, Fault> {
    if text.len() > SOCKET_PATH_MAX {
        let problem = format!("a socket's path has at most {SOCKET_PATH_MAX} bytes");
        return Err(Fault::new(node, problem));
    }
    normal_path(node, text)
}

/// An HTTP address.
pub(crate) struct Endpoint;

impl Accept for Endpoint {
    type Out = String;

    fn expects(&self) -> String {
        "an address such as \"http://127.0.0.1:9100/metrics\"".to_owned()
    }

    fn read(&self, node: &Node) -> Result<String, Fault> {
        let text = node.text().ok_or_else(|| not_a(node, "address"))?;
        if text.starts_with("https://") {
            return Err(Fault::new(node, "https is not spoken")
                .with_help("an http:// address, as scrapers on the machine itself use"));
        }
        let host = text.strip_prefix("http://").map(|rest| rest.split('/').next().unwrap_or(""));
        let plain = text.chars().all(|c| c.is_ascii_graphic());
        match host {
            Some(host) if plain && !host.is_empty() && !host.starts_with(':') => {
                Ok(text.to_owned())
            }
            _ => Err(not_a(node, "http address")),
        }
    }
}

/// `"ebpf"`, or a table that is read on its own.
pub(crate) struct LatencyKind;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LatencyShape {
    Ebpf,
    Table,
}

impl Accept for LatencyKind {
    type Out = LatencyShape;

    fn expects(&self) -> String {
        "\"ebpf\", or a table with prometheus or socket".to_owned()
    }

    fn read(&self, node: &Node) -> Result<LatencyShape, Fault> {
        match (&node.value, node.text()) {
            (Value::Table(_), _) => Ok(LatencyShape::Table),
            (_, Some("ebpf")) => Ok(LatencyShape::Ebpf),
            _ => Err(not_a(node, "source of latency")),
        }
    }
}

/// A table that is read on its own.
pub(crate) struct TableOf;

impl Accept for TableOf {
    type Out = ();

    fn expects(&self) -> String {
        "a table".to_owned()
    }

    fn read(&self, node: &Node) -> Result<(), Fault> {
        node.table().map(|_| ()).ok_or_else(|| not_a(node, "table"))
    }
}
