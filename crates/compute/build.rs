//! Lists the files of kernels: the headers, which they may include by their names, and the rest.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The files in a folder and those in it, in the order of their names.
fn files(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut entries: Vec<_> = std::fs::read_dir(folder)?
        .collect::<std::io::Result<Vec<_>>>()?
        .iter()
        .map(|e| e.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("src/cuda/kernels");
    let mut found = Vec::new();
    files(&root, &mut found)?;
    let of = |end: &str| {
        let end = end.to_owned();
        found.iter().filter(move |path| path.extension().is_some_and(|e| *e == *end))
    };
    let mut text = String::from(
        "/// Headers that kernels may include, by name.\nconst HEADERS: &[(&str, &str)] = &[\n",
    );
    for path in of("cuh") {
        let name = path.file_name().unwrap_or_default();
        writeln!(text, "    ({name:?}, include_str!({path:?})),")?;
    }
    text.push_str("];\n\n/// The files of kernels, in their folder.\n#[cfg(test)]\npub(super) const FILES: &[&str] = &[\n");
    for path in of("cu") {
        writeln!(text, "    {:?},", path.strip_prefix(&root)?)?;
    }
    text.push_str("];\n");
    std::fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("kernels.rs"), text)?;
    Ok(())
}
