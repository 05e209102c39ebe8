//! Shared parts of reports on registrations: verdict, highlights, transform, inputs, machine.

use super::html::{self, Columns, DASH, Section, list, note, section, table};
use super::{Heading, Page};
use crate::draw::mask;
use crate::record::{Figure, GridRecord, HostRecord, RunRecord, TransformRecord};
use crate::text::{
    bytes, escape, fixed, measured, number, seconds, sentence, shell, thousands, title,
};
use voxalign_register::{Check, Choice, Verdict};

/// The verdict with its checks and remarks.
pub(crate) fn verdict(record: &RunRecord) -> Section {
    judged(&record.verdict, mask::sentence(record))
}

/// A verdict with its checks and remarks, and a note in HTML.
pub(crate) fn judged(verdict: &Verdict, said: Option<&str>) -> Section {
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
    out += &said.map_or_else(String::new, note);
    let found = |check: &&Check| match check.count {
        true => number(check.value),
        false => one(&check.name, check.value),
    };
    out += &Columns::of(&verdict.checks)
        .column("Check", |check| escape(&title(&check.label())))
        .column("#Found", found)
        .column("Required", |check| escape(&check.asked))
        .column("Outcome", |check| outcome(check.passed, "passed", "failed"))
        .html("checks");
    out += &list("What to try:", verdict.remedies().into_iter().map(sentence));
    out += &list("Also look at:", verdict.remarks.iter().map(ToString::to_string));
    Section::new("verdict", out + "</section>")
}

/// Pass or fail, with a text for each, as HTML.
pub(crate) fn outcome(good: bool, yes: &str, no: &str) -> String {
    match good {
        true => format!("<span class=\"pass\">\u{2713} {yes}</span>"),
        false => format!("<span class=\"fail\">\u{2717} {no}</span>"),
    }
}

/// A count with its noun.
pub(crate) fn count(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{} {many}", thousands(n as f64)) }
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
    both.resize(2, DASH.to_owned());
    [both.swap_remove(0), both.swap_remove(0)]
}

/// A number that is shown large: its name, the number and a note, all HTML.
#[derive(Debug)]
pub(crate) struct Card([String; 3]);

impl Card {
    pub(crate) fn new(name: &str, value: impl Into<String>, note: impl Into<String>) -> Self {
        Self([name.to_owned(), value.into(), note.into()])
    }
}

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
            cards.push(Card::new(&title(figure.name()), value, note));
        }
    }
    cards.truncate(most);
    cards
}

/// The most telling numbers, large, and what the run took.
pub(crate) fn cards(record: &RunRecord, mut cards: Vec<Card>) -> Section {
    if let Some(&value) = record.timings.get("register") {
        let threads = match (&record.host.gpu, record.host.threads) {
            (Some(gpu), _) => escape(&gpu.name),
            (None, 0) => String::new(),
            (None, n) => count(n, "thread", "threads"),
        };
        let ranks = record.distributed.as_ref().map_or(1, |spread| spread.ranks.len());
        let threads = match ranks {
            0 | 1 => threads,
            ranks => format!("{ranks} ranks, {threads} each"),
        };
        cards.push(Card::new("Registration", seconds(value), threads));
    }
    if let Some(value) = record.peak_memory_bytes {
        cards.push(Card::new("Peak memory", bytes(value), ""));
    }
    large(&cards)
}

/// Numbers that are shown large; nothing where there are none.
pub(crate) fn large(cards: &[Card]) -> Section {
    if cards.is_empty() {
        return Section::default();
    }
    let card = |Card([name, value, note]): &Card| {
        format!(
            "<div class=\"card\"><span>{name}</span><strong>{value}</strong><small>{note}</small></div>"
        )
    };
    let cards: String = cards.iter().map(card).collect();
    let html = format!(
        "<section id=\"highlights\" class=\"cards\" aria-label=\"Key figures\">{cards}</section>"
    );
    Section::new("highlights", html)
}

/// All figures, those of before and after side by side.
pub(crate) fn figures(record: &RunRecord) -> Section {
    figures_as(record, ["Figure", "#Before", "#After"], |figure| title(figure.name()))
}

/// All figures under these headings, each with the name that `name` has for it.
pub(crate) fn figures_as(
    record: &RunRecord,
    headings: [&str; 3],
    name: impl Fn(Figure) -> String,
) -> Section {
    let values = |figure: &Figure| {
        let [before, after] = record.figures.both(*figure);
        match after.or_else(|| record.figures.get(*figure)) {
            Some(after) => two(after, before),
            None => {
                [None, before].map(|v| v.map_or_else(|| DASH.to_owned(), |v| one(figure.name(), v)))
            }
        }
    };
    let table = Columns::of(record.figures.all())
        .column(headings[0], |figure| escape(&name(*figure)))
        .column(headings[1], |figure| values(figure)[1].clone())
        .column(headings[2], |figure| values(figure)[0].clone())
        .html("");
    section("figures", "Figures", &table)
}

