//! Pages: their frame and their sections.

pub mod affine;
pub mod anatomy;
pub mod atlas;
pub mod bench;
mod comparison;
mod course;
pub mod curves;
pub mod deform;
mod distributed;
pub mod drr;
pub mod elastic;
pub(crate) mod html;
mod labels;
mod pair;
pub mod pose;
pub mod regression;
pub mod segment;
pub mod slices;
pub mod stability;
pub mod stream;
pub mod surface;
pub mod surfaces;
pub mod timeline;
pub mod track;
mod words;

use crate::draw::meshes::{Scene, Sections};
use crate::error::Result;
use crate::record::{HostRecord, RunRecord};
use crate::text::{escape, title};
use html::{Section, file_name};
use std::fmt::Write as _;
use words::Card;

/// A page while it is made: its sections, and the links to them.
#[derive(Debug, Default)]
pub(crate) struct Page {
    links: String,
    body: String,
}

impl Page {
    /// A page on a run that begins with its verdict and the most telling numbers.
    pub(crate) fn on(run: &RunRecord, cards: Vec<Card>) -> Self {
        let mut page = Self::default();
        page.add("Verdict", words::verdict(run));
        page.add("", words::cards(run, cards));
        page
    }

    /// Adds a section under the name that its link has, which is none where it is empty. A section that is empty is left
    /// out, and its link.
    pub(crate) fn add(&mut self, link: &str, section: Section) {
        if !link.is_empty() && !section.html.is_empty() {
            let id = &section.id;
            // The script shows what it makes.
            let [before, after] = match id.as_str() {
                "fig-compare" => [" id=\"nav-compare\"", " hidden"],
                _ => [""; 2],
            };
            let _ = write!(self.links, "<a{before} href=\"#{id}\"{after}>{link}</a>");
        }
        self.body += &section.html;
    }

    /// Adds HTML between sections.
    pub(crate) fn text(&mut self, html: &str) {
        self.body += html;
    }

    /// Adds a [figure](html::figure) under the name that its link has.
    pub(crate) fn figure(&mut self, link: &str, id: &str, title: &str, body: &str, caption: &str) {
        self.add(link, html::figure(id, title, body, caption));
    }

    /// Adds meshes in 3D; the caption is HTML.
    pub(crate) fn solid(&mut self, scene: &Scene<'_>, title: &str, caption: &str) -> Result<()> {
        self.add("3D", Section::new("fig-3d", scene.figure("fig-3d", title, caption)?));
        Ok(())
    }

    /// Adds meshes upon slices under the name that the link has; the caption is HTML.
    pub(crate) fn sections(
        &mut self,
        link: &str,
        sections: &Sections<'_>,
        title: &str,
        caption: &str,
    ) -> Result<()> {
        let id = "fig-sections";
        self.add(link, Section::new(id, sections.figure(id, title, caption)?));
        Ok(())
    }

    /// The page under its heading, with the details of the run, and the script that pages on runs have.
    pub(crate) fn finish(mut self, run: &RunRecord, heading: &Heading) -> String {
        self.add("Details", words::details(run));
        let footer =
            "<footer>This file is self-contained: it loads nothing and sends nothing.</footer>";
        let script = include_str!("script.js");
        self.whole(
            heading,
            "; script-src 'unsafe-inline'",
            footer,
            &format!("<script>{script}</script>"),
        )
    }

    /// The page under its heading without a script.
    pub(crate) fn finish_plain(self, heading: &Heading) -> String {
        self.whole(heading, "", "", "")
    }

    fn whole(self, heading: &Heading, policy: &str, footer: &str, script: &str) -> String {
        let lines: String = heading.lines.iter().map(|line| format!("<p>{line}</p>")).collect();
        let links = match self.links.as_str() {
            "" => String::new(),
            links => format!("<nav aria-label=\"Sections\">{links}</nav>"),
        };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
             style-src 'unsafe-inline'{policy}\">\
             <title>{}</title><style>{}{}</style></head><body>\
             <div class=\"page\"><header><h1>{}</h1>{lines}</header>{links}<main>{}</main>{footer}</div>\
             {script}</body></html>\n",
            heading.title,
            include_str!("style.css"),
            crate::draw::STYLE,
            heading.heading,
            self.body,
        )
    }
}

/// How a page is headed; all is HTML.
#[derive(Debug)]
pub(crate) struct Heading {
    /// The title of the window.
    title: String,
    heading: String,
    /// The lines below the heading.
    lines: Vec<String>,
}

impl Heading {
    /// The heading of a page on what a run made; `title`, `heading` and `line` are HTML.
    pub(crate) fn new(title: &str, heading: &str, line: &str, record: &RunRecord) -> Self {
        let lines = vec![line.to_owned(), escape(&record.line())];
        Self { title: title.to_owned(), heading: heading.to_owned(), lines }
    }

    /// That of a page on a registration of some `kind`.
    pub(crate) fn of_pair(record: &RunRecord, kind: &str) -> Self {
        let role = |role: &str| {
            let input = record.inputs.iter().find(|i| i.role == role);
            input.map_or_else(|| escape(role), |i| file_name(&i.path))
        };
        let line = format!("{} onto {}", role("moving"), role("fixed"));
        let window = format!("{line}: {} registration", escape(kind));
        Self::new(&window, &format!("{} registration", escape(&title(kind))), &line, record)
    }

    /// That of a page on what was measured on a machine.
    pub(crate) fn of_machine(title: &str, program: &str, host: &HostRecord) -> Self {
        let (title, device) = (escape(title), escape(&host.device));
        let window = format!("{title} on {device}");
        Self { title: window, heading: title, lines: vec![device, escape(program)] }
    }
}
