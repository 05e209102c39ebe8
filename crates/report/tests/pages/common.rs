//! What the tests of reports share: pages in a real browser, images, checks.

use std::path::{Path, PathBuf};
use std::process::Command;
use voxalign_image::{Grid, Volume};
use voxalign_register::Check;

/// The names that Chromium goes by.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// Set to `1` where a missing browser is a failure.
const REQUIRE: &str = "VOXALIGN_REQUIRE_CHROMIUM";

/// The browser; without one nothing, and a failure where one is asked for.
pub(crate) fn browser() -> Option<PathBuf> {
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

/// What a file may have in its names, and a page must not: a command to a terminal, a bell, no letter at all, and
/// letters from right to left.
pub(crate) const HIDDEN: &str = "\u{1b}[31m\u{7}\u{0}\u{202e}";

/// A page has nothing that is obeyed rather than shown.
#[track_caller]
pub(crate) fn is_printable(page: &str) {
    let hidden = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found = page.find(hidden).map(|at| page[..at].chars().rev().take(60).collect::<Vec<_>>());
    let before = found.map(|letters| letters.into_iter().rev().collect::<String>());
    assert!(before.is_none(), "after {before:?}");
    assert!(page.contains("\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}"), "nothing was hidden");
}

/// The processor time of this thread, seconds, whatever else the machine does; `None` where the system does not
/// tell it.
fn processor_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds * 1e-9)
}

/// Makes a page in at most so many seconds of processor time: ten times what it takes. This fails where whole
/// images are walked again and again.
#[track_caller]
pub(crate) fn soon(most: f64, make: impl FnOnce() -> String) -> String {
    let before = processor_time();
    let page = make();
    if let (Some(before), Some(after)) = (before, processor_time()) {
        println!("{:.3} s, {} bytes", after - before, page.len());
        assert!(after - before < most, "{} s", after - before);
    }
    page
}

