//! Conversion of a CT to attenuations.

use crate::error::{Error, Result};
use crate::files::{self, WhichImage};
use crate::listener::{Level, Listener, reading};
use crate::options::{as_text, refuse};
use crate::run::{Input, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use voxalign_image::{Grid, Volume};
use voxalign_io::image::{Format, read_info_of};
use voxalign_options::{Choice, Given, Parameters, UseOf, text};
use voxalign_register::projection::Attenuation;

/// What the values of a CT are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Units {
    /// Hounsfield units: water 0, air -1000.
    Hu,
    /// Hounsfield units and 1024, as files without a sign have them: water 1024.
    #[choice(name = "hu-plus-1024")]
    HuPlus1024,
    /// Linear attenuation coefficients, 1/mm.
    Attenuation,
    /// Anything that is 0 in air and larger where more is absorbed; its largest value counts as dense bone.
    Relative,
}

/// How attenuations are made of a CT.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "CT"))]
#[serde(default)]
pub struct CtOptions {
    /// Units of the CT values [default: hu, if plausible (some values are air)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "UNITS"))]
    pub units: Option<Units>,
    /// What attenuates how much.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub tissue: Given<Tissue, OfJob>,
    /// Label map on the grid of the CT, for `only`
    #[cfg_attr(feature = "clap", arg(long, value_name = "IMAGE"))]
    pub labels: Option<PathBuf>,
    /// Labels to show, such as 3,4; everything else is air
    #[cfg_attr(feature = "clap", arg(long, value_name = "LABEL,..."))]
    #[serde(with = "as_text")]
    pub only: Option<LabelList>,
    /// Which of several images in a file.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub which: WhichImage,
}

/// How Hounsfield units become attenuations.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Tissue {
    /// Effective energy of the photons, keV: a third to a half of the tube voltage
    #[parameter(default = 70.0, unit = "KEV")]
    pub energy: f64,
    /// Attenuation of water, 1/mm, instead of an energy: all tissue follows as `water (1 + HU / 1000)`
    #[parameter(unit = "1/MM")]
    pub water: Option<f64>,
    /// Values at or below this are air and absorb nothing, HU
    #[parameter(default = Attenuation::AIR, unit = "HU")]
    pub air: f64,
}

/// Of a job.
#[derive(Debug)]
pub struct OfJob;

impl UseOf<Tissue> for OfJob {
    const HEADING: &'static str = "CT";
}

/// Labels with commas between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelList(pub Vec<i32>);

impl std::str::FromStr for LabelList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = text.split(',').map(|part| part.trim().parse::<i32>());
        let all = all.collect::<Result<Vec<_>, _>>();
        all.map(Self).map_err(|_| "give whole numbers with commas between them, such as 3,4".into())
    }
}

impl std::fmt::Display for LabelList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
    }
}

/// Values below this are those of air.
const AIR_BELOW: f32 = -500.0;
/// What the largest value of `relative` attenuates, 1/mm: dense bone.
const DENSE: f64 = 0.05;

/// A CT, as X-rays see it.
#[derive(Debug)]
pub struct Ct {
    /// Attenuations, 1/mm.
    pub(crate) volume: Volume<f32>,
    /// How they were made, for the record.
    pub(crate) parameters: Value,
    /// One of its files, where these are DICOM.
    pub(crate) dicom: Option<PathBuf>,
}

impl Ct {
    /// Of attenuations, 1/mm; [`Attenuation`](voxalign_register::projection::Attenuation) makes them of Hounsfield units.
    #[must_use]
    pub fn new(attenuations: Volume<f32>) -> Self {
        let parameters = json!({ "units": Units::Attenuation.name() });
        Self { volume: attenuations, parameters, dicom: None }
    }
}

impl CtOptions {
    /// Checks what can be checked without the CT.
    pub(crate) fn check(&self) -> Result<()> {
        if self.tissue.has("water") && self.tissue.has("energy") {
            return Err(Error::input(text!(
                "`energy` and `water` are both given; leave one of them out"
            )));
        }
        self.attenuation()?;
        if self.labels.is_some() != self.only.is_some() {
            return Err(Error::input(text!(
                "`labels` and `only` go together: give the label map, and the labels to show"
            )));
        }
        let in_hu = matches!(self.units, None | Some(Units::Hu | Units::HuPlus1024));
        if !in_hu {
            let is_for = "a CT in Hounsfield units";
            for option in ["energy", "water", "air"] {
                refuse(self.tissue.has(option), option, is_for)?;
            }
        }
        Ok(())
    }

    /// What was given over what is usual, and the attenuation of that.
    fn attenuation(&self) -> Result<(Tissue, Attenuation)> {
        let made = self.tissue.over(Tissue::USUAL)?;
        made.check()?;
        let found = match made.water {
            Some(water) => Attenuation::linear(water)?,
            None => Attenuation::at_energy(made.energy)?,
        };
        Ok((made, found.with_air(made.air)))
    }

