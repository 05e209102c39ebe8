//! What a run did and how it ended, in words and tables; for all reports of registrations.

use crate::figure::Figure;
use crate::frame::machine_facts;
use crate::html::{self, bytes, escape, fixed, measured, number, seconds, shell, table, title};
use crate::mask;
use crate::record::{RunRecord, TransformRecord};
use std::fmt::Write as _;
use voxalign_register::Choice;
use voxalign_register::Verdict;

/// The verdict with its checks and remarks.
pub(crate) fn verdict(record: &RunRecord) -> String {
    judged(&record.verdict, mask::sentence(record))
}

/// A verdict with its checks and remarks, and a note in HTML.
pub(crate) fn judged(verdict: &Verdict, note: Option<&str>) -> String {
    let failed = verdict.checks.iter().filter(|c| !c.passed).count();
    let (class, symbol, word, line) = if verdict.good {
        let line = match verdict.checks.len() {
            0 => "Nothing was checked.".to_owned(),
            1 => "The one check passed.".to_owned(),
            n => format!("All {n} checks passed."),
        };
        ("good", "\u{2713}", "Good", line + " Confirm it by eye in the pictures below.")
    } else {
        let line = match (failed, verdict.checks.len()) {
            (0, _) => "The result was not accepted.".to_owned(),
            (n, all) => format!("{n} of {all} checks failed."),
        };
        ("bad", "\u{2717}", "Bad", line + " Do not use the result until the cause is found.")
    };
    let mut out = format!(
        "<section id=\"verdict\" class=\"verdict {class}\"><div class=\"headline\">\
         <span class=\"symbol\" aria-hidden=\"true\">{symbol}</span><div><h2>Verdict: {word}</h2>\
         <p>{line}</p></div></div>"
    );
    if let Some(note) = note {
        let _ = write!(out, "<p class=\"note\">{note}</p>");
    }
    if !verdict.checks.is_empty() {
        let rows: Vec<_> = verdict
            .checks
            .iter()
            .map(|check| {
                let (class, mark) = if check.passed {
                    ("pass", "\u{2713} passed")
                } else {
                    ("fail", "\u{2717} failed")
                };
                vec![
                    escape(&title(&check.label())),
                    if check.count { number(check.value) } else { one(&check.name, check.value) },
                    escape(&check.asked),
                    format!("<span class=\"{class}\">{mark}</span>"),
                ]
            })
            .collect();
        out += &table("checks", &["Check", "#Found", "Required", "Outcome"], &rows);
    }
    let remedies = verdict.remedies();
    if !remedies.is_empty() {
        out.push_str("<p class=\"remarks\">What to try:</p><ul>");
        for remedy in remedies {
            let _ = write!(out, "<li>{}</li>", escape(&html::sentence(remedy)));
        }
        out.push_str("</ul>");
    }
    if !verdict.remarks.is_empty() {
        out.push_str("<p class=\"remarks\">Also look at:</p><ul>");
        for remark in &verdict.remarks {
            let _ = write!(out, "<li>{}</li>", escape(remark));
        }
        out.push_str("</ul>");
    }
    out + "</section>"
}

/// A number of a table by its name: a count of voxels or subjects, or what was measured.
pub(crate) fn one(name: &str, value: f64) -> String {
    if name.contains("voxels") || name.starts_with("subjects ") {
        number(value)
    } else {
        measured(&[value]).concat()
    }
}

/// A number and the one before it with the same decimals; a dash where there was none.
fn two(value: f64, before: Option<f64>) -> [String; 2] {
    let mut both = measured(&[Some(value), before].into_iter().flatten().collect::<Vec<_>>());
    both.resize(2, "\u{2013}".to_owned());
    [both.swap_remove(0), both.swap_remove(0)]
}

/// A number that is shown large: its name, the number and a note.
pub(crate) type Card = (String, String, String);

/// The figures of these names that there are, for [`cards`]; at most `most`.
pub(crate) fn highlights(record: &RunRecord, figures: &[Figure], most: usize) -> Vec<Card> {
    let mut cards = Vec::new();
    for &figure in figures {
        let [before, after] = record.figures.both(figure);
        let plain = record.figures.get(figure);
        if let Some(value) = after.or(plain) {
            let [value, earlier] = two(value, before);
            let note = match before {
                Some(_) => format!("before: {earlier}"),
                None if figure == Figure::Overlap => "of the fields of view".to_owned(),
                None => String::new(),
            };
            cards.push((title(figure.name()), value, note));
        }
    }
    cards.truncate(most);
    cards
}

