//! What the tests of files share.

use std::path::{Path, PathBuf};

/// A folder of the real files, which `VOXALIGN_TEST_DATA` names or which lie in `shared/data` beside the
/// workspace; without it nothing, and a failure where `VOXALIGN_REQUIRE_DATA` is set.
pub(crate) fn real_files(name: &str) -> Option<PathBuf> {
    let root = match std::env::var_os("VOXALIGN_TEST_DATA") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    let folder = root.join(name);
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var_os("VOXALIGN_REQUIRE_DATA").is_some();
    assert!(!required, "no folder {}, but VOXALIGN_REQUIRE_DATA is set", folder.display());
    println!("skipped: no folder {}", folder.display());
    None
}