    /// The files that are read.
    pub(crate) fn files<'a>(&'a self, ct: &'a Path) -> Vec<Input<'a>> {
        let mut all = vec![Input::new(Role::Ct, ct).of(self.which.options())];
        all.extend(Input::those_given(&[(Role::Labels, &self.labels)]));
        all
    }

    /// The grid of the CT, by its header.
    pub(crate) fn grid(&self, path: &Path, listener: &dyn Listener) -> Result<Grid> {
        let info = reading(listener, || read_info_of(path, &self.which.options()));
        Ok(info.map_err(|e| e.choosing(Role::Ct))?.grid)
    }

    /// Reads the CT.
    pub(crate) fn read(&self, path: &Path, listener: &dyn Listener) -> Result<Ct> {
        let (mut volume, info) = files::image_of(path, &self.which.options(), listener)
            .map_err(|e| e.choosing(Role::Ct))?;
        let name = path.display();
        let odd = volume.data().iter().filter(|v| !v.is_finite()).count();
        if odd > 0 {
            return Err(Error::input(text!(
                "'{name}': {odd} voxels are NaN or infinite; replace them first: `voxalign convert IN OUT \
                 --replace-nan -1000`"
            )));
        }
        let fold =
            |start: f32, f: fn(f32, f32) -> f32| volume.data().iter().copied().fold(start, f);
        let (least, most) = (fold(f32::INFINITY, f32::min), fold(f32::NEG_INFINITY, f32::max));
        if volume.grid().is_2d() {
            return Err(Error::input(text!("'{name}': it is a 2D image; give the whole CT")));
        }
        let units = match self.units {
            Some(units) => units,
            None if least < AIR_BELOW => Units::Hu,
            None => {
                return Err(Error::input(text!(
                    "'{name}': its values, from {least} to {most}, include no air and so are not Hounsfield \
                     units; say what they are by `units`: {}",
                    Units::ALL.iter().map(|u| u.name()).collect::<Vec<_>>().join(", ")
                )));
            }
        };
        let (tissue, attenuation) = self.attenuation()?;
        let shown = self.shown(&volume, listener)?;
        let scale = if most > 0.0 { DENSE / f64::from(most) } else { 0.0 };
        for (i, value) in volume.data_mut().iter_mut().enumerate() {
            *value = match units {
                _ if shown.as_ref().is_some_and(|s| !s[i]) => 0.0,
                Units::Hu => attenuation.of(*value),
                Units::HuPlus1024 => attenuation.of(*value - 1024.0),
                Units::Attenuation => value.max(0.0),
                Units::Relative => (f64::from(value.max(0.0)) * scale) as f32,
            };
        }
        if volume.data().iter().all(|&v| v == 0.0) {
            return Err(Error::input(text!(
                "'{name}': nothing in it absorbs anything, with values from {least} to {most}; check `units`, \
                 and `air` and `only` where they are given"
            )));
        }
        let text =
            format!("the CT is in units '{}', with values from {least} to {most}", units.name());
        listener.say(Level::Verbose, &text);
        let mut parameters = json!({ "units": units.name() });
        let mut used = |name: &str, value: Value| parameters[name] = value;
        match units {
            Units::Hu | Units::HuPlus1024 => {
                used("water_per_mm", attenuation.water().into());
                if tissue.water.is_none() {
                    used("energy_kev", tissue.energy.into());
                }
                used("air_hu", tissue.air.into());
            }
            Units::Relative => used("dense_per_mm", DENSE.into()),
            Units::Attenuation => {}
        }
        if let Some(only) = &self.only {
            used("only", only.0.clone().into());
        }
        if let Some(volume) = self.which.volume {
            used("volume", volume.into());
        }
        if let Some(series) = &self.which.series {
            used("series", series.clone().into());
        }
        let dicom = info.files.first().filter(|_| info.format == Format::Dicom).cloned();
        Ok(Ct { volume, parameters, dicom })
    }

    /// Which voxels are shown; all where nothing is said.
    fn shown(&self, ct: &Volume<f32>, listener: &dyn Listener) -> Result<Option<Vec<bool>>> {
        let (Some(path), Some(only)) = (&self.labels, &self.only) else { return Ok(None) };
        let labels = files::labels(path, listener)?;
        let name = path.display();
        if labels.dims() != ct.dims() || !labels.grid().approx_eq(ct.grid(), 1e-3) {
            return Err(Error::input(text!(
                "'{name}': the label map is not on the grid of the CT: it has {}, the CT {}; `voxalign \
                 apply` brings it there",
                labels.grid(),
                ct.grid()
            )));
        }
        for label in &only.0 {
            if !labels.data().contains(label) {
                return Err(Error::input(text!(
                    "`only`: '{name}' has no label {label}; leave it out, or choose another"
                )));
            }
        }
        Ok(Some(labels.data().iter().map(|l| only.0.contains(l)).collect()))
    }
}
