//! For a web page that needs no other file.

use crate::{Align, Item, Report, Table};
use std::fmt::Write as _;

/// Light, quiet, fit for print.
const STYLE: &str = "\
body{font:15px/1.5 system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;color:#1a1a1a;background:#fff;\
max-width:960px;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem;border-bottom:1px solid #ddd;padding-bottom:.2rem}\
table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums}\
caption{text-align:left;font-weight:600;padding:.3rem 0}\
th,td{padding:.25rem .8rem;border-bottom:1px solid #e4e4e4;text-align:left}\
th{border-bottom:2px solid #bbb}.n{text-align:right}.note{color:#555;font-size:.85rem;margin:.1rem 0}\
.wide{overflow-x:auto}figure{margin:1rem 0}svg{max-width:100%;height:auto}";

/// The whole page.
pub(crate) fn page(report: &Report) -> String {
    let title = escape(&report.title);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    for section in &report.sections {
        let _ = writeln!(out, "<section>\n<h2>{}</h2>", escape(&section.title));
        section.items.iter().for_each(|item| out.push_str(&show(item)));
        out.push_str("</section>\n");
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn show(item: &Item) -> String {
    match item {
        Item::Text(text) => format!("<p>{}</p>\n", escape(text)),
        Item::Table(table) => table.to_html(),
        Item::Plot(plot) => format!("<figure>\n{}</figure>\n", plot.to_svg()),
        Item::Heat(heat) => format!("<figure>\n{}</figure>\n", heat.to_svg()),
    }
}

/// A table and the notes below it.
pub(crate) fn table(table: &Table) -> String {
    let class = |column: usize| match table.columns[column].align {
        Align::Left => "",
        Align::Right => " class=\"n\"",
    };
    let mut out = String::from("<div class=\"wide\"><table>\n");
    if !table.title.is_empty() {
        let _ = writeln!(out, "<caption>{}</caption>", escape(&table.title));
    }
    out.push_str("<thead><tr>");
    for (i, column) in table.columns.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(i), escape(&column.name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in 0..table.rows.len() {
        out.push_str("<tr>");
        for column in 0..table.columns.len() {
            let cell = escape(&table.shown(row, column));
            let _ = write!(out, "<td{}>{cell}</td>", class(column));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    for note in table.footnotes() {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&note));
    }
    out
}

/// Text that is no markup, fit for content and attributes of HTML and XML. Characters that XML does
/// not allow become a replacement sign.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}
