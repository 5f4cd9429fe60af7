//! Configuration: text -> [`Raw`] -> [`Checked`] -> [`Resolved`].
//!
//! * [`Raw`] is what a file or the flags say, each value with its place.
//! * [`Checked`] has names, types, ranges and references right ([`Raw::check`]).
//! * [`Resolved`] fits the machine ([`resolve`]): the setup of the control laws and the bindings
//!   to groups that really exist.
//!
//! Every step tells all its errors at once, each with line, column, key, what is wrong and what
//! would be right. Nothing is silently ignored: a key that is not known is an error.
//!
//! Invariant: pure. Files are read, groups looked up and laws known by the caller.

mod check;
mod checked;
mod docs;
mod error;
mod keys;
mod law;
mod nearest;
mod quantity;
mod raw;
mod resolve;
mod spot;

pub use checked::{
    AgentConfig, BatchConfig, Checked, Experiments, ForeignChange, LatencySource, LinkConfig,
    Metrics, Selector, ServiceConfig,
};
pub use docs::{example, key_table};
pub use error::{ConfigError, ConfigErrors};
pub use law::{Bounds, Laws, Param, ParamKind, ParamSchema, SchemaError};
pub use nearest::suggestion;
pub use quantity::{
    QuantityError, format_duration, parse_duration, parse_fraction, parse_rate, parse_size,
};
pub use raw::{Flags, Raw};
pub use resolve::{
    Binding, Controller, Found, GroupBinding, Machine, Needs, Resolved, Role, resolve,
};
pub use spot::Origin;
