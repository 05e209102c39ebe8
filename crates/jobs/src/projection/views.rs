//! Options for the geometry of views.

use super::names::unique;
use super::numbers::{Numbers, Whole};
use super::place::behind;
use crate::error::{Error, Result};
use crate::listener::{Listener, reading};
use crate::options::by_names;
use crate::run::{Input, Role};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use voxalign_image::{Affine, CArm, Gantry, Grid, ImageError, Vector3, XrayGeometry};
use voxalign_io::xray::geometry;
use voxalign_options::{Choice, Given, Parameters, Text, UseOf, text};

/// A view that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Preset {
    /// From the front to the back, seen from the source.
    Ap,
    /// From the back to the front, shown as from the front, as a C-arm at 0 degrees does.
    Pa,
    /// From the patient's right to the left, seen from the source.
    Lateral,
}

/// Where views are taken from: presets, angles, or a file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args), command(next_help_heading = "Views"))]
#[serde(default)]
pub struct ViewOptions {
    /// Standard views, separated by commas: ap, pa, lateral [default: ap]
    #[cfg_attr(
        feature = "clap",
        arg(long = "view", value_name = "NAME,...", value_delimiter = ',')
    )]
    #[serde(with = "by_names", rename = "view")]
    pub presets: Vec<Preset>,
    /// Views from a file: tables `[[view]]` in TOML, MayaCam 2 calibrations, cameras of OpenCV (YAML, XML), projection
    /// matrices of
    /// plastimatch
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub geometry: Option<PathBuf>,
    /// How they are taken.
    #[cfg_attr(feature = "clap", command(flatten))]
    #[serde(flatten)]
    pub acquisition: Given<Acquisition, OfJob>,
}

/// How a machine takes views.
#[derive(Debug, Clone, Copy, PartialEq, Parameters)]
pub struct Acquisition {
    /// Angle of a C-arm about the long axis of the patient, degrees: to the left (LAO), below 0 to the right (RAO)
    #[parameter(unit = "DEGREES", least = -360.0, most = 360.0, remedy = "give degrees from -360 to 360")]
    pub primary: Option<f64>,
    /// Angle of a C-arm towards the head (cranial), degrees; below 0 towards the feet (caudal)
    #[parameter(default = 0.0, unit = "DEGREES", least = -360.0, most = 360.0, remedy = "give degrees from -360 to 360")]
    pub secondary: f64,
    /// Angle of the gantry of a treatment machine (IEC 61217), degrees
    #[parameter(unit = "DEGREES", least = -360.0, most = 360.0, remedy = "give degrees from -360 to 360")]
    pub gantry: Option<f64>,
    /// Distance from the source to the isocentre, mm
    #[parameter(default = 1000.0, unit = "MM", above = 0.0, remedy = "give millimetres above 0")]
    pub source_to_isocentre: f64,
    /// Distance from the source to the detector, mm
    #[parameter(
        unit = "MM",
        above = 0.0,
        remedy = "give millimetres above 0",
        says = "1.5 times the distance to the isocentre"
    )]
    pub source_to_detector: Option<f64>,
    /// Isocentre in the world coordinates of the CT, RAS mm
    #[parameter(says = "the centre of the CT")]
    pub isocentre: Option<Numbers<3>>,
    /// Columns and rows of the detector
    #[parameter(unit = "COLUMNS,ROWS", says = "512,512")]
    pub size: Option<Whole<2>>,
    /// Pixel size, mm
    #[parameter(
        unit = "MM",
        above = 0.0,
        remedy = "give millimetres above 0",
        says = "so that the detector shows the whole CT in its original pose"
    )]
    pub pixel: Option<f64>,
    /// Region of the detector to simulate: first column and row, then the numbers of columns and rows; replaces the
    /// 'region' of a table of views
    #[parameter(unit = "COLUMN,ROW,COLUMNS,ROWS")]
    pub region: Option<Whole<4>>,
}

/// Of a job.
#[derive(Debug)]
pub struct OfJob;

impl UseOf<Acquisition> for OfJob {
    const HEADING: &'static str = "Views";
}

/// What a file or options say of a view: its name, its geometry and whether that assumes how far away the detector is, its
/// region, and its isocentre.
type Known = (String, (XrayGeometry, bool), Option<[usize; 4]>, Option<Vector3<f64>>);

/// A view with its name, which no other has and a file can have.
#[derive(Debug, Clone)]
pub(crate) struct NamedView {
    pub(crate) name: String,
    pub(crate) geometry: XrayGeometry,
    /// The point about which its machine turns, mm, where that is known.
    pub(crate) isocentre: Option<Vector3<f64>>,
}

impl ViewOptions {
    /// What was given of the acquisition over what is usual.
    fn made(&self) -> Result<Acquisition> {
        Ok(self.acquisition.over(Acquisition::USUAL)?)
    }

    /// Refuses what would be ignored.
    pub(crate) fn check(&self) -> Result<()> {
        let kinds = [
            ("view", !self.presets.is_empty()),
            ("geometry", self.geometry.is_some()),
            ("primary", self.acquisition.has("primary")),
            ("gantry", self.acquisition.has("gantry")),
        ];
        let given: Vec<_> = kinds.iter().filter(|k| k.1).map(|k| Text::option(k.0)).collect();
        if given.len() > 1 {
            let say = " exclude each other; give one of them";
            return Err(Error::input(Text::joined(given, " and ").and(say)));
        }
        if self.acquisition.has("secondary") && !self.acquisition.has("primary") {
            return Err(Error::input(text!("`secondary` is for a C-arm; give `primary`, too")));
        }
        let of_file = ["source_to_isocentre", "source_to_detector", "isocentre", "pixel"];
        let said = of_file.into_iter().find(|option| self.acquisition.has(option));
        if let (Some(option), true) = (said, self.geometry.is_some()) {
            return Err(Error::input(text!(
                "`{option}` is set by the file of `geometry`; leave it out"
            )));
        }
        let made = self.made()?;
        made.check()?;
        check_region(made.region)
    }

