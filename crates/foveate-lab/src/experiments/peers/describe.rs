//! The tables, plots and verdicts of `foveate lab peers`.

use super::liars::{Harm, Lie};
use super::{Done, ExperimentError, LieRow, PeersRow, RunOptions, RunResult, TamperedRow};
use crate::output::{ExperimentResult, Table, Verdict};
use crate::report::{Axis, Plot, Report, Series};

/// How much worse coherence of honest peers may be, as a share.
const HARM: f64 = 0.05;

pub(super) fn done(ran: &[RunResult], options: RunOptions) -> Result<Done, ExperimentError> {
    let games: Vec<&PeersRow> = ran.iter().filter_map(|it| as_game(it)).collect();
    let lies: Vec<LieRow> = Lie::ALL.into_iter().filter_map(|lie| lie_row(lie, ran)).collect();
    let tampered: Vec<TamperedRow> = ran
        .iter()
        .filter_map(|it| if let RunResult::Tampered(row) = it { Some(*row) } else { None })
        .collect();
    let mut outcome = ExperimentResult::new("peers", options.seed);
    games.iter().try_for_each(|row| outcome.push(row))?;
    lies.iter().try_for_each(|row| outcome.push(row))?;
    tampered.iter().try_for_each(|row| outcome.push(row))?;
    let verdicts =
        [game_verdicts(&games, options.quick), lie_verdicts(&lies, options.quick)].concat();
    verdicts.into_iter().for_each(|verdict| outcome.judge(verdict));
    tampered.iter().flat_map(tampered_verdicts).for_each(|verdict| outcome.judge(verdict));
    let mut report = Report::new("peers", "A game without a server").summary(
        "Every node is a player and owns what it cares for most; neighbours are told by grade, the rest \
         is gossip. Bytes are payload, headers of UDP and IP not counted.",
    );
    let mut tables = vec![game_table(&games)];
    if !lies.is_empty() {
        tables.push(lie_table(&lies));
    }
    for table in &tables {
        report = report.section(table.caption_text().unwrap_or(""), "").table(table);
    }
    let growing: Vec<&&PeersRow> = games.iter().filter(|row| row.part == "growing").collect();
    if growing.len() > 1 {
        let points = growing.iter().map(|row| (row.nodes as f64, row.bytes_s));
        let plot = Plot::lines("Bytes sent per node, at constant density")
            .x(Axis::linear("nodes", ""))
            .y(Axis::linear("sent by one node", "B/s").from_zero())
            .series(Series::points("graded", points));
        report = report.plot(plot);
    }
    Ok(Done { outcome, tables, notes: Vec::new(), report })
}

fn as_game(ran: &RunResult) -> Option<&PeersRow> {
    if let RunResult::Game(row) = ran { Some(row) } else { None }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn lie_row(lie: Lie, ran: &[RunResult]) -> Option<LieRow> {
    let harms: Vec<&Harm> = ran
        .iter()
        .filter_map(|it| match it {
            RunResult::Lie(other, harm) if *other == lie => Some(harm),
            _ => None,
        })
        .collect();
    let first = harms.first()?;
    let change = |harm: &&Harm| harm.lied_to / harm.honest.max(1e-9) - 1.0;
    let sum = |count: fn(&Harm) -> usize| harms.iter().map(|harm| count(harm)).sum::<usize>();
    let (named, met) = (sum(|harm| harm.named), sum(|harm| harm.met));
    Some(LieRow {
        part: "liar",
        lie: lie.name(),
        seeds: harms.len(),
        delta_honest: median(harms.iter().map(|harm| harm.honest).collect()),
        delta_lied_to: median(harms.iter().map(|harm| harm.lied_to).collect()),
        change: median(harms.iter().map(change).collect()),
        met,
        named_share: named as f64 / met as f64,
        shown_s: harms.iter().map(|harm| harm.shown_s).fold(0.0, f64::max),
        named_after_s: harms.iter().filter_map(|harm| harm.named_s).reduce(f64::max),
        named_for: first.fault.map(|fault| format!("{fault:?}")),
        wronged: harms.iter().map(|harm| harm.wronged).sum(),
    })
}

fn game_verdicts(games: &[&PeersRow], quick: bool) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut growing: Vec<&&PeersRow> = games.iter().filter(|row| row.part == "growing").collect();
    growing.sort_by_key(|row| row.nodes);
    if let [small, .., large] = growing[..] {
        let nodes = large.nodes as f64 / small.nodes as f64;
        let bytes = large.bytes_s / small.bytes_s;
        let name =
            format!("bytes per node grow less than nodes, {} to {}", small.nodes, large.nodes);
        // In a small game all nodes are in view, so that bytes grow nearly as fast as nodes.
        verdicts.push(Verdict::at_most(name, bytes, nodes, "×").reported_only(quick));
        let busiest = growing.iter().map(|row| row.uplink_share).fold(0.0, f64::max);
        verdicts.push(Verdict::at_most("busiest uplink", 100.0 * busiest, 100.0, "%"));
    }
    let wronged = |row: &&&PeersRow| {
        let name = format!("{} nodes ({}): honest peers named", row.nodes, row.part);
        Verdict::at_most(name, row.wronged as f64, 0.0, "")
    };
    verdicts.extend(games.iter().map(|row| wronged(&row)));
    verdicts
}

