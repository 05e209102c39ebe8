//! Pages in a real browser, for the tests.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    unreachable_pub,
    reason = "helpers of tests may fail loudly"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The names that Chromium goes by.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// Set to `1` where a missing browser is a failure.
const REQUIRE: &str = "VOXALIGN_REQUIRE_CHROMIUM";

/// The browser; without one nothing, and a failure where one is asked for.
pub fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .flat_map(|folder| BROWSERS.map(|name| folder.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        assert!(std::env::var_os(REQUIRE).is_none_or(|v| v != "1"), "no chromium, but {REQUIRE}=1");
        println!("skipped: no chromium");
    }
    found
}

/// The value of an attribute, where it first comes in a page.
pub fn attribute(page: &str, name: &str) -> String {
    let from = page.split(&format!("{name}=\"")).nth(1).unwrap_or_default();
    from.split('"').next().unwrap_or_default().to_owned()
}

/// Chromium without a window, which neither updates itself nor talks to anyone.
fn quiet(browser: &Path, folder: &Path) -> Command {
    let mut command = Command::new(browser);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        "--virtual-time-budget=4000",
    ]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command
}

/// The page as the browser has it after its script.
pub fn dump(browser: &Path, page: &Path, folder: &Path) -> String {
    let url = format!("file://{}", page.display());
    let output = quiet(browser, folder).args(["--dump-dom", &url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A picture of the page in a window so many pixels wide.
pub fn screenshot(browser: &Path, page: &Path, folder: &Path, target: &Path, width: usize) {
    let output = quiet(browser, folder)
        .arg(format!("--window-size={width},10500"))
        .arg(format!("--screenshot={}", target.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
