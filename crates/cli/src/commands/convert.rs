//! `voxalign convert`: converts a file to another format.

use crate::device::start_threads;
use crate::failure::{Failure, Outcome};
use crate::progress::{Printer, Talk};
use clap::Args;
use voxalign_jobs::convert::Job;

/// Arguments of `voxalign convert`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  voxalign convert brain.hdr brain.nii.gz
  voxalign convert ct.nrrd ct.nii.gz --data-type i16
  voxalign convert dicom_folder ct.nii.gz
      the slices of a DICOM series; --series selects one of several. Several volumes become one 4D file.
      The headers become ct.json, a BIDS sidecar, and b-values with their directions ct.bval and ct.bvec;
      --no-bids leaves these out
  voxalign convert old_mr mr.nii.gz --even
  voxalign convert bold.nii.gz tenth.nii.gz --volume 9
  voxalign convert perfusion.nii.gz clean.nii.gz --replace-nan 0
  voxalign convert flirt.mat affine.tfm --fixed-geometry ref.nii.gz --moving-geometry in.nii.gz
  voxalign convert affine.tfm field.nii.gz --fixed-geometry ref.nii.gz
  voxalign convert ras.csv lps.csv --to-convention lps
  voxalign convert landmarks.mrk.json landmarks.csv
  voxalign convert landmarks.fcsv points.txt --to-format index --points-of scan.nii.gz
      for elastix, as voxel indices of this image
  voxalign convert pairs.tag fixed.csv --volume 0
  voxalign convert lh.pial lh.pial.gii
  voxalign convert model.stl model.vtp --from-convention lps --to-convention lps
  voxalign convert cam1.txt cam2.txt views.toml --image cam1.tif --image cam2.tif
      the geometry of X-ray images, as one table for voxalign pose and drr, to which a 'region' of each view
      can be added: from MayaCam 2 files, OpenCV cameras, plastimatch matrices, other tables
  voxalign convert xa1.dcm xa2.dcm views.toml
      the same from DICOM X-ray images whose headers contain it

The extensions set the formats. Images: .nii, .nii.gz, .hdr/.img, .mha, .mhd, .nrrd, .nhdr; DICOM is read. Transforms:
.tfm and .txt (ITK text), .mat (ITK/ANTs; FSL's is recognised when read), .h5 (ITK/ANTs, with its
fields), .fsl and .fsl.mat (FSL), .nii and .nii.gz (displacement field). Points: .csv, .fcsv and .mrk.json
(3D Slicer), .txt and .pts (elastix), .tag (MNI). Meshes: .gii, .vtk, .vtp, .stl, .ply, lh.pial and the
like (FreeSurfer), .tck, .trk. Views: .toml is written; .txt, .yml, .xml and DICOM are read. Contents
that the new format cannot hold are reported. An existing output file is replaced.")]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    job: Job,
}

/// Converts the file.
pub(crate) fn run(args: ConvertArgs) -> Result<Outcome, Failure> {
    start_threads(None)?;
    args.job.run(&Printer::lines(Talk::Normal))?;
    Ok(Outcome::Good)
}
