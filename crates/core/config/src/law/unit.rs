//! Units that a parameter's name tells: `_s`, `_frac`, `_bytes_per_s`, `_bits_per_s`.

use crate::keys::Fault;
use crate::keys::kinds::{not_a, number_of, seconds_of};
use crate::quantity;
use crate::raw::Node;

/// The unit that a number's name tells.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Seconds,
    Fraction,
    Bytes,
    Bits,
    None,
}

impl Unit {
    pub(super) fn of(name: &str) -> Self {
        match name {
            _ if name.ends_with("bytes_per_s") => Unit::Bytes,
            _ if name.ends_with("bits_per_s") => Unit::Bits,
            _ if name.ends_with("_per_s") => Unit::None,
            _ if name.ends_with("_s") => Unit::Seconds,
            _ if name.ends_with("_frac") => Unit::Fraction,
            _ => Unit::None,
        }
    }

    pub(super) fn text(self) -> &'static str {
        match self {
            Unit::Seconds => " (seconds, or a text such as \"250ms\")",
            Unit::Fraction => " (a share, or a text such as \"40 %\")",
            Unit::Bytes => " (bytes per second, or a text such as \"40GB/s\")",
            Unit::Bits => " (bits per second, or a text such as \"7.5Gbit\")",
            Unit::None => "",
        }
    }

    pub(super) fn read(self, node: &Node) -> Result<f64, Fault> {
        let unfit = |e: quantity::QuantityError| Fault::new(node, e.problem).with_help(e.help);
        match (self, number_of(node), node.text()) {
            (_, Some(number), _) => Ok(number),
            (Unit::Seconds, None, Some(_)) => seconds_of(node),
            (Unit::Fraction, None, Some(text)) => quantity::parse_fraction(text).map_err(unfit),
            (Unit::Bytes, None, Some(text)) => {
                quantity::parse_rate(text).map(|rate| rate.0).map_err(unfit)
            }
            (Unit::Bits, None, Some(text)) => {
                quantity::parse_rate(text).map(|rate| rate.bits()).map_err(unfit)
            }
            _ => Err(not_a(node, "number")),
        }
    }
}
