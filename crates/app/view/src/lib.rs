//! One view model for the terminal, for web pages and for reports.
//!
//! A [`Table`] or [`Plot`] says what is to be seen, not how. It is rendered as text for a terminal,
//! as Markdown for documents, as SVG, or as a self-contained HTML page ([`Report`]). Everything here
//! is pure but [`Report::write`].
//!
//! Invariant: what is missing is drawn as a gap and named with its reason, never as 0.

mod heat;
mod html;
mod number;
mod plot;
mod report;
mod scale;
mod svg;
mod table;
mod text;

pub use heat::Heat;
pub use plot::{Axis, Colour, Mark, Plot, Range, Series, Span, Style};
pub use report::{Item, Report, Section};
pub use table::{Align, Cell, Column, Table};
