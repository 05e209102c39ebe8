//! The files that a result leaves in a data set, and what they are made of.

use super::Said;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use voxalign_image::Transform;
use voxalign_io::transform::{self, Geometry};
use voxalign_io::{IoError, atomic};

/// A file that a result leaves: by what it is made, and its name relative to the data set.
pub(super) struct Planned {
    pub(super) role: &'static str,
    pub(super) name: String,
    pub(super) by: By,
    pub(super) description: Option<String>,
}

/// What a file is made of.
pub(super) enum By {
    /// A copy.
    Copy(PathBuf),
    /// The chain of these transforms, or its inverse.
    Chain { affine: PathBuf, warp: Option<PathBuf>, inverse: bool },
}

impl By {
    /// Writes it.
    pub(super) fn write(&self, to: &Path) -> Result<(), IoError> {
        match self {
            Self::Copy(from) => {
                atomic::write_file(to, |w| std::io::copy(&mut File::open(from)?, w).map(drop))
            }
            Self::Chain { affine, warp, inverse } => {
                let (affine, planar) = transform::read_with_planar(affine, &Geometry::default())?;
                let map = match (warp, inverse) {
                    (None, false) => affine,
                    (Some(warp), false) => {
                        transform::read(warp, &Geometry::default())?.then(&affine)
                    }
                    (warp, true) => {
                        let back = affine.to_affine().and_then(|affine| affine.inverse());
                        let back = back.map_err(|e| IoError::Image {
                            path: to.to_owned(),
                            source: Box::new(e),
                        })?;
                        let back = Transform::Affine(back);
                        match warp {
                            Some(warp) => back.then(&transform::read(warp, &Geometry::default())?),
                            None => back,
                        }
                    }
                };
                if !planar || !transform::write_itk_2d(to, &map)? {
                    transform::write(to, &map, &Geometry::default())?;
                }
                Ok(())
            }
        }
    }
}

impl Planned {
    /// The name of its sidecar.
    pub(super) fn sidecar(&self) -> Option<String> {
        self.description.as_ref()?;
        let (stem, _) = self.name.split_once('.')?;
        Some(format!("{stem}.json"))
    }
}

/// What a result with these files leaves.
pub(super) fn planned(said: &Said, files: &BTreeMap<String, PathBuf>) -> Vec<Planned> {
    let space = &said.space;
    let mut all = Vec::new();
    let copies = [
        ("resampled", Some(format!("The image in the space {space}"))),
        (
            "jacobian",
            Some(format!("Jacobian determinant of the warp from {space}, without the affine part")),
        ),
    ];
    let copied = |role: &'static str, description| {
        let from = files.get(role)?;
        let name = from.file_name()?.to_string_lossy();
        let (_, ends) = name.split_once('.')?;
        Some(Planned {
            role,
            name: format!("{}.{ends}", said.stem(role)),
            by: By::Copy(from.clone()),
            description,
        })
    };
    all.extend(copies.into_iter().filter_map(|(role, description)| copied(role, description)));
    let ends = [&said.name.suffix, space];
    for (role, inverse, [from, to]) in
        [("transform", false, ends), ("inverse_transform", true, [ends[1], ends[0]])]
    {
        let Some(affine) = files.get("transform").cloned() else { continue };
        let warp = files.get(if inverse { "inverse_warp" } else { "warp" }).cloned();
        let deforms = files.contains_key("warp") || files.contains_key("inverse_warp");
        if warp.is_none() && deforms {
            continue;
        }
        let name = format!("{}.{}", said.stem(role), if deforms { "h5" } else { "txt" });
        let description = Some(format!("Resamples images from {from} to {to}"));
        all.push(Planned { role, name, by: By::Chain { affine, warp, inverse }, description });
    }
    all.extend(copied("report", None));
    all
}
