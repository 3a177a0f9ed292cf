//! The results as rows, tables and a page, beside what the source states.

use super::choice::{Against, Choice};
use super::findings::{Arrived, BINS, DistanceBin, SilacFindings, deviation, line, mean, share};
use super::swarm::{AVATAR_WIDTH, LATENCY, LOSS};
use super::{CONTACTS, Done, ExperimentError, Plan, RunOptions, SilacGame, SilacRow, copies};
use crate::SilacSettings;
use foveate_lab::output::{Align, ExperimentResult, Table, Verdict};
use foveate_lab::report::{Axis, Mark, Plot, Report, Series};
use serde::Serialize;

/// The source: the mean time until all nodes know a newcomer, in seconds.
const PAPER_JOIN_S: f64 = 5.5;
/// The source: at most this share of interactions is lost between near nodes.
const PAPER_LOST: f64 = 0.02;
/// R² from which points count as a straight line.
const STRAIGHT: f64 = 0.99;
/// The source: delay across the map, in milliseconds.
const PAPER_FAR_MS: f64 = 300.0;

/// A group that is chosen at least this often, relative to others at the same place, counts as unchanged.
const UNCHANGED: f64 = 0.9;
/// How far from a third a share may be.
const A_THIRD: f64 = 0.08;

/// All games and draws.
pub struct Played<'a> {
    pub plan: &'a Plan,
    pub games: &'a [SilacGame],
    pub found: &'a [SilacFindings],
    pub choices: &'a [Choice],
}

/// A claim of the source, with our figure and, if it can be decided, a verdict.
struct Claim {
    what: &'static str,
    source: &'static str,
    ours: String,
    verdict: Option<Verdict>,
}

impl Claim {
    /// A figure beside the source's, without a verdict.
    fn new(what: &'static str, source: &'static str, ours: String) -> Claim {
        Claim { what, source, ours, verdict: None }
    }

    /// Adds a verdict.
    fn judged(self, verdict: Verdict) -> Claim {
        Claim { verdict: Some(verdict), ..self }
    }
}

#[derive(Serialize)]
struct HopRow {
    part: &'static str,
    nodes: usize,
    fanout: usize,
    /// Times that it was passed on, as the header counts.
    hop: usize,
    first_share: f64,
    all_share: f64,
}

#[derive(Serialize)]
struct DistanceRow {
    part: &'static str,
    nodes: usize,
    fanout: usize,
    from_side: f64,
    to_side: f64,
    lost: f64,
    deeds: u64,
    learnt_mean_ms: f64,
    learnt_p95_ms: f64,
    delay_ms: f64,
    arrival_ms: f64,
}

#[derive(Serialize)]
struct JoinRow<'a> {
    part: &'static str,
    nodes: usize,
    fanout: usize,
    #[serde(flatten)]
    arrived: &'a Arrived,
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("never".to_owned(), |value| format!("{value:.2}"))
}

