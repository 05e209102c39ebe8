//! Conversion of Hounsfield units to attenuation.

use crate::error::{RegisterError, Result};
use serde::{Deserialize, Serialize};

/// Photon energies, keV, and the mass attenuation coefficients of liquid water and of cortical bone (ICRU report 44), cm²/g: Hubbell and Seltzer,
/// *Tables of X-ray mass attenuation coefficients*, NISTIR 5632.
const TABLE: [(f64, f64, f64); 24] = [
    (20.0, 0.8096, 4.001),
    (30.0, 0.3756, 1.331),
    (40.0, 0.2683, 0.6655),
    (50.0, 0.2269, 0.4242),
    (60.0, 0.2059, 0.3148),
    (80.0, 0.1837, 0.2229),
    (100.0, 0.1707, 0.1855),
    (150.0, 0.1505, 0.1480),
    (200.0, 0.1370, 0.1309),
    (300.0, 0.1186, 0.1113),
    (400.0, 0.1061, 0.09908),
    (500.0, 0.09687, 0.09022),
    (600.0, 0.08956, 0.08332),
    (800.0, 0.07865, 0.07308),
    (1000.0, 0.07072, 0.06566),
    (1250.0, 0.06323, 0.05871),
    (1500.0, 0.05754, 0.05346),
    (2000.0, 0.04942, 0.04607),
    (3000.0, 0.03969, 0.03745),
    (4000.0, 0.03403, 0.03257),
    (5000.0, 0.03031, 0.02946),
    (6000.0, 0.02770, 0.02734),
    (8000.0, 0.02429, 0.02467),
    (10000.0, 0.02219, 0.02314),
];

/// The density of cortical bone, g/cm³.
const BONE_DENSITY: f64 = 1.92;
/// The effective energy of CT with 120 kV, keV.
const CT_ENERGY: f64 = 70.0;

/// A linear attenuation coefficient, 1/mm, for each Hounsfield unit.
///
/// Up to 0 HU tissue is water thinned by air; above, water in part replaced by cortical bone, as much of it as the HU say at the energy of
/// a CT with 120 kV (70 keV effective). At that energy the coefficient is `water (1 + HU / 1000)`.
///
/// ```
/// use voxalign_register::projection::Attenuation;
///
/// let usual = Attenuation::at_energy(70.0)?;
/// assert_eq!(usual.of(-1000.0), 0.0);
/// assert!((usual.of(0.0) - 0.0193).abs() < 1e-4);
/// assert!((usual.of(1000.0) / usual.of(0.0) - 2.0).abs() < 1e-4);
/// // Bone stands out more at lower energies, and not at all in the beam of a treatment machine.
/// let contrast = |kev: f64| Attenuation::at_energy(kev).map(|a| a.of(1000.0) / a.of(0.0));
/// assert!(contrast(40.0)? > 2.5 && contrast(2000.0)? < 1.7);
/// # Ok::<(), voxalign_register::RegisterError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Attenuation {
    /// The coefficient of water, 1/mm.
    water: f64,
    /// The attenuation per Hounsfield unit above 0, 1/mm.
    above: f64,
    /// Values at or below this are air, HU.
    air: f64,
}

impl Attenuation {
    /// The HU up to which all is air, usually.
    pub const AIR: f64 = -950.0;

    /// That of photons of an energy, keV: the effective one of a tube is a third to a half of its voltage.
    ///
    /// # Errors
    /// An energy outside of 20 to 10000 keV.
    pub fn at_energy(energy: f64) -> Result<Self> {
        let [water, bone] = coefficients(energy).ok_or_else(|| {
            RegisterError::option(
                "energy",
                format!("{energy} keV"),
                "give the effective energy of the photons, from 20 to 10000 keV",
            )
        })?;
        let [ct_water, ct_bone] = coefficients(CT_ENERGY).unwrap_or([water, bone]);
        let bone_units = 1000.0 * (ct_bone / ct_water - 1.0);
        Ok(Self { water, above: (bone - water) / bone_units, air: Self::AIR })
    }