/// The most telling numbers, large, and what the run took.
pub(crate) fn cards(record: &RunRecord, mut cards: Vec<Card>) -> String {
    if let Some(&value) = record.timings.get("register") {
        let threads = match (&record.host.gpu, record.host.threads) {
            (Some(gpu), _) => gpu.name.clone(),
            (None, 0) => String::new(),
            (None, 1) => "1 thread".to_owned(),
            (None, n) => format!("{n} threads"),
        };
        cards.push(("Registration".to_owned(), seconds(value), threads));
    }
    if let Some(value) = record.peak_memory_bytes {
        cards.push(("Peak memory".to_owned(), bytes(value), String::new()));
    }
    if cards.is_empty() {
        return String::new();
    }
    let mut out =
        "<section id=\"highlights\" class=\"cards\" aria-label=\"Key figures\">".to_owned();
    for (name, value, note) in cards {
        let _ = write!(
            out,
            "<div class=\"card\"><span>{name}</span><strong>{value}</strong><small>{note}</small></div>"
        );
    }
    out + "</section>"
}

/// How to read a mosaic.
pub(crate) const MOSAIC: &str = "<b>How to read it:</b> slices from one end of the fixed image to the \
                                 other, of the moving image after registration; the orange lines are the \
                                 edges of the fixed image. Good alignment: the lines lie on the moving \
                                 image\u{2019}s own borders in all of them.";

/// All figures, those of before and after side by side.
pub(crate) fn figures(record: &RunRecord) -> String {
    figures_as(record, ["Figure", "#Before", "#After"], |figure| title(figure.name()))
}

/// All figures under these headings, each with the name that `name` has for it.
pub(crate) fn figures_as(
    record: &RunRecord,
    headings: [&str; 3],
    name: impl Fn(Figure) -> String,
) -> String {
    let all = record.figures.all();
    if all.is_empty() {
        return String::new();
    }
    let rows: Vec<_> = all
        .into_iter()
        .map(|figure| {
            let [before, after] = record.figures.both(figure);
            let after = after.or_else(|| record.figures.get(figure));
            let dash = || "\u{2013}".to_owned();
            let [after, before] = match after {
                Some(after) => two(after, before),
                None => [dash(), before.map_or_else(dash, |b| one(figure.name(), b))],
            };
            vec![escape(&name(figure)), before, after]
        })
        .collect();
    format!("<section id=\"figures\"><h2>Figures</h2>{}</section>", table("", &headings, &rows))
}

/// Corresponding points before and after; nothing where there are none.
pub(crate) fn landmarks(record: &RunRecord) -> String {
    if record.landmarks.is_empty() {
        return String::new();
    }
    let place = |p: [f64; 3]| p.map(|v| fixed(v, 1)).join(", ");
    let weighted = record.landmarks.iter().any(|l| l.weight != 1.0);
    let rows: Vec<_> = (1..)
        .zip(&record.landmarks)
        .map(|(i, l)| {
            let mut row = vec![i.to_string(), place(l.fixed_mm), place(l.moving_mm)];
            if weighted {
                row.push(number(l.weight));
            }
            row.extend([fixed(l.before_mm, 2), fixed(l.after_mm, 2)]);
            row
        })
        .collect();
    let mut head = vec!["Landmark", "#Fixed, mm", "#Moving, mm"];
    if weighted {
        head.push("#Weight");
    }
    head.extend(["#Distance before, mm", "#Distance after, mm"]);
    format!(
        "<section id=\"landmarks\"><h2>Landmarks</h2>{}<p class=\"note\">World coordinates are RAS+. The distance is that \
         of the moving point and of where the fixed one is found. That of points that drove the registration says how \
         well they were followed, not how good it is elsewhere; a weight of 0 keeps a pair for measuring.</p></section>",
        html::long(table("landmarks", &head, &rows), &rows)
    )
}

