//! Fragments of HTML shared by pages: sections, figures, tables, code.

use crate::text::{escape, fixed};
use std::fmt::Write as _;

/// A part of a page with its identifier; nothing where its HTML is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Section {
    pub(crate) id: String,
    pub(crate) html: String,
}

impl Section {
    pub(crate) fn new(id: &str, html: String) -> Self {
        Self { id: id.to_owned(), html }
    }
}

/// A figure with its heading and a caption that explains how to read it; nothing where its body is empty. All but
/// the heading is HTML.
pub(crate) fn figure(id: &str, title: &str, body: &str, caption: &str) -> Section {
    let caption = match caption {
        "" => String::new(),
        caption => format!("<figcaption><b>How to read it:</b> {caption}</figcaption>"),
    };
    headed("figure", id, title, body, &caption)
}

/// A section with its heading; nothing where its body is empty. The body is HTML.
pub(crate) fn section(id: &str, title: &str, body: &str) -> Section {
    headed("section", id, title, body, "")
}

fn headed(tag: &str, id: &str, title: &str, body: &str, end: &str) -> Section {
    if body.is_empty() {
        return Section::default();
    }
    let attribute = if id.is_empty() { String::new() } else { format!(" id=\"{id}\"") };
    let title = escape(title);
    Section::new(id, format!("<{tag}{attribute}><h2>{title}</h2>{body}{end}</{tag}>"))
}

/// A chart that can be scrolled where the window is narrow; nothing where there is none.
pub(crate) fn scroll(svg: Option<String>) -> String {
    svg.map_or_else(String::new, |svg| format!("<div class=\"scroll\">{svg}</div>"))
}

/// A panel among others; nothing where there is no chart.
pub(crate) fn panel(svg: Option<String>) -> String {
    svg.map_or_else(String::new, |svg| format!("<div>{svg}</div>"))
}

/// A remark in small letters, which is HTML.
pub(crate) fn note(html: &str) -> String {
    format!("<p class=\"note\">{html}</p>")
}

/// A text that can be copied.
pub(crate) fn code(id: &str, text: &str) -> String {
    format!(
        "<div class=\"code\"><button type=\"button\" class=\"copy\" hidden>Copy</button><pre id=\"{id}\">{}</pre></div>",
        escape(text)
    )
}

/// A matrix that can be unfolded and copied, as aligned text that programs can read.
pub(crate) fn matrix(open: bool, what: &str, id: &str, rows: &[[f64; 4]; 4]) -> String {
    let line = |row: &[f64; 4]| row.map(|v| format!("{:>14.8}", v + 0.0)).join(" ");
    let open = if open { " open" } else { "" };
    format!(
        "<details{open}><summary>{what}, RAS+ mm</summary>{}</details>",
        code(id, &rows.each_ref().map(line).join("\n"))
    )
}

/// The name of a file without its folders, as HTML.
pub(crate) fn file_name(path: &str) -> String {
    escape(path.rsplit(['/', '\\']).next().unwrap_or(path))
}

/// The placeholder of a missing value.
pub(crate) const DASH: &str = "\u{2013}";

/// A number with a fixed count of decimals; a dash where there is none.
pub(crate) fn known(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| DASH.to_owned(), |v| fixed(v, decimals))
}

/// A part in percent.
pub(crate) fn percent(part: f64, decimals: usize) -> String {
    format!("{} %", fixed(100.0 * part, decimals))
}

/// A table that is made column by column of a list of things. Cells are HTML and must be escaped already; headings are
/// text. A heading that begins with `#` marks a column of numbers.
pub(crate) struct Columns<T> {
    things: Vec<T>,
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl<T> Columns<T> {
    /// One row for each thing, and no columns yet.
    pub(crate) fn of(things: impl IntoIterator<Item = T>) -> Self {
        let things: Vec<T> = things.into_iter().collect();
        let rows = things.iter().map(|_| Vec::new()).collect();
        Self { things, headings: Vec::new(), rows }
    }

    /// With a column.
    pub(crate) fn column(self, heading: impl Into<String>, cell: impl Fn(&T) -> String) -> Self {
        let cells = self.things.iter().map(cell).collect();
        self.cells(heading, cells)
    }

    /// With a column where it is wanted.
    pub(crate) fn column_if(
        self,
        wanted: bool,
        heading: &str,
        cell: impl Fn(&T) -> String,
    ) -> Self {
        if wanted { self.column(heading, cell) } else { self }
    }

    /// With a column of these cells.
    pub(crate) fn cells(mut self, heading: impl Into<String>, cells: Vec<String>) -> Self {
        self.headings.push(heading.into());
        self.rows.iter_mut().zip(cells).for_each(|(row, cell)| row.push(cell));
        self
    }

    /// The table; nothing without rows.
    pub(crate) fn html(self, class: &str) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let headings: Vec<&str> = self.headings.iter().map(String::as_str).collect();
        table(class, &headings, &self.rows)
    }

    /// The table as it is, or within a window where it would be too long for the page.
    pub(crate) fn long(self, class: &str) -> String {
        let many = self.rows.len() > MANY;
        let table = self.html(class);
        if many { format!("<div class=\"long\">{table}</div>") } else { table }
    }
}

/// More rows than this have a window of their own to scroll in.
const MANY: usize = 20;

/// A table from its headings and rows, as [`Columns`].
pub(crate) fn table(class: &str, headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = format!("<div class=\"scroll\"><table class=\"{class}\"><thead><tr>");
    let class = |i: usize| match headings.get(i) {
        Some(heading) if heading.starts_with('#') => " class=\"n\"",
        _ => "",
    };
    for (i, heading) in headings.iter().enumerate() {
        let heading = escape(heading.trim_start_matches('#'));
        let _ = write!(out, "<th scope=\"col\"{}>{heading}</th>", class(i));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let (tag, scope) = if i == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
            let _ = write!(out, "<{tag}{scope}{}>{cell}</{tag}>", class(i));
        }
        out.push_str("</tr>");
    }
    out + "</tbody></table></div>"
}

/// A list of texts; nothing where it is empty.
pub(crate) fn list(heading: &str, texts: impl IntoIterator<Item = String>) -> String {
    let items: String = texts.into_iter().map(|t| format!("<li>{}</li>", escape(&t))).collect();
    if items.is_empty() {
        return items;
    }
    format!("<p class=\"remarks\">{heading}</p><ul>{items}</ul>")
}
