//! Lists the kernel files, the headers that they may include by name, and the remaining sources, and generates
//! the table of kernel declarations.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The files in a folder and those in it that end so, in the order of their names.
fn files(folder: &Path, end: &str, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)?
        .collect::<std::io::Result<Vec<_>>>()?
        .iter()
        .map(|e| e.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            // What is compiled with a feature alone.
            if path.ends_with("baselines") && std::env::var_os("CARGO_FEATURE_BASELINES").is_none()
            {
                continue;
            }
            files(&path, end, found)?;
        } else if path.extension().is_some_and(|e| e == end) {
            found.push(path);
        }
    }
    Ok(())
}

/// The headers, and the files of kernels in their folder.
fn kernels(root: &Path) -> Result<String, Box<dyn Error>> {
    let (mut headers, mut rest) = (Vec::new(), Vec::new());
    files(root, "cuh", &mut headers)?;
    files(root, "cu", &mut rest)?;
    let mut text = String::from(
        "/// Headers that kernels may include, by name.\nconst HEADERS: &[(&str, &str)] = &[\n",
    );
    for path in headers {
        let name = path.file_name().unwrap_or_default();
        writeln!(text, "    ({name:?}, include_str!({path:?})),")?;
    }
    text.push_str("];\n\n/// The files of kernels, in their folder.\n#[cfg(test)]\npub(super) const FILES: &[&str] = &[\n");
    for path in rest {
        writeln!(text, "    {:?},", path.strip_prefix(root)?)?;
    }
    text.push_str("];\n");
    Ok(text)
}

/// Every `kernels! { NAME = ...` at the beginning of a line, by its path.
fn declarations(cuda: &Path) -> Result<String, Box<dyn Error>> {
    let mut sources = Vec::new();
    files(cuda, "rs", &mut sources)?;
    let mut text = String::from(
        "/// All declarations but those of texts that are written at run time.\npub(super) const ALL: &[&Declaration] = &[\n",
    );
    for path in sources {
        let mut modules = String::from("crate::cuda");
        for part in path.strip_prefix(cuda)?.with_extension("").iter() {
            if part != "mod" {
                write!(modules, "::{}", part.display())?;
            }
        }
        for line in std::fs::read_to_string(&path)?.lines() {
            let declared = line.strip_prefix("kernels! {").and_then(|rest| rest.split_once('='));
            if let Some(name) = declared.and_then(|(name, _)| name.split_whitespace().last()) {
                writeln!(text, "    &{modules}::{name}::DECLARATION,")?;
            }
        }
    }
    text.push_str("];\n");
    Ok(text)
}

fn main() -> Result<(), Box<dyn Error>> {
    let cuda = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("src/cuda");
    println!("cargo:rerun-if-changed={}", cuda.display());
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("kernels.rs"), kernels(&cuda.join("kernels"))?)?;
    std::fs::write(out.join("declarations.rs"), declarations(&cuda)?)?;
    Ok(())
}