/// Where the time went.
pub(crate) fn timings(record: &RunRecord) -> String {
    const ORDER: [&str; 7] = ["device", "read", "register", "resample", "write", "report", "total"];
    let place = |name: &str| {
        ORDER.iter().position(|o| *o == name).map_or(5, |p| if p > 4 { p + 1 } else { p })
    };
    let mut parts: Vec<_> = record.timings.iter().collect();
    parts.sort_by_key(|(name, _)| (place(name), (*name).clone()));
    let sum: f64 = parts.iter().filter(|p| p.0 != "total" && p.1.is_finite()).map(|p| p.1).sum();
    let whole = record.timings.get("total").copied().filter(|t| *t > 0.0).unwrap_or(sum);
    let rows: Vec<_> = parts
        .into_iter()
        .map(|(name, &value)| {
            let part = if whole > 0.0 && value.is_finite() { value / whole * 100.0 } else { 0.0 };
            vec![
                escape(&title(name)),
                seconds(value),
                format!(
                    "<span class=\"bar\" style=\"width:{:.1}%\"></span>",
                    part.clamp(0.0, 100.0)
                ),
            ]
        })
        .collect();
    table("timings", &["Part", "#Wall time", "Share"], &rows)
}

/// The machine, the version and the date.
pub(crate) fn facts(record: &RunRecord) -> String {
    let mut rows = vec![
        vec!["Program".to_owned(), escape(&format!("{} {}", record.program, record.version))],
        vec!["Date".to_owned(), escape(&record.date)],
    ];
    rows.extend(machine_facts(&record.host));
    if let Some(size) = record.peak_memory_bytes {
        rows.push(vec!["Peak memory".to_owned(), bytes(size)]);
    }
    table("facts", &["Fact", "Value"], &rows)
}

/// The files read and written.
pub(crate) fn files(record: &RunRecord) -> String {
    let inputs: Vec<_> = record
        .inputs
        .iter()
        .map(|input| {
            let geometry = input.grid.as_ref().map_or("\u{2013}".to_owned(), |grid| {
                let [x, y, z] = grid.dims;
                let spacing = grid.spacing_mm.map(number).join(" \u{d7} ");
                format!(
                    "{x} \u{d7} {y} \u{d7} {z} voxels<br>{spacing} mm, {}",
                    escape(&grid.orientation)
                )
            });
            vec![
                escape(&title(&input.role)),
                format!("<code class=\"path\">{}</code>", escape(&input.path)),
                geometry,
                format!("<code class=\"sum\">{}</code>", escape(&input.sha256)),
            ]
        })
        .collect();
    let outputs: Vec<_> = record
        .outputs
        .iter()
        .map(|output| {
            vec![
                escape(&title(&output.role)),
                format!("<code class=\"path\">{}</code>", escape(&output.path)),
            ]
        })
        .collect();
    let mut out = "<h3>Read</h3>".to_owned();
    out += &html::long(table("inputs", &["Role", "Path", "Geometry", "SHA-256"], &inputs), &inputs);
    if !outputs.is_empty() {
        out += "<h3>Written</h3>";
        out += &table("outputs", &["Role", "Path"], &outputs);
    }
    out
}

/// The parameters, one a row where they are a map.
pub(crate) fn parameters(record: &RunRecord) -> String {
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => "\u{2013}".to_owned(),
        other => other.to_string(),
    };
    match &record.parameters {
        serde_json::Value::Object(map) if !map.is_empty() => {
            let rows: Vec<_> = map
                .iter()
                .map(|(name, value)| {
                    vec![escape(name), format!("<code>{}</code>", escape(&text(value)))]
                })
                .collect();
            table("parameters", &["Parameter", "Value"], &rows)
        }
        serde_json::Value::Object(_) | serde_json::Value::Null => "<p>None.</p>".to_owned(),
        other => format!("<pre>{}</pre>", escape(&format!("{other:#}"))),
    }
}

