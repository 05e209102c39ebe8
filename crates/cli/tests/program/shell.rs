//! Completions and manual pages.

use crate::common::Place;

#[test]
fn shells_complete_commands_and_options() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let found = place.line(&format!("completions {shell}")).expect(0).out;
        for word in ["deform", "total-sigma", "lncc"] {
            assert!(found.contains(word), "{shell} does not know {word}");
        }
    }
    place.line("completions tcsh").expect(2);
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    let written = place.line("man -o pages").expect(0).out;
    let help = place.line("--help").expect(0).out;
    let commands = help.lines().skip_while(|l| !l.starts_with("Commands:")).skip(1);
    let commands = commands.take_while(|l| !l.is_empty()).filter_map(|l| l.split(' ').nth(2));
    let commands: Vec<_> = commands.filter(|c| !c.is_empty() && *c != "help").collect();
    assert!(commands.len() > 12, "{commands:?}");
    for command in commands {
        let name = format!("voxalign-{command}.1");
        assert!(written.lines().any(|l| l == name), "{name} {written}");
        let page = std::fs::read_to_string(place.path("pages").join(&name)).unwrap();
        assert!(page.contains(".TH") && page.contains(command), "{page}");
    }
    let page = std::fs::read_to_string(place.path("pages/voxalign-deform.1")).unwrap();
    assert!(page.contains("total\\-sigma"));
}
