//! The document and the code name the same contexts and limits.

use super::*;
use crate::packet::{KEPT_STATES, MAX_PACKET, MAX_RECORD_BYTES, MAX_RECORDS};
use crate::predict::HORIZON;
use crate::{FieldSpec, FieldType, KindSpec, Schema, facing, place};

const OURS: &[(&str, usize)] = &[
    ("MORE", MORE),
    ("GAP", GAP),
    ("AGE", AGE),
    ("OPERATION", OPERATION),
    ("OTHERS", OTHERS),
    ("FIELD", FIELD),
    ("STEP", STEP),
    ("WORD", WORD),
    ("NAME", NAME),
    ("CONTEXTS", CONTEXTS),
];

/// The rows of the document's table with this heading, cells trimmed.
fn table(heading: &str) -> Vec<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/WIRE.md");
    let text = std::fs::read_to_string(path).expect("docs/WIRE.md lies in the repository");
    let lines = text.lines().skip_while(|line| !line.starts_with(heading)).skip(2);
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
    let rows = lines.take_while(|line| line.starts_with('|')).map(cells);
    rows.map(|row: Vec<String>| row[1..row.len() - 1].to_vec()).collect()
}

#[test]
fn the_document_places_every_family_of_contexts_where_the_code_does() {
    let families = [place::tests::FAMILIES, facing::tests::FAMILIES, OURS].concat();
    let rows = table("| family |");
    assert_eq!(rows.len(), families.len(), "docs/WIRE.md lacks a family or has one too many");
    let ends = families.iter().skip(1).map(|(_, first)| Some(*first)).chain([None]);
    for ((row, (name, first)), end) in rows.iter().zip(&families).zip(ends) {
        let size = end.map_or("–".to_owned(), |end| (end - first).to_string());
        assert_eq!(row[..3], [(*name).to_owned(), first.to_string(), size], "in docs/WIRE.md");
    }
}

fn is_refused(kinds: usize, fields: usize) -> bool {
    let field = |n: usize| FieldSpec::new(&format!("f{n}"), FieldType::Symbol { count: 2 });
    let kind = |n: usize| {
        let fields = (0..fields).map(field).collect();
        KindSpec { name: format!("k{n}"), fields, max_speed: 0.0, fall: 0 }
    };
    Schema::new((0..kinds).map(kind).collect()).is_err()
}

#[test]
fn the_document_states_the_limits_that_the_code_keeps() {
    let limits = table("| name | value |");
    let stated = |name: &str| -> usize {
        let row = limits.iter().find(|row| row[0] == name);
        let row = row.unwrap_or_else(|| panic!("docs/WIRE.md does not state {name}"));
        row[1].parse().unwrap_or_else(|_| panic!("{name}: {} is no number", row[1]))
    };
    for (name, value) in [
        ("MAX_PACKET", MAX_PACKET),
        ("MAX_RECORDS", MAX_RECORDS),
        ("MAX_RECORD_BYTES", MAX_RECORD_BYTES),
        ("KEPT_STATES", KEPT_STATES),
        ("HORIZON", HORIZON as usize),
    ] {
        assert_eq!(stated(name), value, "{name} in docs/WIRE.md");
    }
    let (kinds, fields) = (stated("MAX_KINDS"), stated("MAX_FIELDS"));
    assert!(!is_refused(kinds, 1) && is_refused(kinds + 1, 1));
    assert!(!is_refused(1, fields) && is_refused(1, fields + 1));
}
