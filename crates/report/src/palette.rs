//! The style of a mechanism: the same in every figure, distinguishable with colour blindness and in a greyscale print.
//!
//! | part of the name | determines |
//! |---|---|
//! | kind (`topk`) | hue and marker |
//! | size (`:5`) | shade, filling of the marker, dash length |
//! | globals (`+g3`) | a shift of the hue, dots between dashes |

use semfocus_analysis::evidence::BASELINE;
use semfocus_core::{Schedule, Spec};
use semfocus_figure::{Dash, Filling, Marker, Paint, Rgb, Series, Style};

struct Family {
    name: &'static str,
    hue: f64,
    lightness: f64,
    chroma: f64,
    marker: Marker,
}

const fn look(name: &'static str, hue: f64, lightness: f64, chroma: f64, marker: Marker) -> Family {
    Family { name, hue, lightness, chroma, marker }
}

/// Families differ in lightness, too, because some of their hues look alike with colour blindness.
const FAMILIES: [Family; 5] = [
    look("topk", 255.0, 0.500, 0.16, Marker::Up),
    look("banded", 55.0, 0.615, 0.17, Marker::Square),
    look("block", 172.0, 0.605, 0.11, Marker::Diamond),
    look("bottomk", 302.0, 0.620, 0.19, Marker::Down),
    look("randomk", 352.0, 0.500, 0.19, Marker::Cross),
];

/// Hues (with chroma) and markers that no known family has, for mechanisms of the user's own.
const OTHER_HUES: [(f64, f64); 6] =
    [(25.0, 0.19), (105.0, 0.12), (135.0, 0.15), (210.0, 0.10), (275.0, 0.14), (60.0, 0.06)];
const OTHER_MARKERS: [Marker; 4] = [Marker::Star, Marker::Plus, Marker::Left, Marker::Right];

/// Lightness on white paper compared with that of size 5, from small sizes to large ones: larger sizes are darker, nearer to
/// full attention. On a dark page it is the other way round.
const SHADES: [f64; 6] = [0.09, 0.06, 0.0, -0.10, -0.17, -0.22];

/// Fillings of markers from small sizes to large ones. Those of sizes often used together, 3, 5, 9 and 17, differ.
const FILLINGS: [Filling; 6] =
    [Filling::Half, Filling::Hollow, Filling::Full, Filling::Dotted, Filling::Half, Filling::Hollow];

/// Dash lengths from small sizes to large ones. Those of sizes often used together, 3, 5, 9 and 17, differ most.
const DASHES: [f64; 6] = [4.2, 1.3, 0.0, 6.5, 2.8, 11.0];

/// A series with the name and the style of a mechanism.
pub fn series(mechanism: &str) -> Series {
    Series { name: mechanism.to_owned(), style: style(mechanism) }
}

/// Follows from the name alone: `full`, `topk:5`, `banded:5+g1`, or anything else.
pub fn style(mechanism: &str) -> Style {
    if mechanism == BASELINE {
        return Style { paint: Paint::Ink, dash: Dash::SOLID, marker: Marker::Circle, filling: Filling::Full };
    }
    let parts = MechanismName::parse(mechanism);
    let hash = fnv(parts.family);
    let known = FAMILIES.iter().find(|family| family.name == parts.family);
    let (hue, lightness, chroma, marker) = match known {
        Some(known) => (known.hue, known.lightness, known.chroma, known.marker),
        None => {
            let (hue, chroma) = OTHER_HUES[hash as usize % OTHER_HUES.len()];
            let marker = OTHER_MARKERS[(hash / 97) as usize % OTHER_MARKERS.len()];
            (hue, 0.59, chroma, marker)
        }
    };
    // A size that is not a number still gets a dash length of its own.
    let level = match (parts.size, parts.rest.as_str()) {
        (Some(size), _) => level(size),
        (None, "") => 2,
        (None, rest) => fnv(rest) as usize % DASHES.len(),
    };
    let hue = hue + [0.0, 16.0, 30.0][parts.globals.min(2)];
    let shade = SHADES[level];
    Style {
        paint: Paint::ByPage {
            light: readable(lightness + shade, chroma, hue, Rgb::WHITE, MIN_CONTRAST),
            dark: readable(lightness + 0.2 - 0.8 * shade, chroma, hue, DARK_PAGE, MIN_CONTRAST_DARK),
        },
        dash: Dash { length: DASHES[level], dots: parts.globals.min(2) },
        marker,
        filling: FILLINGS[level],
    }
}

