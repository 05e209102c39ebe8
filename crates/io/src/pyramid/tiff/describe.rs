//! Sizes of pixels in the texts of scanners and of OME.

/// Sizes of a pixel along columns and rows, mm, as a text of OME-XML or of Aperio says them.
pub(super) fn pixel_size(text: &str) -> Option<[f64; 2]> {
    let size = if text.contains("<OME") { ome(text)? } else { aperio(text)? };
    size.iter().all(|s| s.is_finite() && *s > 0.0).then_some(size)
}

/// `PhysicalSizeX` and `PhysicalSizeY` of the first `Pixels`, micrometres unless a unit is said.
fn ome(text: &str) -> Option<[f64; 2]> {
    let pixels = &text[text.find("<Pixels")?..];
    let pixels = &pixels[..pixels.find('>')?];
    let attribute = |name: &str| {
        let from = pixels.find(&format!(" {name}=\""))? + name.len() + 3;
        pixels[from..].split('"').next()
    };
    let size = |axis: &str| -> Option<f64> {
        let value: f64 = attribute(&format!("PhysicalSize{axis}"))?.trim().parse().ok()?;
        let unit = attribute(&format!("PhysicalSize{axis}Unit")).unwrap_or("µm");
        Some(value * millimetres(unit)?)
    };
    Some([size("X")?, size("Y")?])
}

fn millimetres(unit: &str) -> Option<f64> {
    Some(match unit {
        "nm" => 1e-6,
        "µm" | "μm" | "um" | "&#181;m" | "&#xB5;m" | "\\u00B5m" => 1e-3,
        "mm" => 1.0,
        "cm" => 10.0,
        "m" => 1000.0,
        "in" => 25.4,
        _ => return None,
    })
}

/// `MPP`, micrometres of a pixel.
fn aperio(text: &str) -> Option<[f64; 2]> {
    if !text.starts_with("Aperio") {
        return None;
    }
    let said = text.split('|').find_map(|part| {
        let (name, value) = part.split_once('=')?;
        (name.trim() == "MPP").then_some(value.trim())
    })?;
    let size = said.parse::<f64>().ok()? * 1e-3;
    Some([size, size])
}

#[cfg(test)]
mod tests {
    use super::pixel_size;

    #[test]
    fn scanners_and_ome_say_sizes() {
        let near = |text: &str, x: f64, y: f64| {
            let [a, b] = pixel_size(text).unwrap();
            assert!((a - x).abs() < 1e-12 && (b - y).abs() < 1e-12, "{a} {b}");
        };
        near(
            "Aperio Image Library v10\n46000x32914|AppMag = 20|MPP = 0.4990|Left = 25",
            4.99e-4,
            4.99e-4,
        );
        near(
            "<?xml?><OME><Image><Pixels SizeX=\"5\" PhysicalSizeX=\"0.5\" PhysicalSizeY=\"250\" \
             PhysicalSizeYUnit=\"nm\" Type=\"uint8\"><Channel/></Pixels>",
            5e-4,
            2.5e-4,
        );
        for none in [
            "",
            "MPP = 1",
            "Aperio|MPP = x",
            "Aperio|MPP = -1",
            "<OME",
            "<OME><Pixels PhysicalSizeX=\"0.5",
            "<OME><Pixels PhysicalSizeX=\"0.5\">",
            "<OME><Pixels PhysicalSizeX=\"1\" PhysicalSizeY=\"1\" PhysicalSizeXUnit=\"reference frame\">",
        ] {
            assert_eq!(pixel_size(none), None, "{none}");
        }
    }
}
