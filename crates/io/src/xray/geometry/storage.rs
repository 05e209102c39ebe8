//! The subset of OpenCV's `cv::FileStorage` needed for cameras: the top-level nodes of YAML and XML.

use crate::error::{IoError, Result, shorten};
use quick_xml::events::Event;
use quick_xml::reader::Reader;
use std::path::Path;

/// What helps where a file is of another shape.
pub(super) const SHAPE: &str = "write it as OpenCV's FileStorage does: '%YAML:1.0' and a key a line, or XML with \
                                <opencv_storage>; a matrix has rows, cols, dt and data";
/// More numbers than anything of a camera has.
const MOST: usize = 64;

/// An outermost node.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) name: String,
    /// `rows`, `cols`, `dt` and `data` of a matrix.
    fields: [Option<String>; 4],
    /// What is in it otherwise.
    plain: String,
}

const FIELDS: [&str; 4] = ["rows", "cols", "dt", "data"];

/// The numbers of a node, row by row, and the numbers of rows and columns where they are those of a matrix.
pub(super) struct Numbers {
    pub(super) all: Vec<f64>,
    pub(super) shape: Option<[usize; 2]>,
}

impl Node {
    /// Its numbers, or what is wrong with it.
    pub(super) fn numbers(&self) -> std::result::Result<Numbers, String> {
        let [rows, columns, kind, data] = &self.fields;
        let Some(data) = data else {
            return Ok(Numbers { all: numbers(&self.plain)?, shape: None });
        };
        let count = |name: &str, text: &Option<String>| {
            let Some(text) = text else { return Err(format!("has no '{name}'")) };
            let count = text.trim().parse::<usize>().ok().filter(|n| *n <= MOST);
            count.ok_or_else(|| format!("has '{name}: {}'", shorten(text.trim())))
        };
        let shape = [count("rows", rows)?, count("cols", columns)?];
        let channels = channels(kind.as_deref().unwrap_or("d"))?;
        let (all, asked) = (numbers(data)?, shape[0] * shape[1] * channels);
        if all.len() != asked {
            return Err(format!(
                "has {} numbers, and {} x {} are {asked}",
                all.len(),
                shape[0],
                shape[1] * channels
            ));
        }
        Ok(Numbers { all, shape: Some([shape[0], shape[1] * channels]) })
    }
}

/// How many numbers an element has: `d` or `1d` is one, `3d` three.
fn channels(kind: &str) -> std::result::Result<usize, String> {
    let plain = kind.trim().trim_matches('"');
    let letter = plain.trim_start_matches(|c: char| c.is_ascii_digit());
    let count = &plain[..plain.len() - letter.len()];
    let known = letter.len() == 1 && "ucwsifdh".contains(letter);
    let count = if count.is_empty() { Some(1) } else { count.parse().ok() };
    count
        .filter(|n| known && (1..=MOST).contains(n))
        .ok_or_else(|| format!("has 'dt: {}'", shorten(kind.trim())))
}

/// Numbers with spaces, commas or brackets between them.
fn numbers(text: &str) -> std::result::Result<Vec<f64>, String> {
    let between = |c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']');
    // What stands before the items of a YAML list.
    let words = text.split(between).filter(|word| !word.is_empty() && *word != "-");
    let mut all = Vec::new();
    for word in words {
        if all.len() == MOST {
            return Err(format!("has more than {MOST} numbers"));
        }
        match word.parse::<f64>() {
            Ok(value) if value.is_finite() => all.push(value),
            _ => return Err(format!("has '{}', which is not a finite number", shorten(word))),
        }
    }
    Ok(all)
}

/// Whether a text is one of OpenCV's, by its beginning.
pub(super) fn is_storage(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    let key = first.split_once(':').is_some_and(|(key, _)| is_name(key.trim()));
    first.starts_with("%YAML") || first == "---" || first.starts_with('<') || key
}

/// Whether a text says that it is one of OpenCV's.
pub(super) fn says_so(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("%YAML") || text.starts_with('<') && text.contains("<opencv_storage")
}

fn is_name(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c))
}

/// The nodes of a text.
pub(super) fn nodes(path: &Path, text: &str) -> Result<Vec<Node>> {
    if text.trim_start().starts_with('<') { xml(path, text) } else { yaml(path, text) }
}

/// A line without its comment, and by how much its brackets open more than they close; quotes hide both.
fn bare(line: &str) -> (&str, isize) {
    let (mut quote, mut depth, mut before) = (None, 0, ' ');
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (Some(end), _) if c != end || before == '\\' => {}
            (Some(_), _) => quote = None,
            (None, '#') if before.is_whitespace() => return (&line[..at], depth),
            (None, '"' | '\'') if !before.is_alphanumeric() => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            _ => {}
        }
        before = c;
    }
    (line, depth)
}

