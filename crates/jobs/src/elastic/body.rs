//! Bodies of meshes and materials.

use super::materials::read_materials;
use super::mesh::{MeshOptions, Meshed};
use crate::Silent;
use crate::error::{Error, Result};
use crate::listener::{Listener, reading};
use std::path::PathBuf;
use std::sync::Arc;
use voxalign_elasticity::{Body, ElasticityError, Fixed, Material, Materials, TetraBox};
use voxalign_image::{Grid, TetraMesh};
use voxalign_options::text;
use voxalign_register::model::elastic::{BodyLevel, ElasticBody, Tissue};
use voxalign_report::MaterialRecord;

/// A body of one tissue over all of an image, of cells with edges of about a spacing, mm, and held nowhere. At scales of twice the
/// voxels and more cells are of twice the spacing.
///
/// # Errors
/// An image without depth, a spacing that is not above 0, a material that cannot be, and too many cells.
pub fn of_image(image: &Grid, spacing_mm: f64, tissue: Tissue) -> Result<ElasticBody> {
    let materials = Materials::Uniform(material(&tissue)?);
    let BodyLevel { body, fixed, cells, .. } = level(image, spacing_mm, &materials, 1)?;
    let coarse = level(image, COARSER * spacing_mm, &materials, 2)?;
    Ok(ElasticBody::new(body, fixed, cells).with_level(coarse))
}

/// The spacing of cells at coarse scales over that of the finest.
const COARSER: f64 = 2.0;

/// A box of cells over an image, for scales from a factor on.
fn level(image: &Grid, spacing: f64, materials: &Materials, factor: usize) -> Result<BodyLevel> {
    let cells = TetraBox::over(image, spacing)?;
    let body = Arc::new(Body::new(cells.mesh()?, materials)?);
    let fixed = Fixed::none(body.mesh())?;
    Ok(BodyLevel { factor, body, fixed, cells: Some(cells) })
}

/// What a tissue is to a body.
fn material(tissue: &Tissue) -> Result<Material> {
    Ok(Material::new(tissue.young, tissue.poisson, tissue.density)?)
}

/// What a body is made of.
pub(super) enum Of<'a> {
    /// One tissue.
    One(Tissue),
    /// What a file has for each label.
    Table(&'a PathBuf),
}

/// A body that was made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) body: ElasticBody,
    /// Its materials, by label where there are several.
    pub(super) materials: Vec<MaterialRecord>,
    /// What the reader of the result should know.
    pub(super) remarks: Vec<String>,
}

impl Of<'_> {
    /// A body of a mesh that options make for an image on a grid.
    pub(super) fn made(
        &self,
        mesh: &MeshOptions,
        fixed: &Grid,
        listener: &dyn Listener,
    ) -> Result<Made> {
        let rows = match self {
            Self::One(tissue) => vec![(None, material(tissue)?)],
            Self::Table(path) => {
                let read = reading(listener, || read_materials(path));
                let rows = read.map_err(|e| e.at(text!("`materials`")))?;
                rows.into_iter().map(|(label, material)| (Some(label), material)).collect()
            }
        };
        let Meshed { mesh: of_mesh, cells, mut remarks } = mesh.made(fixed, listener)?;
        let count = |label: Option<i32>| match label {
            None => of_mesh.tetrahedra().len(),
            Some(0) if of_mesh.labels().is_empty() => of_mesh.tetrahedra().len(),
            Some(label) => of_mesh.labels().iter().filter(|l| **l == label).count(),
        };
        let record = |&(label, material): &(Option<i32>, Material)| MaterialRecord {
            label,
            young_kpa: material.young_kpa(),
            poisson: material.poisson(),
            // As it was given, but for the last bits.
            density_kg_m3: (material.density_kg_mm3() * 1e15).round() / 1e6,
            tetrahedra: count(label),
        };
        let records: Vec<_> = rows.iter().map(record).collect();
        let locks = rows.iter().zip(&records).filter(|((_, m), r)| m.locks() && r.tetrahedra > 0);
        let stiff: Vec<_> = locks.map(|((_, m), _)| m.poisson().to_string()).collect();
        if !stiff.is_empty() {
            remarks.push(format!(
                "with a Poisson's ratio of {} linear tetrahedra are stiffer than the material (volumetric locking); up to 0.45 \
                 that is small",
                stiff.join(" and ")
            ));
        }
        let materials = match rows.first() {
            Some(&(None, one)) => Materials::Uniform(one),
            _ => Materials::ByLabel(
                rows.iter().filter_map(|&(label, material)| Some((label?, material))).collect(),
            ),
        };
        let (body, held) = self.held(of_mesh, mesh, &materials, listener)?;
        if held.mask().iter().all(|held| *held) {
            return Err(Error::input(text!(
                "all {} vertices of the mesh are held, so that nothing moves; hold fewer by `fix_label` or `fix_nodes`",
                held.mask().len()
            )));
        }
        let coarse = self.coarse(mesh, fixed, &materials);
        let body = ElasticBody::new(body, held, cells);
        let body = match coarse {
            Some(coarse) => body.with_level(coarse),
            None => body,
        };
        Ok(Made { body, materials: records, remarks })
    }
    /// A body of a mesh, and which of its vertices are held.
    fn held(
        &self,
        of_mesh: TetraMesh,
        mesh: &MeshOptions,
        materials: &Materials,
        listener: &dyn Listener,
    ) -> Result<(Body, Fixed)> {
        let body = Body::new(of_mesh, materials).map_err(|e| {
            use ElasticityError::{NoMaterial, RepeatedLabel};
            let of_table = matches!(e, NoMaterial { .. } | RepeatedLabel { .. });
            let file = match self {
                Self::Table(path) if of_table => Some(*path),
                _ => mesh.mesh.as_ref(),
            };
            match file {
                Some(path) => Error::from(e).at(format!("'{}'", path.display())),
                None => e.into(),
            }
        })?;
        let mut held = Fixed::none(body.mesh())?;
        for &label in &mesh.fix_label {
            let of = Fixed::label(body.mesh(), label).map_err(Error::from);
            held = held.or(&of.map_err(|e| e.at(text!("`fix_label`")))?);
        }
        let nodes = mesh.nodes(listener)?;
        if let Some(path) = &mesh.fix_nodes {
            let of = Fixed::vertices(body.mesh(), &nodes).map_err(Error::from);
            held = held.or(&of.map_err(|e| e.at(format!("'{}'", path.display())))?);
        }
        Ok((body, held))
    }

    /// A coarser mesh for coarse scales, where one can be made: a mask may be too thin for it, or a label that is held not be in it.
    fn coarse(&self, mesh: &MeshOptions, fixed: &Grid, materials: &Materials) -> Option<BodyLevel> {
        let coarser = mesh.coarser(COARSER)?;
        let Meshed { mesh, cells, .. } = coarser.made(fixed, &Silent).ok()?;
        let (body, fixed) = self.held(mesh, &coarser, materials, &Silent).ok()?;
        let moves = fixed.mask().iter().any(|held| !held);
        moves.then(|| BodyLevel { factor: 2, body: Arc::new(body), fixed, cells })
    }
}