impl Played<'_> {
    fn of(&self, nodes: usize, fan_out: usize) -> Option<(&SilacGame, &SilacFindings)> {
        let wanted = |game: &&SilacGame| (game.nodes, game.settings.fan_out) == (nodes, fan_out);
        let at = self.games.iter().position(|game| wanted(&game))?;
        Some((&self.games[at], &self.found[at]))
    }

    /// Games of all sizes with the default fan-out.
    fn by_size(&self) -> Vec<(&SilacGame, &SilacFindings)> {
        let default = SilacSettings::default().fan_out;
        self.plan.sizes.iter().filter_map(|nodes| self.of(*nodes, default)).collect()
    }

    fn by_fan_out(&self) -> Vec<(&SilacGame, &SilacFindings)> {
        let nodes = self.plan.nodes;
        self.plan.fan_outs.iter().filter_map(|fan_out| self.of(nodes, *fan_out)).collect()
    }

    fn same_reach(&self) -> Vec<(&SilacGame, &SilacFindings)> {
        self.plan.same_reach.iter().filter_map(|(nodes, f)| self.of(*nodes, *f)).collect()
    }

    /// Makes the rows, tables, claims and page.
    pub fn finish(&self, options: RunOptions) -> Result<Done, ExperimentError> {
        let mut outcome = ExperimentResult::new("silac", options.seed);
        for (game, found) in self.games.iter().zip(self.found) {
            outcome.push(SilacRow::of(game, found))?;
        }
        let default = SilacSettings::default().fan_out;
        let (game, found) = self.of(self.plan.nodes, default).ok_or_else(|| {
            ExperimentError::Usage("the game of the source's size was not played".into())
        })?;
        push_details(&mut outcome, game, found)?;
        for choice in self.choices {
            outcome.push(choice)?;
        }
        let claims = self.claims(found, options.quick);
        let tables = vec![
            claims_table(&claims),
            choice_table(self.choices),
            games_table("Over the number of nodes, default fan-out", &self.by_size()),
            games_table("Over the fan-out", &self.by_fan_out()),
            games_table("Fan-out by size, for the same reach", &self.same_reach()),
            hops_table(game, found),
            distance_table(game, found),
            join_table(found),
        ];
        let mut report = Report::new("silac", "Silac: a game by gossip").summary(format!(
            "The source's six experiments. Bots walk a map of side 300 and act on what is near them; \
             frames of 50 ms, links of {} ms that lose {} %, fan-out {default} unless stated. Inc and \
             Inj in avatar widths of {AVATAR_WIDTH} units.",
            LATENCY.as_millis(),
            100.0 * LOSS,
        ));
        for Claim { what, source, ours, verdict } in claims {
            match verdict {
                Some(verdict) => outcome.judge(verdict),
                None => report = report.finding(Mark::Info, format!("{what}: {source}"), ours),
            }
        }
        for table in &tables {
            report = report.section(table.caption_text().unwrap_or_default(), "").table(table);
        }
        for plot in self.plots(found) {
            report = report.plot(plot);
        }
        Ok(Done { outcome, tables, notes: self.notes(), report })
    }

    fn claims(&self, found: &SilacFindings, quick: bool) -> Vec<Claim> {
        let mut claims = claims_on_choice(self.choices);
        claims.extend(claims_on_joining(found));
        claims.extend(self.claims_on_bytes(found));
        claims.extend(claims_on_delay(found, quick));
        let most = self.by_size().iter().map(|(_, found)| found.mean_inc()).fold(0.0, f64::max);
        let (inc, inj) = (found.inc.share(), found.mean_inj());
        let differ = percent(deviation(&found.inc_by_node));
        let what = "6. Inc at any size";
        claims.extend([
            Claim::new(what, "< 1", format!("≤ {most:.3}"))
                .judged(Verdict::at_most(what, most, 1.0, "")),
            Claim::new("6. Inc as a share of all wrong", "–", percent(inc)),
            Claim::new("6. Inc deviates between nodes", "little", differ),
            Claim::new("6. Inj", "~0 near by", format!("{inj:.4} s")),
        ]);
        claims
    }

    fn claims_on_bytes(&self, found: &SilacFindings) -> [Claim; 3] {
        let straight = |games: &[(&SilacGame, &SilacFindings)]| {
            let points = games.iter().map(|(g, found)| (g.nodes as f64, mean(&found.bytes)));
            let (slope, _, r2) = line(&points.collect::<Vec<_>>());
            (r2, format!("R² {r2:.3}, {slope:.0} B/s a node"))
        };
        let (r2, fixed) = straight(&self.by_size());
        let (_, following) = straight(&self.same_reach());
        let what = "3. bytes/s per node over nodes are a straight line: R²";
        // With a fixed fan-out bytes approach a ceiling: see the notes.
        let verdict = Verdict::at_least(what, r2, STRAIGHT, "").reported_only(true);
        [
            Claim::new(what, "linear", fixed).judged(verdict),
            Claim::new("3. the same, the fan-out following the size", "linear", following),
            Claim::new("3. deviation between nodes", "~0.1 %", percent(deviation(&found.bytes))),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let default = SilacSettings::default().fan_out;
        let smallest = self.by_fan_out().into_iter().find(|(_, found)| {
            let join = found.join_all_s().is_some_and(|join| join <= PAPER_JOIN_S);
            join && found.near().lost_share() <= PAPER_LOST
        });
        let smallest = smallest.map_or("none".to_owned(), |(g, _)| g.settings.fan_out.to_string());
        vec![
            format!(
                "Smallest fan-out that meets the source's claims on loss and joining: {smallest}; \
                 the default is {default}."
            ),
            format!(
                "A fixed fan-out F and three senders give a message at most F + F² + F³ copies \
                 ({} for F = {default}) whatever the size, so that bytes per node approach a ceiling; \
                 they grow with the size only while most copies are needless, or when F grows.",
                copies(default)
            ),
            "The choice depends weakly on distance: near weighs at most 1 of 2.5, and the farther \
             are many. So near avatars are told hardly more directly than far ones."
                .to_owned(),
            "Inc < 1 says little in avatar widths: all wrong would be below 1, too, on this map. The \
             share is the figure to compare."
                .to_owned(),
        ]
    }

    fn plots(&self, found: &SilacFindings) -> Vec<Plot> {
        let sizes = |name: &str, f: &dyn Fn(&SilacFindings) -> f64| {
            let points =
                self.by_size().into_iter().map(|(game, found)| (game.nodes as f64, f(found)));
            Series::points(name, points.collect::<Vec<_>>())
        };
        let bytes = |found: &SilacFindings| mean(&found.bytes) / 1e3;
        let reach = self.same_reach().into_iter();
        let reach: Vec<_> = reach.map(|(game, found)| (game.nodes as f64, bytes(found))).collect();
        let distance = |f: &dyn Fn(&DistanceBin) -> f64| {
            let bins = found.bins.iter().enumerate().filter(|(_, bin)| bin.arrival.count() > 0);
            bins.map(|(at, bin)| (at as f64 / 10.0 + 0.05, f(bin))).collect::<Vec<_>>()
        };
        let curves = with_contacts(found, 1).enumerate().map(|(at, arrived)| {
            let points = arrived.curve.iter().enumerate();
            let points = points.map(|(frame, share)| ((frame + 1) as f64 * 0.05, 100.0 * share));
            Series::points(format!("newcomer {}", at + 1), points)
        });
        let known = Plot::lines("Nodes that know a newcomer with one contact")
            .x(Axis::linear("since it asked", "s").from_zero())
            .y(Axis::linear("share of the others", "%").from_zero());
        vec![
            Plot::lines("Bytes sent by a node")
                .x(Axis::linear("nodes", "").from_zero())
                .y(Axis::linear("sent", "kB/s").from_zero())
                .series(sizes("fixed fan-out", &bytes))
                .series(Series::points("fan-out by size", reach)),
            curves.fold(known, Plot::series),
            Plot::lines("Interactions lost")
                .x(Axis::linear("distance", "sides").from_zero())
                .y(Axis::linear("lost", "%").from_zero())
                .series(Series::points("lost", distance(&|bin| 100.0 * bin.lost_share()))),
            Plot::lines("Delay")
                .x(Axis::linear("distance", "sides").from_zero())
                .y(Axis::linear("delay", "ms").from_zero())
                .series(Series::points("age of what is known", distance(&|bin| bin.delay.mean())))
                .series(Series::points("first copies", distance(&|bin| bin.arrival.mean())))
                .series(Series::points("source", [(0.0, 0.0), (1.4, PAPER_FAR_MS)]).reference()),
            Plot::lines("Inc as a share of its value if all replicas were wrong")
                .x(Axis::linear("nodes", "").from_zero())
                .y(Axis::linear("share", "%").from_zero())
                .series(sizes("silac", &|found| 100.0 * found.inc.share())),
            Plot::lines("Inj")
                .x(Axis::linear("nodes", "").from_zero())
                .y(Axis::linear("Inj", "s").from_zero())
                .series(sizes("silac", &SilacFindings::mean_inj)),
        ]
    }
}