/// The value of an attribute, where it first comes in a page.
fn attribute(page: &str, name: &str) -> String {
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
fn dump(browser: &Path, page: &Path, folder: &Path) -> String {
    let url = format!("file://{}", page.display());
    let output = quiet(browser, folder).args(["--dump-dom", &url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A picture of the page in a window so many pixels wide.
fn screenshot(browser: &Path, page: &Path, folder: &Path, target: &Path, width: usize) {
    let output = quiet(browser, folder)
        .arg(format!("--window-size={width},10500"))
        .arg(format!("--screenshot={}", target.display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Opens a page and checks that its script finds so many pictures, all of them drawn; leaves a
/// picture of it in the folder for what tests leave.
pub(crate) fn draw(browser: &Path, name: &str, page: &str, expected: usize, width: usize) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{name}.html"));
    std::fs::write(&file, page).unwrap();
    let dom = dump(browser, &file, folder.path());
    let count = attribute(&dom, "data-figures");
    assert!(!count.is_empty(), "{name}: the script did not run");
    assert_eq!(count, attribute(&dom, "data-figures-ok"), "{name}");
    assert_eq!(count, expected.to_string(), "{name}");
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}.png"));
    screenshot(browser, &file, folder.path(), &target, width);
    assert!(std::fs::metadata(&target).unwrap().len() > 20_000, "{}", target.display());
    println!("screenshot: {}", target.display());
}

/// Opens a page without a script, leaves a picture of it in the folder for what tests leave, and gives
/// what the browser made of it.
pub(crate) fn show(browser: &Path, name: &str, page: &str, width: usize) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{name}.html"));
    std::fs::write(&file, page).unwrap();
    let dom = dump(browser, &file, folder.path());
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}.png"));
    screenshot(browser, &file, folder.path(), &target, width);
    assert!(std::fs::metadata(&target).unwrap().len() > 20_000, "{}", target.display());
    println!("screenshot: {}", target.display());
    dom
}

/// The numbers of tables in a page, and of those that are wider than the place that they have, in a window so many
/// pixels wide.
pub(crate) fn tables_that_are_cut(browser: &Path, page: &str, width: usize) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cut.html");
    // No window of the browser is as narrow as a phone; a frame in it can be.
    let inside = page.replace('&', "&amp;").replace('"', "&quot;");
    let measure = "for (const t of frame.contentDocument.querySelectorAll('table.checks, table.facts')) { all++; \
                   if (t.scrollWidth > t.parentElement.clientWidth + 1) cut++ }";
    let text = format!(
        "<!doctype html><html><body><iframe id=\"frame\" style=\"width:{width}px;height:2000px\" srcdoc=\"{inside}\"></iframe>\
         <script>frame.onload = () => {{ let all = 0, cut = 0; {measure}; document.body.setAttribute('data-all', all); \
         document.body.setAttribute('data-cut', cut) }}</script></body></html>"
    );
    std::fs::write(&file, text).unwrap();
    let dom = dump(browser, &file, folder.path());
    let number = |name: &str| attribute(&dom, name).parse().unwrap();
    (number("data-all"), number("data-cut"))
}

/// A check of a verdict.
pub(crate) fn check(name: &str, value: f64, asked: &str, passed: bool) -> Check {
    let remedy = if passed { String::new() } else { "try <something> else".to_owned() };
    Check { remedy, ..Check::new(name, value, asked, passed) }
}

/// A large image without structure, half of it bright.
pub(crate) fn noise(grid: &Grid, seed: usize) -> Volume<f32> {
    Volume::from_fn(grid.clone(), |x, y, z| {
        let hash = (x * 73 + y * 179 + z * 283 + seed).wrapping_mul(2_654_435_761) >> 7;
        (hash % 200) as f32 + if x > 60 { 800.0 } else { 0.0 }
    })
}

/// What a browser makes of a page in a window so many pixels wide.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layout {
    /// Pictures, and those that are drawn.
    pub(crate) pictures: usize,
    pub(crate) drawn: usize,
    /// Figures that nothing is seen of.
    pub(crate) hidden: usize,
    /// What reaches beyond the window and cannot be scrolled there.
    pub(crate) wide: String,
    /// Errors of scripts.
    pub(crate) errors: usize,
    /// How many of the sections that were asked for are seen.
    pub(crate) sections: usize,
}

/// Measures a page, which may also have scripts that are no part of it, in a window so many pixels wide.
pub(crate) fn layout(browser: &Path, page: &str, width: usize, sections: &[&str]) -> Layout {
    /// Notes errors from the beginning.
    const WATCH: &str = "<script>window.errors = 0; window.addEventListener('error', () => { window.errors++ })</script>";
    const MEASURE: &str = "
        const d = frame.contentDocument, shown = (e) => { const r = e.getBoundingClientRect(); return r.width > 40 && r.height > 40 };
        const images = [...d.images], wide = [];
        const scrolls = (e) => { for (let p = e.parentElement; p && p !== d.body; p = p.parentElement)
            if (['auto', 'scroll', 'hidden', 'clip'].includes(frame.contentWindow.getComputedStyle(p).overflowX)) return true; return false };
        for (const e of d.body.querySelectorAll('*')) {
            if (e.parentElement.closest('svg') || e.tagName === 'SCRIPT') continue;
            const r = e.getBoundingClientRect();
            if (r.width > 0 && (r.right > d.documentElement.clientWidth + 1 || r.left < -1) && !scrolls(e))
                wide.push(e.id || e.tagName + '.' + e.className);
        }
        const say = (name, value) => document.body.setAttribute('data-' + name, value);
        say('pictures', images.length);
        say('drawn', images.filter((i) => i.complete && i.naturalWidth > 0).length);
        say('hidden', [...d.querySelectorAll('figure')].filter((f) => !shown(f)).length);
        say('wide', wide.join(' '));
        say('errors', frame.contentWindow.errors);
        say('sections', names.filter((name) => d.getElementById(name) && shown(d.getElementById(name))).length);";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("layout.html");
    // The policy of a page forbids scripts that are none of its own.
    let policy = page.find("<meta http-equiv=\"Content-Security-Policy\"").unwrap();
    let end = policy + page[policy..].find('>').unwrap() + 1;
    let page = format!("{}{WATCH}{}", &page[..policy], &page[end..]);
    let inside = page.replace('&', "&amp;").replace('"', "&quot;");
    let text = format!(
        "<!doctype html><html><body><iframe id=\"frame\" style=\"width:{width}px;height:2000px;border:0\" srcdoc=\"{inside}\"></iframe>\
         <script>const names = {}; frame.onload = () => {{ {MEASURE} }}</script></body></html>",
        serde_json::to_string(sections).unwrap()
    );
    std::fs::write(&file, text).unwrap();
    let dom = dump(browser, &file, folder.path());
    let number = |name: &str| attribute(&dom, &format!("data-{name}")).parse().unwrap();
    Layout {
        pictures: number("pictures"),
        drawn: number("drawn"),
        hidden: number("hidden"),
        wide: attribute(&dom, "data-wide"),
        errors: number("errors"),
        sections: number("sections"),
    }
}

/// Texts of a page outside of charts and pictures, and those that stand out from what is behind them by a ratio of less
/// than 4.5 (WCAG 2.1, 1.4.3), in a light or a dark window.
pub(crate) fn faint_texts(browser: &Path, page: &str, dark: bool) -> (usize, String) {
    const MEASURE: &str = "
        const d = frame.contentDocument, style = (e) => frame.contentWindow.getComputedStyle(e);
        const numbers = (text) => text.match(/[0-9.]+/g).map(Number), faint = [];
        const light = (c) => { const l = c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2] };
        const behind = (e) => { for (; e; e = e.parentElement) { const c = numbers(style(e).backgroundColor);
            if (c.length < 4 || c[3] > 0.99) return c } return [255, 255, 255] };
        let all = 0;
        for (const e of d.body.querySelectorAll('*')) {
            if (e.closest('svg, script, noscript, .pic, .scene')) continue;
            if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
            all++;
            const [a, b] = [light(numbers(style(e).color)), light(behind(e))];
            const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
            if (ratio < 4.5) faint.push(e.tagName + '.' + e.className + ' ' + ratio.toFixed(2));
        }
        document.body.setAttribute('data-texts', all);
        document.body.setAttribute('data-faint', faint.join(', '));";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faint.html");
    let scheme = "@media (prefers-color-scheme:dark)";
    assert!(page.contains(scheme));
    let page = page.replace(scheme, if dark { "@media all" } else { "@media not all" });
    let inside = page.replace('&', "&amp;").replace('"', "&quot;");
    let text = format!(
        "<!doctype html><html><body><iframe id=\"frame\" style=\"width:1000px;height:2000px\" srcdoc=\"{inside}\"></iframe>\
         <script>frame.onload = () => {{ {MEASURE} }}</script></body></html>"
    );
    std::fs::write(&file, text).unwrap();
    let dom = dump(browser, &file, folder.path());
    (attribute(&dom, "data-texts").parse().unwrap(), attribute(&dom, "data-faint"))
}
