//! Phantoms that resemble parts of a patient: typical shapes and attenuations, with left-right asymmetry.

use super::{Ellipsoid, Phantom};

/// Attenuations, per mm: of soft tissue, and what bone, lungs and air have more or less.
const SOFT: f64 = 0.0195;
const BONE: f64 = 0.022;
const SPONGY: f64 = 0.014;
const LUNG: f64 = -0.0145;
const AIR: f64 = -SOFT;

fn part(centre: [f64; 3], half_axes: [f64; 3], value: f64) -> Ellipsoid {
    Ellipsoid::new(centre, half_axes, value)
}

/// The same on both sides.
fn both(centre: [f64; 3], half_axes: [f64; 3], value: f64, angles: [f64; 3]) -> [Ellipsoid; 2] {
    [1.0, -1.0].map(|side| {
        let [x, y, z] = centre;
        part([side * x, y, z], half_axes, value).turned([
            angles[0],
            side * angles[1],
            side * angles[2],
        ])
    })
}

impl Phantom {
    /// A trunk from the collar bones to the hips, 330 x 210 mm, about its middle; x to the right, y to the front,
    /// z to the head.
    #[must_use]
    pub fn body() -> Self {
        let mut all = vec![
            part([0.0; 3], [165.0, 105.0, 420.0], SOFT),
            part([76.0, 8.0, 85.0], [54.0, 70.0, 112.0], LUNG).turned([0.05, -0.12, 0.1]),
            part([-73.0, 8.0, 90.0], [49.0, 68.0, 108.0], LUNG).turned([0.05, 0.14, -0.1]),
            // Heart, liver, spleen, stomach and bowels with gas.
            part([-20.0, 26.0, 42.0], [46.0, 40.0, 58.0], 0.006).turned([0.3, 0.5, 0.0]),
            part([66.0, 12.0, -78.0], [78.0, 68.0, 58.0], 0.0012).turned([0.0, 0.3, 0.0]),
            part([-98.0, -32.0, -62.0], [26.0, 34.0, 50.0], 0.0013).turned([0.4, 0.0, 0.2]),
            part([-52.0, 46.0, -58.0], [34.0, 24.0, 22.0], AIR).turned([0.0, 0.4, 0.2]),
            part([38.0, 52.0, -172.0], [17.0, 15.0, 28.0], AIR),
            part([-84.0, 36.0, -178.0], [14.0, 16.0, 36.0], AIR).turned([0.2, 0.1, 0.0]),
            part([3.0, 4.0, 140.0], [9.0, 8.0, 70.0], AIR).turned([-0.1, 0.0, 0.0]),
            part([0.0, 86.0, 92.0], [17.0, 7.0, 78.0], SPONGY).turned([0.12, 0.0, 0.0]),
            part([0.0, -66.0, -268.0], [44.0, 16.0, 50.0], SPONGY).turned([0.4, 0.0, 0.0]),
        ];
        all.extend(both([60.0, -44.0, -100.0], [27.0, 22.0, 52.0], 0.0015, [0.0, 0.25, 0.3]));
        all.extend(both([84.0, 62.0, 208.0], [72.0, 7.0, 7.0], BONE, [0.0, 0.15, -0.3]));
        all.extend(both([92.0, -18.0, -238.0], [54.0, 13.0, 64.0], SPONGY, [0.35, 0.2, 0.6]));
        all.extend(both([90.0, 4.0, -312.0], [24.0; 3], BONE, [0.0; 3]));
        for i in 0..20 {
            let along = f64::from(i);
            let z = 300.0 - 31.0 * along;
            // Vertebrae grow to the feet, and the column bends.
            let (y, size) = (-52.0 + 9.0 * (z / 95.0).sin(), 0.85 + 0.015 * along);
            all.push(part([0.0, y, z], [21.0 * size, 16.0 * size, 12.0], SPONGY));
            all.push(
                part([0.0, y - 32.0, z - 9.0], [4.5, 16.0, 8.0], BONE).turned([0.5, 0.0, 0.0]),
            );
            all.push(part([0.0, y - 17.0, z], [33.0, 5.5, 5.5], BONE));
        }
        for i in 0..8 {
            // Of a rib the part along the side and that behind, which rises to the column.
            let (z, wide) = (190.0 - 33.0 * f64::from(i), 108.0 + 4.0 * f64::from(i));
            all.extend(both([wide, 12.0, z - 18.0], [6.0, 62.0, 7.0], BONE, [0.4, 0.0, 0.12]));
            all.extend(both(
                [0.6 * wide, -57.0, z + 6.0],
                [48.0, 6.0, 7.0],
                BONE,
                [0.0, 0.12, -0.25],
            ));
        }
        Self::new(all)
    }

    /// A head with a skull, 160 x 208 x 216 mm, about the middle of the skull; axes as of [`body`](Self::body).
    #[must_use]
    pub fn head() -> Self {
        let mut all = vec![
            part([0.0, 5.0, -12.0], [80.0, 104.0, 108.0], SOFT),
            part([0.0, 0.0, 3.0], [72.0, 94.0, 87.0], 0.026),
            part([0.0, 1.0, 3.0], [66.0, 87.0, 80.0], -0.0252),
            // Within the brain: cerebellum, something calcified, something that bled.
            part([0.0, -48.0, -34.0], [44.0, 28.0, 22.0], 0.0005),
            part([24.0, 8.0, 36.0], [6.0, 5.0, 7.0], 0.02),
            part([-30.0, -22.0, 22.0], [14.0, 20.0, 11.0], 0.002).turned([0.3, 0.2, 0.5]),
            // The base of the skull, the jaw with its teeth and one crown of metal, the throat.
            part([0.0, 20.0, -36.0], [30.0, 13.0, 10.0], SPONGY).turned([0.3, 0.0, 0.0]),
            part([0.0, 62.0, -82.0], [30.0, 12.0, 10.0], BONE),
            part([0.0, 66.0, -66.0], [24.0, 9.0, 7.0], 0.045),
            part([-17.0, 61.0, -65.0], [4.0, 4.0, 4.0], 0.2),
            part([0.0, 24.0, -88.0], [9.0, 8.0, 20.0], AIR),
        ];
        all.extend(both([12.0, 4.0, 14.0], [6.0, 27.0, 11.0], -0.0007, [0.2, 0.0, 0.15]));
        all.extend(both([31.0, 82.0, -20.0], [12.0; 3], 0.001, [0.0; 3]));
        all.extend(both([25.0, 56.0, -44.0], [12.0, 14.0, 14.0], AIR, [0.0; 3]));
        all.extend(both([37.0, -12.0, -36.0], [28.0, 9.0, 9.0], BONE, [0.0, 0.0, 0.6]));
        all.extend(both([45.0, 32.0, -70.0], [7.0, 14.0, 26.0], BONE, [-0.3, 0.0, 0.0]));
        for (i, z) in [-62.0, -79.0, -96.0].into_iter().enumerate() {
            let y = -14.0 - 2.0 * i as f64;
            all.push(part([0.0, y, z], [16.0, 11.0, 7.5], SPONGY));
            all.push(part([0.0, y - 24.0, z - 4.0], [4.0, 13.0, 5.0], BONE));
        }
        Self::new(all)
    }
}
