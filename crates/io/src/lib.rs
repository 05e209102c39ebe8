//! voxalign: io.
