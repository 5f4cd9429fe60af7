//! A histogram of a Prometheus text endpoint.

use super::LatencySource;
use quell_types::{Gap, LogHistogram, Reading, RequestReading};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// The endpoint must answer within this time, or the reading is a gap.
const PATIENCE: Duration = Duration::from_millis(100);
/// Answers beyond this size are refused.
const LARGEST: u64 = 4 << 20;
/// How many points a bucket's requests are spread over.
const SPREAD: u64 = 16;

/// Reads `metric`_bucket, _sum and _count. Buckets are in seconds, as is Prometheus' custom.
#[derive(Debug)]
pub struct PrometheusSource {
    host: String,
    path: String,
    metric: String,
    labels: BTreeMap<String, String>,
}

impl PrometheusSource {
    /// A source at `http://host:port/path`.
    ///
    /// # Errors
    /// The address is no such URL.
    pub fn new(url: &str, metric: &str, labels: BTreeMap<String, String>) -> Result<Self, String> {
        let rest = url.strip_prefix("http://");
        let rest = rest.ok_or_else(|| format!("{url}: only http:// is understood"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        Ok(Self { host, path: format!("/{path}"), metric: metric.to_owned(), labels })
    }

    fn fetch(&self) -> std::io::Result<String> {
        let none = || std::io::Error::other(format!("{} has no address", self.host));
        let address = self.host.to_socket_addrs()?.next().ok_or_else(none)?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (host, path) = (&self.host, &self.path);
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: text/plain\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(LARGEST).read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        if head.split(' ').nth(1) != Some("200") {
            let line = head.lines().next().unwrap_or("no answer");
            return Err(std::io::Error::other(format!("{host} answered {line}")));
        }
        Ok(body.to_owned())
    }
}

impl LatencySource for PrometheusSource {
    fn read(&mut self) -> Reading<RequestReading> {
        let text = self.fetch().map_err(|error| Gap::failed(format!("{}: {error}", self.host)))?;
        parse(&text, &self.metric, &self.labels)
    }
}

/// Sums the histogram's series that carry `labels`.
pub(crate) fn parse(
    text: &str,
    metric: &str,
    labels: &BTreeMap<String, String>,
) -> Reading<RequestReading> {
    let bucket = format!("{metric}_bucket");
    // Upper bounds in nanoseconds, the infinite one as u64::MAX; counts are cumulative.
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once('{') else { continue };
        let Some((found, value)) = pairs(rest) else { continue };
        let fits = labels.iter().all(|(k, v)| found.get(k.as_str()).is_some_and(|f| f == v));
        if name != bucket || !fits {
            continue;
        }
        let count = value.split_whitespace().next().and_then(|v| v.parse::<f64>().ok());
        let bound = found.get("le").and_then(|le| le.parse::<f64>().ok());
        if let (Some(bound), Some(count)) = (bound, count) {
            let ns = if bound.is_finite() { (bound.max(0.0) * 1e9) as u64 } else { u64::MAX };
            let sum = buckets.entry(ns).or_default();
            *sum = sum.saturating_add(count.max(0.0) as u64);
        }
    }
    if buckets.is_empty() {
        return Err(Gap::absent(format!("the endpoint has no histogram {metric}")));
    }
    let mut latency = LogHistogram::new();
    let (mut below, mut lower) = (0, 0);
    for (&upper, &count) in &buckets {
        spread(&mut latency, lower, upper, count.saturating_sub(below));
        (below, lower) = (count.max(below), upper);
    }
    Ok(RequestReading { requests: below, bytes_in: 0, bytes_out: 0, latency_ns: Ok(latency) })
}

/// `name="value",…}` with the escapes of the text format, and what follows the brace: the value,
/// and maybe a time and an exemplar, which has braces of its own. None if no brace ends it.
fn pairs(inside: &str) -> Option<(BTreeMap<&str, String>, &str)> {
    let mut found = BTreeMap::new();
    let mut rest = inside;
    loop {
        let end = rest.find(['"', '}'])?;
        if rest[end..].starts_with('}') {
            return Some((found, &rest[end + 1..]));
        }
        let (value, after) = quoted(&rest[end + 1..])?;
        found.insert(rest[..end].trim_matches([',', ' ', '=']), value);
        rest = after;
    }
}

/// A text up to its closing quote, and what follows that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.extend(chars.next().map(|(_, c)| if c == 'n' { '\n' } else { c })),
            '"' => return Some((value, &text[at + 1..])),
            c => value.push(c),
        }
    }
    None
}

