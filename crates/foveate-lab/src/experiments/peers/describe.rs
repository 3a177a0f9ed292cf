//! What `foveate lab peers` found, for people and for programs.

use super::liars::{Harm, Lie};
use super::{Done, ExperimentError, LieRow, Options, Ran, Row, TamperedRow};
use crate::output::{Align, Outcome, Table};
use crate::report::{Axis, Mark, Plot, Report, Series};

/// The honest may be off by this much more, as a share.
const HARM: f64 = 0.05;

pub(super) fn done(ran: &[Ran], options: Options) -> Result<Done, ExperimentError> {
    let games: Vec<&Row> = ran.iter().filter_map(|it| as_game(it)).collect();
    let lies: Vec<LieRow> = Lie::ALL.into_iter().filter_map(|lie| lie_row(lie, ran)).collect();
    let tampered: Vec<TamperedRow> = ran
        .iter()
        .filter_map(|it| if let Ran::Tampered(row) = it { Some(*row) } else { None })
        .collect();
    let mut outcome = Outcome::new("peers", options.seed);
    games.iter().try_for_each(|row| outcome.push(row))?;
    lies.iter().try_for_each(|row| outcome.push(row))?;
    tampered.iter().try_for_each(|row| outcome.push(row))?;
    let found = findings(&games, &lies, &tampered);
    let mut report = Report::new("peers", "A game without a server").summary(
        "Every node is a player and owns what it cares for most; neighbours are told by grade, the rest \
         is gossip. Bytes are payload, headers of UDP and IP not counted.",
    );
    for (verdict, text, figure) in &found {
        report = report.finding(*verdict, text.clone(), figure.clone());
    }
    let mut tables = vec![game_table(&games)];
    if !lies.is_empty() {
        tables.push(lie_table(&lies));
    }
    for table in &tables {
        report = report.section(table.caption_text().unwrap_or(""), "").table(table);
    }
    let growing: Vec<&&Row> = games.iter().filter(|row| row.part == "growing").collect();
    if growing.len() > 1 {
        let points = growing.iter().map(|row| (row.nodes as f64, row.bytes_s));
        let plot = Plot::lines("Bytes sent per node, at constant density")
            .x(Axis::linear("nodes", ""))
            .y(Axis::linear("sent by one node", "B/s").from_zero())
            .series(Series::points("graded", points));
        report = report.plot(plot);
    }
    let notes = found.into_iter().map(|(verdict, text, figure)| {
        let mark = if verdict == Mark::Holds { "holds" } else { "FALLS SHORT" };
        format!("{text}: {figure} ({mark})")
    });
    Ok(Done { outcome, tables, notes: notes.collect(), report })
}

