//! ITK-SNAP's label description file.

use super::table::LabelTable;
use std::fmt::Write;

/// The first lines, as comments: ITK-SNAP's own first line, by which others know the file, and the columns.
const HEAD: &str = "\
################################################
# ITK-SnAP Label Description File
# IDX   -R-  -G-  -B-  -A--  VIS MSH  LABEL
# (value; red, green and blue from 0 to 255; opacity from 0 to 1; shown in slices; shown as a surface; name)
################################################
    0     0    0    0        0  0  0    \"Clear Label\"
";

/// The text of the file: a line for the background and one for each label, all visible and opaque.
pub(super) fn text(table: &LabelTable) -> String {
    let mut out = HEAD.to_owned();
    for label in table.labels() {
        let [r, g, b] = label.colour();
        let (value, name) = (label.value(), label.name());
        let _ = writeln!(out, "{value:>5}   {r:>3}  {g:>3}  {b:>3}        1  1  1    \"{name}\"");
    }
    out
}
