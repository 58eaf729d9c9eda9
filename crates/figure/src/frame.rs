//! Everything around the marks: grid, axes, labels, titles, colour bar.

use crate::colour::ColourMap;
use crate::layout::{BAR, BAR_GAP, Bar, Placed, SPACE, TICK_LENGTH};
use crate::style::Paint;
use crate::svg::{Anchor, Canvas, Fill, Rect, Stroke, Text};
use crate::text::{Font, LABEL, TICK, TITLE};

fn axis_stroke() -> Stroke {
    Stroke::new(Paint::Ink, 1.0).class("figure-axis")
}

fn grid_stroke() -> Stroke {
    Stroke::new(Paint::Ink, 0.5).faint(0.14).class("figure-grid")
}

fn write(canvas: &mut Canvas, content: &str, (x, y): (f64, f64), font: Font, anchor: Anchor, rotated: bool) {
    canvas.text(&Text { content, x, y, font, anchor, rotated, paint: Paint::Ink });
}

pub(crate) fn draw_grid(canvas: &mut Canvas, placed: &Placed) {
    let frame = placed.frame;
    for x in placed.x_ticks.major.iter().filter_map(|tick| placed.x.at(tick.value)) {
        canvas.line((x, frame.y), (x, frame.bottom()), &grid_stroke());
    }
    for y in placed.y_ticks.major.iter().filter_map(|tick| placed.y.at(tick.value)) {
        canvas.line((frame.x, y), (frame.right(), y), &grid_stroke());
    }
    if placed.y.beyond.is_some() {
        let y = placed.y.start.min(placed.y.end);
        canvas.line((frame.x, y), (frame.right(), y), &Stroke::new(Paint::Ink, 1.0).faint(0.4).dashed(vec![1.5, 2.0]));
    }
}

/// The axes with their ticks and labels, and the title of the panel.
pub(crate) fn draw_axes(canvas: &mut Canvas, placed: &Placed) {
    let frame = placed.frame;
    let corner = (frame.x, frame.bottom());
    if placed.lined {
        canvas.line((frame.x, frame.y), corner, &axis_stroke());
        canvas.line(corner, (frame.right(), frame.bottom()), &axis_stroke());
    }
    draw_x_axis(canvas, placed);
    draw_y_axis(canvas, placed);
    for (index, line) in placed.title.iter().enumerate() {
        let lines_below = (placed.title.len() - 1 - index) as f64;
        let at = (frame.x, frame.y - 5.0 - lines_below * TITLE.line());
        write(canvas, line, at, TITLE, Anchor::Start, false);
    }
}

fn draw_x_axis(canvas: &mut Canvas, placed: &Placed) {
    let frame = placed.frame;
    let bottom = frame.bottom();
    let tick = |canvas: &mut Canvas, value: f64, length: f64| {
        if let Some(x) = placed.x.at(value) {
            canvas.line((x, bottom), (x, bottom + length), &axis_stroke());
        }
    };
    placed.x_ticks.major.iter().for_each(|major| tick(canvas, major.value, TICK_LENGTH));
    placed.x_ticks.minor.iter().for_each(|&minor| tick(canvas, minor, TICK_LENGTH / 2.0));
    if !placed.x_shown {
        return;
    }
    let under = bottom + TICK_LENGTH + SPACE;
    for major in &placed.x_ticks.major {
        let Some(x) = placed.x.at(major.value) else { continue };
        if placed.x_rotated {
            write(canvas, &major.label, (x + TICK.capitals() / 2.0, under), TICK, Anchor::End, true);
        } else {
            write(canvas, &major.label, (x, under + TICK.capitals()), TICK, Anchor::Middle, false);
        }
    }
    let middle = frame.x + frame.width / 2.0;
    for (index, line) in placed.x_label.iter().enumerate() {
        let y = under + placed.x_height + 1.0 + LABEL.capitals() + index as f64 * LABEL.line();
        write(canvas, line, (middle, y), LABEL, Anchor::Middle, false);
    }
}

fn draw_y_axis(canvas: &mut Canvas, placed: &Placed) {
    let frame = placed.frame;
    let tick = |canvas: &mut Canvas, value: f64, length: f64| {
        if let Some(y) = placed.y.at(value) {
            canvas.line((frame.x - length, y), (frame.x, y), &axis_stroke());
        }
    };
    placed.y_ticks.major.iter().for_each(|major| tick(canvas, major.value, TICK_LENGTH));
    placed.y_ticks.minor.iter().for_each(|&minor| tick(canvas, minor, TICK_LENGTH / 2.0));
    if !placed.y_shown {
        return;
    }
    let edge = frame.x - TICK_LENGTH - SPACE;
    for major in &placed.y_ticks.major {
        let Some(y) = placed.y.at(major.value) else { continue };
        write(canvas, &major.label, (edge, y + TICK.capitals() / 2.0), TICK, Anchor::End, false);
    }
    if let Some(y) = placed.y.beyond {
        let first = y + TICK.capitals() / 2.0 - (placed.beyond.len().saturating_sub(1)) as f64 * TICK.line() / 2.0;
        for (index, line) in placed.beyond.iter().enumerate() {
            write(canvas, line, (edge, first + index as f64 * TICK.line()), TICK, Anchor::End, false);
        }
    }
    let middle = frame.y + frame.height / 2.0;
    for (index, line) in placed.y_label.iter().rev().enumerate() {
        let x = edge - placed.y_width - 4.0 - index as f64 * LABEL.line();
        write(canvas, line, (x, middle), LABEL, Anchor::Middle, true);
    }
}

/// Pieces of the colour bar: enough for it to look continuous.
const PIECES: usize = 64;

pub(crate) fn draw_bar(canvas: &mut Canvas, frame: Rect, bar: &Bar, colour_map: ColourMap) {
    let left = frame.right() + BAR_GAP;
    let piece = frame.height / PIECES as f64;
    for index in 0..PIECES {
        let share = (index as f64 + 0.5) / PIECES as f64;
        // The pieces overlap so that the background does not show through between them.
        let y = frame.bottom() - (index + 1) as f64 * piece;
        let height = if index == 0 { piece } else { piece + 0.3 };
        canvas.rect(
            Rect { x: left, y, width: BAR, height },
            Fill::Paint(Paint::Colour(colour_map.at(share)), 1.0),
            None,
        );
    }
    let edge = left + BAR;
    let label_x = edge + TICK_LENGTH + SPACE;
    for major in &bar.ticks.major {
        let Some(y) = bar.mapping.at(major.value) else { continue };
        canvas.line((edge, y), (edge + TICK_LENGTH, y), &axis_stroke());
        write(canvas, &major.label, (label_x, y + TICK.capitals() / 2.0), TICK, Anchor::Start, false);
    }
    for &minor in &bar.ticks.minor {
        let Some(y) = bar.mapping.at(minor) else { continue };
        canvas.line((edge, y), (edge + TICK_LENGTH / 2.0, y), &axis_stroke());
    }
    let middle = frame.y + frame.height / 2.0;
    for (index, line) in bar.label.iter().enumerate() {
        let x = label_x + bar.tick_width + SPACE + LABEL.capitals() + index as f64 * LABEL.line();
        write(canvas, line, (x, middle), LABEL, Anchor::Middle, true);
    }
}
