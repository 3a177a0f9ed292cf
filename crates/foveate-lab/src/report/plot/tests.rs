use proptest::prelude::*;

use super::prepare::prepare;
use super::*;

fn lines(series: impl IntoIterator<Item = Series>) -> Plot {
    series.into_iter().fold(Plot::lines("plot"), Plot::series)
}

/// Checks that no number is written that SVG cannot draw.
fn assert_drawable(html: &str) {
    for bad in ["NaN", "inf", "\"-\""] {
        assert!(!html.contains(bad), "{bad} in {html}");
    }
}

#[test]
fn a_plot_without_data_says_so() {
    for plot in [
        Plot::lines("p"),
        Plot::lines("p").series(Series::points("none", [(f64::NAN, 1.0)])),
        Plot::bars("p", Vec::<String>::new()),
        Plot::stacked_bars("p", ["a"]).series(Series::values("s", [])),
        Plot::distribution("p").series(Series::points("s", [])),
    ] {
        let html = plot.to_html();
        assert!(html.contains("No data"), "{html}");
        assert_drawable(&html);
    }
}

#[test]
fn what_is_not_drawn_is_stated() {
    let points = [(1.0, 1.0), (2.0, f64::NAN), (3.0, f64::INFINITY), (4.0, 0.0), (5.0, 2.0)];
    let plot = lines([Series::points("ours", points)]).y(Axis::log("y", ""));
    let prepared = prepare(&plot);
    let expected = [
        "ours: left out 2 values that are not finite.",
        "ours: left out 1 value that is not positive, which a logarithmic axis cannot show.",
    ];
    assert_eq!(prepared.notes, expected);
    assert_eq!(prepared.layers[0].drawn().count(), 2);
    let html = plot.to_html();
    assert!(html.contains(expected[0]));
    assert_drawable(&html);
}

#[test]
fn a_missing_point_breaks_the_line() {
    let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 1.0), (3.0, 2.0)];
    let html = lines([Series::points("ours", points)]).to_html();
    let data = html.split("class=\"line\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(data.matches('M').count(), 2, "{data}");
}

#[test]
fn one_point_and_equal_values_are_drawn() {
    let html = lines([Series::points("one", [(3.0, 7.0)])]).to_html();
    assert!(html.contains("<circle class=\"dot\""));
    assert_drawable(&html);
    assert_drawable(&lines([Series::points("flat", [(0.0, 5.0), (1.0, 5.0)])]).to_html());
}

#[test]
fn references_are_marked_and_take_no_colour() {
    let plot = lines([
        Series::points("published", [(0.0, 1.0), (1.0, 2.0)]).reference(),
        Series::points("ours", [(0.0, 2.0), (1.0, 3.0)]),
    ]);
    let html = plot.to_html();
    assert!(html.contains("<g class=\"ref r1\">") && html.contains("<g class=\"s1\">"));
    assert!(!html.contains("class=\"s2\""));
}

#[test]
fn labels_at_line_ends_never_overlap() {
    let series = (0..8).map(|i| Series::points(format!("series {i}"), [(0.0, 1.0), (1.0, 1.0)]));
    let plot = lines(series);
    let prepared = prepare(&plot);
    let layout = super::layout::Layout::new(&plot, &prepared);
    assert_eq!(layout.ends.len(), 8);
    assert!(layout.legend.is_empty());
    assert!(layout.ends.windows(2).all(|pair| pair[1].y - pair[0].y >= 14.9));
    assert!(layout.ends.iter().all(|end| end.y >= layout.top && end.y <= layout.bottom));
}

#[test]
fn the_legend_stays_above_the_data() {
    let series = (0..12).map(|i| Series::values(format!("a rather long name {i}"), [1.0]));
    let plot = series.fold(Plot::bars("p", ["a"]), Plot::series);
    let prepared = prepare(&plot);
    let layout = super::layout::Layout::new(&plot, &prepared);
    assert_eq!(layout.legend.len(), 12);
    assert!(layout.legend.iter().all(|item| item.at[1] + 8.0 < layout.top));
}

#[test]
fn stacks_add_up() {
    let plot = Plot::stacked_bars("p", ["a", "b"])
        .series(Series::values("lower", [1.0, 2.0]))
        .series(Series::values("upper", [3.0, f64::NAN]));
    let prepared = prepare(&plot);
    let tops: Vec<[f64; 2]> = prepared.layers[1].drawn().map(|mark| mark.y).collect();
    assert_eq!(tops, [[1.0, 4.0], [2.0, 2.0]]);
}

#[test]
fn long_lines_are_thinned_but_keep_their_peaks() {
    let points = (0..50_000).map(|i| (f64::from(i), if i == 31_337 { 9.0 } else { 1.0 }));
    let prepared = prepare(&lines([Series::points("long", points)]));
    let layer = &prepared.layers[0];
    assert!(layer.marks.len() <= 1_300, "{}", layer.marks.len());
    assert!(layer.drawn().any(|mark| mark.value == 9.0));
    assert_eq!(prepared.notes.len(), 1);
}

#[test]
fn points_show_their_values_in_a_tooltip() {
    let plot = lines([Series::points("ours", [(10.0, 12_345.0)])])
        .x(Axis::linear("Players", ""))
        .y(Axis::linear("Traffic", "B/s"));
    let tip = "<title>ours\nPlayers: 10\nTraffic: 12\u{202f}345\u{202f}B/s</title>";
    assert!(plot.to_html().contains(tip));
    let label = "aria-label=\"Line plot: plot. Horizontal: Players. Vertical: Traffic (B/s).";
    assert!(plot.to_html().contains(label));
}

fn any_plot() -> impl Strategy<Value = Plot> {
    let value = prop_oneof![4 => -1e3_f64..1e3, 1 => any::<f64>(), 1 => Just(0.0)];
    let points = prop::collection::vec((value.clone(), value), 0..20);
    let series = (points, any::<bool>());
    (0..4_usize, any::<[bool; 2]>(), prop::collection::vec(series, 0..4)).prop_map(
        |(kind, [x_log, y_log], all)| {
            let axis = |log| if log { Axis::log("a", "u") } else { Axis::linear("a", "u") };
            let names = ["one", "two", "three"];
            let plot = match kind {
                0 => Plot::lines("p"),
                1 => Plot::bars("p", names),
                2 => Plot::stacked_bars("p", names),
                _ => Plot::distribution("p"),
            };
            let plot = plot.x(axis(x_log)).y(axis(y_log));
            all.into_iter().fold(plot, |plot, (points, reference)| {
                let series = match kind {
                    1 | 2 => Series::values("s", points.iter().map(|&(_, y)| y)),
                    _ => Series::points("s", points),
                };
                plot.series(if reference { series.reference() } else { series })
            })
        },
    )
}

proptest! {
    #[test]
    fn any_data_gives_a_drawable_plot(plot in any_plot()) {
        assert_drawable(&plot.to_html());
    }
}