fn as_game(ran: &Ran) -> Option<&Row> {
    if let Ran::Game(row) = ran { Some(row) } else { None }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn lie_row(lie: Lie, ran: &[Ran]) -> Option<LieRow> {
    let harms: Vec<&Harm> = ran
        .iter()
        .filter_map(|it| match it {
            Ran::Lie(other, harm) if *other == lie => Some(harm),
            _ => None,
        })
        .collect();
    let first = harms.first()?;
    let change = |harm: &&Harm| harm.lied_to / harm.honest.max(1e-9) - 1.0;
    let named = |harm: &&Harm| harm.named as f64 / harm.met.max(1) as f64;
    Some(LieRow {
        part: "liar",
        lie: lie.name(),
        seeds: harms.len(),
        delta_honest: median(harms.iter().map(|harm| harm.honest).collect()),
        delta_lied_to: median(harms.iter().map(|harm| harm.lied_to).collect()),
        change: median(harms.iter().map(change).collect()),
        named_share: harms.iter().map(named).sum::<f64>() / harms.len() as f64,
        named_after_s: harms.iter().filter_map(|harm| harm.named_s).reduce(f64::max),
        named_for: first.fault.map(|fault| format!("{fault:?}")),
        wronged: harms.iter().map(|harm| harm.wronged).sum(),
    })
}

type Finding = (Mark, String, String);

fn findings(games: &[&Row], lies: &[LieRow], tampered: &[TamperedRow]) -> Vec<Finding> {
    let verdict = |holds: bool| if holds { Mark::Holds } else { Mark::FallsShort };
    let mut found = Vec::new();
    let mut growing: Vec<&&Row> = games.iter().filter(|row| row.part == "growing").collect();
    growing.sort_by_key(|row| row.nodes);
    if let [small, .., large] = growing[..] {
        let nodes = large.nodes as f64 / small.nodes as f64;
        let bytes = large.bytes_s / small.bytes_s;
        let text = "Bytes per node grow less than the number of nodes".to_owned();
        found.push((verdict(bytes < nodes), text, format!("{bytes:.2}× at {nodes:.1}× the nodes")));
        let busiest = growing.iter().map(|row| row.uplink_share).fold(0.0, f64::max);
        let text = "No node sends more than its uplink".to_owned();
        found.push((verdict(busiest < 1.0), text, format!("busiest at {:.1} %", 100.0 * busiest)));
    }
    for row in games {
        let text = format!("{} nodes ({}): no honest peer is named", row.nodes, row.part);
        found.push((verdict(row.wronged == 0), text, row.wronged.to_string()));
    }
    for lie in lies {
        let harmless = lie.change < HARM && lie.named_share > 0.0 && lie.wronged == 0;
        let text =
            format!("One who {}: the honest are off by less than 5 % more, it is named", lie.lie);
        let (change, named) = (100.0 * lie.change, 100.0 * lie.named_share);
        let figure = format!("{change:+.1} %, named by {named:.0} % of those it met");
        found.push((verdict(harmless), text, figure));
    }
    for row in tampered {
        let text = format!("Of {} tampered digests none is believed", row.tampered);
        found.push((verdict(row.accepted == 0), text, row.accepted.to_string()));
    }
    found
}

fn game_table(rows: &[&Row]) -> Table {
    let columns = [
        "part",
        "nodes",
        "links",
        "B/s",
        "most",
        "packets/s",
        "Inc",
        "share",
        "Inj",
        "lost near",
        "near ms",
        "far ms",
        "join all s",
        "join near s",
        "seen",
        "uplink",
    ];
    let columns =
        columns.map(|name| (name, if name == "part" { Align::Left } else { Align::Right }));
    let mut table = Table::new(columns).caption("Graded gossip");
    let optional = |value: Option<f64>| value.map(|s| format!("{s:.2}")).unwrap_or_default();
    for row in rows {
        table.row([
            row.part.to_owned(),
            row.nodes.to_string(),
            row.fanout.to_string(),
            format!("{:.0}", row.bytes_s),
            format!("{:.0}", row.bytes_s_max),
            format!("{:.0}", row.packets_s),
            format!("{:.4}", row.inc),
            format!("{:.4}", row.inc_share),
            format!("{:.5}", row.inj),
            format!("{:.4}", row.lost_near),
            format!("{:.1}", row.delay_near_ms),
            format!("{:.0}", row.delay_far_ms),
            optional(row.join_all_s),
            optional(row.join_near_s),
            format!("{:.4}", row.seen_share),
            format!("{:.3}", row.uplink_share),
        ]);
    }
    table
}

fn lie_table(rows: &[LieRow]) -> Table {
    let columns = [
        ("one who", Align::Left),
        ("seeds", Align::Right),
        ("Δ honest", Align::Right),
        ("Δ lied to", Align::Right),
        ("change", Align::Right),
        ("named by", Align::Right),
        ("after s", Align::Right),
        ("for", Align::Left),
        ("wronged", Align::Right),
    ];
    let mut table = Table::new(columns).caption("Liars");
    for row in rows {
        table.row([
            row.lie.to_owned(),
            row.seeds.to_string(),
            format!("{:.5}", row.delta_honest),
            format!("{:.5}", row.delta_lied_to),
            format!("{:+.1} %", 100.0 * row.change),
            format!("{:.0} %", 100.0 * row.named_share),
            row.named_after_s.map(|s| format!("{s:.1}")).unwrap_or_default(),
            row.named_for.clone().unwrap_or_default(),
            row.wronged.to_string(),
        ]);
    }
    table
}
