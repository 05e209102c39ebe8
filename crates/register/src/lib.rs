//! voxalign: register.
