//! Stability of atlases as a function of the number of subjects.

use super::options::Sizes;
use super::study::{Prepared, Study, weighted_atlas};
use crate::error::Result;
use crate::listener::{Level, Quiet};
use crate::machine::Machine;
use crate::options::refuse;
use crate::remedy::Speaker;
use crate::results::ResultFile;
use crate::run::{
    Clock, Done, RECORD, REPORT, check_outputs, conclude, nothing_more, record, written,
};
use crate::staged::Staged;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;
use voxalign_compute::comm::Team;
use voxalign_compute::select::AnyDevice;
use voxalign_options::{Text, text};
use voxalign_population::PopulationError;
use voxalign_population::atlas::{
    Cohorts, Found, Judged, STABLE_PART, Spread, draw_cohorts, judge, stable_from,
};
use voxalign_register::limits::ATLAS;
use voxalign_register::{Check, Event, Remedy, Verdict};
use voxalign_report::stability::{
    self, CohortRecord, SizePictures, SizeRecord, StabilityRecord, StabilityReport,
};
use voxalign_report::{GridRecord, MiddleSlices, Provenance};

const COHORTS: &str = "cohorts.csv";
const SIZES: &str = "sizes.csv";

/// The files of a test of how many images an atlas needs, for pipelines.
pub(super) fn results() -> [ResultFile; 2] {
    [
        ResultFile::of("cohorts", COHORTS, "A row for each atlas of a cohort"),
        ResultFile::of("sizes", SIZES, "A row for each size of cohorts"),
    ]
}
/// Sizes of which the report has pictures.
const PICTURES: usize = 6;

/// A test that is to be made.
pub(super) struct Test<'a> {
    pub(super) study: Study<'a>,
    sizes: Vec<usize>,
    seed: u64,
    asked: usize,
}

impl<'a> Test<'a> {
    /// The test that was asked for; checks all that can be checked before a device is started.
    pub(super) fn new(sizes: Sizes, (asked, seed): (usize, u64), study: Study<'a>) -> Result<Self> {
        refuse(study.entries.len() < 2, "stability", text!("two subjects or more"))?;
        let test = Self { study, sizes: sizes.0, seed, asked };
        test.drawn(test.study.entries.len())?;
        let names = [COHORTS, SIZES, RECORD, REPORT].into_iter();
        check_outputs(test.study.output, names, test.study.files().into_iter())?;
        Ok(test)
    }

    /// The cohorts of each size out of so many subjects.
    fn drawn(&self, subjects: usize) -> Result<Vec<Cohorts>> {
        let draw = |&size: &usize| draw_cohorts(subjects, size, self.asked, self.seed);
        Ok(self.sizes.iter().map(draw).collect::<Result<_, PopulationError>>()?)
    }

    /// The files that it writes.
    pub(super) fn names() -> Vec<String> {
        [COHORTS, SIZES, REPORT, RECORD].map(str::to_owned).to_vec()
    }

    /// Does it all.
    pub(super) fn run(
        &self,
        machine: &Machine,
        team: &Team<AnyDevice>,
    ) -> Result<Done<StabilityRecord>> {
        let (mut clock, listener) = (Clock::start(), self.study.listener);
        let staged = Staged::new(self.study.output, listener)?;
        let prepared = self.study.prepare(team, &mut clock, None)?.0;
        // Of the subjects that are left.
        let subjects = prepared.entries.len();
        let drawn = self.drawn(subjects)?;
        let few = drawn.iter().filter(|c| c.members.len() < self.asked);
        let few: Vec<_> = few.map(|few| self.told(few, subjects)).collect();
        for told in &few {
            listener.say(Level::Normal, told);
        }
        let (mut sizes, mut pictures) = (Vec::new(), Vec::new());
        let shown = shown(drawn.len());
        for (index, cohorts) in drawn.iter().enumerate() {
            let (size, picture) =
                self.size(team, &prepared, cohorts, (index, shown.contains(&index)))?;
            sizes.push(size);
            pictures.extend(picture);
            clock.lap("register");
        }
        let run = record(self.study.caller, machine, prepared.inputs);
        let means: Vec<_> = sizes.iter().map(|s| (s.size, s.atlas.mean)).collect();
        let stable = stable_from(&means, STABLE_PART);
        let mut parameters = self.study.used(&prepared.aligned);
        if let Some(all) = parameters.as_object_mut() {
            all.insert("cohorts".to_owned(), self.asked.into());
        }
        let record = StabilityRecord {
            provenance: Provenance::from(run),
            parameters,
            seed: self.seed,
            grid: GridRecord::from(&prepared.aligned.grid),
            subjects: prepared.entries.iter().map(|e| e.name.clone()).collect(),
            verdict: self.verdict(&sizes, stable, few.into_iter().chain(prepared.remarks)),
            sizes,
            stable_part: STABLE_PART,
            stable_from: stable,
            timings: BTreeMap::new(),
            peak_memory_bytes: None,
            outputs: Vec::new(),
        };
        self.finish(staged, clock, record, &pictures)
    }