fn claims_on_choice(choices: &[Choice]) -> Vec<Claim> {
    let find = |against: Against, ratio: f32| {
        choices.iter().find(|choice| choice.against == against && choice.ratio == ratio)
    };
    let mut claims = Vec::new();
    if let (Some(low), Some(one), Some(high)) =
        (find(Against::Ahead, 0.125), find(Against::Ahead, 1.0), find(Against::Ahead, 8.0))
    {
        claims.extend(claims_on_angle([low, one, high]));
    }
    if let Some(choice) = find(Against::Uplink, 0.125) {
        let last = choice.nearest_is_last == Some(true);
        let text = if last { "last of 13" } else { "not last" }.to_owned();
        let what = "1. large α₃: the nearest group, with half the uplink, is the least likely";
        claims.push(Claim::new(what, "yes", text).judged(Verdict::is_true(what, last)));
    }
    let over = |against| find(against, 8.0).and_then(|choice| choice.thirteenth_over_own);
    if let (Some(uplink), Some(listed)) = (over(Against::Uplink), over(Against::Listed)) {
        let text = format!("13th/own {uplink:.2}, {listed:.2}");
        let what = "1. small α₃ or α₄ change nothing useful: 13th/own";
        let verdict = Verdict::at_least(what, uplink.min(listed), UNCHANGED, "");
        claims.push(Claim::new(what, "yes", text).judged(verdict));
    }
    claims
}