/// Corresponding points before and after; nothing where there are none.
pub(crate) fn landmarks(record: &RunRecord) -> Section {
    let place = |p: [f64; 3]| p.map(|v| fixed(v, 1)).join(", ");
    let weighted = record.landmarks.iter().any(|l| l.weight != 1.0);
    let table = Columns::of((1..).zip(&record.landmarks))
        .column("Landmark", |(i, _): &(usize, _)| i.to_string())
        .column("#Fixed, mm", |(_, l)| place(l.fixed_mm))
        .column("#Moving, mm", |(_, l)| place(l.moving_mm))
        .column_if(weighted, "#Weight", |(_, l)| number(l.weight))
        .column("#Distance before, mm", |(_, l)| fixed(l.before_mm, 2))
        .column("#Distance after, mm", |(_, l)| fixed(l.after_mm, 2))
        .long("landmarks");
    if table.is_empty() {
        return Section::default();
    }
    let note = note(
        "World coordinates are RAS+. The distance is between the moving point and the mapped fixed point. For \
         points that drove the registration it shows how well they were matched, not how good the result is \
         elsewhere; pairs with weight 0 are only measured.",
    );
    section("landmarks", "Landmarks", &(table + &note))
}

/// All that is needed to repeat the run.
pub(crate) fn details(record: &RunRecord) -> Section {
    let part = |id: &str, title: &str, body: &str| section(id, title, body).html;
    let html = format!(
        "{}{}<div class=\"two\">{}{}</div>{}",
        part("details", "Command", &command(record)),
        part("files", "Files", &files(record)),
        part("timings", "Time", &timings(record)),
        part("facts", "Machine", &facts(record)),
        part("parameters", "Parameters", &parameters(record)),
    );
    Section::new("details", html)
}

/// Where the time went.
fn timings(record: &RunRecord) -> String {
    const ORDER: [&str; 7] = ["device", "read", "register", "resample", "write", "report", "total"];
    let place = |name: &str| {
        ORDER.iter().position(|o| *o == name).map_or(5, |p| if p > 4 { p + 1 } else { p })
    };
    let mut parts: Vec<_> = record.timings.iter().collect();
    parts.sort_by_key(|(name, _)| (place(name), (*name).clone()));
    let sum: f64 = parts.iter().filter(|p| p.0 != "total" && p.1.is_finite()).map(|p| p.1).sum();
    let whole = record.timings.get("total").copied().filter(|t| *t > 0.0).unwrap_or(sum);
    let part = |value: f64| {
        let part = if whole > 0.0 && value.is_finite() { value / whole * 100.0 } else { 0.0 };
        let width = part.clamp(0.0, 100.0);
        format!("<span class=\"bar\" style=\"width:{width:.1}%\"></span>")
    };
    Columns::of(parts)
        .column("Part", |(name, _)| escape(&title(name)))
        .column("#Wall time", |(_, value)| seconds(**value))
        .column("Share", |(_, value)| part(**value))
        .html("timings")
}

/// The machine, the version and the date.
fn facts(record: &RunRecord) -> String {
    let program = format!("{} {}", record.program, record.version);
    let mut rows = vec![("Program", program), ("Date", record.date.clone())];
    rows.extend(machine_facts(&record.host));
    rows.extend(record.peak_memory_bytes.map(|size| ("Peak memory", bytes(size))));
    fact_table(rows)
}

/// The sections that end pages without a run: the machine, and the command where there was one.
pub(crate) fn machine(page: &mut Page, host: &HostRecord, command: &[String]) {
    page.add("", section("", "Machine", &fact_table(machine_facts(host))));
    if !command.is_empty() {
        let command = format!("<div class=\"code\"><pre>{}</pre></div>", escape(&shell(command)));
        page.add("", section("", "Command", &command));
    }
}

/// A page without a script on what a run made, under a title, which is text.
pub(crate) fn finish(mut page: Page, title: &str, run: &RunRecord) -> String {
    machine(&mut page, &run.host, &run.command);
    page.finish_plain(&Heading::of_machine(title, &run.line(), &run.host))
}

fn fact_table(rows: Vec<(&str, String)>) -> String {
    Columns::of(rows)
        .column("Fact", |(name, _)| (*name).to_owned())
        .column("Value", |(_, value)| escape(value))
        .html("facts")
}

