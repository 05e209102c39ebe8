//! How options are said as keyword arguments. What is tested is compiled in, as nothing can be linked to the module.

#[path = "../src/words.rs"]
mod words;

use voxalign_options::text;
use words::{Typed, spoken};

#[test]
fn options_are_keyword_arguments() {
    for (text, said) in [
        (text!("`bins` is 3"), "`bins` is 3"),
        (text!("for `model = lddmm`; leave it out"), "for `model='lddmm'`; leave it out"),
        (text!("`outside = -1000` and `report = false`"), "`outside=-1000` and `report=False`"),
        (text!("give `transform = FILE`"), "give `transform=FILE`"),
    ] {
        assert_eq!(spoken(&text), said);
    }
}

#[test]
fn help_speaks_of_keyword_arguments() {
    let typed =
        Typed { switches: vec!["report".to_owned()], short: vec![('t', "transform".to_owned())] };
    for (help, said) in [
        ("unless --no-report says otherwise", "unless `report=False` says otherwise"),
        ("with --search-angles, or --no-way", "with `search_angles`, or `no_way`"),
        ("by `voxalign apply --even`", "by `voxalign apply --even`"),
        ("a -- b, at -1 or of X-ray", "a -- b, at -1 or of X-ray"),
        ("through the first -t, then", "through the first `transform`, then"),
        ("(--series), -x", "(`series`), -x"),
    ] {
        assert_eq!(typed.spoken(help), said);
    }
}