/// How the ratio of the weights of distance and angle acts: low, one and high.
fn claims_on_angle([low, one, high]: [&Choice; 3]) -> [Claim; 3] {
    let excess = |at: f64, of: f64| (at - 1.0) / (of - 1.0);
    let [ahead, ahead_high] = [one, high].map(|choice| choice.ahead_over_behind);
    let [near, near_low] = [one, low].map(|choice| choice.near_over_far);
    let [off_axis, aside_low] = [one, low].map(|choice| choice.deviation_aside);
    let angle = "1. high α₁/α₂: the angle stops mattering: what is left of its effect";
    let distance = "1. low α₁/α₂: distance stops mattering: what is left of its effect";
    let jumps = "1. and deviation at middling angles jumps";
    [
        Claim::new(angle, "yes", format!("ahead/behind {ahead:.2} → {ahead_high:.2}"))
            .judged(Verdict::at_most(angle, 100.0 * excess(ahead_high, ahead), 25.0, "%")),
        Claim::new(distance, "yes", format!("near/far {near:.2} → {near_low:.2}"))
            .judged(Verdict::at_most(distance, 100.0 * excess(near_low, near), 50.0, "%")),
        Claim::new(jumps, "yes", format!("{} → {}", percent(off_axis), percent(aside_low)))
            .judged(Verdict::at_least(jumps, aside_low / off_axis, 1.5, "×")),
    ]
}

fn claims_on_joining(found: &SilacFindings) -> [Claim; 2] {
    let join = found.join_all_s();
    let many: Vec<f64> = with_contacts(found, CONTACTS).filter_map(Arrived::all_s).collect();
    let saved = format!("{:.2} s with {CONTACTS}", join.unwrap_or(0.0) - mean(&many));
    let what = "2. a newcomer with one contact and all others know each other";
    let verdict = Verdict::at_most(what, join.unwrap_or(f64::NAN), PAPER_JOIN_S, "s");
    [
        Claim::new(what, "5.5 s", format!("{} s", seconds(join))).judged(verdict),
        Claim::new("2. more contacts save one hop", "0.07–0.1 s", saved),
    ]
}

fn claims_on_delay(found: &SilacFindings, quick: bool) -> [Claim; 5] {
    let (near, far) = (found.near(), found.far());
    let first = |hop: usize| share(found.first_hops[hop], found.first_hops.iter().sum());
    let shares = [first(0), first(1), first(2)];
    let hops = format!("hop 0/1/2: {}", shares.map(percent).join(" / "));
    let delays = |bin: &DistanceBin| {
        format!("{:.0} ms old; first copies {:.0} ms", bin.delay.mean(), bin.arrival.mean())
    };
    let arrival = if far.arrival.count() > 0 { far.arrival.mean() } else { f64::NAN };
    let lost = "4. lost within 1/5 of the side: not learnt of after 2 s";
    let largest = "5. the largest share arrives with hop 2";
    let third = "5. a third arrives with hop 1";
    let across = "5. delay across the map, first copies";
    let close = "5. delay near by cannot be noticed: age of what is known, near against far";
    let percent_of = |share: f64| 100.0 * share;
    let is_largest = shares[2] > shares[0].max(shares[1]);
    let a_third = Verdict::near(
        third,
        percent_of(shares[1]),
        percent_of(1.0 / 3.0),
        percent_of(A_THIRD),
        "%",
    );
    [
        Claim::new(lost, "≤ 2 %", percent(near.lost_share())).judged(Verdict::at_most(
            lost,
            percent_of(near.lost_share()),
            percent_of(PAPER_LOST),
            "%",
        )),
        Claim::new(largest, "yes", hops)
            .judged(Verdict::is_true(largest, is_largest).reported_only(quick)),
        Claim::new(third, "33 %", percent(shares[1])).judged(a_third.reported_only(quick)),
        // A short run may have no pair that far apart.
        Claim::new(across, "~300 ms", delays(&far))
            .judged(Verdict::at_most(across, arrival, PAPER_FAR_MS, "ms").reported_only(quick)),
        // Distance weighs too little for that: see the notes.
        Claim::new(close, "~0 ms", delays(&near)).judged(
            Verdict::at_most(close, near.delay.mean() / far.delay.mean(), 0.25, "×")
                .reported_only(true),
        ),
    ]
}

