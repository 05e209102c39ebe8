//! Options put together and checked, and what follows from them for an image.

use super::options::{
    DenseOptions, DenseShape, EvolutionOptions, Force, Init, MeansOptions, MixtureOptions, Options,
    Preset, TidyOptions,
};
use super::values::Iterations;
use crate::error::{Error, Result};
use crate::options::refuse;
use voxalign_image::Grid;
use voxalign_options::{Choice as _, Parameters as _, Text, text};
use voxalign_register::Remedy;
use voxalign_segment::Neighbourhood;

/// Options put together, each with its value or none where it follows from the image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) preset: Preset,
    pub(super) force: Force,
    pub(super) init: Init,
    pub(super) evolution: EvolutionOptions,
    pub(super) tidy: TidyOptions,
}

impl Options {
    /// What was given over what is usual, checked; what would be ignored is refused.
    pub(super) fn settings(&self) -> Result<Settings> {
        let settings = Settings {
            preset: self.preset.over(Preset::None)?,
            force: self.force.over(Force::CHAN_VESE)?,
            init: self.init.over(Init::DENSE)?,
            evolution: self.evolution.over(EvolutionOptions::USUAL)?,
            tidy: self.tidy.over(TidyOptions::USUAL)?,
        };
        settings.preset.check()?;
        settings.force.check()?;
        settings.init.check()?;
        settings.evolution.check()?;
        settings.tidy.check()?;
        if settings.preset != Preset::None {
            self.check_preset(settings.preset)?;
            self.check_used(&settings)?;
            return Ok(settings);
        }
        self.check_files(&settings)?;
        self.check_force(&settings)?;
        self.check_regions(&settings)?;
        self.check_used(&settings)?;
        Ok(settings)
    }

    /// What a preset has of itself.
    fn check_preset(&self, of: Preset) -> Result<()> {
        let names = [
            self.force.first(),
            self.init.first(),
            self.speed.as_ref().map(|_| "speed"),
            self.initial_mask.as_ref().map(|_| "initial_mask"),
            self.evolution.has("regions").then_some("regions"),
        ];
        if let Some(name) = names.into_iter().flatten().next() {
            return Err(Error::input(Text::option(name).and(text!(
                ": `preset = {}` has a force, a start and two regions of its own; leave one of them out",
                of.name()
            ))));
        }
        let masked = of == Preset::WhiteMatter;
        refuse(self.prior_mask.is_some() && !masked, "prior_mask", text!("`preset = white-matter`"))
    }

    /// Files that do not go with the kinds.
    fn check_files(&self, of: &Settings) -> Result<()> {
        refuse(
            self.speed.is_some() && of.force != Force::Speed,
            "speed",
            text!("`force = speed`"),
        )?;
        let dense = matches!(of.init, Init::Dense(_));
        refuse(self.prior_mask.is_some() && !dense, "prior_mask", text!("`init = dense`"))?;
        let mask = of.init == Init::Mask;
        refuse(self.initial_mask.is_some() && !mask, "initial_mask", text!("`init = mask`"))?;
        if of.force == Force::Speed && self.speed.is_none() {
            return Err(Error::input(text!("`force = speed` needs a field: give `speed` FILE")));
        }
        if mask && self.initial_mask.is_none() {
            return Err(Error::input(text!("`init = mask` needs one: give `initial_mask` FILE")));
        }
        Ok(())
    }

