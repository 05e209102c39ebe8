//! Formatting for people: HTML escaping, numbers with units, names, command lines.

use std::fmt::Write as _;

/// Text that is safe in HTML, also within quoted attributes. Control characters other than line
/// breaks and tabs, which HTML does not allow, and what turns the direction of letters become the
/// replacement character.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                out.push('\u{fffd}');
            }
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A text with its first letter large.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}

/// A number with a fixed count of decimals and a typographic minus; never `-0`.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "n/a".to_owned();
    }
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(digits) if digits.bytes().all(|b| b == b'0' || b == b'.') => digits.to_owned(),
        Some(digits) => format!("\u{2212}{digits}"),
        None => text,
    }
}

/// A number with about four significant digits.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || value == 0.0 {
        return fixed(value, 0);
    }
    if value.fract() == 0.0 && size < 1e7 {
        return thousands(value);
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{value:.2e}").replace('-', "\u{2212}");
    }
    let decimals = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
    fixed(value, decimals)
}

/// A round number with the decimals that it has, without the noise of sums.
pub(crate) fn plain(value: f64) -> String {
    let digits = if value.abs() < 0.01 { 1e9 } else { 1e3 };
    ((value * digits).round() / digits + 0.0).to_string().replace('-', "\u{2212}")
}

/// A measured value, for tables: numbers of one kind with the same decimals, whole ones too, four of them below 10.
/// Counts are for [`number`].
pub(crate) fn measured(values: &[f64]) -> Vec<String> {
    let sizes = values.iter().map(|v| v.abs()).filter(|v| v.is_finite());
    let largest = sizes.fold(0.0, f64::max);
    let decimals = match largest {
        0.0 => 0,
        v if !(1e-4..1e7).contains(&v) => return values.iter().map(|&v| number(v)).collect(),
        v if v < 0.01 => (3 - v.log10().floor() as i32) as usize,
        v if v < 10.0 => 4,
        v if v < 1e3 => 2,
        _ => return values.iter().map(|v| thousands(v.round())).collect(),
    };
    values.iter().map(|&v| fixed(v, decimals)).collect()
}

/// A whole number with thin spaces between the thousands.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    if value < 0.0 && digits != "0" {
        out.push('\u{2212}');
    }
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && digits.len() > 4 && (digits.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(c);
    }
    out
}

/// A time with its unit.
pub(crate) fn seconds(value: f64) -> String {
    if !value.is_finite() {
        "n/a".to_owned()
    } else if value < 0.9995 {
        format!("{} ms", fixed(value * 1e3, if value < 0.01 { 2 } else { 0 }))
    } else if value < 120.0 {
        format!("{} s", fixed(value, 2))
    } else {
        format!("{} min", fixed(value / 60.0, 1))
    }
}

/// A memory size with its unit.
pub(crate) fn bytes(value: u64) -> String {
    let mib = value as f64 / f64::from(1u32 << 20);
    if mib < 1024.0 {
        format!("{} MiB", fixed(mib, if mib < 10.0 { 1 } else { 0 }))
    } else {
        format!("{} GiB", fixed(mib / 1024.0, 2))
    }
}

/// A command as one would type it into a POSIX shell.
pub(crate) fn shell(command: &[String]) -> String {
    let mut out = String::new();
    for word in command {
        if !out.is_empty() {
            out.push(' ');
        }
        let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            out.push_str(word);
        } else {
            let _ = write!(out, "'{}'", word.replace('\'', r"'\''"));
        }
    }
    out
}

/// A field name as a heading: `ncc_after` becomes `NCC after`.
pub(crate) fn title(name: &str) -> String {
    const ACRONYMS: [&str; 12] =
        ["ncc", "lncc", "mi", "nmi", "cr", "ssd", "mse", "rmse", "rms", "psnr", "cpu", "ct"];
    const UNITS: [&str; 5] = ["mm", "degrees", "seconds", "percent", "nats"];
    if let Some((stem, unit)) = name.rsplit_once('_')
        && UNITS.contains(&unit)
    {
        return format!("{}, {unit}", title(stem));
    }
    let mut words: Vec<String> = Vec::new();
    for word in name.split(['_', ' ']).filter(|w| !w.is_empty()) {
        if ACRONYMS.contains(&word) {
            words.push(word.to_uppercase());
        } else if word == "xray" {
            words.push("X-ray".to_owned());
        } else if words.is_empty() {
            words.push(sentence(word));
        } else {
            words.push(word.to_owned());
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes_the_escaping() {
        assert_eq!(escape("<a href='x'>&\"\u{0}"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}");
        assert_eq!(escape("Grö\n\tße"), "Grö\n\tße");
        for odd in ['\u{0}', '\u{7}', '\u{1b}', '\u{85}', '\u{2028}', '\u{202e}', '\u{2066}'] {
            assert_eq!(escape(&format!("a{odd}b")), "a\u{fffd}b", "{odd:?}");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(fixed(-0.001, 2), "0.00");
        assert_eq!(fixed(-1.5, 1), "\u{2212}1.5");
        assert_eq!(fixed(f64::NAN, 1), "n/a");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(0.123_456), "0.1235");
        assert_eq!(number(12.345_6), "12.35");
        assert_eq!(number(1e-9), "1.00e\u{2212}9");
        assert_eq!(number(f64::INFINITY), "n/a");
        assert_eq!(thousands(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(
            [0.75, -3.0, 0.1 + 0.2, 2e-4].map(plain),
            ["0.75", "\u{2212}3", "0.3", "0.0002"]
        );
        assert_eq!(thousands(-1234.0), "\u{2212}1234");
        assert_eq!(seconds(0.25), "250 ms");
        assert_eq!(seconds(180.0), "3.0 min");
        assert_eq!(bytes(5 << 30), "5.00 GiB");
    }

    #[test]
    fn numbers_of_a_kind_look_alike() {
        let said = |values: &[f64]| measured(values).join(" ");
        assert_eq!(said(&[1.0]), "1.0000");
        assert_eq!(said(&[0.99996]), "1.0000");
        assert_eq!(said(&[1.00004]), "1.0000");
        assert_eq!(said(&[0.05123, 1.2345678]), "0.0512 1.2346");
        assert_eq!(said(&[0.001234]), "0.001234");
        assert_eq!(said(&[12.5, 170.0]), "12.50 170.00");
        assert_eq!(said(&[-12345.6, 1.0]), "\u{2212}12\u{202f}346 1");
        assert_eq!(said(&[0.0, f64::NAN]), "0 n/a");
        assert_eq!(said(&[1e-9, 0.0]), "1.00e\u{2212}9 0");
    }

    #[test]
    fn commands_can_be_pasted() {
        let words = ["voxalign", "affine", "a b.nii", "it's", ""].map(str::to_owned);
        assert_eq!(shell(&words), r"voxalign affine 'a b.nii' 'it'\''s' ''");
    }

    #[test]
    fn titles() {
        assert_eq!(title("label_overlap"), "Label overlap");
        assert_eq!(title("ncc"), "NCC");
        assert_eq!(title("ct"), "CT");
        assert_eq!(title("xray"), "X-ray");
        assert_eq!(title("inverse_consistency_mm"), "Inverse consistency, mm");
        assert_eq!(title("overlap of the fields of view"), "Overlap of the fields of view");
    }
}
