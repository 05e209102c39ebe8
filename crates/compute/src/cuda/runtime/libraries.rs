//! Locating the CUDA libraries at run time.
//!
//! The driver is loaded by `cudarc`. NVRTC and cuFFT come with a toolkit, of any version and in
//! many places (a package of the system, a wheel of Python, a module of a cluster); they are looked
//! for in all the usual ones.

use std::path::PathBuf;

/// Majors of toolkits that are looked for, newest first.
const MAJORS: [u32; 2] = [13, 12];

/// Opens a library of the toolkit by its stem, such as `nvrtc`, or lists the locations that were searched.
pub(in crate::cuda) fn open(
    stem: &str,
    majors: &[u32],
) -> Result<libloading::Library, Vec<String>> {
    let mut names: Vec<String> = majors.iter().map(|m| format!("lib{stem}.so.{m}")).collect();
    names.push(format!("lib{stem}.so"));
    open_named(&names)
}

/// The message for a missing library: what it `is`, the locations `tried`, the Python `package` that has it, and
/// its stem.
pub(in crate::cuda) fn missing(is: &str, tried: &[String], package: &str, stem: &str) -> String {
    format!(
        "{is} was not found (looked for {}); install it with CUDA's toolkit 12.0 or newer, or with \
         `pip install {package}`, or put the folder of lib{stem}.so in LD_LIBRARY_PATH",
        tried.join(", ")
    )
}

/// A function of a library.
///
/// # Safety
/// The library documents it with this type.
pub(in crate::cuda) unsafe fn function<T: Copy>(
    library: &libloading::Library,
    name: &str,
) -> Result<T, String> {
    // SAFETY: the caller's care.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|f| *f).map_err(|e| format!("the library that was found lacks a function: {e}"))
}

/// Opens the first of the names that is found, or lists those that were tried, with the loader's errors for those
/// that exist.
fn open_named(names: &[String]) -> Result<libloading::Library, Vec<String>> {
    let mut tried = Vec::new();
    for folder in std::iter::once(None).chain(folders().into_iter().map(Some)) {
        for name in names {
            let path = folder.as_ref().map_or_else(|| PathBuf::from(name), |f| f.join(name));
            if folder.is_some() && !path.exists() {
                continue;
            }
            // SAFETY: a library of the CUDA toolkit, whose loading has no other effects.
            match unsafe { libloading::Library::new(&path) } {
                Ok(library) => return Ok(library),
                Err(e) if folder.is_some() => tried.push(e.to_string()),
                Err(_) => tried.push(path.display().to_string()),
            }
        }
    }
    Err(tried)
}

/// Opens NVRTC: one of at most the driver's major version if there is one, else another.
pub(in crate::cuda) fn open_nvrtc(driver: i32) -> Result<libloading::Library, Vec<String>> {
    let mut majors = MAJORS;
    majors.sort_by_key(|&major| (i64::from(major) > i64::from(driver), std::cmp::Reverse(major)));
    let (fitting, others) =
        majors.split_at(majors.iter().filter(|&&m| i64::from(m) <= i64::from(driver)).count());
    let named = |majors: &[u32]| majors.iter().map(|m| format!("libnvrtc.so.{m}")).collect();
    let fitting: Vec<String> = named(fitting);
    open_named(&fitting).or_else(|tried| {
        let mut names = vec!["libnvrtc.so".to_owned()];
        names.extend::<Vec<String>>(named(others));
        open_named(&names).map_err(|more| [tried, more].concat())
    })
}

/// Folders where a toolkit may be, in addition to those that the system searches.
fn folders() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for variable in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CONDA_PREFIX", "VIRTUAL_ENV"] {
        if let Some(base) = std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from)
        {
            found.extend([
                base.join("lib64"),
                base.join("lib"),
                base.join("targets/x86_64-linux/lib"),
            ]);
            found.extend(wheels(&base.join("lib")));
        }
    }
    found.push("/usr/local/cuda/lib64".into());
    for folder in ["/usr/local", "/opt"] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut toolkits: Vec<PathBuf> = entries
            .filter(|e| e.file_name().to_string_lossy().starts_with("cuda"))
            .flat_map(|e| [e.path().join("lib64"), e.path().join("targets/x86_64-linux/lib")])
            .collect();
        toolkits.sort();
        toolkits.reverse();
        found.extend(toolkits);
    }
    if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
        found.extend(wheels(&home.join(".local/lib")));
    }
    found.extend(wheels(std::path::Path::new("/usr/local/lib")));
    found
}

/// Folders of NVIDIA's Python wheels below `lib`: `lib/python3.*/site-packages/nvidia/*/lib`.
fn wheels(lib: &std::path::Path) -> Vec<PathBuf> {
    let list = |p: PathBuf| std::fs::read_dir(p).into_iter().flatten().flatten().map(|e| e.path());
    let mut found = Vec::new();
    for python in list(lib.to_owned()) {
        if !python.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python3")) {
            continue;
        }
        for packages in ["site-packages", "dist-packages"] {
            for package in list(python.join(packages).join("nvidia")) {
                found.push(package.join("lib"));
            }
        }
    }
    found
}