/// The facts of a machine and its device.
fn machine_facts(host: &HostRecord) -> Vec<(&'static str, String)> {
    let mut rows = vec![("Device", host.device.clone())];
    if let Some(gpu) = &host.gpu {
        let release = gpu.driver.as_ref().map_or_else(String::new, |r| format!("{r}, "));
        rows.extend([
            ("Compute capability", gpu.compute_capability.clone()),
            ("GPU memory", bytes(gpu.memory_bytes)),
            ("Driver", format!("{release}CUDA {}", gpu.driver_cuda)),
            ("Kernel compiler", format!("NVRTC {}", gpu.nvrtc)),
        ]);
    }
    rows.push(("Threads", host.threads.to_string()));
    rows.push(("Vector instructions", host.simd.clone()));
    rows
}

/// The files read and written.
fn files(record: &RunRecord) -> String {
    let geometry = |grid: &GridRecord| {
        let (axes, name) = if grid.dims[2] == 1 { (2, "pixels") } else { (3, "voxels") };
        let joined = |all: Vec<String>| all[..axes].join(" \u{d7} ");
        let sizes = joined(grid.dims.map(|n| n.to_string()).into());
        let spacing = joined(grid.spacing_mm.map(number).into());
        format!("{sizes} {name}<br>{spacing} mm, {}", escape(&grid.orientation))
    };
    let read = Columns::of(&record.inputs)
        .column("Role", |input| escape(&title(&input.role)))
        .column("Path", |input| path(&input.path))
        .column("Geometry", |i| i.grid.as_ref().map_or_else(|| DASH.to_owned(), geometry))
        .column("SHA-256", |i| format!("<code class=\"sum\">{}</code>", escape(&i.sha256)))
        .long("inputs");
    let written = Columns::of(&record.outputs)
        .column("Role", |output| escape(&title(&output.role)))
        .column("Path", |output| path(&output.path))
        .html("outputs");
    let written = match written.as_str() {
        "" => written,
        table => format!("<h3>Written</h3>{table}"),
    };
    format!("<h3>Read</h3>{read}{written}")
}

/// The path of a file, as HTML.
pub(crate) fn path(path: &str) -> String {
    format!("<code class=\"path\">{}</code>", escape(path))
}

/// The parameters, one a row where they are a map.
fn parameters(record: &RunRecord) -> String {
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Null => DASH.to_owned(),
        other => other.to_string(),
    };
    match &record.parameters {
        serde_json::Value::Object(map) if !map.is_empty() => Columns::of(map)
            .column("Parameter", |(name, _)| escape(name))
            .column("Value", |(_, value)| format!("<code>{}</code>", escape(&text(value))))
            .html("parameters"),
        serde_json::Value::Object(_) | serde_json::Value::Null => "<p>None.</p>".to_owned(),
        other => format!("<pre>{}</pre>", escape(&format!("{other:#}"))),
    }
}

/// The command, ready to be pasted.
fn command(record: &RunRecord) -> String {
    match record.command.as_slice() {
        [] => "<p>Called from the library.</p>".to_owned(),
        command => html::code("command", &shell(command)),
    }
}

/// The grid of the fixed image.
fn fixed_grid(record: &RunRecord) -> Option<&GridRecord> {
    record.inputs.iter().find(|input| input.role == "fixed")?.grid.as_ref()
}

/// Whether images are of two dimensions.
pub(crate) fn is_flat(record: &RunRecord) -> bool {
    fixed_grid(record).is_some_and(|grid| grid.dims[2] == 1)
}

/// Whether the fixed image is a section: a single slice across z of the world.
pub(crate) fn of_section(record: &RunRecord) -> bool {
    let Some(grid) = fixed_grid(record).filter(|grid| grid.dims[2] == 1) else { return false };
    let rows = grid.index_to_world;
    let across = [rows[2][0], rows[2][1], rows[0][2], rows[1][2]];
    let least = grid.spacing_mm.into_iter().fold(f64::MAX, f64::min);
    across.iter().all(|v| v.abs() <= 1e-6 * least)
}

