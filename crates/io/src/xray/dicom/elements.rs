//! Writing elements of DICOM data sets: explicit VR, little-endian (PS3.5, 7.1.2).

/// Elements in the order of their tags.
#[derive(Debug, Default)]
pub(super) struct Elements(pub(super) Vec<u8>);

impl Elements {
    fn start(&mut self, tag: u32, kind: &[u8; 2]) {
        self.0.extend(((tag >> 16) as u16).to_le_bytes());
        self.0.extend((tag as u16).to_le_bytes());
        self.0.extend(kind);
    }

    /// A value of at most 64 KiB.
    fn short(&mut self, tag: u32, kind: &[u8; 2], bytes: &[u8], filler: u8) {
        self.start(tag, kind);
        let odd = bytes.len() % 2;
        let length = u16::try_from(bytes.len() + odd).unwrap_or(u16::MAX - 1);
        self.0.extend(length.to_le_bytes());
        self.0.extend(&bytes[..usize::from(length) - odd]);
        self.0.extend(vec![filler; odd]);
    }

    /// A text that is filled up with a blank.
    pub(super) fn text(&mut self, tag: u32, kind: &[u8; 2], text: &str) {
        self.short(tag, kind, text.as_bytes(), b' ');
    }

    /// A text in the character set of the data set, likewise.
    pub(super) fn encoded(&mut self, tag: u32, kind: &[u8; 2], bytes: &[u8]) {
        self.short(tag, kind, bytes, b' ');
    }

    pub(super) fn uid(&mut self, tag: u32, uid: &str) {
        self.short(tag, b"UI", uid.as_bytes(), 0);
    }

    pub(super) fn u16(&mut self, tag: u32, value: u16) {
        self.short(tag, b"US", &value.to_le_bytes(), 0);
    }

    pub(super) fn i16(&mut self, tag: u32, value: i16) {
        self.short(tag, b"SS", &value.to_le_bytes(), 0);
    }

    pub(super) fn u32(&mut self, tag: u32, value: u32) {
        self.short(tag, b"UL", &value.to_le_bytes(), 0);
    }

    /// The tag of another element.
    pub(super) fn tag(&mut self, tag: u32, other: u32) {
        let halves = [(other >> 16) as u16, other as u16].map(u16::to_le_bytes);
        self.short(tag, b"AT", halves.as_flattened(), 0);
    }

    /// Numbers as text of at most 16 letters each.
    pub(super) fn decimals(&mut self, tag: u32, numbers: &[f64]) {
        let words: Vec<String> = numbers.iter().map(|&v| decimal(v)).collect();
        self.text(tag, b"DS", &words.join("\\"));
    }

    /// The beginning of a value of so many bytes that follow.
    pub(super) fn long(&mut self, tag: u32, kind: &[u8; 2], length: u32) {
        self.start(tag, kind);
        self.0.extend([0, 0]);
        self.0.extend(length.to_le_bytes());
    }
}

/// A number in at most 16 letters (PS3.5, 6.2), as near as that goes.
pub(super) fn decimal(value: f64) -> String {
    // Adding zero makes a negative zero positive.
    let value = value + 0.0;
    let fits = |text: &String| text.len() <= 16;
    if let Some(exact) = [value.to_string(), format!("{value:e}")].into_iter().find(fits) {
        return exact;
    }
    let fixed = (0..16).rev().map(|digits| format!("{value:.digits$}")).find(fits);
    let fixed = fixed.map(|text| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    });
    let scientific = (0..16).rev().map(|digits| format!("{value:.digits$e}")).find(fits);
    let error = |text: &String| text.parse().map_or(f64::MAX, |v: f64| (v - value).abs());
    [fixed, scientific]
        .into_iter()
        .flatten()
        .min_by(|a, b| error(a).total_cmp(&error(b)))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_as_dicom_has_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.5, "1.5"),
            (1000.0 - 1e-13, "1000"),
            (-1e-7, "-0.0000001"),
            (1e20, "1e20"),
            (123_456_789_012_345_678.0, "1.23456789012e17"),
            (std::f64::consts::PI, "3.14159265358979"),
            (-std::f64::consts::PI, "-3.1415926535898"),
            (1.0 / 65535.0, "1.52590218967e-5"),
            (-1.234_567_890_123_456_7e-300, "-1.23456789e-300"),
        ] {
            assert_eq!(decimal(value), text);
        }
    }

    proptest! {
        #[test]
        fn any_number_fits(bits: u64) {
            let value = f64::from_bits(bits);
            if value.is_finite() {
                let said = decimal(value);
                let back: f64 = said.parse().unwrap();
                prop_assert!(said.len() <= 16 && (back - value).abs() <= 1e-8 * value.abs());
            }
        }
    }
}
