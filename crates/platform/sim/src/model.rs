//! The hardware as functions of numbers: nothing here knows of tenants, knobs or time of day.

pub(crate) mod cache;
pub(crate) mod egress;
pub(crate) mod memory;
pub(crate) mod power;