/// A description of the transform of a run, under a heading that is HTML.
pub(crate) fn transform(run: &RunRecord, heading: &str) -> Section {
    let record = &run.transform;
    // Mirrored ones have their parts in space.
    let flat = of_section(run) && record.determinant > 0.0;
    let mut rows = if flat { parts_of_section(record) } else { parts(record) };
    if record.determinant < 0.0 {
        let why = "left and right are swapped; this is almost never intended";
        rows.push(["Reflection".to_owned(), outcome(false, "", "yes"), why.to_owned()]);
    }
    let rows: Vec<_> = rows.into_iter().map(Vec::from).collect();
    let (same, others) = match flat {
        true => ("the same structure", "points"),
        false => ("the same anatomy", "points and surfaces"),
    };
    let mut out = format!(
        "<p>The transform maps each point of the <strong>{}</strong> to the matching point of the \
         <strong>{}</strong>: relative to the fixed image, {same} appears in the moving image \
         shifted, rotated and scaled as below. Images are resampled in this direction; {others} of \
         the moving image are mapped to the fixed space by the inverse.</p>",
        escape(&record.from),
        escape(&record.to)
    );
    out += &table("parts", &["Part", "Overall", "In detail"], &rows);
    let centre = match flat {
        true => record.centre_mm[..2].iter().map(|&v| number(v)).collect::<Vec<_>>().join(", "),
        false => record.centre_mm.map(|v| fixed(v, 1)).join(", "),
    };
    out += &note(&format!(
        "Rotations, scales and shears are about the centre ({centre})\u{a0}mm; shears act first, then \
         scales, then rotations, then the translation."
    ));
    out += &html::matrix(true, "Matrix, fixed world to moving world", "matrix", &record.matrix);
    section("transform", heading, &out)
}

/// By how much a volume or an area changes, from its factor.
fn change(factor: f64, of: &str, things: &str, what: &str) -> String {
    let change = (factor.abs() - 1.0) * 100.0;
    if change.abs() < 0.005 {
        return format!("{things} are unchanged");
    }
    let way = if change > 0.0 { "larger" } else { "smaller" };
    format!("{of} is {}\u{a0}% {way} by {what}", fixed(change.abs(), 2))
}

/// The parts of a transform in space.
fn parts(record: &TransformRecord) -> Vec<[String; 3]> {
    let all = |values: [f64; 3], decimals| values.map(|v| fixed(v, decimals));
    let [tx, ty, tz] = record.translation_mm;
    let distance = (tx * tx + ty * ty + tz * tz).sqrt();
    let way = |value: f64, positive: &str, negative: &str| {
        let way = if value < 0.0 { negative } else { positive };
        format!("{}\u{a0}mm {way}", fixed(value.abs(), 2))
    };
    let volume = change(record.determinant, "the moving anatomy", "volumes", "volume");
    let ways = [
        way(tx, "to the right", "to the left"),
        way(ty, "to the front", "to the back"),
        way(tz, "up", "down"),
    ];
    let [rx, ry, rz] = all(record.rotation_degrees, 2);
    let turned = format!(
        "x (pitch) {rx}\u{b0}, y (roll) {ry}\u{b0}, z (yaw) {rz}\u{b0}, applied in this order"
    );
    let total = fixed(record.rotation_total_degrees, 2);
    let [sx, sy, sz] = all(record.scale, 4);
    let [xy, xz, yz] = all(record.shear, 4);
    let scale = fixed(record.determinant.abs().cbrt(), 4);
    let shear = record.shear.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    vec![
        ["Translation".to_owned(), format!("{}\u{a0}mm", fixed(distance, 2)), ways.join(", ")],
        ["Rotation".to_owned(), format!("{total}\u{b0}"), turned],
        [
            "Scale".to_owned(),
            format!("\u{d7}\u{a0}{scale}"),
            format!("x {sx}, y {sy}, z {sz}; {volume}"),
        ],
        ["Shear".to_owned(), fixed(shear, 4), format!("xy {xy}, xz {xz}, yz {yz}")],
    ]
}

/// The parts of a transform within the plane of sections, which may be of some millimetres.
fn parts_of_section(record: &TransformRecord) -> Vec<[String; 3]> {
    let [x, y, _] = record.translation_mm;
    let [sx, sy, _] = record.scale.map(|v| fixed(v, 4));
    let [_, _, turn] = record.rotation_degrees.map(|v| fixed(v, 2));
    let area = change(record.determinant, "the moving section", "areas", "area");
    let shear = fixed(record.shear[0], 4);
    vec![
        [
            "Translation".to_owned(),
            format!("{}\u{a0}mm", number(x.hypot(y))),
            format!("x {}\u{a0}mm, y {}\u{a0}mm", number(x), number(y)),
        ],
        ["Rotation".to_owned(), format!("{turn}\u{b0}"), "in the plane, from x to y".to_owned()],
        [
            "Scale".to_owned(),
            format!("\u{d7}\u{a0}{}", fixed(record.determinant.abs().sqrt(), 4)),
            format!("x {sx}, y {sy}; {area}"),
        ],
        ["Shear".to_owned(), shear.clone(), format!("xy {shear}")],
    ]
}