    /// Builds the atlases of a size.
    fn size(
        &self,
        team: &Team<AnyDevice>,
        prepared: &Prepared<'_>,
        cohorts: &Cohorts,
        (index, with_picture): (usize, bool),
    ) -> Result<(SizeRecord, Option<SizePictures>)> {
        let listener = self.study.listener;
        let (began, name) = (Instant::now(), format!("{} subjects", cohorts.size));
        let (count, value) = (self.sizes.len(), "entropy");
        let (counts, share) = ("atlases", 1.0 / count as f64);
        listener.event(&Event::StageStart { index, count, name: &name, counts, value, share });
        let mut picture = None;
        let mut all: Vec<CohortRecord> = Vec::new();
        for members in &cohorts.members {
            let mut weights = vec![0.0; prepared.entries.len()];
            for &member in members {
                weights[member] = prepared.entries[member].weight;
            }
            let mut verdicts = Vec::new();
            let mut found = |number: usize, found: Found| {
                verdicts.push((number, found.verdict));
                Ok(())
            };
            let within = Quiet(listener);
            let building = self.study.building(&within, &voxalign_population::atlas::unheard);
            let atlas = weighted_atlas(team, prepared, &building, &weights, &mut found)?;
            verdicts.sort_by_key(|(number, _)| *number);
            let judged: Vec<_> = verdicts
                .iter()
                .map(|(number, verdict)| Judged {
                    name: &prepared.entries[*number].name,
                    deformation: verdict,
                    affine: None,
                })
                .collect();
            all.push(CohortRecord {
                members: members.clone(),
                entropy_affine: atlas.ends[0].entropy,
                entropy_atlas: atlas.ends[1].entropy,
                gradient_energy_affine: atlas.ends[0].gradient_energy,
                gradient_energy_atlas: atlas.ends[1].gradient_energy,
                good: judge(&atlas, &judged).0.good,
            });
            if with_picture && picture.is_none() {
                picture = Some(SizePictures {
                    size: cohorts.size,
                    affine: MiddleSlices::of(&atlas.affine_mean[0]).first_plane(),
                    atlas: MiddleSlices::of(&atlas.template[0]).first_plane(),
                });
            }
            listener.event(&Event::Step {
                done: all.len() as f64 / cohorts.members.len() as f64,
                evaluations: all.len(),
                best: atlas.ends[1].entropy,
                what: "",
            });
        }
        let spread =
            |of: fn(&CohortRecord) -> f64| Spread::of(&all.iter().map(of).collect::<Vec<_>>());
        let (affine, atlas) = (spread(|c| c.entropy_affine), spread(|c| c.entropy_atlas));
        listener.event(&Event::StageEnd {
            name: &name,
            evaluations: all.len(),
            start: affine.mean,
            best: atlas.mean,
            seconds: began.elapsed().as_secs_f64(),
        });
        let record = SizeRecord {
            size: cohorts.size,
            all: cohorts.all,
            affine,
            atlas,
            gradient_affine: spread(|c| c.gradient_energy_affine),
            gradient_atlas: spread(|c| c.gradient_energy_atlas),
            cohorts: all,
        };
        Ok((record, picture))
    }

    /// That there are fewer cohorts than were asked for.
    fn told(&self, few: &Cohorts, subjects: usize) -> String {
        let count = match few.members.len() {
            1 => "is 1 cohort".to_owned(),
            n => format!("are {n} different cohorts"),
        };
        let (size, asked) = (few.size, self.asked);
        format!(
            "for {size} of {subjects} subjects there {count}, fewer than the {asked} requested; \
             all of them are used"
        )
    }