    /// The file that is read.
    pub(crate) fn file(&self) -> impl Iterator<Item = Input<'_>> {
        self.geometry.as_deref().map(|path| Input::new(Role::Geometry, path)).into_iter()
    }

    /// The views of a CT that lies in the room as it lies in its own world.
    pub(crate) fn views(&self, ct: &Grid, listener: &dyn Listener) -> Result<Vec<NamedView>> {
        let made = self.made()?;
        let all = match &self.geometry {
            Some(path) => {
                let size = made.size.map(|s| s.0);
                let named = |(number, view): (usize, geometry::View)| {
                    let geometry = (view.geometry(size)?, view.assumes_distance());
                    let isocentre = view.isocentre();
                    let name = view.name.unwrap_or_else(|| format!("view{}", number + 1));
                    Ok((name, geometry, view.region, isocentre))
                };
                let read = reading(listener, || geometry::read(path))?;
                read.into_iter().enumerate().map(named).collect::<Result<Vec<_>>>()?
            }
            None => {
                let built = self.built(&made, ct)?.into_iter();
                built.map(|v| (v.name, (v.geometry, false), None, v.isocentre)).collect()
            }
        };
        let names = unique(all.iter().map(|(name, ..)| name.as_str()));
        let taken = |((_, view, table, isocentre), name): (Known, String)| {
            let of = format!("the view '{name}'");
            let view = behind(view, &Affine::identity(), ct, &of, listener)?;
            let geometry = match counted(&view, made.region, table, &of)? {
                Some([x, y, w, h]) => view.part([x, y], [w, h])?,
                None => view,
            };
            Ok(NamedView { name, geometry, isocentre })
        };
        all.into_iter().zip(names).map(taken).collect()
    }

    fn built(&self, made: &Acquisition, ct: &Grid) -> Result<Vec<NamedView>> {
        let isocentre = made.isocentre.map_or_else(|| ct.centre(), |p| Vector3::from(p.0));
        let dims = made.size.map_or([512, 512], |s| s.0);
        let near = made.source_to_isocentre;
        let far = made.source_to_detector.unwrap_or(1.5 * near);
        let arm = |primary: f64, secondary: f64, pixel: f64| CArm {
            source_to_isocentre: near,
            source_to_detector: far,
            isocentre,
            primary: primary.to_radians(),
            secondary: secondary.to_radians(),
            pixel_size: [pixel; 2],
            dims,
            centre: None,
        };
        let one = |name: &str, make: &dyn Fn(f64) -> Result<XrayGeometry, ImageError>| {
            let pixel = match made.pixel {
                Some(pixel) => pixel,
                None => fitting(&make(1.0)?, ct),
            };
            let geometry = make(pixel)?;
            Ok::<_, Error>(NamedView {
                name: name.to_owned(),
                geometry,
                isocentre: Some(isocentre),
            })
        };
        if let Some(primary) = made.primary {
            let make = |pixel| arm(primary, made.secondary, pixel).geometry();
            return Ok(vec![one("c_arm", &make)?]);
        }
        let gantry =
            |angle: f64| move |pixel: f64| Gantry { arm: arm(0.0, 0.0, pixel), angle }.geometry();
        if let Some(angle) = made.gantry {
            return Ok(vec![one("gantry", &gantry(angle.to_radians()))?]);
        }
        let usual = [Preset::Ap];
        let presets = if self.presets.is_empty() { &usual[..] } else { &self.presets };
        let preset = |preset: &Preset| match preset {
            Preset::Ap => one("ap", &gantry(Gantry::AP)),
            Preset::Pa => one("pa", &|pixel| arm(0.0, 0.0, pixel).geometry()),
            Preset::Lateral => one("lateral", &gantry(Gantry::LATERAL)),
        };
        presets.iter().map(preset).collect()
    }
}

/// Refuses a region without pixels.
pub(crate) fn check_region(region: Option<Whole<4>>) -> Result<()> {
    if region.is_some_and(|r| r.0[2] == 0 || r.0[3] == 0) {
        return Err(Error::input(text!(
            "`region` is empty; give the first column and row, and the numbers of columns and rows \
             above 0"
        )));
    }
    Ok(())
}

/// The part of a detector that counts: that of the option, else that of a table of views; both are parts of the whole
/// detector.
pub(crate) fn counted(
    whole: &XrayGeometry,
    option: Option<Whole<4>>,
    table: Option<[usize; 4]>,
    of: &str,
) -> Result<Option<[usize; 4]>> {
    let Some([x, y, w, h]) = option.map(|region| region.0).or(table) else { return Ok(None) };
    let what = if option.is_some() { Text::option("region") } else { "'region'".into() };
    let wrong = |e: ImageError| Error::from(e).at(what).at(of);
    whole.part([x, y], [w, h]).map_err(wrong)?;
    Ok(Some([x, y, w, h]))
}

/// The size of pixels with which a detector shows the whole CT, rounded up to hundredths of a mm; `view` has those of 1 mm.
fn fitting(view: &XrayGeometry, ct: &Grid) -> f64 {
    let half = view.dims().map(|n| (n as f64 - 1.0) / 2.0);
    let mut most = 0.0f64;
    for corner in ct.corners() {
        if let Some([u, v]) = view.project(corner) {
            most = most.max((u - half[0]).abs() / half[0].max(1.0));
            most = most.max((v - half[1]).abs() / half[1].max(1.0));
        }
    }
    (most.max(0.01) * 102.0).ceil() / 100.0
}
