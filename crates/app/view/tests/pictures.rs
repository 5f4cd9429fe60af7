//! Whatever is plotted, the picture is sound: well-formed, finite, and no words lie on others.

// Clippy allows it in test functions only, not in what they call.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use quell_view::{Cell, Mark, Plot, Range, Report, Section, Series, Span, Style, Table};

/// A text's box: left, top, right, bottom.
struct Words {
    text: String,
    area: [f64; 4],
}

/// The texts of a picture that are not turned, with the room that they take in a common font.
fn words(svg: &str) -> Vec<Words> {
    let document = roxmltree::Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    let level = texts.filter(|node| node.attribute("transform").is_none());
    let number = |node: &roxmltree::Node<'_, '_>, name| -> f64 {
        node.attribute(name).unwrap().parse().unwrap()
    };
    let place = |node: roxmltree::Node<'_, '_>| {
        let text = node.text().unwrap_or_default().to_owned();
        let (x, y, size) = (number(&node, "x"), number(&node, "y"), number(&node, "font-size"));
        let wide = text.chars().map(em).sum::<f64>() * size;
        let left = match node.attribute("text-anchor") {
            Some("middle") => x - wide / 2.0,
            Some("end") => x - wide,
            _ => x,
        };
        Words { text, area: [left, y - size * 0.75, left + wide, y + size * 0.2] }
    };
    level.map(place).collect()
}

/// The width of a letter in DejaVu Sans, about, as a share of the size.
fn em(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 'f' | 't' | 'r' | ' ' | '!'..='/' | ':' | ';' | 'I' | '|' | '[' | ']' => {
            0.38
        }
        _ => 0.6,
    }
}

fn overlap(a: &Words, b: &Words) -> bool {
    let ([l1, t1, r1, b1], [l2, t2, r2, b2]) = (a.area, b.area);
    l1 < r2 && l2 < r1 && t1 < b2 && t2 < b1
}

/// Parses, looks for words on words and outside, and for numbers that are none.
fn check(plot: &Plot) -> Result<(), TestCaseError> {
    let svg = plot.to_svg();
    prop_assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
    let (document, words) = (roxmltree::Document::parse(&svg).unwrap(), words(&svg));
    let root = document.root_element();
    let size = |name| root.attribute(name).unwrap().parse::<f64>().unwrap();
    for (i, one) in words.iter().enumerate() {
        let [left, top, right, bottom] = one.area;
        let inside =
            left > -1.0 && top >= 0.0 && right < size("width") + 1.0 && bottom <= size("height");
        prop_assert!(inside, "{:?} is outside: {:?}\n{svg}", one.text, one.area);
        for other in &words[i + 1..] {
            prop_assert!(!overlap(one, other), "{:?} lies on {:?}\n{svg}", one.text, other.text);
        }
    }
    Ok(())
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        5 => -10.0..1000.0f64,
        2 => -1e9..1e9f64,
        1 => 0.0..1e-6f64,
        1 => any::<f64>(),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z0-9 ]{0,12}", 1 => "[a-z<>&\"']{0,90}", 1 => "[ -~]{0,60}"]
}

fn style() -> impl Strategy<Value = Style> {
    prop_oneof![Just(Style::Line), Just(Style::Step), Just(Style::Points), Just(Style::Bars)]
}

prop_compose! {
    fn series()(name in name(), style in style(), colour in proptest::option::of(any::<u8>()),
                points in proptest::collection::vec((number(), number()), 0..30)) -> Series {
        let series = Series::new(name, style, points);
        match colour {
            Some(colour) => series.coloured(colour),
            None => series,
        }
    }
}

prop_compose! {
    fn any_plot()(
        (title, x, y) in (name(), name(), name()),
        (x_log, y_log) in any::<(bool, bool)>(),
        range in proptest::option::of((number(), number())),
        series in proptest::collection::vec(series(), 0..9),
        categories in prop_oneof![2 => Just(Vec::new()), 1 => proptest::collection::vec(name(), 0..12)],
        h_lines in proptest::collection::vec((number(), name()), 0..6),
        v_lines in proptest::collection::vec((number(), name()), 0..6),
        spans in proptest::collection::vec((number(), number(), name()), 0..6),
    ) -> Plot {
        let mut plot = Plot::new(title, x, y);
        (plot.x.log, plot.y.log) = (x_log, y_log);
        plot.y.range = range.map(|(low, high)| Range { low, high });
        (plot.series, plot.categories) = (series, categories);
        let mark = |(at, label)| Mark { at, label };
        plot.h_lines = h_lines.into_iter().map(mark).collect();
        plot.v_lines = v_lines.into_iter().map(mark).collect();
        plot.spans = spans.into_iter().map(|(from, to, label)| Span { from, to, label }).collect();
        plot
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_plot_is_a_sound_picture(plot in any_plot()) {
        check(&plot)?;
    }

    #[test]
    fn any_plot_fits_a_terminal(plot in any_plot(), width in 0usize..140) {
        let text = plot.to_text(width);
        // Labels, legends and narrow terminals aside, the chart keeps to its width.
        for line in text.lines().filter(|line| line.contains('│') || line.contains('┤')) {
            prop_assert!(line.chars().count() <= width.max(36), "{width}: {line:?}");
        }
    }

    #[test]
    fn any_table_is_rendered(cells in proptest::collection::vec(
        proptest::collection::vec(prop_oneof![".{0,20}".prop_map(Cell::from),
            any::<f64>().prop_map(|v| Cell::number(v, 2))], 0..6), 0..6)) {
        let mut table = Table::new("t", &["a", "b>", "c<>"]);
        cells.into_iter().for_each(|row| table.push(row));
        let rows = table.rows.len();
        prop_assert!(table.to_text().lines().count() >= rows + 3);
        prop_assert!(table.to_markdown().lines().count() >= rows + 2);
        let page = Report::new("r").with(Section::new("s").with(table)).to_html();
        let body = &page[page.find("<body>").unwrap()..page.find("</html>").unwrap()];
        prop_assert!(roxmltree::Document::parse(body).is_ok(), "{body}");
    }
}

#[test]
fn a_table_says_why_something_is_missing_once() {
    let mut table = Table::new("t", &["a", "b>"]);
    for _ in 0..3 {
        table.push(["x".into(), Cell::Missing("absent: no PMU".into())]);
    }
    for text in [table.to_text(), table.to_markdown(), table.to_html()] {
        assert_eq!(text.matches("absent: no PMU").count(), 1, "{text}");
    }
}

#[test]
fn a_gap_breaks_the_line() {
    let gap = [(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 1.0)];
    let mut plot = Plot::new("t", "x", "y");
    plot.series.push(Series::new("", Style::Line, gap));
    assert_eq!(plot.to_svg().matches("<path").count(), 2);
}