fn lie_verdicts(lies: &[LieRow], quick: bool) -> Vec<Verdict> {
    let verdicts = lies.iter().flat_map(|lie| {
        let name = |what: &str| format!("one that {}: {what}", lie.lie);
        [
            Verdict::at_least(
                name("named by the peers that met it"),
                100.0 * lie.named_share,
                100.0,
                "%",
            ),
            Verdict::at_most(name("honest peers named"), lie.wronged as f64, 0.0, ""),
            Verdict::at_most(name("Δ of the honest grows"), 100.0 * lie.change, 100.0 * HARM, "%")
                .reported_only(quick),
        ]
    });
    verdicts.collect()
}

fn tampered_verdicts(row: &TamperedRow) -> [Verdict; 2] {
    let name = |what: &str| format!("of {} digests {what}", row.tampered);
    [
        Verdict::at_most(name("tampered with, believed"), row.accepted as f64, 0.0, ""),
        Verdict::at_most(name("left as they were, refused"), row.genuine_refused as f64, 0.0, ""),
    ]
}

fn game_table(rows: &[&PeersRow]) -> Table {
    let optional = |value: Option<f64>| value.map(|s| format!("{s:.2}")).unwrap_or_default();
    Table::of(rows)
        .left("part", |row| row.part.to_owned())
        .right("nodes", |row| row.nodes.to_string())
        .right("links", |row| row.fanout.to_string())
        .right("B/s", |row| format!("{:.0}", row.bytes_s))
        .right("most", |row| format!("{:.0}", row.bytes_s_max))
        .right("packets/s", |row| format!("{:.0}", row.packets_s))
        .right("Inc", |row| format!("{:.4}", row.inc))
        .right("share", |row| format!("{:.4}", row.inc_share))
        .right("Inj", |row| format!("{:.5}", row.inj))
        .right("lost near", |row| format!("{:.4}", row.lost_near))
        .right("near ms", |row| format!("{:.1}", row.delay_near_ms))
        .right("far ms", |row| format!("{:.0}", row.delay_far_ms))
        .right("join all s", |row| optional(row.join_all_s))
        .right("join near s", |row| optional(row.join_near_s))
        .right("seen", |row| format!("{:.4}", row.seen_share))
        .right("uplink", |row| format!("{:.3}", row.uplink_share))
        .caption("Graded gossip")
}

fn lie_table(rows: &[LieRow]) -> Table {
    Table::of(rows)
        .left("lie", |row| row.lie.to_owned())
        .right("seeds", |row| row.seeds.to_string())
        .right("Δ honest", |row| format!("{:.5}", row.delta_honest))
        .right("Δ lied to", |row| format!("{:.5}", row.delta_lied_to))
        .right("change", |row| format!("{:+.1} %", 100.0 * row.change))
        .right("peers that met it", |row| row.met.to_string())
        .right("detected by", |row| format!("{:.1} %", 100.0 * row.named_share))
        .right("longest exposure s", |row| format!("{:.1}", row.shown_s))
        .right("detected after s", |row| {
            row.named_after_s.map(|s| format!("{s:.1}")).unwrap_or_default()
        })
        .left("reason", |row| row.named_for.clone().unwrap_or_default())
        .right("honest peers accused", |row| row.wronged.to_string())
        .caption("Lying peers")
}
