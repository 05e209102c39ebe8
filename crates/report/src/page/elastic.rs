//! The report on a registration by an elastic body: its deformation, its mesh and strain, and how it moved.

pub use crate::record::elastic::{ElasticRecord, MaterialRecord, SliceRecord, StepPartRecord};

use super::deform::{DeformReport, EnergyCurve, EnergyScale, render_with, scale_name};
use super::html::{Columns, Section, figure, note, scroll, section};
use super::{Page, course};
use crate::draw::meshes::{Colour, Layer, Row, Sections};
use crate::draw::studio::Studio;
use crate::draw::{axis, body};
use crate::error::Result;
use crate::record::RunRecord;
use crate::text::{fixed, number, seconds, thousands};
use std::collections::BTreeSet;
use voxalign_image::{Grid, Mesh, TetraMesh, Vector3, memory};
use voxalign_register::multiscale::{Motion, ScaleRecord};

/// The content of a report on a registration by an elastic body.
#[derive(Debug, Clone)]
pub struct ElasticReport<'a> {
    /// That of the deformation.
    pub deform: DeformReport<'a>,
    /// The mesh at rest, in the fixed world.
    pub mesh: &'a TetraMesh,
    /// How far each of its vertices went, mm.
    pub displacements: &'a [Vector3<f64>],
    /// The norm of the strain of each tetrahedron.
    pub strain: &'a [f32],
}

/// The report as one HTML file that needs nothing else.
///
/// # Errors
/// As of [`deform::render`](crate::deform::render).
pub fn render(report: &ElasticReport<'_>) -> Result<String> {
    let record = report.deform.record;
    render_with(&report.deform, |page, studio| {
        outlines(page, report)?;
        let pictures = strains(studio, "Strain over the fixed image", report.mesh, report.strain)?;
        page.figure(
            "Strain",
            "fig-strain",
            "Strain",
            &pictures,
            "the norm of the strain of each tetrahedron, over the fixed image. Good: it is small, and large only where tissue really \
             stretches or slides. Linear elasticity is for small strains, up to about 0.1; spots of single tetrahedra mean that \
             noise moves the body.",
        );
        let fixed = record.inputs.iter().find(|i| i.role == "fixed").and_then(|i| i.grid.as_ref());
        let grid = fixed.and_then(|g| Grid::axis_aligned(g.dims, g.spacing_mm).ok());
        page.add("Motion", motion(record, grid.as_ref()));
        if let Some(elastic) = &record.elastic {
            page.add("Body", facts(elastic));
            page.add("Steps", steps(elastic));
        }
        Ok(())
    })
}

/// Pictures of the norm of the strain of each tetrahedron over an image, under this name.
pub(crate) fn strains(
    studio: &Studio<'_>,
    name: &str,
    mesh: &TetraMesh,
    strain: &[f32],
) -> Result<String> {
    let values = strain.iter().map(|v| f64::from(*v)).filter(|v| v.is_finite());
    let most = values.fold(0.0, f64::max);
    let reach = if most > 0.0 { axis::round_up(most) } else { 1.0 };
    body::pictures(studio, name, mesh, strain, reach)
}

/// The faces of tetrahedra, each once, with vertices where they are now.
pub(crate) fn faces(mesh: &TetraMesh, vertices: Vec<Vector3<f64>>) -> Result<Mesh> {
    const CORNERS: [[usize; 3]; 4] = [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]];
    let mut all = BTreeSet::new();
    for corners in mesh.tetrahedra() {
        for [a, b, c] in CORNERS {
            let mut face = [corners[a], corners[b], corners[c]];
            face.sort_unstable();
            all.insert(face);
        }
    }
    Ok(Mesh::new(vertices, all.into_iter().collect())?)
}

/// The mesh where it crosses slices, at rest and as it ended.
fn outlines(page: &mut Page, report: &ElasticReport<'_>) -> Result<()> {
    let rest = report.mesh.vertices();
    let moved = rest.iter().zip(report.displacements).map(|(at, by)| at + by);
    let before = faces(report.mesh, memory::copied(rest)?)?;
    let after = faces(report.mesh, memory::collected(moved)?)?;
    let images = &report.deform.images;
    let layer = |name: &str, mesh, colour| Layer::new(name, mesh, colour).with_opacity(THIN);
    let rows = vec![
        Row {
            name: "Fixed image".into(),
            image: images.fixed,
            layers: vec![layer("mesh at rest", &before, Colour::Blue)],
        },
        Row {
            name: "Moving image, affine part only".into(),
            image: images.before,
            layers: vec![layer("mesh at the end", &after, Colour::Orange)],
        },
    ];
    page.sections(
        "Mesh",
        &Sections { rows },
        "The mesh over slices",
        "where the faces of the tetrahedra cross the slices: at rest over the fixed image, and as the body ended over the moving one. \
         Good: what is in a cell above is in the same cell below, and no cell is crushed.",
    )
}

/// The opacity of lines of a mesh.
pub(crate) const THIN: f64 = 0.7;