/// The styles of the mechanisms of a run, of which no two have the same colour, marker and dash: where two would, the later one gets
/// the next marker, or dash, that is free.
pub fn distinct(mechanisms: &[String]) -> Vec<(&str, Style)> {
    let mut found: Vec<(&str, Style)> = Vec::new();
    for mechanism in mechanisms {
        let wanted = style(mechanism);
        let dashes = std::iter::once(wanted.dash.length).chain(DASHES);
        let others = dashes.flat_map(|length| {
            let markers = FAMILIES.iter().map(|family| family.marker).chain(OTHER_MARKERS);
            markers.map(move |marker| Style { marker, dash: Dash { length, ..wanted.dash }, ..wanted })
        });
        let is_free = |one: &Style| {
            let is_like = |(_, other): &(&str, Style)| {
                (one.paint, one.marker, one.dash) == (other.paint, other.marker, other.dash)
            };
            !found.iter().any(is_like)
        };
        let style = std::iter::once(wanted).chain(others).find(is_free).unwrap_or(wanted);
        found.push((mechanism, style));
    }
    found
}

/// The background of a dark page.
const DARK_PAGE: Rgb = Rgb(0x16, 0x18, 0x1c);
/// WCAG asks for a contrast of 3 for graphics; this is slightly more.
const MIN_CONTRAST: f64 = 3.05;
/// Thin coloured lines need more on a dark page.
const MIN_CONTRAST_DARK: f64 = 4.5;

/// The colour nearest in lightness that has this contrast with a background.
fn readable(lightness: f64, chroma: f64, hue: f64, background: Rgb, contrast: f64) -> Rgb {
    let step = if background == Rgb::WHITE { -0.005 } else { 0.005 };
    let mut lightness = lightness.clamp(0.0, 1.0);
    while Rgb::from_oklch(lightness, chroma, hue).contrast(background) < contrast && (0.0..=1.0).contains(&lightness) {
        lightness += step;
    }
    Rgb::from_oklch(lightness, chroma, hue)
}

struct MechanismName<'a> {
    family: &'a str,
    size: Option<usize>,
    globals: usize,
    /// The values if they are not a single whole number.
    rest: String,
}

impl<'a> MechanismName<'a> {
    fn parse(mechanism: &'a str) -> Self {
        let spec = match mechanism.parse::<Schedule>() {
            Ok(schedule) => schedule.single().cloned(),
            Err(_) => None,
        };
        let Some(spec) = spec else {
            return MechanismName { family: mechanism, size: None, globals: 0, rest: String::new() };
        };
        let size = spec.size().filter(|_| spec.named.is_empty());
        let values = Spec { name: String::new(), globals: 0, ..spec.clone() };
        MechanismName {
            family: &mechanism.trim_start()[..spec.name.len()],
            size,
            globals: spec.globals,
            rest: if size.is_some() { String::new() } else { values.to_string() },
        }
    }
}

/// 2 → 0, 3 and 4 → 1, 5 to 8 → 2, 9 to 16 → 3, 17 to 32 → 4, more → 5.
fn level(size: usize) -> usize {
    (size.saturating_sub(1).max(1).ilog2() as usize).min(DASHES.len() - 1)
}