/// A bucket's requests lie anywhere between its bounds: they are spread evenly.
fn spread(latency: &mut LogHistogram, lower: u64, upper: u64, count: u64) {
    let upper = if upper == u64::MAX { lower.saturating_mul(2).max(1) } else { upper };
    let points = SPREAD.min(count.max(1));
    for point in 0..points {
        let share = count / points + u64::from(point < count % points);
        let width = upper.saturating_sub(lower);
        latency.record_many(lower + width / points * point + width / points / 2, share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP d seconds\n# TYPE d histogram\n\
        d_bucket{path=\"/a\",le=\"0.001\"} 10\n\
        d_bucket{path=\"/a\",le=\"0.01\"} 90\n\
        d_bucket{path=\"/a\",le=\"+Inf\"} 100\n\
        d_bucket{path=\"/b \\\"x\\\"\",le=\"0.001\"} 5\n\
        d_bucket{path=\"/b \\\"x\\\"\",le=\"+Inf\"} 5\n\
        d_sum{path=\"/a\"} 1.5\nother_bucket{le=\"1\"} 7\nbroken{\n";

    #[test]
    fn a_histogram_is_read_with_and_without_labels() {
        let all = parse(TEXT, "d", &BTreeMap::new()).unwrap();
        assert_eq!(all.requests, 105);
        let label = |v: &str| BTreeMap::from([("path".to_string(), v.to_string())]);
        let a = parse(TEXT, "d", &label("/a")).unwrap();
        assert_eq!(a.requests, 100);
        let p50 = a.latency_ns.unwrap().quantile(0.5).unwrap();
        assert!((1e6..1e7).contains(&p50), "{p50}");
        assert_eq!(parse(TEXT, "d", &label("/b \"x\"")).unwrap().requests, 5);
        assert!(parse(TEXT, "missing", &BTreeMap::new()).is_err());
    }

    #[test]
    fn times_exemplars_and_braces_in_labels_do_not_count() {
        let text = "d_bucket{path=\"/}\",le=\"1\"} 3 1700000000 # {trace_id=\"a}\"} 0.5 7\n\
                    d_bucket{path=\"/}\",le=\"+Inf\"} 4 # {trace_id=\"b\"} 9\n\
                    d_bucket{path=\"open,le=\"2\"} 9\n";
        assert_eq!(parse(text, "d", &BTreeMap::new()).unwrap().requests, 4);
        let label = BTreeMap::from([("path".to_string(), "/}".to_string())]);
        assert_eq!(parse(text, "d", &label).unwrap().requests, 4);
    }

    #[test]
    fn absurd_counts_are_no_overflow() {
        let text = "d_bucket{le=\"1\"} 1e30\n".repeat(3) + "d_bucket{le=\"+Inf\"} 1e30\n";
        assert_eq!(parse(&text, "d", &BTreeMap::new()).unwrap().requests, u64::MAX);
    }

    #[test]
    fn what_cannot_be_reached_is_a_gap() {
        let mut source =
            PrometheusSource::new("http://127.0.0.1:9/m", "d", BTreeMap::new()).unwrap();
        assert!(matches!(source.read(), Err(Gap::Failed(_))));
        assert!(PrometheusSource::new("ftp://x", "d", BTreeMap::new()).is_err());
    }
}