fn with_contacts(found: &SilacFindings, contacts: usize) -> impl Iterator<Item = &Arrived> {
    found.arrived.iter().filter(move |arrived| arrived.contacts == contacts)
}

fn push_details(
    outcome: &mut ExperimentResult,
    game: &SilacGame,
    found: &SilacFindings,
) -> Result<(), ExperimentError> {
    let (nodes, fanout) = (game.nodes, game.settings.fan_out);
    for hop in 0..3 {
        let first_share = share(found.first_hops[hop], found.first_hops.iter().sum());
        let all_share = share(found.all_hops[hop], found.all_hops.iter().sum());
        outcome.push(HopRow { part: "hops", nodes, fanout, hop, first_share, all_share })?;
    }
    for (at, bin) in found.bins.iter().enumerate().filter(|(_, bin)| bin.deeds > 0) {
        outcome.push(DistanceRow {
            part: "distance",
            nodes,
            fanout,
            from_side: at as f64 / 10.0,
            to_side: if at + 1 == BINS { 2f64.sqrt() } else { (at + 1) as f64 / 10.0 },
            lost: bin.lost_share(),
            deeds: bin.deeds,
            learnt_mean_ms: bin.learnt.mean(),
            learnt_p95_ms: bin.learnt.quantile(0.95),
            delay_ms: bin.delay.mean(),
            arrival_ms: bin.arrival.mean(),
        })?;
    }
    for arrived in &found.arrived {
        outcome.push(JoinRow { part: "join", nodes, fanout, arrived })?;
    }
    Ok(())
}

fn claims_table(claims: &[Claim]) -> Table {
    Table::of(claims)
        .left("claim", |claim| claim.what.to_owned())
        .right("source", |claim| claim.source.to_owned())
        .right("ours", |claim| claim.ours.clone())
        .caption("The source's claims")
}

fn choice_table(choices: &[Choice]) -> Table {
    let group = |choice: &Choice, group: usize| format!("{:.2} %", choice.shares[group]);
    let is_last = |choice: &Choice| {
        let last = choice.nearest_is_last.filter(|_| choice.against == Against::Uplink);
        last.map_or("–", |last| if last { "yes" } else { "no" }).to_owned()
    };
    Table::of(choices)
        .left("ratio", |choice| choice.against.name().to_owned())
        .right("", |choice| choice.ratio.to_string())
        .right("near ahead", |choice| group(choice, 0))
        .right("far ahead", |choice| group(choice, 8))
        .right("near behind", |choice| group(choice, 3))
        .right("far behind", |choice| group(choice, 11))
        .right("ahead/behind", |choice| format!("{:.2}", choice.ahead_over_behind))
        .right("near/far", |choice| format!("{:.2}", choice.near_over_far))
        .right("deviation aside", |choice| percent(choice.deviation_aside))
        .right("13th/own", |choice| {
            choice.thirteenth_over_own.map_or("–".into(), |over| format!("{over:.2}"))
        })
        .right("nearest 13th is last", |choice| is_last(choice))
        .caption("1. Choice: a node's share of choices by group, over the ratios of weights")
}

