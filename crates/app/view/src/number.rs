//! Numbers for readers.

/// A number with three significant digits or so, without needless zeros: 0.0123, 4.56, 78.9, 1235,
/// 12.3 k, 4.5 M.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    if size >= 1e15 {
        return format!("{value:.1e}");
    }
    if size < 10_000.0 {
        let digits = match size {
            0.0 => 0,
            size if size < 0.001 => return format!("{value:.1e}"),
            size if size < 1.0 => 3,
            size if size < 10.0 => 2,
            size if size < 100.0 => 1,
            _ => 0,
        };
        return trim(format!("{value:.digits$}"));
    }
    let (unit, suffix) = prefix(size);
    let digits = if size / unit < 100.0 { 1 } else { 0 };
    format!("{}{suffix}", trim(format!("{:.digits$}", value / unit)))
}

/// The power of a thousand that suits a number, with its sign: (1e6, " M").
pub(crate) fn prefix(size: f64) -> (f64, &'static str) {
    match size {
        size if size >= 1e15 => (1.0, ""),
        size if size >= 1e12 => (1e12, " T"),
        size if size >= 1e9 => (1e9, " G"),
        size if size >= 1e6 => (1e6, " M"),
        size if size >= 1e4 => (1e3, " k"),
        _ => (1.0, ""),
    }
}

/// Labels of the ticks of one axis: all in the same unit, with as many digits as it takes to tell
/// them apart.
pub(crate) fn ticks(values: &[f64]) -> Vec<String> {
    let largest = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    if largest >= 1e15 || (largest > 0.0 && largest < 1e-4) {
        return values.iter().map(|value| format!("{value:.1e}")).collect();
    }
    let (unit, suffix) = prefix(largest);
    let exact = |digits: usize| {
        let close = |value: &f64| {
            let text = format!("{:.digits$}", value / unit);
            let back = text.parse::<f64>().unwrap_or(f64::NAN) * unit;
            (back - value).abs() <= largest * 1e-6
        };
        values.iter().all(close)
    };
    let digits = (0..8).find(|&digits| exact(digits)).unwrap_or(8);
    let label = |value: &f64| {
        let number = format!("{:.digits$}", value / unit);
        // Rounding must not leave a negative zero.
        let number = if number.parse() == Ok(0.0) { "0".to_owned() } else { number };
        if number == "0" { number } else { format!("{number}{suffix}") }
    };
    values.iter().map(label).collect()
}

/// Labels of the ticks of an axis: each for itself on a logarithmic one, where they lie decades
/// apart.
pub(crate) fn axis(values: &[f64], log: bool) -> Vec<String> {
    if !log {
        return ticks(values);
    }
    let label = |&value: &f64| match value {
        value if (1e-4..1e4).contains(&value) => trim(format!("{value:.5}")),
        value if (1e4..1e15).contains(&value) => short(value),
        value => format!("{value:.0e}"),
    };
    values.iter().map(label).collect()
}

/// Without zeros at the end of a fraction.
fn trim(number: String) -> String {
    if !number.contains('.') {
        return number;
    }
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_digits_are_enough() {
        for (value, text) in [
            (0.0, "0"),
            (0.01234, "0.012"),
            (0.5, "0.5"),
            (4.5678, "4.57"),
            (78.94, "78.9"),
            (1234.5, "1234"),
            (12_345.0, "12.3 k"),
            (456_000.0, "456 k"),
            (-4_500_000.0, "-4.5 M"),
            (3e10, "30 G"),
            (1e-5, "1.0e-5"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(short(value), text, "{value}");
        }
    }

    #[test]
    fn ticks_of_a_logarithm_stand_alone() {
        let labels = axis(&[1e-7, 0.002, 0.5, 1.0, 200.0, 5e4, 2e6, 1e18], true);
        assert_eq!(labels, ["1e-7", "0.002", "0.5", "1", "200", "50 k", "2 M", "1e18"]);
    }

    #[test]
    fn ticks_share_their_unit() {
        for (values, labels) in [
            (vec![0.0, 0.5, 1.0], vec!["0", "0.5", "1.0"]),
            (vec![0.0, 20_000.0, 40_000.0], vec!["0", "20 k", "40 k"]),
            (vec![-1.0, 0.0, 1.0], vec!["-1", "0", "1"]),
            (vec![0.0, 2.5e9, 5e9], vec!["0", "2.5 G", "5.0 G"]),
            (vec![0.0, 1e-6], vec!["0.0e0", "1.0e-6"]),
        ] {
            assert_eq!(ticks(&values), labels, "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn any_number_has_a_short_form(value in any::<f64>()) {
            prop_assert!(short(value).chars().count() <= 9, "{}", short(value));
        }
    }
}
