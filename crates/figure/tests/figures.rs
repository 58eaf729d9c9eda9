//! What must hold for every figure: nothing is cut off, texts do not overlap, the same figure gives the same bytes, and
//! strange data do no harm.

use std::sync::Arc;

use resvg::usvg::{Group, Node, Options, Rect, Tree, fontdb};
use semfocus_figure::charts::{Curve, ForestRow, Measure, Pairs, Survival, intervals, slopes, survival};
use semfocus_figure::surface::{LipschitzCurve, Surface, contours, heat_maps, lipschitz, sharpness};
use semfocus_figure::{
    Axis, Background, Band, ColourMap, Contours, End, Figure, Heatmap, Interpolation, Interval, Line, Mark, ONE_COLUMN,
    Panel, Points, Reference, Rule, Sharing, Slopes,
};

use samples::{compact_curves, series};

mod samples;

fn parsed(svg: &str) -> Tree {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(include_bytes!("../fonts/Arimo-Regular.ttf").to_vec());
    fonts.load_font_data(include_bytes!("../fonts/Arimo-Bold.ttf").to_vec());
    Tree::from_str(svg, &Options { fontdb: Arc::new(fonts), ..Options::default() }).expect("a well-formed SVG")
}

/// Every text with its box in points, as set by the renderer: independent of our own measuring.
fn texts(tree: &Tree) -> Vec<(String, Rect)> {
    fn collect(group: &Group, found: &mut Vec<(String, Rect)>) {
        for node in group.children() {
            match node {
                Node::Group(group) => collect(group, found),
                Node::Text(text) => {
                    let words = text.chunks().iter().map(|chunk| chunk.text()).collect();
                    found.push((words, text.abs_bounding_box()));
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    collect(tree.root(), &mut found);
    found
}

/// The boxes of the renderer reach from the highest accent to the lowest descender; letters keep off both ends.
fn overlap(a: &Rect, b: &Rect) -> bool {
    let slack = 1.0;
    a.left() + slack < b.right()
        && b.left() + slack < a.right()
        && a.top() + 2.0 < b.bottom()
        && b.top() + 2.0 < a.bottom()
}

fn assert_readable(name: &str, figure: &Figure) {
    let svg = figure.svg(Background::White);
    let tree = parsed(&svg);
    let (width, height) = (tree.size().width(), tree.size().height());
    assert!((f64::from(width) * 0.75 - figure.width).abs() < 0.01, "{name}: {width} pixels wide");
    let texts = texts(&tree);
    for (words, area) in &texts {
        let inside = area.left() >= 0.0 && area.top() >= -1.0 && area.right() <= width && area.bottom() <= height + 1.0;
        assert!(inside, "{name}: “{words}” is cut off: {area:?} in {width} × {height}");
    }
    for (index, (words, area)) in texts.iter().enumerate() {
        for (other, other_area) in &texts[..index] {
            assert!(!overlap(area, other_area), "{name}: “{words}” {area:?} lies on “{other}” {other_area:?}");
        }
    }
    let attribute = |key: &'static str| {
        let parts = svg.split(key).skip(1).filter_map(|rest| rest.split_once('"'));
        parts.map(|(value, after)| (value.parse::<f64>().expect("a number"), after.to_owned()))
    };
    assert!(attribute(" font-size=\"").all(|(size, _)| size >= 7.0), "{name}: too small a font");
    let has_contours =
        figure.panels.iter().flat_map(|panel| &panel.marks).any(|mark| matches!(mark, Mark::Contours(_)));
    for (width, after) in attribute(" stroke-width=\"") {
        let grid = after.starts_with(" stroke-opacity=\"0.14\"");
        let contour = width == 0.5 && has_contours;
        assert!(width >= 1.0 || grid || contour, "{name}: a line {width} wide");
    }
}

#[test]
fn nothing_is_cut_off_or_on_top_of_another() {
    for (name, figure) in samples::all() {
        assert_readable(name, &figure);
        // Also where there is little room.
        if figure.columns == 1 {
            for width in [150.0, 180.0, 330.0] {
                assert_readable(name, &Figure { width, ..figure.clone() });
            }
        }
    }
}

/// Losses may have lines at a target, the unigram loss and the floor, wherever these lie.
#[test]
fn texts_of_lines_keep_apart() {
    let curve = |name: &str, end: f64| {
        let x: Vec<f64> = (0..30).map(f64::from).collect();
        let quartiles = x.iter().map(|x| [end + 2.0 * (-x / 5.0).exp(); 3]).collect();
        Curve { series: series(name), x, quartiles, lines: Vec::new(), ends: Vec::new() }
    };
    let curves = [curve("full", 0.9), curve("topk:5", 0.8)];
    for gap in [0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.5, 1.0] {
        for first in [0.1, 0.8, 1.5] {
            let level = |number: f64, label: &str| (first + number * gap, label.to_owned());
            let levels = vec![level(0.0, "target 0.8"), level(2.0, "unigram"), level(1.0, "floor")];
            let axis = Axis::linear("held-out loss");
            let measure = Measure { axis, levels, height: 75.0, curves: &curves };
            let figure = semfocus_figure::charts::curves("epoch", &[measure]);
            assert_readable(&format!("gap {gap} from {first}"), &figure);
            let svg = figure.svg(Background::White);
            assert!(["target 0.8", "unigram", "floor"].iter().all(|label| svg.contains(&format!(">{label}</text>"))));
        }
    }
}

#[test]
fn long_names_are_made_to_fit() {
    let long = "a-mechanism-of-my-own-with-a-name-that-nobody-will-ever-remember:12345";
    let names = ["full", long, "topk:5", "Überlänge & <Sonderzeichen> “δ ≥ λ”"];
    let estimate = |name: &&str| ForestRow {
        series: series(name),
        value: 2.0,
        interval: Some((End::At(1.0), End::At(3.0))),
        bound: false,
        note: format!("2.0× of {name}"),
    };
    let rows: Vec<ForestRow> = names.iter().map(estimate).collect();
    assert_readable(
        "intervals",
        &intervals(Axis::times(&format!("speed-up of {long} over full attention")), 1.0, &rows),
    );
    let pairs: Vec<Pairs> =
        names.iter().map(|name| Pairs { series: series(name), pairs: vec![(1.0, f64::INFINITY)] }).collect();
    assert_readable("slopes", &slopes("epochs", &series("full"), &pairs));
    assert_readable("slopes", &slopes("epochs", &series(long), &pairs[..2]));
    let curves: Vec<Curve> = names
        .iter()
        .map(|name| Curve {
            series: series(name),
            x: vec![1.0, 2.0],
            quartiles: vec![[0.1, 0.2, 0.3]; 2],
            lines: Vec::new(),
            ends: Vec::new(),
        })
        .collect();
    let mut figure = compact_curves(&curves, &curves);
    figure.panels[0].title = format!("{long} {long}");
    figure.panels[1].y.label = "held-out accuracy of the classes that were never seen in training (%)".to_owned();
    assert_readable("curves", &figure);
}

#[test]
fn any_number_of_surfaces_is_readable_and_has_one_bar() {
    let long = "a-mechanism-of-my-own-with-a-name-that-nobody-will-ever-remember:12345";
    let names = ["full", "topk:5", "topk:9", long, "banded:5", "block:9+g3", "randomk:5"];
    for count in 1..=names.len() {
        let surfaces: Vec<Surface> = names[..count]
            .iter()
            .enumerate()
            .map(|(index, name)| samples::valley(name, 1.0 + index as f64, 15))
            .collect();
        for (name, figure) in [("contours", contours(&surfaces)), ("heat maps", heat_maps(&surfaces))] {
            assert_readable(name, &figure);
            let svg = figure.svg(Background::White);
            assert_eq!(svg.matches(">loss<").count(), 1, "{name} of {count}");
            assert_eq!(svg.matches(">direction 2<").count(), count.div_ceil(figure.columns), "{name} of {count}");
        }
    }
    let wider = Surface { range: 2.0, ..samples::valley("topk:5", 1.0, 15) };
    assert_readable("of two ranges", &contours(&[samples::valley("full", 1.0, 15), wider]));
}

#[test]
fn fine_surfaces_make_files_of_bearable_size() {
    let surfaces =
        [("full", 1.0), ("topk:5", 3.0), ("banded:5", 6.0)].map(|(name, steep)| samples::valley(name, steep, 201));
    let (lines, cells) = (contours(&surfaces), heat_maps(&surfaces));
    let sizes = [&lines, &cells].map(|figure| figure.svg(Background::White).len());
    assert!(sizes[0] < 600_000 && sizes[1] < 1_000_000, "{sizes:?}");
    assert!(cells.pdf().unwrap().len() < 500_000, "{}", cells.pdf().unwrap().len());
}

#[test]
fn many_series_wrap_the_legend() {
    let names = (0..40).map(|index| format!("banded:{index}+g{}", index % 4));
    let curves: Vec<Curve> = names
        .map(|name| Curve {
            series: series(&name),
            x: vec![1.0, 50.0],
            quartiles: vec![[0.1, 0.2, 0.3], [0.3, 0.4, 0.5]],
            lines: Vec::new(),
            ends: Vec::new(),
        })
        .collect();
    let figure = compact_curves(&curves, &curves);
    assert_readable("forty", &figure);
    let count = figure.svg(Background::White).matches(">banded:").count();
    assert_eq!(count, 40, "each once");
}

#[test]
fn the_same_figure_gives_the_same_bytes() {
    for ((name, once), (_, again)) in samples::all().into_iter().zip(samples::all()) {
        assert_eq!(once.svg(Background::White), again.svg(Background::White), "{name}");
        assert_eq!(once.pdf().unwrap(), again.pdf().unwrap(), "{name}");
    }
    let [once, again] = [samples::speed_ups(), samples::speed_ups()].map(|figure| figure.png(150.0).unwrap());
    assert_eq!(once, again);
}

/// Set for the child process of the test below: where it writes its PDF.
const CHILD: &str = "SEMFOCUS_FIGURE_PDF";

#[test]
fn another_process_makes_the_same_pdf() {
    let figure = samples::compact();
    if let Some(path) = std::env::var_os(CHILD) {
        std::fs::write(path, figure.pdf().unwrap()).unwrap();
        return;
    }
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("figure-{}.pdf", std::process::id()));
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process_makes_the_same_pdf"])
        .env(CHILD, &path)
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let theirs = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(theirs == figure.pdf().unwrap());
}

#[test]
fn a_pdf_has_the_embedded_fonts_and_no_date() {
    let titled = Figure { title: "Learning curves".to_owned(), ..samples::extended() };
    let pdf = titled.pdf().unwrap();
    let pdf = String::from_utf8_lossy(&pdf);
    for font in ["+Arimo/", "+Arimo-Bold/"] {
        assert!(pdf.contains(font), "{font}");
    }
    assert!(pdf.contains("/ToUnicode"), "text stays text");
    assert!(!pdf.contains("CreationDate") && !pdf.contains("ModDate"));
}

#[test]
fn png_and_pdf_have_the_size_of_the_figure() {
    let figure = samples::speed_ups();
    let png = figure.png(144.0).unwrap();
    assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
    let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
    assert_eq!(f64::from(width), 2.0 * ONE_COLUMN);
    let pdf = figure.pdf().unwrap();
    assert!(pdf.starts_with(b"%PDF-"));
    let head = String::from_utf8_lossy(&pdf);
    let media = head.split("/MediaBox[").nth(1).and_then(|rest| rest.split(']').next()).expect("a page");
    let sides: Vec<f64> = media.split_whitespace().map(|side| side.parse().unwrap()).collect();
    assert!((sides[2] - ONE_COLUMN).abs() < 0.01, "{media}");
}

#[test]
fn in_a_page_the_figure_takes_the_colours_of_the_page() {
    let figure = samples::compact();
    let (paper, page) = (figure.svg(Background::White), figure.svg(Background::Page));
    assert!(paper.contains("<rect width=\"241\"") && !paper.contains("currentColor") && !paper.contains("class="));
    assert!(!page.contains("<rect width=\"241\"") && !page.contains("#222222") && !page.contains("\"white\""));
    assert!(page.contains("fill=\"currentColor\"") && page.contains("stroke=\"currentColor\""));
    for class in ["figure-text", "figure-axis", "figure-grid"] {
        assert!(page.contains(&format!("class=\"{class}\"")), "{class}");
    }
    assert!(!page.contains(" id=\"") && !page.contains("url("), "names could clash with those of the next figure");
    assert!(page.contains("var(--figure-background"), "hollow markers");
    parsed(&page);
}

#[test]
fn on_a_page_values_appear_under_the_pointer() {
    let page = samples::few_seeds().svg(Background::Page);
    assert!(page.contains("<title>topk:5: epoch 1, training accuracy 69.2 %</title>"), "{page}");
    assert_eq!(page.matches("pointer-events").count(), 14, "six epochs of two medians, and where each ends");
    assert!(!samples::few_seeds().svg(Background::White).contains("pointer-events"));
    assert!(!samples::few_seeds().narrow().svg(Background::Page).contains("pointer-events"), "a phone has no pointer");
    let long = samples::compact().svg(Background::Page);
    assert!(long.contains("epoch 1000,") && long.matches("pointer-events").count() <= 8 * 2 * 42);
    let labelled = samples::labelled().svg(Background::Page);
    assert!(labelled.contains("<title>gelu, seed 1: predicted 2.00×, measured 3.00×</title>"), "{labelled}");
}

#[test]
fn points_bear_their_labels_where_there_is_room() {
    let svg = samples::labelled().svg(Background::White);
    for label in ["relu, seed 1", "gelu, seed 1", "gelu, seed 2"] {
        assert!(svg.contains(&format!(">{label}</text>")), "{label}");
    }
    assert!(!svg.contains(">relu, seed 2</text>"), "it would lie on the label of the first");
}

#[test]
fn a_page_has_room_and_a_phone_has_little() {
    for (name, figure) in samples::all() {
        let (wide, narrow) = (figure.wide(), figure.narrow());
        assert_readable(name, &wide);
        assert_readable(name, &narrow);
        assert_eq!(narrow.width, ONE_COLUMN, "{name}");
        assert!(wide.panels.len() == figure.panels.len() && narrow.panels.len() == figure.panels.len(), "{name}");
    }
    let many = samples::extended().narrow();
    assert_eq!((many.columns, many.panels[19].title.as_str()), (2, "topp:0.9"), "one panel for each control");
    assert_eq!(samples::sharpening().wide().width, 500.0);
}

#[test]
fn dark_pages_get_lighter_colours() {
    let mut figure = samples::labelled();
    let (light, dark) = (semfocus_figure::Rgb(0x11, 0x22, 0x33), semfocus_figure::Rgb(0xaa, 0xbb, 0xcc));
    if let Mark::Points(points) = &mut figure.panels[0].marks[0] {
        points.series.style.paint = semfocus_figure::Paint::ByPage { light, dark };
    }
    let page = figure.svg(Background::Page);
    assert!(page.contains("fill=\"#112233\" style=\"fill:light-dark(#112233,#aabbcc)\""), "{page}");
    assert!(!figure.svg(Background::White).contains("aabbcc"));
}

#[test]
fn title_and_caption_are_told_but_not_drawn() {
    let figure = Figure { title: "A & B".to_owned(), caption: "n < 5".to_owned(), ..samples::speed_ups() };
    let svg = figure.svg(Background::White);
    assert!(svg.contains("<title>A &amp; B</title>\n<desc>n &lt; 5</desc>"), "{svg}");
    assert!(texts(&parsed(&svg)).iter().all(|(words, _)| words != "A & B" && words != "n < 5"));
}

/// Every mark, fed with the same numbers.
fn every_mark(values: &[f64]) -> Vec<Mark> {
    let series = || series("banded:5+g1");
    let points: Vec<(f64, f64)> = values.iter().map(|&value| (value, value)).collect();
    let first = values.first().copied().unwrap_or(f64::NAN);
    let last = values.last().copied().unwrap_or(f64::NAN);
    let line = |interpolation| {
        Mark::Line(Line { series: series(), points: points.clone(), interpolation, markers: true, pale: false })
    };
    let edges: Vec<(f64, f64, f64)> = values.iter().map(|&value| (value, value, 2.0 * value)).collect();
    let interval = |low, high| {
        Mark::Interval(Interval {
            series: series(),
            row: first,
            value: last,
            low,
            high,
            bound: true,
            note: "note".to_owned(),
        })
    };
    let rule = |at| Mark::Rule(Rule { at, label: "rule".to_owned() });
    let heat = |colours, x| {
        let rows = vec![values.to_vec(), Vec::new()];
        Mark::Heatmap(Heatmap { rows, x, y: x, colours, colour_map: ColourMap::Sequential, numbers: true })
    };
    let contours = |colours| {
        let rows = vec![values.to_vec(), values.iter().rev().copied().collect(), Vec::new()];
        let levels = values.iter().copied().chain([0.5, 2.0]).collect();
        Mark::Contours(Contours {
            rows,
            x: (first, last),
            y: (-1.0, 1.0),
            levels,
            colours,
            colour_map: ColourMap::Sequential,
        })
    };
    vec![
        line(Interpolation::Linear),
        line(Interpolation::Steps),
        Mark::Band(Band { series: series(), edges: edges.clone(), interpolation: Interpolation::Linear }),
        Mark::Band(Band { series: series(), edges, interpolation: Interpolation::Steps }),
        Mark::Points(Points {
            series: series(),
            points: points.clone(),
            marker: None,
            labels: vec!["point".to_owned(); 3],
        }),
        interval(End::At(first), End::Open),
        interval(End::Open, End::At(first)),
        Mark::Slopes(Slopes { series: series(), between: (first, last), pairs: points, from: series().style }),
        rule(Reference::X(first)),
        rule(Reference::Y(first)),
        rule(Reference::Diagonal),
        heat(Axis::linear("linear"), (0.0, 1.0)),
        heat(Axis::times("log"), (0.0, 1.0)),
        heat(Axis::log("on numbers"), (first, last)),
        contours(Axis::linear("linear")),
        contours(Axis::log("log")),
    ]
}

#[test]
fn strange_data_do_no_harm() {
    let strange: [&[f64]; 14] = [
        &[],
        &[f64::NAN],
        &[1.0],
        &[0.0],
        &[3.0, 3.0, 3.0],
        &[0.0, 0.0],
        &[0.0, 1.0, 1000.0],
        &[-5.0, 0.0, 5.0],
        &[f64::INFINITY, 1.0, 2.0],
        &[f64::NEG_INFINITY, f64::NAN, 2.0],
        &[f64::MAX, f64::MIN, 1.0],
        &[f64::MIN_POSITIVE, 1e-300, 1e300],
        &[1.0, f64::NAN, 3.0, f64::NAN, f64::NAN, 4.0],
        &[1.0, 1.0 + f64::EPSILON],
    ];
    let axes = || {
        let names = Axis::categories("names", ["a", "b"]);
        let nothing = Axis::categories("nothing", Vec::<String>::new());
        let (linear, log) =
            (Axis::linear("linear").with_beyond("not reached"), Axis::log("log").with_beyond("not reached"));
        let (backwards, impossible) =
            (Axis::linear("").with_limits(5.0, -5.0), Axis::log("").with_limits(0.0, f64::NAN));
        [linear, log, Axis::fraction("share"), names, nothing, backwards, impossible]
    };
    for values in strange {
        for mark in every_mark(values) {
            for (x, y) in axes().into_iter().flat_map(|x| axes().map(|y| (x.clone(), y))) {
                let case = format!("{values:?} {mark:?} {x:?} {y:?}");
                let panel = Panel { title: "t".to_owned(), x, y, height: 60.0, marks: vec![mark.clone()] };
                let svg = Figure { panels: vec![panel], ..Figure::default() }.svg(Background::White);
                assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("\"\""), "{case}\n{svg}");
                assert!(svg.len() < 40_000, "{case}: {} bytes", svg.len());
            }
        }
        let all = Panel {
            title: String::new(),
            x: Axis::auto("x", values.iter().copied()),
            y: Axis::auto("y", values.iter().copied()),
            height: f64::NAN,
            marks: every_mark(values),
        };
        let panels = vec![all.clone(), all.clone(), all];
        let figure = Figure { panels, columns: 2, share_x: Sharing::Line, share_y: Sharing::All, ..Figure::default() };
        parsed(&figure.svg(Background::White));
        figure.pdf().unwrap();
        figure.png(72.0).unwrap();
    }
}

#[test]
fn empty_figures_are_figures() {
    let nothing = Figure { width: f64::NAN, columns: 0, ..Figure::default() };
    assert!(nothing.png(100.0).is_ok() && nothing.pdf().is_ok());
    let gone = Survival { series: series("full"), steps: vec![], interval: vec![], censored: vec![] };
    let surface = |rows: Vec<Vec<f64>>, range| Surface { name: "full".to_owned(), range, rows };
    let surfaces = [
        surface(vec![], 1.0),
        surface(vec![vec![]], 0.0),
        surface(vec![vec![1.0]], f64::NAN),
        surface(vec![vec![f64::NAN; 3]; 3], f64::INFINITY),
        surface(vec![vec![0.0, -1.0], vec![2.0]], -1.0),
    ];
    let empty = LipschitzCurve {
        percentile: 50.0,
        curve: Curve {
            series: series("full"),
            x: vec![1.0],
            quartiles: vec![],
            lines: vec![vec![], vec![1.0]],
            ends: Vec::new(),
        },
    };
    for figure in [
        compact_curves(&[], &[]),
        intervals(Axis::times(""), 1.0, &[]),
        slopes("", &series("full"), &[]),
        survival("", "", &[gone]),
        contours(&[]),
        contours(&surfaces),
        heat_maps(&[]),
        heat_maps(&surfaces),
        lipschitz(&[]),
        lipschitz(&[empty]),
        sharpness(&[]),
    ] {
        let svg = figure.svg(Background::White);
        assert!(!svg.contains("NaN"), "{svg}");
        parsed(&svg);
    }
}

#[test]
fn shared_axes_are_labelled_once() {
    let svg = samples::grid().svg(Background::White);
    assert_eq!(svg.matches(">epoch<").count(), 3, "below each column");
    assert_eq!(svg.matches(">held-out accuracy (%)<").count(), 2, "beside each row");
    assert_eq!(svg.matches(">1000<").count(), 3);
    let own = Figure { share_x: Sharing::None, share_y: Sharing::None, ..samples::grid() }.svg(Background::White);
    assert_eq!(own.matches(">epoch<").count(), 6);
    assert_eq!(own.matches(">held-out accuracy (%)<").count(), 6);
}

#[test]
fn drawings_stay_as_they_were_looked_at() {
    let curve = |mechanism: &str, scale: f64| Curve {
        series: series(mechanism),
        x: vec![1.0, 2.0, 3.0, 4.0],
        quartiles: [0.5, 0.25, 0.02, 0.001]
            .map(|value| [0.5 * scale * value, scale * value, 2.0 * scale * value])
            .to_vec(),
        lines: Vec::new(),
        ends: Vec::new(),
    };
    let curves = [curve("full", 1.0), curve("topk:5", 0.5)];
    insta::assert_snapshot!("curves", compact_curves(&curves, &curves).svg(Background::White));
    insta::assert_snapshot!("speed-ups", samples::speed_ups().svg(Background::Page));
    let pairs = [
        Pairs { series: series("topk:5"), pairs: vec![(200.0, 50.0), (f64::INFINITY, 80.0)] },
        Pairs { series: series("randomk:5"), pairs: vec![(200.0, 150.0), (300.0, f64::INFINITY)] },
    ];
    let surfaces = [samples::valley("full", 1.0, 5), samples::diverged("topk:5", 5)];
    insta::assert_snapshot!("contours", contours(&surfaces).svg(Background::Page));
    insta::assert_snapshot!("surface-heat", heat_maps(&surfaces).svg(Background::White));
    insta::assert_snapshot!("slopes", slopes("epochs to 95 %", &series("full"), &pairs).svg(Background::White));
}

/// The text of a horizontal line stands at its right end, or where fewer points of curves lie.
#[test]
fn the_text_of_a_rule_keeps_away_from_curves() {
    let label_at = |height: fn(f64) -> f64| {
        let points = (0..=100).map(|x| (f64::from(x), height(f64::from(x)))).collect();
        let interpolation = Interpolation::Linear;
        let line = Line { series: series("full"), points, interpolation, markers: false, pale: false };
        let rule = Rule { at: Reference::Y(0.4), label: "target".to_owned() };
        let (x, y) = (Axis::linear("x"), Axis::fraction("y"));
        let panel =
            Panel { title: String::new(), x, y, height: 120.0, marks: vec![Mark::Line(line), Mark::Rule(rule)] };
        let svg = Figure { panels: vec![panel], ..Figure::default() }.svg(Background::White);
        let found = texts(&parsed(&svg)).into_iter().find(|(text, _)| text == "target").expect("the text is there");
        f64::from(found.1.left() + found.1.right()) / 2.0
    };
    let middle = ONE_COLUMN / 2.0;
    assert!(label_at(|_| 0.1) > middle, "nothing is in the way");
    assert!(label_at(|x| 0.2 + 0.23 * x / 100.0) < middle, "a curve crosses the line at its right end");
}