fn games_table(caption: &str, games: &[(&SilacGame, &SilacFindings)]) -> Table {
    let names = [
        "nodes",
        "fan-out",
        "B/s",
        "± nodes",
        "packets/s",
        "near pair/s",
        "reach",
        "lost near",
        "lost",
        "delay near",
        "noticed",
        "far",
        "Inc",
        "share",
        "noticed",
        "Inj",
        "join s",
        "withdrawn",
        "undone",
    ];
    let mut table = Table::new(names.map(|name| (name, Align::Right))).caption(caption);
    for (game, found) in games {
        let states = found.first_hops.iter().sum::<u64>() as f64;
        let made = game.measured.as_secs() * 20.0 * (game.nodes * (game.nodes - 1)) as f64;
        table.row([
            game.nodes.to_string(),
            game.settings.fan_out.to_string(),
            format!("{:.0}", mean(&found.bytes)),
            percent(deviation(&found.bytes)),
            format!("{:.0}", mean(&found.packets)),
            format!("{:.1}", found.near_packets.1 / found.near_packets.0.max(1) as f64),
            percent(states / made),
            percent(found.near().lost_share()),
            percent(found.between(0.0, 1.5).lost_share()),
            format!("{:.0} ms", found.near().delay.mean()),
            format!("{:.0} ms", found.noticed_near.mean()),
            format!("{:.0} ms", found.far().delay.mean()),
            format!("{:.4}", found.mean_inc()),
            percent(found.inc.share()),
            percent(found.noticed.share()),
            format!("{:.4}", found.mean_inj()),
            seconds(found.join_all_s()),
            percent(share(found.withdrawn, found.deeds)),
            percent(share(found.undone.0, found.undone.1)),
        ]);
    }
    table
}

fn hops_table(game: &SilacGame, found: &SilacFindings) -> Table {
    Table::of(["–", "a third", "the largest share"].into_iter().enumerate())
        .right("hop field", |(hop, _)| hop.to_string())
        .right("links", |(hop, _)| (hop + 1).to_string())
        .right("first copies", |(hop, _)| {
            percent(share(found.first_hops[*hop], found.first_hops.iter().sum()))
        })
        .right("all copies", |(hop, _)| {
            percent(share(found.all_hops[*hop], found.all_hops.iter().sum()))
        })
        .right("source", |(_, source)| (*source).to_owned())
        .caption(format!("5. Hops, {} nodes", game.nodes))
}

fn distance_table(game: &SilacGame, found: &SilacFindings) -> Table {
    let bins = found.bins.iter().enumerate().filter(|(_, bin)| bin.arrival.count() > 0);
    let ms = |value: f64| format!("{value:.0} ms");
    Table::of(bins)
        .right("distance / side", |(at, _)| {
            format!("{:.1}–{:.1}", *at as f64 / 10.0, (*at + 1) as f64 / 10.0)
        })
        .right("lost", |(_, bin)| percent(bin.lost_share()))
        .right("learnt after", |(_, bin)| ms(bin.learnt.mean()))
        .right("p95", |(_, bin)| ms(bin.learnt.quantile(0.95)))
        .right("delay", |(_, bin)| ms(bin.delay.mean()))
        .right("p95", |(_, bin)| ms(bin.delay.quantile(0.95)))
        .right("first copies", |(_, bin)| ms(bin.arrival.mean()))
        .caption(format!("4, 5. Over the distance, {} nodes", game.nodes))
}

fn join_table(found: &SilacFindings) -> Table {
    let columns = [
        ("contacts", Align::Right),
        ("newcomers", Align::Right),
        ("half know it after", Align::Right),
        ("all know it after", Align::Right),
        ("it knows all after", Align::Right),
    ];
    let mut table = Table::new(columns).caption("2. Newcomers, seconds on average");
    for contacts in [1, CONTACTS] {
        let all: Vec<&Arrived> = with_contacts(found, contacts).collect();
        let half = |arrived: &&Arrived| {
            let frames = arrived.curve.iter().position(|share| *share >= 0.5);
            frames.map(|frame| (frame + 1) as f64 * 0.05)
        };
        let average = |times: Option<Vec<f64>>| seconds(times.map(|times| mean(&times)));
        table.row([
            contacts.to_string(),
            all.len().to_string(),
            average(all.iter().map(half).collect()),
            average(all.iter().map(|arrived| arrived.known_by_all_s).collect()),
            average(all.iter().map(|arrived| arrived.knows_all_s).collect()),
        ]);
    }
    table
}
