//! The subset of XML used by mesh files.

use super::bytes::AGAIN;
use crate::error::{IoError, Result, shorten};
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;
use voxalign_image::memory;

/// Elements within elements, at most.
const DEEPEST: usize = 64;

/// An element's beginning.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) name: String,
    attributes: Vec<(String, String)>,
}

impl Start {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// An attribute that has to be there.
    pub(crate) fn need(&self, path: &Path, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| {
            let problem = format!("<{}> has no attribute {name}", shorten(&self.name));
            IoError::malformed(path, problem, AGAIN)
        })
    }
}

/// A piece of a document.
#[derive(Debug)]
pub(crate) enum Piece<'a> {
    Start(Start),
    /// The end of an element, also of one that is empty.
    End(String),
    Text(Cow<'a, str>),
}

/// A document, one piece after the other.
pub(crate) struct Xml<'a> {
    path: &'a Path,
    reader: Reader<&'a [u8]>,
    /// The elements that are open.
    open: usize,
    ending: Option<String>,
}

impl<'a> Xml<'a> {
    pub(crate) fn new(path: &'a Path, text: &'a str) -> Self {
        Self { path, reader: Reader::from_str(text), open: 0, ending: None }
    }

    /// Whether elements are open.
    pub(crate) fn is_open(&self) -> bool {
        self.open > 0
    }

    /// The next piece; nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Piece<'a>>> {
        if let Some(name) = self.ending.take() {
            return Ok(Some(Piece::End(name)));
        }
        loop {
            let event = self.reader.read_event().map_err(|e| self.wrong(&e.to_string()))?;
            return Ok(Some(match event {
                Event::Start(start) => {
                    self.open += 1;
                    if self.open > DEEPEST {
                        return Err(self.wrong("elements are nested too deeply"));
                    }
                    Piece::Start(self.start(&start)?)
                }
                Event::Empty(start) => {
                    let start = self.start(&start)?;
                    self.ending = Some(start.name.clone());
                    Piece::Start(start)
                }
                Event::End(end) => {
                    self.open = self.open.saturating_sub(1);
                    Piece::End(end.name().0.to_owned())
                }
                Event::Text(text) => Piece::Text(text.into_inner()),
                Event::CData(text) => Piece::Text(text.into_inner()),
                Event::GeneralRef(name) => Piece::Text(Cow::Borrowed(match &*name {
                    "lt" => "<",
                    "gt" => ">",
                    "amp" => "&",
                    "quot" => "\"",
                    "apos" => "'",
                    _ => " ",
                })),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => continue,
                Event::Eof => return Ok(None),
            }));
        }
    }

    fn start(&self, start: &BytesStart<'_>) -> Result<Start> {
        let mut attributes = Vec::new();
        for attribute in start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|e| self.wrong(&e.to_string()))?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|e| self.wrong(&e.to_string()))?;
            attributes.push((attribute.key.0.to_owned(), value.into_owned()));
        }
        Ok(Start { name: start.name().0.to_owned(), attributes })
    }

    fn wrong(&self, what: &str) -> IoError {
        let at = self.reader.buffer_position();
        let what: String = what.chars().take(200).collect();
        IoError::malformed(self.path, format!("the XML is broken at byte {at}: {what}"), AGAIN)
    }
}

/// Appends text to text, most often to none.
pub(crate) fn append<'a>(path: &Path, to: &mut Cow<'a, str>, text: Cow<'a, str>) -> Result<()> {
    if to.is_empty() {
        *to = text;
        return Ok(());
    }
    let to = to.to_mut();
    memory::ask::<u8, ()>(to.len() + text.len(), || to.try_reserve(text.len()).ok())
        .map_err(|e| IoError::memory(path, e))?;
    to.push_str(&text);
    Ok(())
}

/// Writes text with what XML has a meaning for replaced.
pub(crate) fn write_text(text: &str, sink: &mut dyn Write) -> io::Result<()> {
    for sign in text.chars() {
        match sign {
            '<' => sink.write_all(b"&lt;")?,
            '>' => sink.write_all(b"&gt;")?,
            '&' => sink.write_all(b"&amp;")?,
            '"' => sink.write_all(b"&quot;")?,
            _ if sign.is_control() => sink.write_all(b"_")?,
            _ => write!(sink, "{sign}")?,
        }
    }
    Ok(())
}
