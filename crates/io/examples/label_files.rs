//! Label maps with names and colours in the forms of other programs, for `tools/check_labels.py`.
//!
//! `label_files LABELS TABLE OUT`: the image LABELS with the names and colours of TABLE becomes OUT, a segmentation of 3D Slicer
//! (`.seg.nrrd`), or NIfTI with a label description file of ITK-SNAP beside it.

use std::error::Error;
use voxalign_io::image::{WriteOptions, read_info, read_labels};
use voxalign_io::labels;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, table, out] = arguments.as_slice() else {
        return Err("use it as `label_files LABELS TABLE OUT`".into());
    };
    let dimensions = read_info(image)?.dimensions;
    let (map, table) = (read_labels(image)?, labels::read_table(table)?);
    let options = WriteOptions { dimensions, ..WriteOptions::default() };
    if out.ends_with(".seg.nrrd") {
        labels::write_segmentation(out, &map, &table, &options)?;
    } else {
        labels::write_nifti(out, &map, &table, &options)?;
    }
    Ok(())
}
