//! The X-ray images of a pose, with their geometry.

use super::border;
use super::options::Pixels;
use crate::error::{Error, Result};
use crate::listener::{Level, Listener, reading};
use crate::projection::{VIEWS, Whole, counted, stem, unique};
use std::path::{Path, PathBuf};
use voxalign_image::{XrayGeometry, memory};
use voxalign_io::xray::{self, Signal, geometry};
use voxalign_options::{Text, text};
use voxalign_register::Choice;

/// An X-ray image, with where it was taken from.
#[derive(Debug)]
pub struct XrayInput {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) geometry: XrayGeometry,
    /// Whether nothing says how far away the detector is.
    pub(super) assumed: bool,
    /// What its values were.
    pub(super) stored_as: Values,
    /// Attenuations.
    pub(super) values: Vec<f32>,
    /// Values of the file, of all frames.
    pub(super) stored: usize,
    pub(super) region: Option<[usize; 4]>,
}

impl XrayInput {
    /// Of line integrals of attenuation, row after row; its name is that of files that are made of it.
    ///
    /// # Errors
    /// Another number of values than the geometry has pixels.
    pub fn new(name: &str, geometry: XrayGeometry, values: Vec<f32>) -> Result<Self> {
        let pixels = geometry.dims().iter().product::<usize>();
        if values.len() != pixels {
            return Err(Error::input(text!(
                "the X-ray image '{name}' has {} values, and its geometry {pixels} pixels",
                values.len()
            )));
        }
        Ok(Self {
            name: name.to_owned(),
            path: PathBuf::from(name),
            geometry,
            assumed: false,
            stored_as: Values::Attenuation,
            stored: values.len(),
            values,
            region: None,
        })
    }
}

/// An X-ray image as it is named, with its view where there are views.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) view: Option<geometry::View>,
    /// Of the view, else of the file; no other has it, and a file can have it.
    pub(super) name: String,
}

/// The table of views of a folder that `drr` wrote, where there is one.
pub(super) fn table_of(paths: &[PathBuf]) -> Option<PathBuf> {
    let [folder] = paths else { return None };
    Some(folder.join(VIEWS)).filter(|table| folder.is_dir() && table.is_file())
}

/// The X-ray images: those that are named, else those that the views of the files of `geometry` name. Several such
/// files are one after the other.
pub(super) fn sources(
    xrays: &[PathBuf],
    files: &[PathBuf],
    listener: &dyn Listener,
) -> Result<Vec<Source>> {
    let mut views = Vec::new();
    for path in files {
        views.extend(reading(listener, || geometry::read(path))?);
    }
    let paths = match table_of(xrays) {
        Some(table) => paths(&[], &views).map_err(|_| unnamed(xrays, &table))?,
        None => paths(xrays, &views)?,
    };
    if !views.is_empty() && views.len() != paths.len() {
        return Err(Error::input(text!(
            "there are {} X-ray images, and `geometry` has {} views; give a view for each, in the same \
             order",
            paths.len(),
            views.len()
        )));
    }
    let views = views.into_iter().map(Some).chain(std::iter::repeat(None));
    let all: Vec<_> = paths.into_iter().zip(views).collect();
    let names: Vec<String> = all
        .iter()
        .map(|(path, view)| {
            view.as_ref().and_then(|v| v.name.clone()).unwrap_or_else(|| stem(path))
        })
        .collect();
    let names = unique(names.iter().map(String::as_str));
    let named = all.into_iter().zip(names);
    Ok(named.map(|((path, view), name)| Source { path, view, name }).collect())
}

/// The files of the X-ray images: those that are named, else those that the views name.
fn paths(xrays: &[PathBuf], views: &[geometry::View]) -> Result<Vec<PathBuf>> {
    if !xrays.is_empty() {
        return Ok(xrays.to_vec());
    }
    let named: Vec<_> = views.iter().filter_map(|v| v.image.clone()).collect();
    if named.is_empty() || named.len() < views.len() {
        return Err(Error::input(text!(
            "there are no X-ray images: name them after the CT, or give each view of `geometry` an 'image'"
        )));
    }
    Ok(named)
}

/// An error about a folder whose table names no images: that of a sequence, or of an older version.
fn unnamed(folder: &[PathBuf], table: &Path) -> Error {
    let folder = folder.first().map_or(Path::new(""), PathBuf::as_path);
    Error::input(text!(
        "'{0}': its views name no images; give a sequence as `stream = {1}`, and otherwise name the images after the CT, with \
         `geometry = {0}`",
        table.display(),
        folder.display()
    ))
}

/// What the values of an image are, of which attenuations are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Values {
    Attenuation,
    Intensity,
    /// The logarithm of an intensity.
    LogIntensity,
    /// They fall with the intensity, from this value on, where it is 0.
    FallingIntensity(f32),
}

