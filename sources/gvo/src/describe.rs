//! Tables, plots and findings of the motion experiment.

use super::gvo::{FACING, LATENCY, THRESHOLD};
use super::meter::{Side, Stream};
use super::rows::{BESIDE, MotionFindings};
use super::script::{FRAME, NEAR_SPAWN, Scenario};
use super::{
    Done, ExperimentResult, FOVEATE, JOIN_BUDGET, NEAR_OURS, NEAR_SOURCE, PLAIN, Played, Topology,
};
use foveate_lab::output::{Align, Table};
use foveate_lab::report::{Axis, Plot, Report, Series};

/// The source's figure for one moving object, in bytes per 100 ms.
const PAPER_MOVING: f64 = 250.0;

pub(super) fn done(outcome: ExperimentResult, played: &[Played], found: &MotionFindings) -> Done {
    let tables = vec![
        shares_table(found),
        factors_table(found),
        checks_table(found),
        joins_table(found),
        streams_table(played),
        traffic_table(found),
        pressed_table(found),
    ];
    let mut report = Report::new("motion", "Actions and positions: GVO's scenarios").summary(
        "GVO's measured scenarios, client/server and peer-to-peer, by its own messages and by our \
         engine, in virtual time. What each optimisation saves, and how little is sent when a unit \
         is told where to go instead of where it is.",
    );
    report = report
        .section("Actions against positions", ACTIONS)
        .table(&tables[0])
        .section("Each optimisation by itself", factors_text())
        .table(&tables[1])
        .plot(factors_plot(found, "source"))
        .plot(factors_plot(found, FOVEATE))
        .section(
            "Figures of the source",
            "Single figures that the source gives, beside what came out.",
        )
        .table(&tables[2])
        .section("Joining", joins_text())
        .table(&tables[3])
        .section("By stream", STREAMS)
        .table(&tables[4])
        .section("Per node, in ticks of 100 ms", TICKS)
        .table(&tables[5]);
    for run in played.iter().filter(|run| [PLAIN, FOVEATE].contains(&run.variant)) {
        report = report.plot(ticks_plot(run));
    }
    let special =
        ["foveate, actions", "source + actions", "foveate, join budget", NEAR_SOURCE, NEAR_OURS];
    for run in played.iter().filter(|run| special.contains(&run.variant)) {
        report = report.plot(ticks_plot(run));
    }
    report = report.section("Compression of packets", PRESSED).table(&tables[6]);
    Done { outcome, tables, notes: vec![notes()], report }
}

const ACTIONS: &str = "What movement costs all nodes together: positions and orders; with ours also \
    acknowledgements and the list of players. An order is state: it is acknowledged and repeated after loss. \
    Both ends find the same way, so that between two orders nothing is sent and the error is zero. On a \
    collision the authority sends positions until the units are clear of each other, then a new order. \
    Errors are those of the second player's replicas, in units; a walker takes 0.19 units a frame.";

const STREAMS: &str = "Payload bytes that all nodes sent. Ours: packet headers are shared out in proportion, \
    acknowledgements and notices are control. Each stream has packets of its own here so that its bytes \
    can be told apart; put into common packets they would cost less. What the source sends as an event \
    (a new object, a change of owner) is state with us.";

const TICKS: &str = "Payload bytes, without the carriers' headers, as the source's meter counts. The source \
    gives one figure for such plots: about 250 B in 100 ms for one moving object.";

const PRESSED: &str = "The source gives neither the packets' contents nor the algorithms; sizes are its own, \
    contents (names, addresses, string ids, absolute timestamps, floats) are ours. Huffman's table is in \
    the packet. Every compressed packet is expanded again and compared. Ten equal packets in a row give run lengths nothing to work on; its figures \
    suggest that it gathered them byte by byte or otherwise. Our own packets carry no table at all.";

fn factors_text() -> String {
    format!(
        "Bytes without it ÷ bytes with it, nothing else changed. The server's upload; between peers, \
         the upload of all. The source shows plots without figures but for increments (its example) and that \
         with dead reckoning or zoning the server's download stays. Thresholds are ours: {THRESHOLD} \
         units and {FACING}° for dead reckoning, steps of 1/16 unit for increments. *Increments* of ours \
         cannot be turned off; the row compares a whole state with an update. *Ours beside its dead \
         reckoning*: its bytes ÷ ours within the same bound. With a server ours has half of the bound for \
         either hop, and every packet is acknowledged by one of its own: 7 B, and 42 B of headers."
    )
}

