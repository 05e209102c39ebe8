//! Simulating and writing the images of views.

use super::options::{Format, Projection, Simulation};
use super::poses::Pose;
use crate::error::{Error, Result};
use crate::listener::{Listener, check};
use crate::projection::{NamedView, VIEWS, short};
use crate::results::ResultFile;
use crate::run::Clock;
use crate::staged::Staged;
use voxalign_compute::ops::raycast::{Along, Traversal};
use voxalign_compute::select::AnyDevice;
use voxalign_io::xray::{self, Series, Signal, XrayToWrite};
use voxalign_options::{Choice as _, text};
use voxalign_register::projection::Simulator;
use voxalign_register::random::Random;
use voxalign_report::drr::DrrImageRecord;
use voxalign_report::xray::ViewRecord;

/// The values that are kept of the images of a view until all are there and their window is known; images beyond are
/// simulated once more.
pub(super) const KEPT: usize = 1 << 28;
/// The most images that a report shows.
pub(super) const PICTURES: usize = 12;

/// A view at a pose, as it is written.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) record: DrrImageRecord,
    /// What a report shows of it.
    pub(super) shown: Option<Vec<f32>>,
}

/// What makes images.
pub(super) struct Maker<'a> {
    pub(super) simulation: &'a Simulation,
    pub(super) projection: Projection,
    pub(super) simulator: &'a Simulator<'a, AnyDevice>,
    pub(super) traversal: Traversal,
    pub(super) random: Random,
    pub(super) with_pictures: bool,
    /// What all images belong to.
    pub(super) series: Series,
    /// Values, [usually](KEPT).
    pub(super) kept: usize,
    pub(super) made: Vec<Made>,
}

impl Maker<'_> {
    /// Makes the images of a view at all poses, and writes them.
    pub(super) fn view(
        &mut self,
        view: &NamedView,
        poses: &[Pose],
        (staged, clock): (&mut Staged<'_>, &mut Clock),
        listener: &dyn Listener,
    ) -> Result<()> {
        // Floats have no window to share.
        let together = if self.simulation.has_window() { poses.len() } else { 1 };
        for (group, these) in poses.chunks(together).enumerate() {
            let (mut images, mut ends) = (Vec::new(), [f32::INFINITY, f32::NEG_INFINITY]);
            let mut room = self.kept;
            for pose in these {
                check(listener)?;
                let begun = self.random.clone();
                let mut random = begun.clone();
                let values = self.simulated(view, pose, &mut random)?;
                self.random = random;
                ends = values.iter().fold(ends, |[low, high], &v| [low.min(v), high.max(v)]);
                let stays = values.len() <= room || these.len() == 1;
                room = room.saturating_sub(values.len());
                images.push((begun, stays.then_some(values)));
            }
            clock.lap("simulate");
            let window = (ends[0] < ends[1]).then(|| ends.map(f64::from));
            for (number, (pose, (mut begun, values))) in these.iter().zip(images).enumerate() {
                check(listener)?;
                let values = match values {
                    Some(values) => values,
                    None => self.simulated(view, pose, &mut begun)?,
                };
                clock.lap("simulate");
                let name = name(view, group * together + number, poses.len());
                let made = self.write(staged, view, pose, (name, values), window)?;
                self.made.push(made);
                clock.lap("write");
            }
        }
        Ok(())
    }

    /// The values of an image as they are written.
    fn simulated(&self, view: &NamedView, pose: &Pose, random: &mut Random) -> Result<Vec<f32>> {
        let along = self.projection.along();
        let mut values = self.simulator.image(&view.geometry, &pose.map, self.traversal, along)?;
        if values.iter().all(|&v| v == 0.0) {
            return Err(Error::input(text!(
                "the view '{}' sees nothing of the CT where it is turned by {} degrees and moved by {} mm; \
                 check `geometry`, `isocentre`, `region` and the pose",
                view.name,
                short(&pose.degrees),
                short(&pose.mm)
            )));
        }
        if along == Along::Maximum {
            return Ok(values);
        }
        if let Some(photons) = self.projection.photons() {
            values.iter_mut().for_each(|v| *v = measured(*v, photons, random));
        }
        if self.projection.signal() == Some(Signal::Intensity) {
            values.iter_mut().for_each(|v| *v = (-*v).exp());
        }
        Ok(values)
    }

    /// Writes an image in all formats; those of whole numbers have them in a window.
    fn write(
        &self,
        staged: &mut Staged<'_>,
        view: &NamedView,
        pose: &Pose,
        (name, values): (String, Vec<f32>),
        window: Option<[f64; 2]>,
    ) -> Result<Made> {
        let geometry = view.geometry;
        let number = u32::try_from(self.made.len() + 1).unwrap_or(u32::MAX);
        let mut used = None;
        for format in self.simulation.formats() {
            let window = window.filter(|_| format.has_window());
            let image = XrayToWrite {
                geometry: Some(geometry),
                isocentre: view.isocentre,
                signal: self.projection.signal(),
                series: Some((&self.series, number)),
                window,
                ..XrayToWrite::new(&values, geometry.dims())
            };
            staged.write(&file(&name, format), |path| {
                used = xray::write(path, &image)?.window.or(used);
                Ok(())
            })?;
        }
        let fold = |start: f32, f: fn(f32, f32) -> f32| values.iter().copied().fold(start, f);
        let record = DrrImageRecord {
            view: ViewRecord::new(&view.name, &geometry),
            pose: pose.map.rows(),
            rotation_degrees: pose.degrees,
            translation_mm: pose.mm,
            centre_mm: pose.centre.into(),
            least: f64::from(fold(f32::INFINITY, f32::min)),
            most: f64::from(fold(f32::NEG_INFINITY, f32::max)),
            unit: self.projection.unit().to_owned(),
            window: used,
            files: self.simulation.formats().iter().map(|&f| file(&name, f)).collect(),
            name,
        };
        let shown = self.with_pictures && self.made.len() < PICTURES;
        Ok(Made { record, shown: shown.then_some(values) })
    }
}