impl Values {
    /// What the option says, else the header, else attenuations; says where both differ.
    pub(super) fn of(
        option: Option<Pixels>,
        header: Option<Signal>,
        of: &str,
        listener: &dyn Listener,
    ) -> Self {
        let by_option = option.map(|pixels| match pixels {
            Pixels::Attenuation => Values::Attenuation,
            Pixels::Intensity => Values::Intensity,
        });
        let by_header = header.map(|signal| match signal {
            Signal::Attenuation => Values::Attenuation,
            Signal::Intensity => Values::Intensity,
            Signal::LogIntensity => Values::LogIntensity,
            Signal::FallingIntensity { dark } => Values::FallingIntensity(dark),
        });
        match (by_option, by_header) {
            (Some(asked), Some(said)) if asked != said => {
                let text = text!(
                    "{of}: its header says that values are {} (0028,1040), and `pixels = {}` is taken; leave that out \
                     where the header is right",
                    said.words(),
                    asked.name()
                );
                listener.say(Level::Warning, text);
            }
            (None, Some(said)) if said != Values::Attenuation => {
                let text = format!("{of}: values are {}, as its header says", said.words());
                listener.say(Level::Normal, &text);
            }
            _ => {}
        }
        by_option.or(by_header).unwrap_or(Values::Attenuation)
    }

    /// Its name in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Values::Attenuation => Pixels::Attenuation.name(),
            Values::Intensity => Pixels::Intensity.name(),
            Values::LogIntensity => "log-intensity",
            Values::FallingIntensity(_) => "falling-intensity",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Values::Attenuation => "attenuations",
            Values::Intensity => "intensities",
            Values::LogIntensity => "logarithms of intensities",
            Values::FallingIntensity(_) => "intensities, large ones dark",
        }
    }

    /// Makes what rises with the intensity of values that fall with it.
    fn rising(self, values: &mut [f32]) {
        if let Values::FallingIntensity(dark) = self {
            values.iter_mut().for_each(|v| *v = dark - *v);
        }
    }

    /// The value of a ray that nothing absorbs: the largest of an image, which intensities have above 0. Any other number does
    /// for attenuations.
    pub(super) fn unabsorbed(self, values: &[f32], of: &str) -> Result<f32> {
        match self {
            Values::Attenuation => Ok(0.0),
            Values::Intensity => largest(values, of),
            Values::LogIntensity => Ok(finite(values).fold(f32::NEG_INFINITY, f32::max)),
            Values::FallingIntensity(dark) => {
                let least = finite(values).fold(f32::INFINITY, f32::min);
                largest(&[dark - least], of)
            }
        }
    }

    /// Makes attenuations, with the value of a ray that nothing absorbs. What is not a number stays none.
    pub(super) fn to_attenuations(self, values: &mut [f32], unabsorbed: f32) {
        match self {
            Values::Attenuation => {}
            Values::LogIntensity => values.iter_mut().for_each(|v| *v = unabsorbed - *v),
            Values::Intensity | Values::FallingIntensity(_) => {
                self.rising(values);
                of_intensities(values, unabsorbed);
            }
        }
    }
}

/// How the values of several images were stored, for the record: one word where it is the same of all.
pub(super) fn stored_as(all: &[Values]) -> serde_json::Value {
    let names: Vec<_> = all.iter().map(|v| v.name()).collect();
    match names.first() {
        Some(first) if names.iter().all(|name| name == first) => (*first).into(),
        _ => names.into(),
    }
}

/// How X-ray images are read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    /// Instead of what a header says.
    pub(super) pixels: Option<Pixels>,
    /// The number of one of several frames.
    pub(super) frame: Option<usize>,
    /// The part that counts, instead of that of a view.
    pub(super) region: Option<Whole<4>>,
    pub(super) listener: &'a dyn Listener,
}