/// Curves of the motion; scales are named by the length of their voxels on the grid.
pub(crate) fn motion(record: &RunRecord, grid: Option<&Grid>) -> Section {
    let Some(deformation) = &record.deformation else { return Section::default() };
    let named = |scale: &ScaleRecord| {
        grid.map_or_else(|| format!("1/{}", scale.factor), |g| scale_name(scale.factor, g))
    };
    let chart = |name: &'static str, id: &str, what: &str, of: fn(&Motion) -> f64| {
        let scale = |s: &ScaleRecord| EnergyScale {
            name: named(s),
            seconds: s.seconds,
            curves: vec![EnergyCurve {
                name: name.to_owned(),
                points: (1..).zip(s.motion.iter().map(of)).collect(),
            }],
        };
        let scales: Vec<_> = deformation.scales.iter().map(scale).collect();
        scroll(course::energies(&scales, &course::Labels::only(id, what, name)))
    };
    let charts =
        chart("kinetic energy, µJ", "svg-kinetic", "Kinetic energy", |m| m.kinetic_energy)
            + &chart("unbalanced force, mN", "svg-force", "Unbalanced force", |m| {
                m.unbalanced_force
            })
            + &chart("strain energy, µJ", "svg-strain-energy", "Strain energy", |m| {
                m.strain_energy
            });
    figure(
        "fig-motion",
        "Motion of the body",
        &charts,
        "after each step: the kinetic energy, the force that nothing balances, and the strain energy. Good: the first two rise at the \
         beginning of a scale and fall to next to nothing, and the last becomes flat: the body is at rest. Waves mean that it swings: \
         more damping or a shorter time step helps.",
    )
}

/// What the body is, and what it went through.
pub(crate) fn facts(of: &ElasticRecord) -> Section {
    let made = match (&of.file, of.spacing_mm) {
        (Some(file), _) => format!("read from {}", super::html::file_name(file)),
        (None, Some(mm)) => format!("cells of about {}\u{a0}mm", number(mm)),
        (None, None) => String::new(),
    };
    let rows = [
        ("Mesh", made),
        ("Tetrahedra", thousands(of.tetrahedra as f64)),
        ("Vertices", thousands(of.vertices as f64)),
        ("Vertices that were held", thousands(of.held as f64)),
        ("Volume at rest, cm³", number(of.volume_mm3 / 1e3)),
        ("Force scale, kPa", number(of.force_scale_kpa)),
        ("Time step, s", number(of.time_step_s)),
        ("Damping by mass, 1/s", number(of.mass_damping_per_s)),
        ("Damping by stiffness, s", number(of.stiffness_damping_s)),
        ("Steps that were halved", thousands(of.cuts as f64)),
        ("Smallest volume over that at rest", fixed(of.least_volume_ratio, 3)),
        ("Its tetrahedron", of.least_volume_tetrahedron.to_string()),
        ("Largest norm of strain", fixed(of.largest_strain, 3)),
        ("Largest stress of von Mises, kPa", number(of.largest_von_mises_kpa)),
        ("At rest at the end", if of.at_rest { "yes" } else { "no" }.to_owned()),
    ];
    let table = Columns::of(rows)
        .column("Body", |row| row.0.to_owned())
        .column("#Value", |row| row.1.clone())
        .html("body");
    let materials = Columns::of(&of.materials)
        .column("Label", |m| m.label.map_or_else(|| "all".to_owned(), |l| l.to_string()))
        .column("#Young, kPa", |m| number(m.young_kpa))
        .column("#Poisson", |m| number(m.poisson))
        .column("#Density, kg/m³", |m| number(m.density_kg_m3))
        .column("#Tetrahedra", |m| thousands(m.tetrahedra as f64))
        .html("materials");
    section("body", "The body", &(table + &materials))
}

/// Where the time of steps went.
pub(crate) fn steps(of: &ElasticRecord) -> Section {
    let sum: f64 = of.step_parts.iter().map(|p| p.seconds).sum();
    let table = Columns::of(&of.step_parts)
        .column("Part", |p| p.name.clone())
        .column("#All steps", |p| seconds(p.seconds))
        .column("#One step, ms", |p| number(1e3 * p.seconds_per_iteration))
        .column("#Share", |p| super::html::percent(p.seconds / sum.max(f64::MIN_POSITIVE), 0))
        .html("stages");
    let note = note(&format!(
        "{} steps; before the first ones {} were taken to locate samples in the mesh and to prepare solutions.",
        thousands(of.iterations as f64),
        seconds(of.setup_seconds)
    ));
    section("steps", "Time of the parts of a step", &(table + &note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_are_there_once() {
        let corner = |i: usize| Vector3::from_fn(|a, _| f64::from((i >> a & 1) as u8));
        // Two tetrahedra that share a face.
        let mesh = TetraMesh::new(
            vec![corner(0), corner(1), corner(2), corner(4), corner(7)],
            vec![[0, 1, 2, 3], [1, 2, 3, 4]],
        )
        .unwrap();
        let all = faces(&mesh, mesh.vertices().to_vec()).unwrap();
        assert_eq!(all.faces().len(), 7);
    }

    #[test]
    fn the_parts_of_a_step_add_up() {
        let part = |name: &str, seconds: f64| StepPartRecord {
            name: name.into(),
            seconds,
            seconds_per_iteration: seconds / 10.0,
        };
        let step_parts = vec![part("forces", 3.0), part("motion", 1.0)];
        let record = ElasticRecord { iterations: 10, step_parts, ..ElasticRecord::default() };
        let html = steps(&record).html;
        assert!(html.contains("75 %") && html.contains("25 %") && html.contains("300"), "{html}");
    }
}