    /// `water (1 + HU / 1000)`, with the coefficient of water, 1/mm.
    ///
    /// # Errors
    /// A coefficient that is not above 0.
    pub fn linear(water: f64) -> Result<Self> {
        if !(water > 0.0 && water.is_finite()) {
            return Err(RegisterError::option(
                "water",
                format!("{water}"),
                "give the attenuation of water in 1/mm, such as 0.02",
            ));
        }
        Ok(Self { water, above: water / 1000.0, air: Self::AIR })
    }

    /// The same where all values up to this many HU are air, without attenuation.
    #[must_use]
    pub fn with_air(self, air: f64) -> Self {
        Self { air, ..self }
    }

    /// The coefficient of a value in HU, 1/mm; 0 for NaN.
    #[must_use]
    pub fn of(&self, hu: f32) -> f32 {
        let hu = f64::from(hu);
        if hu.is_nan() || hu <= self.air {
            return 0.0;
        }
        let value =
            if hu <= 0.0 { self.water * (1.0 + hu / 1000.0) } else { self.water + self.above * hu };
        value.max(0.0) as f32
    }

    /// The coefficient of water, 1/mm.
    #[must_use]
    pub fn water(&self) -> f64 {
        self.water
    }
}

/// Linear attenuation coefficients of water and of cortical bone, 1/mm, interpolated between logarithms.
fn coefficients(energy: f64) -> Option<[f64; 2]> {
    let upper = TABLE.iter().position(|row| row.0 >= energy)?;
    if energy.is_nan() || energy < TABLE[0].0 {
        return None;
    }
    let (low, high) = (TABLE[upper.saturating_sub(1)], TABLE[upper]);
    let part = if upper == 0 { 0.0 } else { (energy / low.0).ln() / (high.0 / low.0).ln() };
    let between = |a: f64, b: f64| a * (b / a).powf(part);
    // From 1/cm.
    Some([0.1 * between(low.1, high.1), 0.1 * BONE_DENSITY * between(low.2, high.2)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_the_table_are_met() {
        for (energy, water, bone) in TABLE {
            let [w, b] = coefficients(energy).unwrap();
            assert!((w - 0.1 * water).abs() < 1e-9 && (b - 0.192 * bone).abs() < 1e-9, "{energy}");
        }
        for bad in [0.0, -5.0, 19.9, 10001.0, f64::NAN, f64::INFINITY] {
            assert!(Attenuation::at_energy(bad).is_err(), "{bad}");
        }
        for bad in [0.0, -0.1, f64::NAN] {
            assert!(Attenuation::linear(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn linear_at_the_energy_of_ct() {
        let (a, b) = (Attenuation::at_energy(70.0).unwrap(), Attenuation::linear(1.0).unwrap());
        for hu in [-900.0, -200.0, 0.0, 40.0, 700.0, 2500.0] {
            let ratio = f64::from(a.of(hu)) / a.water();
            assert!((ratio - f64::from(b.of(hu))).abs() < 1e-5, "{hu}");
        }
        // Cortical bone is bone at any energy.
        let bone = 1000.0 * (coefficients(CT_ENERGY).map(|[w, b]| b / w - 1.0).unwrap());
        for energy in [30.0, 55.0, 120.0, 2000.0] {
            let found = f64::from(Attenuation::at_energy(energy).unwrap().of(bone as f32));
            let [_, expected] = coefficients(energy).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-5, "{energy}");
        }
    }

    #[test]
    fn what_is_air_attenuates_nothing() {
        let usual = Attenuation::linear(0.02).unwrap();
        assert_eq!(usual.of(-950.0), 0.0);
        assert!(usual.of(-949.0) > 0.0);
        assert_eq!(usual.with_air(-800.0).of(-810.0), 0.0);
        assert_eq!(usual.of(f32::NAN), 0.0);
        assert_eq!(usual.with_air(-3000.0).of(-2000.0), 0.0);
    }
}