fn joins_text() -> String {
    format!(
        "The last player's joining. The source sends every object at once, 77 B each. Ours under a budget of \
         {} B in 100 ms: nearest first, in chunks. *Nearest first*: of all pairs of objects told in different \
         rounds, the share in which the nearer came first. *Peers*: the newcomer asks an entry peer. The \
         source's sends the list to all players, the newcomer connects to all, and each pair exchanges \
         full states; ours tells the newcomer alone, which introduces itself. *Near spawn*: the newcomer \
         is told of, and connects to, the peers within {NEAR_SPAWN} units of its spawn point. Handshakes \
         of connections are counted on neither side.",
        JOIN_BUDGET.0
    )
}

fn notes() -> String {
    format!(
        "Frames of {} ms, {} ms one way, no loss. Source: its messages at its measured sizes (position \
         95 B, action 79, hello 41, list of two 85, full state of three objects 246, zone change 21); what \
         they leave open is decided here: contents of strings, increments of 30 B after its example (the \
         full positions that they refer to travel by TCP), thresholds, standing objects send nothing, the \
         server sends the list after a departure. Payload bytes; where `wire` is stated, with 54 B of TCP \
         or 42 B of UDP headers a packet. Acknowledgements are counted, TCP's and ours.",
        FRAME.as_millis(),
        LATENCY.as_millis(),
    )
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn optional(value: Option<f64>, digits: usize, unit: &str) -> String {
    value.map_or(String::new(), |value| format!("{value:.digits$}{unit}"))
}

fn shares_table(found: &MotionFindings) -> Table {
    Table::of(&found.shares)
        .left("scenario", |row| row.scenario.to_owned())
        .left("topology", |row| row.topology.to_owned())
        .left("variant", |row| row.variant.to_owned())
        .right("bytes", |row| row.bytes.to_string())
        .left("against", |row| row.against.to_owned())
        .right("bytes", |row| row.against_bytes.to_string())
        .right("share", |row| percent(row.share))
        .right("error mean", |row| optional(row.err_mean, 3, ""))
        .right("max", |row| optional(row.err_max, 3, ""))
        .right("at the end", |row| optional(row.err_end, 3, ""))
        .caption("A unit ordered to four targets")
}

fn factors_table(found: &MotionFindings) -> Table {
    Table::of(&found.factors)
        .left("scenario", |row| row.scenario.to_owned())
        .left("topology", |row| row.topology.to_owned())
        .left("protocol", |row| row.protocol.to_owned())
        .left("optimisation", |row| row.optimisation.to_owned())
        .left("measured", |row| row.measured.to_owned())
        .right("off", |row| format!("{:.0}", row.off))
        .right("on", |row| format!("{:.0}", row.on))
        .right("factor", |row| format!("{:.2}×", row.factor))
        .right("source", |row| optional(row.paper_factor, 2, "×"))
        .caption("What each optimisation is worth")
}

fn checks_table(found: &MotionFindings) -> Table {
    Table::of(&found.checks)
        .left("scenario", |row| row.scenario.to_owned())
        .left("topology", |row| row.topology.to_owned())
        .left("variant", |row| row.variant.to_owned())
        .left("what", |row| row.what.to_owned())
        .right("here", |row| format!("{:.2}", row.value))
        .right("source", |row| format!("{:.0}", row.paper_value))
        .caption("Single figures of the source")
}

fn joins_table(found: &MotionFindings) -> Table {
    Table::of(&found.joins)
        .left("scenario", |row| row.scenario.to_owned())
        .left("topology", |row| row.topology.to_owned())
        .left("variant", |row| row.variant.to_owned())
        .left("node", |row| row.node.clone())
        .right("full state", |row| row.full_state_bytes.to_string())
        .right("peak in 100 ms", |row| row.peak_100ms.to_string())
        .right("budget", |row| row.budget_100ms.map_or(String::new(), |budget| budget.to_string()))
        .right("it sends", |row| row.up_bytes.to_string())
        .right("all send", |row| row.all_bytes.to_string())
        .right("objects", |row| format!("{} of {}", row.first_states, row.expected_states))
        .right("complete after", |row| format!("{:.2} s", row.complete_after_s))
        .right("nearest first", |row| row.nearest_first.map_or(String::new(), percent))
        .caption("Joining: what the newcomer is sent")
}

fn streams_table(played: &[Played]) -> Table {
    let named = [("scenario", Align::Left), ("topology", Align::Left), ("variant", Align::Left)];
    let streams = Stream::ALL.iter().map(|stream| (stream.name(), Align::Right));
    let mut table = Table::new(named.into_iter().chain(streams))
        .caption("Payload bytes that all nodes sent, by stream");
    for run in played {
        let names = [run.scenario.name(), run.topology.name(), run.variant].map(str::to_owned);
        let bytes = Stream::ALL.iter().map(|stream| run.meter.sent_of(&[*stream]).to_string());
        table.row(names.into_iter().chain(bytes));
    }
    table
}

fn traffic_table(found: &MotionFindings) -> Table {
    Table::of(&found.traffic)
        .left("scenario", |row| row.scenario.to_owned())
        .left("topology", |row| row.topology.to_owned())
        .left("variant", |row| row.variant.to_owned())
        .left("node", |row| row.node.clone())
        .right("up", |row| row.up_bytes.to_string())
        .right("down", |row| row.down_bytes.to_string())
        .right("up wire", |row| row.up_wire_bytes.to_string())
        .right("down wire", |row| row.down_wire_bytes.to_string())
        .right("up peak", |row| row.up_peak_100ms.to_string())
        .right("down peak", |row| row.down_peak_100ms.to_string())
        .caption("Bytes per node; peaks in 100 ms")
}

fn pressed_table(found: &MotionFindings) -> Table {
    let of_source = |bytes: Option<usize>| bytes.map_or(String::new(), |bytes| bytes.to_string());
    Table::of(&found.pressed)
        .left("packet", |row| row.packet.to_owned())
        .left("packets", |row| row.packets.to_owned())
        .right("bytes", |row| row.bytes.to_string())
        .right("RLE", |row| row.rle_bytes.to_string())
        .right("Huffman", |row| row.huffman_bytes.to_string())
        .right("source's bytes", |row| of_source(row.paper_bytes))
        .right("RLE", |row| of_source(row.paper_rle_bytes))
        .right("Huffman", |row| of_source(row.paper_huffman_bytes))
        .caption("Compression of the source's packets")
}

/// The scenarios in which the source tests an optimisation.
fn tried_in(optimisation: &str) -> &'static [Scenario] {
    match optimisation {
        "dead reckoning" | "8-bit increments" | "4-bit increments" | "increments" => {
            &[Scenario::Straight, Scenario::Restless]
        }
        "zoning" => &[Scenario::Zones],
        "actions" | BESIDE | "all of ours" => &[],
        _ => &[Scenario::Moving3],
    }
}

