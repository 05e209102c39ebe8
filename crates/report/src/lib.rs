//! voxalign: report.
