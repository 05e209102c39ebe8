//! Shapes of an atlas of anatomies: files, distances of the subjects from it, and variability.

use crate::anatomy::{
    Subject as Anatomy, extension, follows, marks_at, shape_record, write_list, write_mesh,
};
use crate::atlas::study::Prepared;
use crate::error::{Error, Result};
use crate::staged::Staged;
use std::sync::{Mutex, PoisonError};
use voxalign_compute::comm::Communicator;
use voxalign_image::{Affine, Mesh, PointSet, Vector3, VertexData, memory};
use voxalign_population::atlas::{Atlas, CarriedGeometry, TemplateGeometry};
use voxalign_register::attachment::images::finest;
use voxalign_register::{Check, Remedy, Verdict};
use voxalign_report::{AnatomyRecord, SubjectRecord, TemplateRecord};

/// The folder of shapes in that of the outputs, and in that of each subject.
pub(in crate::atlas) const SHAPES: &str = "shapes";

/// Units of a square millimetre: sums over subjects have the same bits in any order.
const UNIT: f64 = (1u64 << 24) as f64;

/// How far each vertex of the template is carried to the subjects: weighted sums of squares over those of this process.
#[derive(Default)]
pub(in crate::atlas) struct Variation(Mutex<Vec<Vec<i64>>>);

impl Variation {
    /// Adds a subject, to which an affine map leads, and which counts so much among all.
    fn add(&self, carried: &[CarriedGeometry], affine: &Affine, part: f64) -> Result<()> {
        let back = affine.inverse()?;
        let mut sums = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sums.resize_with(carried.len(), Vec::new);
        for (sums, carried) in sums.iter_mut().zip(carried) {
            sums.resize(carried.after.len(), 0);
            for (sum, (a, b)) in sums.iter_mut().zip(carried.before.iter().zip(&carried.after)) {
                let squared = (back.apply(*b) - back.apply(*a)).norm_squared();
                *sum += (squared * part * UNIT).round_ties_even() as i64;
            }
        }
        Ok(())
    }

    /// The root mean squares over the subjects of all processes, mm, of a template.
    pub(in crate::atlas) fn all(
        self,
        world: &Communicator,
        template: &[TemplateGeometry],
    ) -> Result<Vec<Vec<f32>>> {
        let mut own = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        own.resize_with(template.len(), Vec::new);
        let mut all = Vec::with_capacity(own.len());
        for (mut sums, template) in own.into_iter().zip(template) {
            sums.resize(template.vertices.len(), 0);
            if world.size() > 1 {
                world.all_reduce_sum(&mut sums)?;
            }
            all.push(sums.into_iter().map(|s| (s as f64 / UNIT).max(0.0).sqrt() as f32).collect());
        }
        Ok(all)
    }
}

/// The elements of a mesh with its vertices elsewhere.
fn placed(mesh: &Mesh, places: &[Vector3<f64>]) -> Result<Mesh> {
    let mut places = places.iter();
    Ok(mesh.map(|v| places.next().copied().unwrap_or(*v))?.with_data(Vec::new())?)
}

/// Something that is written: a mesh, or a list of points.
pub(in crate::atlas) enum Made {
    Mesh(Mesh),
    List(PointSet),
}

impl Made {
    pub(in crate::atlas) fn write(&self, staged: &mut Staged<'_>, name: &str) -> Result<()> {
        match self {
            Self::Mesh(mesh) => write_mesh(staged, name, mesh),
            Self::List(list) => write_list(staged, name, list),
        }
    }
}