    /// Parameters of the force that do not go together.
    fn check_force(&self, of: &Settings) -> Result<()> {
        match of.force {
            Force::MeanCurvature if of.evolution.iterations == Iterations::Auto => {
                Err(Error::input(text!(
                    "`force = mean-curvature` makes everything vanish in the end, so that no bound is of use: give `iterations` N"
                )))
            }
            Force::ChanVese(MeansOptions { inside, outside, .. })
                if inside == 0.0 && outside == 0.0 =>
            {
                Err(Error::input(text!(
                    "both `inside` and `outside` are 0: the image has no say; give one of them above 0"
                )))
            }
            Force::GeodesicRegions(mixture) => {
                let classes = mixture.classes.unwrap_or(of.evolution.regions);
                if let Some(wrong) = mixture.object_classes.numbers().find(|n| *n > classes) {
                    return Err(Error::input(text!(
                        "`object_classes` has class {wrong}, and there are {classes} `classes`; give numbers up to that"
                    )));
                }
                if mixture.object_classes.numbers().count() == classes {
                    return Err(Error::input(text!(
                        "`object_classes` has all {classes} `classes`: nothing is left for the background; leave one out"
                    )));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What several regions do not go with.
    fn check_regions(&self, of: &Settings) -> Result<()> {
        let regions = of.evolution.regions;
        if regions == 2 {
            return Ok(());
        }
        if !matches!(of.force, Force::ChanVese(_) | Force::GeodesicRegions(_)) {
            return Err(Error::input(text!(
                "`regions` is {regions}, and `force = {}` knows an inside and an outside alone; leave it out, or give `force = chan-vese` or \
                 geodesic-regions",
                of.force.name()
            )));
        }
        let two = || text!("two regions");
        for option in ["inside", "outside", "object", "object_classes", "edge_sigma", "contrast"] {
            refuse(self.force.has(option), option, two())?;
        }
        for option in ["smooth", "smooth_every"] {
            refuse(self.evolution.has(option), option, two())?;
        }
        if let Force::GeodesicRegions(MixtureOptions { classes: Some(classes), .. }) = of.force
            && classes != regions
        {
            return Err(Error::input(text!(
                "`classes` is {classes} and `regions` is {regions}: each of several regions is one class; leave `classes` out"
            )));
        }
        match of.init {
            Init::Dense(DenseOptions { init_shape: DenseShape::Checkerboard, .. }) => Ok(()),
            _ => Err(Error::input(text!(
                "more than two `regions` start from squares of all labels: leave `init` and `init_shape` out"
            ))),
        }
    }

    /// What would be ignored.
    fn check_used(&self, of: &Settings) -> Result<()> {
        let (evolution, tidy) = (&of.evolution, &of.tidy);
        let smooths = evolution.smooth > 0;
        refuse(self.evolution.has("smooth_every") && !smooths, "smooth_every", text!("`smooth`"))?;
        if let (Init::Dense(dense), Preset::None) = (of.init, of.preset) {
            let checkerboard = dense.init_shape == DenseShape::Checkerboard;
            let apart = text!("`init_shape = ball` and box");
            refuse(dense.init_spacing.is_some() && checkerboard, "init_spacing", apart)?;
            if let Some(size) = dense.init_size.filter(|s| checkerboard && s.fract() != 0.0) {
                return Err(Error::input(text!(
                    "`init_size` is {size}, and squares have whole numbers of voxels; give one"
                )));
            }
        }
        if let Some(sigma) = evolution.sigma.filter(|_| !of.bends() && !smooths) {
            return Err(Error::input(text!(
                "`sigma` is {sigma}, and nothing here goes by the curvature of the front; leave it out, or give `smooth` or a `curvature` above 0"
            )));
        }
        if tidy.largest_component && tidy.smallest_island > 0.0 {
            return Err(Error::input(text!(
                "both `largest_component` and `smallest_island` are given; leave one of them out"
            )));
        }
        Ok(())
    }
}

impl Settings {
    /// What helps where a check of fronts fails: of presets not what is usual, as that names options which they refuse.
    pub(super) fn remedy(&self, usual: Remedy) -> Remedy {
        match (self.preset, usual) {
            (Preset::None, _) => usual,
            (_, Remedy::MoreIterations) => Remedy::IterationsOfPreset,
            _ => Remedy::OtherPreset,
        }
    }

    /// Whether the force goes by the curvature or the normal of the front.
    fn bends(&self) -> bool {
        if self.preset != Preset::None {
            return true;
        }
        match self.force {
            Force::ChanVese(of) => of.curvature != Some(0.0),
            Force::GeodesicRegions(of) => of.curvature != Some(0.0),
            Force::MeanCurvature | Force::Edge(_) => true,
            Force::Speed => false,
        }
    }

    /// Whether the force goes by the image.
    pub(super) fn looks_at_image(&self) -> bool {
        self.preset != Preset::None || !matches!(self.force, Force::MeanCurvature | Force::Speed)
    }

    /// The same with the contrast of edges that an image with these voxels has, where none was given.
    pub(super) fn keep_contrast(&mut self, contrast: Option<f64>) {
        let edges = match &mut self.force {
            Force::GeodesicRegions(of) => &mut of.edges,
            Force::Edge(of) => &mut of.edges,
            _ => return,
        };
        edges.contrast = edges.contrast.or(contrast);
    }

    /// The neighbourhood on a grid: of the image, or of slices beside each other.
    pub(super) fn neighbourhood(&self, grid: &Grid) -> Result<Neighbourhood> {
        let usual = if grid.is_2d() { Neighbourhood::Four } else { Neighbourhood::Six };
        let in_slices = self.preset == Preset::WhiteMatterHead;
        let asked = match self.evolution.connectivity {
            // The finished object has three dimensions.
            Some(_) if in_slices && !grid.is_2d() => return Ok(usual),
            None => return Ok(usual),
            Some(asked) => asked,
        };
        let found = Neighbourhood::from(asked);
        if found.is_2d() != grid.is_2d() {
            let (dimension, remedy) = match grid.is_2d() {
                true if in_slices => ("taken slice by slice", "4 or 8"),
                true => ("2D", "4 or 8"),
                false => ("3D", "6, 18 or 26"),
            };
            return Err(Error::input(text!(
                "`connectivity` is {}, and the image is {dimension}; give {remedy}",
                asked.name()
            )));
        }
        Ok(found)
    }

    /// The smallest spacing of an image, mm, and the spacing along all axes.
    pub(super) fn spacing(grid: &Grid) -> (f64, [f64; 3]) {
        let all = grid.spacing();
        let axes = if grid.is_2d() { 2 } else { 3 };
        // Axes of a single voxel have no spacing that matters.
        let several = (0..axes).filter(|a| grid.dims()[*a] > 1).map(|a| all[a]);
        let least = several.fold(f64::INFINITY, f64::min);
        (if least.is_finite() { least } else { all[0] }, all)
    }

    /// The standard deviation of the Gaussian of curvatures, mm.
    pub(super) fn sigma(&self, grid: &Grid) -> f64 {
        // The forces of presets are strong: their curvature is for noise alone.
        let voxels = if self.preset == Preset::None { 3.0 } else { 1.0 };
        self.evolution.sigma.unwrap_or(voxels * Self::spacing(grid).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::from_toml;

    #[test]
    fn what_would_be_ignored_is_refused() {
        let said = |text: &str| {
            let options: Options = from_toml(text).unwrap();
            options.settings().unwrap_err().to_string()
        };
        for (text, part) in [
            ("speed = 'a.nii'", "`speed` is for `force = speed`"),
            ("force = 'speed'", "give `speed` FILE"),
            ("prior_mask = 'a.nii'\ninit = 'circle'", "`prior_mask` is for `init = dense`"),
            ("initial_mask = 'a.nii'", "`initial_mask` is for `init = mask`"),
            ("init = 'mask'", "give `initial_mask` FILE"),
            ("force = 'mean-curvature'", "give `iterations` N"),
            ("force = 'edge'\ncurvature = 1", "`curvature` is for `force = chan-vese`"),
            ("force = 'mean-curvature'\niterations = 3\npressure = 1", "`pressure` is for"),
            ("inside = 0\noutside = 0", "the image has no say"),
            ("curvature = -1", "`curvature` is -1"),
            ("force = 'geodesic-regions'\nclasses = 3\nobject_classes = [2, 4]", "class 4"),
            ("force = 'geodesic-regions'\nobject_classes = '1,2'", "nothing is left"),
            ("force = 'geodesic-regions'\nregions = 3\nclasses = 4", "leave `classes` out"),
            ("regions = 3\nforce = 'edge'", "`force = edge` knows an inside"),
            ("regions = 3\nobject = 'darker'", "`object` is for two regions"),
            ("regions = 3\nsmooth = 4", "`smooth` is for two regions"),
            ("regions = 3\ninit = 'circle'", "leave `init`"),
            ("regions = 3\ninit_shape = 'ball'", "leave `init`"),
            ("regions = 1", "`regions` is 1"),
            ("smooth_every = 3", "`smooth_every` is for `smooth`"),
            ("init_spacing = 9", "`init_spacing` is for `init_shape = ball`"),
            ("init_size = 2.5", "whole numbers"),
            ("init = 'circle'\ninit_shape = 'ball'", "`init_shape` is for `init = dense`"),
            ("init_centre = '1,2,3'", "`init_centre` is for `init = circle`"),
            ("curvature = 0\nsigma = 2", "leave it out"),
            ("force = 'speed'\nspeed = 'a.nii'\nsigma = 2", "leave it out"),
            ("largest_component = true\nsmallest_island = 5", "leave one of them out"),
            ("smallest_island = -5", "`smallest_island` is -5"),
            ("preset = 'bone'\nforce = 'edge'", "`force`: `preset = bone` has"),
            ("preset = 'bone'\nobject = 'darker'", "`object`"),
            ("preset = 'white-matter'\ninit_size = 3", "`init_size`"),
            ("preset = 'white-matter'\nregions = 2", "`regions`"),
            ("preset = 'white-matter-head'\nprior_mask = 'a.nii'", "`prior_mask` is for"),
            ("preset = 'white-matter'\nbone_threshold = 200", "`bone_threshold` is for"),
            ("preset = 'bone'\nbone_threshold = 20", "`bone_threshold` is 20"),
        ] {
            let text = said(text);
            assert!(text.contains(part), "{part}: {text}");
        }
        for wrong in ["connectivity = 5", "iterations = 0", "init_centre = '1'", "classes = 'x'"] {
            assert!(from_toml::<Options>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_are_put_together_and_read_back() {
        let text = "force = 'geodesic-regions'\nclasses = 4\nobject-classes = [3, 4]\ncontrast = 2.5\ninit = 'box'\n\
                    init_centre = [1, -2, 3.5]\nconnectivity = 18\niterations = 7\nfill_holes = true\nsurface = false";
        let options: Options = from_toml(text).unwrap();
        let all = options.settings().unwrap();
        let Force::GeodesicRegions(mixture) = all.force else { panic!("{all:?}") };
        assert_eq!(mixture.object_classes.numbers().collect::<Vec<_>>(), [3, 4]);
        assert_eq!((mixture.edges.contrast, mixture.classes), (Some(2.5), Some(4)));
        let Init::Box(shape) = all.init else { panic!("{all:?}") };
        assert_eq!(shape.init_centre.unwrap().with_z(0.0), [1.0, -2.0, 3.5]);
        assert_eq!(all.evolution.iterations, Iterations::Most(7));
        assert!(all.tidy.fill_holes && options.no_surface);
        let solid = Grid::axis_aligned([4, 5, 6], [2.0, 1.0, 0.5]).unwrap();
        assert_eq!(all.neighbourhood(&solid).unwrap(), Neighbourhood::Eighteen);
        assert_eq!(all.sigma(&solid), 1.5);
        let flat = Grid::axis_aligned([4, 5, 1], [2.0, 1.0, 0.5]).unwrap();
        let said = all.neighbourhood(&flat).unwrap_err().to_string();
        assert!(said.contains("give 4 or 8"), "{said}");
        assert_eq!(all.sigma(&flat), 3.0);
        let data = serde_json::to_value(&options).unwrap();
        assert_eq!(crate::options::from_json::<Options>(data).unwrap(), options);
    }
}
