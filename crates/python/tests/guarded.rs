//! Whatever Python calls is guarded against panics.

use std::fs;
use std::path::Path;

#[test]
fn all_that_python_calls_is_guarded() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = 0;
    for file in fs::read_dir(source).unwrap().map(|file| file.unwrap().path()) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2).filter(|p| matches!(p[1], "#[pymethods]" | "#[pyfunction]")) {
            assert_eq!(pair[0], "#[guarded]", "{}: before {}", file.display(), pair[1]);
            found += 1;
        }
    }
    assert!(found >= 8, "{found}");
}