/// FNV-1a: the same on every machine and in every version, unlike the standard library's hasher.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY_NAMES: [&str; 8] =
        ["topk", "banded", "block", "bottomk", "randomk", "mine", "dilated", "my-sliding-window"];

    fn all() -> Vec<String> {
        let sizes = [2, 3, 5, 9, 17, 33, 1000];
        let named = FAMILY_NAMES.iter().flat_map(|family| {
            sizes.iter().flat_map(move |size| ["", "+g1", "+g3"].map(|globals| format!("{family}:{size}{globals}")))
        });
        ["full", "", "mine", ":", "+g1", "topk", "topk:x"].map(str::to_owned).into_iter().chain(named).collect()
    }

    #[test]
    fn every_colour_stands_out_from_white_paper_and_from_a_dark_page() {
        for name in all() {
            let Paint::ByPage { light, dark } = style(&name).paint else { continue };
            assert!(light.contrast(Rgb::WHITE) >= 3.0, "{name} {light}: {:.2}", light.contrast(Rgb::WHITE));
            assert!(dark.contrast(DARK_PAGE) >= 4.5, "{name} {dark}: {:.2} on a dark page", dark.contrast(DARK_PAGE));
        }
        assert!(Rgb::INK.contrast(Rgb::WHITE) > 12.0);
    }

    #[test]
    fn dash_and_marker_alone_tell_the_mechanisms_of_a_comparison_apart() {
        let names = [
            "full",
            "topk:3",
            "topk:5",
            "topk:9",
            "topk:17",
            "banded:5",
            "banded:9",
            "banded:5+g1",
            "banded:5+g3",
            "block:5",
            "block:9",
            "block:9+g3",
            "bottomk:5",
            "bottomk:9",
            "randomk:5",
            "randomk:9",
        ];
        let looks: Vec<_> = names.map(style).iter().map(|style| (style.dash, style.marker, style.filling)).collect();
        for (index, look) in looks.iter().enumerate() {
            let twin = looks[..index].iter().position(|other| other == look);
            assert_eq!(twin, None, "{} looks like {:?}", names[index], twin.map(|twin| names[twin]));
        }
    }

    #[test]
    fn sizes_of_one_kind_differ_in_shade_and_marker() {
        for family in FAMILY_NAMES {
            let styles = [3, 5, 9, 17].map(|size| style(&format!("{family}:{size}")));
            for (index, one) in styles.iter().enumerate() {
                for other in &styles[..index] {
                    assert_ne!(one.filling, other.filling, "{family}");
                    let shades = [one, other].map(|style| oklab(style.paint.on_paper().linear())[0]);
                    assert!((shades[0] - shades[1]).abs() > 0.03, "{family}: {shades:?}");
                }
            }
        }
    }

    /// How linear light looks with colour blindness: Machado, Oliveira and Fernandes (2009), severity 1.
    const BLINDNESS: [(&str, [[f64; 3]; 3]); 4] = [
        ("none", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        ("red", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
        ("green", [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
        ("blue", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
    ];

    fn oklab([r, g, b]: [f64; 3]) -> [f64; 3] {
        let l = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b).cbrt();
        let m = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b).cbrt();
        let s = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b).cbrt();
        [
            0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
            1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
            0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
        ]
    }

    #[test]
    fn families_differ_with_colour_blindness() {
        let families = ["full", "topk:5", "banded:5", "block:5", "bottomk:5", "randomk:5"];
        for (kind, matrix) in BLINDNESS {
            let seen = families.map(|name| {
                let light = style(name).paint.on_paper().linear();
                oklab(matrix.map(|row| row.iter().zip(light).map(|(weight, part)| weight * part).sum::<f64>().max(0.0)))
            });
            for a in 0..families.len() {
                for b in 0..a {
                    let distance = seen[a].iter().zip(seen[b]).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt();
                    // A just noticeable difference is about 0.02.
                    assert!(distance > 0.07, "{} and {}, blindness {kind}: {distance:.3}", families[a], families[b]);
                }
            }
        }
    }

    #[test]
    fn all_mechanisms_of_a_run_differ() {
        // All controls of `causes`, and more mechanisms of one unknown family than there are markers.
        let controls = "full topk:5 oracle:5 antioracle:5 bottomk:5 fixedk:5 banded:5 block:5 randomk:5 shuffledk:5 hashk:5 frozenk:5 \
                        stk:5 gradk:5 maskedk:5 temperature:entropy=5 ssmax matchedgrad:5 sparsemax entmax topp:0.9";
        let mut names: Vec<String> = controls.split(' ').map(str::to_owned).collect();
        names.extend((0..30).map(|index| format!("mine{index}:5")));
        let styles = distinct(&names);
        assert_eq!(styles[1], ("topk:5", style("topk:5")), "the first keeps its own");
        for (index, (name, one)) in styles.iter().enumerate() {
            for (other_name, other) in &styles[..index] {
                let is_alike = (one.paint, one.marker, one.dash) == (other.paint, other.marker, other.dash);
                assert!(!is_alike, "{name} looks like {other_name}");
            }
        }
    }

    #[test]
    fn names_are_taken_apart() {
        let family = |name| MechanismName::parse(name).family;
        assert_eq!(["block:9+g3", "mine", "mine+g2"].map(family), ["block", "mine", "mine"]);
        assert_eq!([2, 3, 4, 5, 8, 9, 16, 17, 33, 1000].map(level), [0, 1, 1, 2, 2, 3, 3, 4, 5, 5]);
        assert_eq!(style("topk:5").dash, Dash::SOLID);
        assert_eq!(style("banded:5+g1").dash.pattern(), [13.0, 2.2, 1.3, 2.2]);
        assert_eq!(style("topk:9").dash.pattern(), [6.5, 2.2]);
        assert_ne!(style("mine:a").dash, style("mine:c").dash);
        assert_eq!(family("moba:block=8,k=2"), "moba");
        assert_ne!(style("moba:block=8,k=2"), style("moba:block=8,k=4"));
        assert_eq!(family("full@0,topk:5@10"), "full@0,topk:5@10");
    }
}