    fn verdict(
        &self,
        sizes: &[SizeRecord],
        stable: Option<usize>,
        said: impl Iterator<Item = String>,
    ) -> Verdict {
        let all = || sizes.iter().flat_map(|s| &s.cohorts);
        let part = all().filter(|c| !c.good).count() as f64 / all().count().max(1) as f64;
        let check = Check::at_most("fraction of unusable atlases", part, ATLAS.unusable);
        let check = check.or(Remedy::WholeAtlas);
        let within = format!(
            "the mean entropies of the atlases differ by at most {} % from the last",
            100.0 * STABLE_PART
        );
        let mut remarks = vec![match stable {
            Some(size) => text!("stable from {size} subjects on: there {within}"),
            None => text!(
                "not stable within these sizes, which needs at least two sizes where {within}; use \
                 more subjects"
            ),
        }];
        remarks.extend(said.map(Text::from));
        self.study.caller.worded(Verdict::new(vec![check], remarks), Speaker::Atlas)
    }

    fn finish(
        &self,
        mut staged: Staged<'_>,
        clock: Clock,
        record: StabilityRecord,
        pictures: &[SizePictures],
    ) -> Result<Done<StabilityRecord>> {
        staged.write_text(COHORTS, &cohorts_csv(&record))?;
        staged.write_text(SIZES, &sizes_csv(&record))?;
        let own = [("cohorts", COHORTS), ("sizes", SIZES)];
        let written = written(own.map(|(role, name)| (role, name.to_owned())), true);
        conclude(staged, clock, record, (self.study.output, &written), nothing_more, |record| {
            stability::render(&StabilityReport { record, pictures })
        })
    }
}

/// The places of the sizes whose pictures are shown: evenly over all, the ends among them.
fn shown(count: usize) -> Vec<usize> {
    let wanted = PICTURES.min(count);
    let mut places: Vec<usize> = (0..wanted)
        .map(|i| if wanted < 2 { 0 } else { (i * (count - 1) + (wanted - 1) / 2) / (wanted - 1) })
        .collect();
    places.dedup();
    places
}

/// A row for each cohort; the numbers of its subjects are those of the record, from 0.
fn cohorts_csv(record: &StabilityRecord) -> String {
    let mut text = "subjects,cohort,members,entropy_affine_bits,entropy_atlas_bits,\
                    gradient_energy_affine,gradient_energy_atlas,good\n"
        .to_owned();
    for size in &record.sizes {
        for (number, cohort) in size.cohorts.iter().enumerate() {
            let members: Vec<String> = cohort.members.iter().map(ToString::to_string).collect();
            let _ = writeln!(
                text,
                "{},{number},{},{},{},{},{},{}",
                size.size,
                members.join(" "),
                cohort.entropy_affine,
                cohort.entropy_atlas,
                cohort.gradient_energy_affine,
                cohort.gradient_energy_atlas,
                cohort.good
            );
        }
    }
    text
}

/// A row for each size; a field is empty where one cohort has no spread.
fn sizes_csv(record: &StabilityRecord) -> String {
    let mut text = "subjects,cohorts,affine_mean_bits,affine_variance,affine_standard_deviation,\
                    atlas_mean_bits,atlas_variance,atlas_standard_deviation,\
                    affine_gradient_mean,affine_gradient_variance,affine_gradient_standard_deviation,\
                    atlas_gradient_mean,atlas_gradient_variance,atlas_gradient_standard_deviation,bad\n"
        .to_owned();
    let known = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    for size in &record.sizes {
        let _ = write!(text, "{},{}", size.size, size.cohorts.len());
        for spread in [size.affine, size.atlas, size.gradient_affine, size.gradient_atlas] {
            let deviation = known(spread.standard_deviation);
            let _ = write!(text, ",{},{},{deviation}", spread.mean, known(spread.variance));
        }
        let _ = writeln!(text, ",{}", size.cohorts.iter().filter(|c| !c.good).count());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_cohorts() {
        let read = |text: &str| text.parse::<Sizes>().map(|s| s.0);
        assert_eq!(read("2..5"), Ok(vec![2, 3, 4, 5]));
        assert_eq!(read("2,4,8"), Ok(vec![2, 4, 8]));
        assert_eq!(read("8, 2..4,3"), Ok(vec![2, 3, 4, 8]));
        for bad in ["", "1..3", "5..2", "2..", "two", "2,,3", "-2", "2..9999999999"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pictures_are_of_sizes_over_the_whole_range() {
        assert_eq!(shown(13), [0, 2, 5, 7, 10, 12]);
        assert_eq!(shown(3), [0, 1, 2]);
        assert_eq!(shown(1), [0]);
        assert_eq!(shown(7).len(), 6);
        assert!(shown(0).is_empty());
    }
}
