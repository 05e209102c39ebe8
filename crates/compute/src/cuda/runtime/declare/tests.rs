//! Declarations are those of the files.

use super::super::device::CHECK;
use super::super::program::FILES;
use super::*;

/// What follows `start`, up to the closing parenthesis.
fn within(text: &str, start: usize) -> &str {
    let mut depth = 1;
    let end = text[start..].find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    &text[start..start + end.unwrap()]
}

/// A list, by the commas that are in no parentheses.
fn split(list: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in list.chars() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        match (c, depth) {
            (',', 0) => parts.push(String::new()),
            _ => parts.last_mut().unwrap().push(c),
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// What a macro without parameters stands for.
fn meaning<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let (found, value) = line.strip_prefix("#define ")?.split_once(' ')?;
        (found == name).then(|| value.trim())
    })
}

/// The threads of a kernel; none where they come with macros.
fn threads(text: &str, bounds: &str) -> Option<u32> {
    let first = match bounds.split_once('(') {
        Some(("AT_ONCE" | "PER_SM", _)) => {
            return threads(text, &split(within(bounds, bounds.find('(')? + 1))[0]);
        }
        _ => split(bounds)[0].clone(),
    };
    let first = first.trim_matches(['(', ')', ' ']);
    if let Some((a, b)) = first.split_once('*') {
        return Some(threads(text, a.trim())? * threads(text, b.trim())?);
    }
    let number = first.trim_end_matches('u').parse().ok();
    number.or_else(|| threads(text, meaning(text, first)?))
}

/// Parameters as a text has them, those of macros among them.
fn kinds(text: &str, list: &[String]) -> Vec<String> {
    let of = |part: &String| match part.contains([' ', '(']) {
        true => vec![part.clone()],
        false => kinds(text, &split(meaning(text, part).unwrap_or_else(|| panic!("{part}")))),
    };
    list.iter().flat_map(of).collect()
}

fn is_of(kind: Kind, parameter: &str) -> bool {
    let pointer = |ways: &[&str], name: &str| {
        ways.iter().any(|way| parameter.starts_with(&format!("{way}({name}) ")))
    };
    match kind {
        Kind::In(name) => pointer(&["IN", "IN_OR_OUT"], name),
        Kind::Out(name) => pointer(&["OUT", "INOUT"], name),
        Kind::Number(name) => parameter.starts_with(&format!("{name} ")),
        Kind::Structure(name, _) => {
            parameter.starts_with(&format!("{name} ")) || pointer(&["IN_PLACE"], name)
        }
    }
}

/// Every file is declared, and every kernel of it as it is.
#[test]
fn declarations_are_those_of_the_files() {
    for file in FILES.iter().filter(|file| **file != "reduce/reduce.cu") {
        assert!(ALL.iter().any(|d| d.file == *file), "{file} is not declared");
    }
    for declaration in ALL {
        let file = declaration.file;
        let program = declaration.program();
        // Macros of several lines on one.
        let text = program.text().replace("\\\n", " ");
        let mut declared = declaration.kernels.iter();
        for (at, _) in text.match_indices("\nKERNEL(") {
            let parts = split(&within(&text, at + "\nKERNEL(".len()).replace('\n', " "));
            let name = &parts[0];
            let kernel = declared.next().unwrap_or_else(|| panic!("{file}: {name}"));
            assert_eq!(kernel.name, name, "{file}: the order of the kernels");
            let bounds = threads(&text, &parts[1]);
            assert!(
                bounds.is_none_or(|threads| threads == kernel.threads),
                "{file}: {name} is of {bounds:?} threads"
            );
            let found = kinds(&text, &parts[2..]);
            let expected: Vec<Kind> =
                kernel.parameters.iter().copied().flatten().copied().collect();
            assert_eq!(expected.len(), found.len(), "{file}: {name}: {found:?}");
            for (kind, parameter) in expected.into_iter().zip(&found) {
                let parameter = parameter.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(is_of(kind, &parameter), "{file}: {name}: {parameter} is no {kind:?}");
            }
        }
        assert!(declared.next().is_none(), "{file} has fewer kernels");
    }
}

#[test]
fn blocks_have_the_threads_that_kernels_are_for() {
    let check = |threads| CHECK::DECLARATION.check(0, &Shape::blocks(1, threads));
    assert!(check(32).is_ok());
    let said = check(33).unwrap_err().to_string();
    assert!(said.contains("count_up is for blocks of at most 32 threads, not 33"), "{said}");
}

plain! {
    struct Pair as "Two" {
        a: u32,
        b: f32,
    }
}

#[test]
fn structures_have_their_names_and_sizes() {
    assert_eq!(Pair::KIND, Kind::Structure("Two", 8));
    let text = Declaration {
        file: "none",
        text: "",
        kernels: &[Declared { name: "k", threads: 1, parameters: &[Pair::KINDS, Pair::KINDS] }],
    };
    let asserted = text.program().text().matches("static_assert(sizeof(Two) == 8").count();
    assert_eq!(asserted, 1);
}
