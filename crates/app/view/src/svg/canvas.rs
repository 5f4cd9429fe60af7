//! Writing SVG elements.

use super::INK;
use super::layout::{Layout, fit, px, text_width};
use crate::Plot;
use crate::html::escape;
use std::fmt::Write as _;

/// Where a text is anchored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text to be written.
pub(crate) struct Label<'a> {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) size: f64,
    pub(crate) anchor: Anchor,
    pub(crate) colour: &'a str,
    pub(crate) text: &'a str,
}

/// The picture so far.
pub(crate) struct Canvas {
    out: String,
    /// Left, top, right and bottom of the texts that are written where room is found.
    taken: Vec<[f64; 4]>,
}

impl Canvas {
    /// Background, fonts and the description for those who cannot see it.
    pub(crate) fn new(layout: &Layout, plot: &Plot) -> Canvas {
        let (width, height) = (layout.width, layout.height);
        let names: Vec<&str> = plot.series.iter().map(|series| series.name.as_str()).collect();
        let what = format!("{} over {}: {}", plot.y.label, plot.x.label, names.join(", "));
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\" \
             font-family=\"DejaVu Sans, Verdana, Helvetica, Arial, sans-serif\">\n\
             <title>{}</title>\n<desc>{}</desc>\n",
            escape(&plot.title),
            escape(&what)
        );
        let _ = writeln!(out, "<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>");
        Canvas { out, taken: Vec::new() }
    }

    pub(crate) fn title(&mut self, layout: &Layout, title: &str) {
        let room = layout.width - layout.left - 16.0;
        let _ = writeln!(
            self.out,
            "<text x=\"{}\" y=\"26\" font-size=\"16\" font-weight=\"600\" fill=\"{INK}\">{}</text>",
            px(layout.left),
            escape(&fit(title, 17.5, room))
        );
    }

    pub(crate) fn text(&mut self, label: &Label<'_>) {
        self.turned(label, 0.0);
    }

    /// A text, centred, unless it would touch another one written this way. Whether it was written.
    pub(crate) fn text_if_free(&mut self, label: &Label<'_>) -> bool {
        let half = text_width(label.text, label.size) / 2.0;
        let area = [label.x - half, label.y - label.size, label.x + half, label.y + 2.0];
        let [left, top, right, bottom] = area;
        let hits = |[l, t, r, b]: &[f64; 4]| left < *r && *l < right && top < *b && *t < bottom;
        let free = !self.taken.iter().any(hits);
        if free {
            self.taken.push(area);
            self.text(label);
        }
        free
    }

    /// A text turned about its anchor by so many degrees.
    pub(crate) fn turned(&mut self, label: &Label<'_>, degrees: f64) {
        if label.text.trim().is_empty() {
            return;
        }
        let (x, y) = (px(label.x), px(label.y));
        let anchor = match label.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let turn = match degrees {
            0.0 => String::new(),
            degrees => format!(" transform=\"rotate({degrees} {x} {y})\""),
        };
        let _ = writeln!(
            self.out,
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{}\"{anchor} fill=\"{}\"{turn}>{}</text>",
            label.size,
            label.colour,
            escape(label.text)
        );
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, dash: &str) {
        let dash = match dash {
            "" => String::new(),
            dash => format!(" stroke-width=\"1.5\" stroke-dasharray=\"{dash}\""),
        };
        let (x1, y1, x2, y2) = (px(from.0), px(from.1), px(to.0), px(to.1));
        let _ = writeln!(
            self.out,
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" stroke=\"{colour}\"{dash}/>"
        );
    }

    /// A filled rectangle; `tip` is shown when pointed at.
    pub(crate) fn rect(&mut self, corner: (f64, f64), size: (f64, f64), fill: &str, tip: &str) {
        let (x, y, width, height) = (px(corner.0), px(corner.1), px(size.0), px(size.1));
        let _ = write!(
            self.out,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{fill}\""
        );
        if tip.is_empty() {
            self.out.push_str("/>\n");
        } else {
            let _ = writeln!(self.out, "><title>{}</title></rect>", escape(tip));
        }
    }

    pub(crate) fn path(&mut self, points: &[(f64, f64)], colour: &str) {
        let mut d = String::new();
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{} {}", if i == 0 { "M" } else { " L" }, px(*x), px(*y));
        }
        let _ = writeln!(
            self.out,
            "<path d=\"{d}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\"/>"
        );
    }

    pub(crate) fn dot(&mut self, at: (f64, f64), radius: f64, colour: &str) {
        let (x, y) = (px(at.0), px(at.1));
        let _ =
            writeln!(self.out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{colour}\"/>");
    }

    pub(crate) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }
}