/// Reads an X-ray image; its view says where it was taken from, or else its header.
pub(super) fn read(
    Source { path, view, name }: Source,
    Reading { pixels, frame, region, listener }: Reading<'_>,
) -> Result<XrayInput> {
    let image = reading(listener, || xray::read(&path))?;
    let of = format!("'{}'", path.display());
    let at = |what: Text| Error::input(what).at(of.as_str());
    for oddity in &image.oddities {
        listener.say(Level::Warning, format!("{of}: {oddity}"));
    }
    let last = image.frames.saturating_sub(1);
    let taken = match frame {
        None if image.frames > 1 => {
            return Err(at(text!(
                "it has {} frames, but one is needed; choose one with `frame`, from 0 to {last}",
                image.frames
            )));
        }
        frame => frame.unwrap_or(0),
    };
    let values = image.frame(taken).ok_or_else(|| {
        let remedy = match last {
            0 => "frame 0 is its only one".into(),
            last => text!("give `frame` from 0 to {last}"),
        };
        at(Text::from(format!("there is no frame {taken}; ")).and(remedy))
    })?;
    let assumed = view.as_ref().is_some_and(|v| v.assumes_distance());
    let geometry = match view.as_ref().filter(|v| v.has_geometry()) {
        Some(view) => view.geometry(Some(image.dims))?,
        None => image.geometry.ok_or_else(|| {
            let missing = image.missing_attribute();
            let why = missing.map_or_else(String::new, |m| format!(" (its header lacks {m})"));
            at(text!("its geometry is unknown{why}; give `geometry`"))
        })?,
    };
    let region = counted(&geometry, region, view.and_then(|v| v.region), &of)?;
    check(values, image.dims, region).map_err(at)?;
    let stored_as = Values::of(pixels, image.signal, &of, listener);
    let (stored, values) = (image.values.len(), attenuations(values, stored_as, &of)?);
    let region = region.or_else(|| {
        let [x, y, w, h] = border::inside(&values, image.dims)?;
        listener.say(
            Level::Warning,
            text!("{of}: a border of one value, as of a collimator, does not count; as by `region = {x},{y},{w},{h}`, \
                 which says otherwise where it is given"
            ),
        );
        Some([x, y, w, h])
    });
    Ok(XrayInput { name, path, geometry, assumed, stored_as, values, stored, region })
}

/// Warns of images whose files have the name of another view.
pub(super) fn hear_of_other_names(all: &[XrayInput], listener: &dyn Listener) {
    let lower = |text: &str| text.to_lowercase();
    for one in all {
        let file = lower(&stem(&one.path));
        let has =
            |name: &str| file.split(|c: char| !c.is_alphanumeric()).any(|part| part == lower(name));
        let other = all.iter().find(|other| other.name != one.name && has(&other.name));
        if let (Some(other), false) = (other, has(&one.name)) {
            listener.say(
                Level::Warning,
                format!(
                    "'{}': it is the image of view '{}', and has the name of '{}': images are in the order of the views",
                    one.path.display(),
                    one.name,
                    other.name
                ),
            );
        }
    }
}

/// Refuses an image by which nothing can be found: what is wrong with what counts of it, and what helps.
fn check(
    values: &[f32],
    [columns, rows]: [usize; 2],
    region: Option<[usize; 4]>,
) -> Result<(), Text> {
    let [x, y, width, height] = region.unwrap_or([0, 0, columns, rows]);
    let lines = values.chunks_exact(columns.max(1)).skip(y).take(height);
    let counted = || lines.clone().flat_map(|line| line.iter().skip(x).take(width)).copied();
    let within = if region.is_some() { " within the region" } else { "" };
    let odd = counted().filter(|v| !v.is_finite()).count();
    if odd > 0 {
        let pixels = if odd == 1 { "pixel is" } else { "pixels are" };
        return Err(text!(
            "{odd} {pixels} NaN or infinite{within}; write numbers there, or choose a part without them by \
             `region`"
        ));
    }
    let first = counted().next().unwrap_or(0.0);
    if counted().all(|v| v == first) {
        return Err(text!("all pixels are {first}{within}; give an image with contrast"));
    }
    Ok(())
}

/// Attenuations of pixels: of intensities `ln(most / value)`. What is not a number stays none.
fn attenuations(values: &[f32], stored_as: Values, of: &str) -> Result<Vec<f32>> {
    let mut out = memory::copied(values)?;
    let unabsorbed = stored_as.unabsorbed(values, of)?;
    stored_as.to_attenuations(&mut out, unabsorbed);
    Ok(out)
}

fn finite(values: &[f32]) -> impl Iterator<Item = f32> {
    values.iter().copied().filter(|v| v.is_finite())
}

/// The largest of intensities, which is above 0.
fn largest(values: &[f32], of: &str) -> Result<f32> {
    let most = finite(values).fold(f32::NEG_INFINITY, f32::max);
    if most <= 0.0 {
        return Err(Error::input(text!(
            "{of}: its largest value is {}, and intensities are above 0; give \
             `pixels = attenuation` where values are attenuations",
            // No -0.
            most + 0.0
        )));
    }
    Ok(most)
}

