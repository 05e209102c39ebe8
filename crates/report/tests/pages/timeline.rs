//! Timelines, also in a real browser.

use crate::common::{HIDDEN, browser, is_printable, show};
use voxalign_report::HostRecord;
use voxalign_report::timeline::{Timeline, TimelineReport, TimelineTask, render};

/// A pipeline of three stages, or one stage after the other.
fn run(title: &str, overlapped: bool, items: usize) -> Timeline {
    let times = [0.012, 0.02, 0.01];
    let mut free = [0.0f64; 3];
    let mut tasks = Vec::new();
    for item in 0..items {
        let mut ready = if overlapped { 0.0 } else { free[2] };
        for (stage, seconds) in times.into_iter().enumerate() {
            let start = free[stage].max(ready);
            let end = start + seconds;
            tasks.push(TimelineTask { row: stage, stage, item, start, end });
            (free[stage], ready) = (end, end);
        }
    }
    let names: Vec<String> =
        ["upload", "execute", "download"].map(|name| format!("{name}{HIDDEN}")).into();
    let bound = Some(items as f64 * 0.02);
    Timeline { title: title.into(), rows: names.clone(), stages: names, tasks, bound }
}

fn page() -> String {
    render(&TimelineReport {
        title: format!("Streams{HIDDEN}"),
        program: "voxalign 1".into(),
        host: &HostRecord { device: "cpu <2>".into(), ..HostRecord::default() },
        command: vec!["voxalign".into(), "bench".into(), "stream".into()],
        note: "A dashed line is the bound.".into(),
        timelines: vec![run("synchronous", false, 12), run("hardware-independent", true, 12)],
    })
}

#[test]
fn a_page_has_all_timelines_and_loads_nothing() {
    let page = page();
    assert_eq!(page.matches("<svg").count(), 2);
    assert_eq!(page.matches("class=\"task\"").count(), 2 * 36);
    for part in ["cpu &lt;2&gt;", "hardware-independent", "Time over bound", "2.10"] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    for part in ["://", "src=", "<script", "NaN", "inf\""] {
        assert!(!page.contains(part), "{part} is in the page");
    }
    is_printable(&page);
    assert_eq!(page, self::page());
}

#[test]
fn timelines_are_drawn_in_a_browser() {
    let Some(browser) = browser() else { return };
    let dom = show(&browser, "timeline", &page(), 1280);
    assert_eq!(dom.matches("class=\"task\"").count(), 2 * 36);
    assert!(dom.contains("</svg>") && dom.contains("hardware-independent"));
}