/// The keys of the first column, each with the lines up to the next.
fn yaml(path: &Path, text: &str) -> Result<Vec<Node>> {
    let mut nodes: Vec<(String, String)> = Vec::new();
    let mut open = 0;
    for (at, line) in text.lines().enumerate() {
        let wrong = |problem: String| {
            Err(IoError::malformed(path, format!("line {}: {problem}", at + 1), SHAPE))
        };
        let (line, deeper) = bare(line);
        let aside = line.starts_with('%') || matches!(line.trim_end(), "" | "---" | "...");
        if aside && open <= 0 {
            continue;
        }
        let further = open > 0 || line.starts_with([' ', '\t', '-']);
        open += deeper;
        if further {
            match nodes.last_mut() {
                Some((_, body)) => body.extend([line, "\n"]),
                None => return wrong(format!("'{}' belongs to no key", shorten(line.trim()))),
            }
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            return wrong(format!("'{}' is not a key with a value", shorten(line.trim())));
        };
        nodes.push((key.trim().trim_matches('"').to_owned(), format!("{value}\n")));
    }
    if open > 0 {
        let name = nodes.last().map_or("", |(name, _)| name);
        let problem = format!("it ends within the brackets of '{}'", shorten(name));
        return Err(IoError::malformed(path, problem, SHAPE));
    }
    Ok(nodes.into_iter().map(|(name, body)| yaml_node(name, &body)).collect())
}

/// A node of what follows its key.
fn yaml_node(name: String, body: &str) -> Node {
    let mut body = body.trim();
    if body.starts_with('!') {
        let end = body.find(char::is_whitespace).unwrap_or(body.len());
        body = body[end..].trim();
    }
    let inner = body.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(body);
    let mut node = Node { name, fields: Default::default(), plain: body.to_owned() };
    let mut rest = inner;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        let Some((key, value)) = rest.split_once(':').filter(|(key, _)| is_name(key.trim())) else {
            return node;
        };
        let value = value.trim_start_matches([' ', '\t']);
        let end = match value.strip_prefix('[') {
            Some(list) => list.find(']').map_or(value.len(), |at| at + 2),
            None => value.find([',', '\n']).unwrap_or(value.len()),
        };
        if let Some(field) = FIELDS.iter().position(|field| *field == key.trim()) {
            node.fields[field] = Some(value[..end].to_owned());
        }
        rest = &value[end..];
    }
}

/// The elements of the outermost one.
fn xml(path: &Path, text: &str) -> Result<Vec<Node>> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut nodes: Vec<Node> = Vec::new();
    let (mut depth, mut field) = (0usize, None);
    loop {
        let event = reader.read_event().map_err(|e| {
            let at = usize::try_from(reader.buffer_position()).unwrap_or(0).min(text.len());
            let line = 1 + text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count();
            let said: String = e.to_string().chars().take(120).collect();
            IoError::malformed(path, format!("line {line}: the XML is broken: {said}"), SHAPE)
        })?;
        match event {
            Event::Start(start) => {
                let name = start.name();
                match depth {
                    0 if name.0 != "opencv_storage" => {
                        let problem = format!(
                            "it is XML of <{}>, and that of OpenCV has <opencv_storage>",
                            shorten(name.0)
                        );
                        return Err(IoError::malformed(path, problem, SHAPE));
                    }
                    1 => nodes.push(Node { name: name.0.to_owned(), ..Node::default() }),
                    2 => field = FIELDS.iter().position(|field| *field == name.0),
                    _ => {}
                }
                depth += 1;
            }
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                if depth <= 2 {
                    field = None;
                }
            }
            Event::Text(text) => keep(&mut nodes, depth, field, &text.into_inner()),
            Event::CData(text) => keep(&mut nodes, depth, field, &text.into_inner()),
            // Numbers have none.
            Event::GeneralRef(_) => keep(&mut nodes, depth, field, "&"),
            Event::Eof if depth > 0 => {
                return Err(IoError::malformed(path, "the XML is cut short", SHAPE));
            }
            Event::Eof => return Ok(nodes),
            _ => {}
        }
    }
}

/// Keeps a piece of text where it belongs, if it does.
fn keep(nodes: &mut [Node], depth: usize, field: Option<usize>, text: &str) {
    match (nodes.last_mut(), depth, field) {
        (Some(node), 3, Some(field)) => {
            node.fields[field].get_or_insert_default().push_str(text);
        }
        (Some(node), 2, _) => node.plain.push_str(text),
        _ => {}
    }
}