/// What a view at a pose is called, which no other image is.
pub(super) fn name(view: &NamedView, number: usize, poses: usize) -> String {
    match poses {
        1 => view.name.clone(),
        _ => format!("{}_{number:04}", view.name),
    }
}

/// The files of a simulation, for pipelines.
pub(crate) fn results() -> Vec<ResultFile> {
    let of = |&format: &Format| {
        let (role, about) = match format {
            Format::Png => ("image_png", "The image of each view as PNG"),
            Format::Tiff => ("image_tiff", "The image of each view as TIFF"),
            Format::Nifti => ("image_nifti", "The image of each view as NIfTI"),
            Format::Dicom => ("image_dicom", "The image of each view as DICOM"),
        };
        ResultFile::of(role, &file("*", format), about)
    };
    let views =
        ResultFile::of("views", VIEWS, "The views, as simulations and poses take them").always();
    let rest = [views, ResultFile::record(), ResultFile::report()];
    Format::ALL.iter().map(of).chain(rest).collect()
}

/// The name of a file of an image.
pub(super) fn file(name: &str, format: Format) -> String {
    format!("{name}.{}", format.extension())
}

/// An attenuation as it is measured by counting photons.
fn measured(attenuation: f32, photons: f64, random: &mut Random) -> f32 {
    let expected = photons * f64::from(-attenuation).exp();
    // Half a photon stands for none.
    (photons / random.poisson(expected).max(0.5)).ln() as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drr::Detection;
    use crate::projection::in_room;
    use voxalign_compute::cpu::Cpu;
    use voxalign_image::{CArm, Grid, Volume};
    use voxalign_register::Silent;

    /// Makes a sequence of two views with noise, of which so many values are kept, and gives the files and records.
    fn made(kept: usize) -> (Vec<Vec<u8>>, Vec<DrrImageRecord>) {
        let grid = Grid::axis_aligned([10, 12, 9], [4.0; 3]).unwrap();
        let centre = grid.centre();
        let ct = Volume::from_fn(grid, |x, y, z| (x + 2 * y + 3 * z) as f32 * 1e-3);
        let device = AnyDevice::Cpu(Cpu::new(Some(1)).unwrap());
        let simulator = Simulator::new(&device, &ct).unwrap();
        let simulation =
            Simulation { format: vec![Format::Png, Format::Nifti], ..Simulation::default() };
        let noise = Detection { photons: Some(1e4), ..Detection::USUAL };
        let mut maker = Maker {
            simulation: &simulation,
            projection: noise.into(),
            simulator: &simulator,
            traversal: Traversal::trilinear(2.0),
            random: Random::new(3),
            with_pictures: false,
            series: Series::new("a test", "", None),
            kept,
            made: Vec::new(),
        };
        let pose = |x: f64| {
            let (degrees, mm) = ([0.0, 0.0, 9.0 * x], [x, 0.0, 0.0]);
            Pose { map: in_room(centre, degrees, mm).unwrap(), degrees, mm, centre }
        };
        let folder = tempfile::tempdir().unwrap();
        let mut staged = Staged::new(folder.path(), &Silent).unwrap();
        for (name, primary) in [("a", 0.0), ("b", 1.2)] {
            let arm = CArm {
                source_to_isocentre: 500.0,
                source_to_detector: 800.0,
                isocentre: centre,
                primary,
                secondary: 0.0,
                pixel_size: [4.0; 2],
                dims: [24, 20],
                centre: None,
            };
            let view = NamedView {
                name: name.to_owned(),
                geometry: arm.geometry().unwrap(),
                isocentre: Some(centre),
            };
            let poses = [pose(0.0), pose(1.0), pose(2.0)];
            maker.view(&view, &poses, (&mut staged, &mut Clock::start()), &Silent).unwrap();
        }
        staged.commit().unwrap();
        let records: Vec<_> = maker.made.into_iter().map(|m| m.record).collect();
        let files = records.iter().flat_map(|r| &r.files);
        (files.map(|f| std::fs::read(folder.path().join(f)).unwrap()).collect(), records)
    }

    #[test]
    fn images_that_are_not_kept_are_made_again() {
        let (files, records) = made(KEPT);
        assert_eq!((files.len(), records.len()), (12, 6));
        let names: Vec<_> = records.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["a_0000", "a_0001", "a_0002", "b_0000", "b_0001", "b_0002"]);
        for kept in [0, 24 * 20] {
            let (again, told) = made(kept);
            assert!(again == files && told == records, "{kept}");
        }
        // Each view has a window of its own, from its least to its largest value.
        for of_view in records.chunks(3) {
            let least = of_view.iter().map(|r| r.least).fold(f64::INFINITY, f64::min);
            let most = of_view.iter().map(|r| r.most).fold(f64::NEG_INFINITY, f64::max);
            assert!(of_view.iter().all(|r| r.window == Some([least, most])), "{of_view:?}");
        }
        assert!(records[0].window != records[3].window && records[0].most != records[1].most);
    }
}
