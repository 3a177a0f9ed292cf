//! Numbers as people read them: grouped by thin spaces, with SI prefixes and a true minus sign.

/// Separates groups of digits, and a number from its prefix: narrow, and never a line break.
const THIN_SPACE: char = '\u{202f}';
const MINUS: char = '\u{2212}';

/// From here on a prefix is easier to read than digits.
const PREFIX_FROM: f64 = 1e6;
/// Below this, too.
const PREFIX_BELOW: f64 = 1e-3;
const PREFIXES: [(f64, &str); 9] = [
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1e0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
];

/// A value for a tooltip or a bar: about three significant digits.
pub(crate) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let (scale, prefix) = prefix_for(value.abs());
    let Some(scale) = scale else { return scientific(value) };
    let scaled = value / scale;
    let decimals = match scaled.abs() {
        size if size >= 100.0 || size == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size => (2.0 - size.log10().floor()).clamp(0.0, 6.0) as usize,
    };
    let text = grouped(scaled, decimals);
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    with_prefix(text.to_owned(), prefix)
}

/// A figure with its unit; degrees and primes have no space before them.
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "" => figure(value),
        unit if unit.starts_with(['°', '′', '″']) => format!("{}{unit}", figure(value)),
        unit => format!("{}{THIN_SPACE}{unit}", figure(value)),
    }
}

/// A power of ten with a raised exponent.
pub(crate) fn power_of_ten(exponent: i32) -> String {
    let raised = |c: char| match c.to_digit(10) {
        Some(digit) => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize],
        None => '⁻',
    };
    format!("10{}", exponent.to_string().chars().map(raised).collect::<String>())
}

/// The labels of evenly spaced ticks: all with the same prefix and the same number of decimals.
/// `exponent` is the power of ten of the step.
pub(crate) fn tick_labels(ticks: &[f64], exponent: i32) -> Vec<String> {
    let greatest = ticks.iter().fold(0.0_f64, |greatest, tick| greatest.max(tick.abs()));
    let (scale, prefix) = prefix_for(greatest);
    let Some(scale) = scale else { return ticks.iter().map(|&tick| scientific(tick)).collect() };
    let decimals = (scale.log10().round() as i32 - exponent).clamp(0, 12) as usize;
    let label = |&tick: &f64| match tick {
        0.0 => "0".to_owned(),
        tick => with_prefix(grouped(tick / scale, decimals), prefix),
    };
    ticks.iter().map(label).collect()
}

/// The scale and prefix that fit a size; no scale beyond the common prefixes.
fn prefix_for(size: f64) -> (Option<f64>, &'static str) {
    if size == 0.0 || (PREFIX_BELOW..PREFIX_FROM).contains(&size) {
        return (Some(1.0), "");
    }
    // The tolerance lets 999.9999… count as a full thousand.
    let fitting = PREFIXES.iter().find(|(scale, _)| size * (1.0 + 1e-9) >= *scale);
    match fitting {
        Some(&(scale, prefix)) if size < scale * 1e4 => (Some(scale), prefix),
        _ => (None, ""),
    }
}

fn with_prefix(number: String, prefix: &str) -> String {
    if prefix.is_empty() { number } else { format!("{number}{THIN_SPACE}{prefix}") }
}

fn scientific(value: f64) -> String {
    let text = format!("{value:.2e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    format!("{mantissa}e{exponent}").replace('-', &MINUS.to_string())
}

fn grouped(value: f64, decimals: usize) -> String {
    let digits = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut text = String::new();
    if value < 0.0 && digits.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        text.push(MINUS);
    }
    // Four digits are easy to read; a gap helps from five on.
    let spaced = whole.len() > 4;
    for (index, digit) in whole.chars().enumerate() {
        if spaced && index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(THIN_SPACE);
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_about_three_digits_and_a_prefix_where_it_helps() {
        let shown = [0.0, 1.0, 12.345, 123.4, 1234.5, 12_345.0, -0.5, 2.5e6, 3.1e9, 4.2e-5, 0.0123]
            .map(figure);
        let expected = [
            "0",
            "1",
            "12.3",
            "123",
            "1234",
            "12\u{202f}345",
            "\u{2212}0.5",
            "2.5\u{202f}M",
            "3.1\u{202f}G",
            "42\u{202f}µ",
            "0.0123",
        ];
        assert_eq!(shown, expected);
        assert_eq!(figure(f64::NAN), "–");
        assert_eq!(figure(1e40), "1e40");
    }

    #[test]
    fn units_and_powers_are_set_as_in_print() {
        assert_eq!(with_unit(0.44, "°"), "0.44°");
        assert_eq!(with_unit(3.0, "kB/s"), "3\u{202f}kB/s");
        assert_eq!(with_unit(3.0, ""), "3");
        assert_eq!([power_of_ten(-12), power_of_ten(0)], ["10⁻¹²", "10⁰"]);
    }

    #[test]
    fn tick_labels_share_decimals_and_prefix() {
        assert_eq!(tick_labels(&[0.0, 0.5, 1.0], -1), ["0", "0.5", "1.0"]);
        assert_eq!(tick_labels(&[-5.0, 0.0, 5.0], 0), ["\u{2212}5", "0", "5"]);
        let millions = tick_labels(&[0.0, 500_000.0, 1_000_000.0], 5);
        assert_eq!(millions, ["0", "0.5\u{202f}M", "1.0\u{202f}M"]);
    }
}
