//! Pyramids: as other programs write them (`tools/make_pyramids.py` made `data`), as this library does, and damaged ones.

mod common;
mod others;
mod robust;
