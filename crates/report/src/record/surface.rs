//! The record of a surface.

use super::GridRecord;
use serde::Serialize;
use voxalign_register::Verdict;
use voxalign_register::compare::MeshScores;
use voxalign_surface::Figures;

/// The source of a surface.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ObjectRecord {
    /// Voxels inside.
    pub voxels: usize,
    /// Their volume, mm³.
    pub volume_mm3: f64,
    /// Of an image of two dimensions their area, mm².
    #[serde(skip_serializing_if = "Option::is_none")]
    pub area_mm2: Option<f64>,
    /// Parts that there were, where only the largest was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<usize>,
    /// Voxels that were filled, where cavities were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filled_voxels: Option<usize>,
    /// Whether it reaches the border of the image, where the surface is closed half a voxel outside.
    pub at_border: bool,
}

/// The result for a surface, or for outlines of a 2D image.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SurfaceFound {
    /// The source of the surface.
    pub object: ObjectRecord,
    /// The surface around the voxels as they are.
    pub isosurface: Figures,
    /// The surface that was written.
    pub surface: Figures,
    /// Most triangles that were asked for, where there was a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_triangles: Option<usize>,
    /// The distance between the two, mm, where they are not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance: Option<MeshScores>,
    /// Whether the surface can be used, and why.
    pub verdict: Verdict,
}

record! {
    /// The record of a surface, written next to it as JSON. Numbers that are not finite are written as `null`.
    #[derive(Debug, Clone, Default, PartialEq, Serialize)]
    SurfaceRecord {
        /// The grid of the image.
        pub grid: GridRecord,
        /// The source of the surface.
        pub object: ObjectRecord,
        /// The surface around the voxels as they are.
        pub isosurface: Figures,
        /// The surface that was written.
        pub surface: Figures,
        /// Most triangles that were asked for, where there was a limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub most_triangles: Option<usize>,
        /// The distance between the two, mm, where they are not the same.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub distance: Option<MeshScores>,
    }
}

begun!(SurfaceRecord verdict: Verdict::new(Vec::new(), Vec::new()));