/// The gain of each optimisation in its scenarios. Actions are left out, since theirs is much larger than all others.
fn factors_plot(found: &MotionFindings, protocol: &str) -> Plot {
    let rows: Vec<_> = found
        .factors
        .iter()
        .filter(|row| row.topology == Topology::Server.name() && row.protocol == protocol)
        .filter(|row| tried_in(row.optimisation).iter().any(|s| s.name() == row.scenario))
        .filter(|row| row.measured != "server_down")
        .collect();
    let names = rows.iter().map(|row| format!("{}, {}", row.optimisation, row.scenario));
    let paper = rows.iter().map(|row| row.paper_factor.unwrap_or(f64::NAN));
    Plot::bars(format!("Client/server, {protocol}: how many times less"), names)
        .y(Axis::linear("off ÷ on", "×").from_zero())
        .series(Series::values("here", rows.iter().map(|row| row.factor)))
        .series(Series::values("source", paper).reference())
}

/// All nodes' traffic by tick.
fn ticks_plot(run: &Played) -> Plot {
    let Played { scenario, topology, variant, .. } = *run;
    let title = format!("{}, {}, {variant}", scenario.name(), topology.name());
    let points = |side: &Side| {
        let ticks = (run.seconds * 10.0).ceil() as usize;
        let mut all: Vec<u64> = side.per_tick().collect();
        all.resize(ticks.max(all.len()), 0);
        all.into_iter().enumerate().map(|(at, bytes)| (at as f64 / 10.0, bytes as f64))
    };
    let mut plot = Plot::lines(title)
        .caption(scenario.about())
        .x(Axis::linear("Time", "s"))
        .y(Axis::linear("Payload in 100 ms", "B").from_zero());
    for (node, flow) in run.meter.nodes.iter().enumerate() {
        let name = topology.node_name(node);
        for (side, word) in [(&flow.up, "up"), (&flow.down, "down")] {
            plot = plot.series(Series::points(format!("{name} {word}"), points(side)));
        }
    }
    if variant == PLAIN && scenario == Scenario::Straight {
        let line = [(0.0, PAPER_MOVING), (run.seconds, PAPER_MOVING)];
        plot = plot.series(Series::points("source, one moving object", line).reference());
    }
    plot
}