/// How a subject fares, with what the template is in its world, under the names of files.
pub(in crate::atlas) fn of_subject(
    (prepared, number): (&Prepared<'_>, usize),
    carried: &[CarriedGeometry],
    variation: &Variation,
) -> Result<(AnatomyRecord, Vec<(String, Made)>)> {
    let mut record = AnatomyRecord::default();
    let mut made = Vec::new();
    let Some(own) = prepared.source.anatomy(number) else { return Ok((record, made)) };
    let all: f64 = prepared.entries.iter().map(|e| e.weight).sum();
    let part = prepared.entries[number].weight / all;
    variation.add(carried, &prepared.aligned.affines[number], part)?;
    let voxel = finest(&prepared.aligned.grid);
    for (i, (of, carried)) in own.geometry().zip(carried).enumerate() {
        let name = format!("{SHAPES}/{}.{}", of.name, extension(of));
        let from = prepared.source.anatomy(carried.from).and_then(|a| a.mesh(i));
        match (own.mesh(i), from) {
            (Some(theirs), Some(from)) => {
                let before = placed(from, &carried.before)?;
                let after = placed(from, &carried.after)?;
                record.shapes.push(shape_record(of, theirs, [&before, &after], voxel)?);
                made.push((name, Made::Mesh(after)));
            }
            _ => {
                let places = [&*carried.before, &carried.after];
                let each = own.weights(i)?;
                record.landmarks.push(marks_at(&of.name, places, own.places(i), &each));
                let list = PointSet::new(memory::copied(&carried.after)?);
                made.push((name, Made::List(list)));
            }
        }
    }
    Ok((record, made))
}

/// Something of the template: its mesh with how much it varies.
pub(in crate::atlas) struct OfTemplate {
    pub(in crate::atlas) name: String,
    pub(in crate::atlas) file: String,
    pub(in crate::atlas) mesh: Mesh,
    pub(in crate::atlas) variation: Vec<f32>,
    pub(in crate::atlas) is_marks: bool,
    pub(in crate::atlas) record: TemplateRecord,
}

impl OfTemplate {
    /// Writes it.
    pub(in crate::atlas) fn write(&self, staged: &mut Staged<'_>) -> Result<()> {
        if self.is_marks {
            let list = PointSet::new(memory::copied(self.mesh.vertices())?);
            return write_list(staged, &self.file, &list);
        }
        let data = VertexData {
            name: "variation_mm".to_owned(),
            components: 1,
            values: memory::copied(&self.variation)?,
            is_direction: false,
        };
        write_mesh(staged, &self.file, &self.mesh.clone().with_data(vec![data])?)
    }
}

/// What the template has beside images.
pub(in crate::atlas) fn of_template(
    prepared: &Prepared<'_>,
    atlas: &Atlas,
    variation: Vec<Vec<f32>>,
) -> Result<Vec<OfTemplate>> {
    let Some(first) = prepared.source.anatomy(0) else { return Ok(Vec::new()) };
    let all = first.geometry().zip(&atlas.geometry).zip(variation).enumerate();
    all.map(|(i, ((of, template), variation))| {
        let from: Option<&Anatomy> = prepared.source.anatomy(template.from);
        let is_marks = from.is_none_or(|a| a.mesh(i).is_none());
        let mesh = match from.and_then(|a| a.mesh(i)) {
            Some(mesh) => placed(mesh, &template.vertices)?,
            None => Mesh::new(memory::copied(&template.vertices)?, Vec::new())?,
        };
        let squares: f64 = variation.iter().map(|v| f64::from(*v).powi(2)).sum();
        let name = |number: usize| prepared.entries.get(number).map(|e| e.name.clone());
        let record = TemplateRecord {
            name: of.name.clone(),
            kind: of.kind.name().to_owned(),
            from: if is_marks { String::new() } else { name(template.from).unwrap_or_default() },
            vertices: template.vertices.len(),
            variation_mm: (squares / variation.len().max(1) as f64).sqrt(),
        };
        let file = format!("{SHAPES}/{}.{}", of.name, extension(of));
        Ok::<_, Error>(OfTemplate {
            name: of.name.clone(),
            file,
            mesh,
            variation,
            is_marks,
            record,
        })
    })
    .collect()
}

/// The verdict with what shapes and landmarks of the subjects say; `voxel` is the length of voxels, mm.
pub(in crate::atlas) fn judged(
    verdict: Verdict,
    subjects: &[SubjectRecord],
    voxel: f64,
) -> Verdict {
    let names = |fails: &dyn Fn(&AnatomyRecord) -> Vec<String>| -> Vec<String> {
        let of = |s: &SubjectRecord| {
            let name = s.name.clone();
            fails(&s.anatomy).into_iter().map(move |what| format!("{what} of {name}"))
        };
        subjects.iter().flat_map(of).collect::<Vec<_>>()
    };
    let of_shapes = |which: usize| {
        names(&|anatomy| {
            let all = anatomy.shapes.iter().filter(|s| !follows(s, voxel)[which]);
            all.map(|s| s.name.clone()).collect()
        })
    };
    let count = |names: Vec<String>, what: &str, remedy| {
        Some(Check::none(what, names.len() as u64).of(names).or(remedy))
    };
    let mut verdict = verdict;
    if subjects.iter().any(|s| !s.anatomy.shapes.is_empty()) {
        let (farther, beyond) = (
            "shapes farther from the template than before",
            "shapes farther from the template in the mean than allowed",
        );
        verdict = verdict.with(count(of_shapes(0), farther, Remedy::Shapes)).with(count(
            of_shapes(1),
            beyond,
            Remedy::Shapes,
        ));
    }
    if subjects.iter().any(|s| !s.anatomy.landmarks.is_empty()) {
        let farther = names(&|anatomy| {
            let all = anatomy.landmarks.iter();
            let fails = all.filter(|m| {
                let nearer = m.mean_after_mm <= m.mean_before_mm.max(voxel);
                !nearer
            });
            fails.map(|m| m.name.clone()).collect()
        });
        let what = "landmarks farther from the template than before";
        verdict = verdict.with(count(farther, what, Remedy::Shapes));
    }
    verdict
}