/// The command, ready to be pasted.
pub(crate) fn command(record: &RunRecord) -> String {
    if record.command.is_empty() {
        return "<p>The library was called.</p>".to_owned();
    }
    format!(
        "<div class=\"code\"><button type=\"button\" class=\"copy\" hidden>Copy</button>\
         <pre id=\"command\">{}</pre></div>",
        escape(&shell(&record.command))
    )
}
/// What the transform does, in words, under a heading that is HTML.
pub(crate) fn transform(record: &TransformRecord, heading: &str) -> String {
    let [tx, ty, tz] = record.translation_mm;
    let [rx, ry, rz] = record.rotation_degrees;
    let [sx, sy, sz] = record.scale;
    let [kxy, kxz, kyz] = record.shear;
    let [cx, cy, cz] = record.centre_mm;
    let distance = (tx * tx + ty * ty + tz * tz).sqrt();
    let way = |value: f64, positive: &str, negative: &str| {
        format!(
            "{}\u{a0}mm {}",
            fixed(value.abs(), 2),
            if value < 0.0 { negative } else { positive }
        )
    };
    let change = (record.determinant.abs() - 1.0) * 100.0;
    let volume = if change.abs() < 0.005 {
        "volumes are unchanged".to_owned()
    } else {
        format!(
            "the moving anatomy is {}\u{a0}% {} by volume",
            fixed(change.abs(), 2),
            if change > 0.0 { "larger" } else { "smaller" }
        )
    };
    let mut rows = vec![
        vec![
            "Translation".to_owned(),
            format!("{}\u{a0}mm", fixed(distance, 2)),
            format!(
                "{}, {}, {}",
                way(tx, "to the right", "to the left"),
                way(ty, "to the front", "to the back"),
                way(tz, "up", "down")
            ),
        ],
        vec![
            "Rotation".to_owned(),
            format!("{}\u{b0}", fixed(record.rotation_total_degrees, 2)),
            format!(
                "x (pitch) {}\u{b0}, y (roll) {}\u{b0}, z (yaw) {}\u{b0}, applied in this order",
                fixed(rx, 2),
                fixed(ry, 2),
                fixed(rz, 2)
            ),
        ],
        vec![
            "Scale".to_owned(),
            format!("\u{d7}\u{a0}{}", fixed(record.determinant.abs().cbrt(), 4)),
            format!("x {}, y {}, z {}; {volume}", fixed(sx, 4), fixed(sy, 4), fixed(sz, 4)),
        ],
        vec![
            "Shear".to_owned(),
            fixed(kxy.abs().max(kxz.abs()).max(kyz.abs()), 4),
            format!("xy {}, xz {}, yz {}", fixed(kxy, 4), fixed(kxz, 4), fixed(kyz, 4)),
        ],
    ];
    if record.determinant < 0.0 {
        rows.push(vec![
            "Reflection".to_owned(),
            "<span class=\"fail\">\u{2717} yes</span>".to_owned(),
            "left and right are swapped; this is almost never intended".to_owned(),
        ]);
    }
    let mut out = format!(
        "<section id=\"transform\"><h2>{heading}</h2><p>The transform maps each point of the \
         <strong>{}</strong> to the matching point of the <strong>{}</strong>: seen from the fixed \
         image, the same anatomy is found in the moving image shifted, rotated and scaled as below. \
         Images are resampled in this direction; points and surfaces of the moving image reach the \
         fixed space by the inverse.</p>",
        escape(&record.from),
        escape(&record.to)
    );
    out += &table("parts", &["Part", "In all", "In detail"], &rows);
    let _ = write!(
        out,
        "<p class=\"note\">Rotations, scales and shears are about the centre ({}, {}, {})\u{a0}mm; \
         shears act first, then \
         scales, then rotations, then the translation.</p>\
         <details open><summary>Matrix, fixed world to moving world, RAS+ mm</summary>\
         <div class=\"code\"><button type=\"button\" class=\"copy\" hidden>Copy</button>\
         <pre id=\"matrix\">{}</pre></div></details></section>",
        fixed(cx, 1),
        fixed(cy, 1),
        fixed(cz, 1),
        matrix(&record.matrix)
    );
    out
}

/// A matrix as aligned text that programs can read.
pub(crate) fn matrix(rows: &[[f64; 4]; 4]) -> String {
    let line = |row: &[f64; 4]| {
        let words: Vec<_> = row.iter().map(|v| format!("{:>14.8}", v + 0.0)).collect();
        words.join(" ")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}