/// Makes attenuations of intensities where the largest is one without anything in between.
fn of_intensities(values: &mut [f32], most: f32) {
    // A pixel without a count is as dark as one of the least step of 16 bits.
    let least = (most / 65535.0).max(f32::MIN_POSITIVE);
    values.iter_mut().filter(|v| !v.is_nan()).for_each(|v| *v = (most / v.max(least)).ln());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_has_numbers_and_contrast() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let image = [nan, 1.0, 2.0, 3.0, 3.0, inf];
        let said = |region| check(&image, [3, 2], region).unwrap_err().to_string();
        assert!(said(None).starts_with("2 pixels are NaN or infinite;"), "{}", said(None));
        assert!(said(Some([1, 0, 2, 2])).contains("1 pixel is NaN or infinite within the region"));
        assert!(said(Some([0, 1, 2, 1])).contains("all pixels are 3 within the region"));
        assert!(said(Some([1, 0, 1, 1])).contains("all pixels are 1"));
        assert_eq!(check(&image, [3, 2], Some([1, 0, 1, 2])), Ok(()));
    }

    #[test]
    fn intensities_become_attenuations() {
        let of = |values: &[f32]| attenuations(values, Values::Intensity, "'a.png'");
        let found = of(&[65535.0, 0.0, -3.0, f32::NAN, 65535.0 * (-1.5f32).exp()]).unwrap();
        assert_eq!((found[0], found[1]), (0.0, found[2]));
        assert!((found[1] - 65535f32.ln()).abs() < 1e-5 && (found[4] - 1.5).abs() < 1e-5);
        assert!(found[3].is_nan());
        for (bad, value) in [([-2.0, -1.0], "-1"), ([0.0, f32::NAN], "0")] {
            let said = of(&bad).unwrap_err().to_string();
            let value = format!("'a.png': its largest value is {value},");
            assert!(said.starts_with(&value) && said.contains("`pixels = attenuation`"), "{said}");
        }
        let same = attenuations(&[-1.0, 2.0], Values::Attenuation, "").unwrap();
        assert_eq!(same, [-1.0, 2.0]);
    }

    #[test]
    fn headers_say_what_values_are() {
        let near = |values: &[f32], stored_as| {
            let found = attenuations(values, stored_as, "").unwrap();
            let off = found.iter().zip([0.0, 1.5, 3.0]).map(|(a, b): (_, f32)| (a - b).abs());
            assert!(off.fold(0.0, f32::max) < 1e-4, "{found:?}");
        };
        let counts = [0.0, -1.5, -3.0].map(|v: f32| 1000.0 * v.exp());
        near(&counts, Values::Intensity);
        near(&counts.map(|v| 4095.0 - v), Values::FallingIntensity(4095.0));
        near(&[7.0, 5.5, 4.0], Values::LogIntensity);
        let said = attenuations(&[9.0, 9.0], Values::FallingIntensity(8.0), "'a'").unwrap_err();
        assert!(said.to_string().contains("largest value is -1"), "{said}");

        let heard = Heard::default();
        let of = |option, header| Values::of(option, header, "'a.dcm'", &heard);
        let falling = Signal::FallingIntensity { dark: 9.0 };
        assert_eq!(of(None, None), Values::Attenuation);
        assert_eq!(of(None, Some(Signal::Attenuation)), Values::Attenuation);
        assert_eq!(of(Some(Pixels::Intensity), None), Values::Intensity);
        assert_eq!(of(Some(Pixels::Intensity), Some(Signal::Intensity)), Values::Intensity);
        assert!(heard.0.lock().unwrap().is_empty());
        for (option, header, found, level, said) in [
            (None, Signal::Intensity, Values::Intensity, Level::Normal, "are intensities,"),
            (None, Signal::LogIntensity, Values::LogIntensity, Level::Normal, "logarithms"),
            (None, falling, Values::FallingIntensity(9.0), Level::Normal, "large ones dark"),
            (
                Some(Pixels::Attenuation),
                Signal::Intensity,
                Values::Attenuation,
                Level::Warning,
                "says that values are intensities (0028,1040), and `pixels = attenuation` is taken",
            ),
            (
                Some(Pixels::Intensity),
                Signal::Attenuation,
                Values::Intensity,
                Level::Warning,
                "`pixels = intensity` is taken",
            ),
        ] {
            assert_eq!(of(option, Some(header)), found);
            let told = std::mem::take(&mut *heard.0.lock().unwrap());
            let [(told, text)] = &told[..] else { panic!("{told:?}") };
            assert!(*told == level && text.contains(said) && text.contains("a.dcm"), "{text}");
        }
        let names = |all: &[Values]| stored_as(all).to_string();
        assert_eq!(names(&[Values::Intensity; 2]), "\"intensity\"");
        let both = names(&[Values::Intensity, Values::Attenuation]);
        assert_eq!(both, "[\"intensity\",\"attenuation\"]");
    }

    /// Keeps what it is told.
    #[derive(Default)]
    struct Heard(std::sync::Mutex<Vec<(Level, String)>>);

    impl voxalign_register::Progress for Heard {
        fn event(&self, _: &voxalign_register::Event<'_>) {}
    }

    impl Listener for Heard {
        fn tell(&self, level: Level, text: &Text) {
            self.0.lock().unwrap().push((level, text.to_string()));
        }
    }
}
