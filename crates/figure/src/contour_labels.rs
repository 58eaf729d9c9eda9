//! Places the number of a contour line: horizontally, on a long and flat piece of the line, and not over another number.

use crate::svg::Rect;

/// Distance in points between the candidate positions along a line.
const STEP: f64 = 2.0;
/// A line shorter than this multiple of its number's width stays unlabelled.
const MIN_LENGTH: f64 = 5.0;

/// The rectangle for a number of this width and height, on the longest line that has space for it: inside the `bounds`,
/// clear of the `taken` areas, and where the line is flattest.
pub(crate) fn place(lines: &[Vec<(f64, f64)>], size: (f64, f64), bounds: Rect, taken: &[Rect]) -> Option<Rect> {
    let (width, height) = size;
    let mut longest: Vec<(f64, &Vec<(f64, f64)>)> = lines.iter().map(|line| (length(line), line)).collect();
    longest.retain(|(length, _)| *length >= MIN_LENGTH * width);
    longest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let around = |(x, y): (f64, f64)| Rect { x: x - width / 2.0, y: y - height / 2.0, width, height };
    let free = |area: &Rect| lies_within(area, &bounds) && !taken.iter().any(|other| overlap(area, other));
    longest.iter().find_map(|(_, line)| flattest(line, width).into_iter().map(around).find(free))
}

/// Points of a line, ordered by how flat a piece of this length around them is.
fn flattest(line: &[(f64, f64)], length: f64) -> Vec<(f64, f64)> {
    let mut points = stepped(line);
    let piece = (length / STEP).ceil().max(1.0) as usize;
    if line.first() == line.last() {
        // A piece may contain the start of a closed line.
        points.extend_from_within(..piece.min(points.len()));
    }
    let mut places: Vec<(f64, (f64, f64))> = points
        .windows(piece + 1)
        .filter_map(|window| {
            let (from, to) = (window[0], window[piece]);
            let chord = (to.0 - from.0).hypot(to.1 - from.1);
            // Where the line bends sharply, the number would hide the bend.
            (chord > 0.6 * length).then(|| ((to.1 - from.1).abs() / chord, window[piece / 2]))
        })
        .collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    places.into_iter().map(|(_, place)| place).collect()
}

/// Equidistant points along a line.
fn stepped(line: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut ahead = 0.0;
    for pair in line.windows(2) {
        let ((x, y), (to_x, to_y)) = (pair[0], pair[1]);
        let length = (to_x - x).hypot(to_y - y);
        while ahead < length {
            let share = ahead / length;
            points.push((x + share * (to_x - x), y + share * (to_y - y)));
            ahead += STEP;
        }
        ahead -= length;
    }
    points
}

fn length(line: &[(f64, f64)]) -> f64 {
    line.windows(2).map(|pair| (pair[1].0 - pair[0].0).hypot(pair[1].1 - pair[0].1)).sum()
}

fn lies_within(inner: &Rect, outer: &Rect) -> bool {
    inner.x >= outer.x && inner.y >= outer.y && inner.right() <= outer.right() && inner.bottom() <= outer.bottom()
}

fn overlap(a: &Rect, b: &Rect) -> bool {
    a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Rect = Rect { x: 0.0, y: 0.0, width: 100.0, height: 100.0 };

    fn circle(radius: f64) -> Vec<(f64, f64)> {
        let angle = |step: i32| f64::from(6 * (step % 60)).to_radians();
        (0..=60).map(|step| (50.0 + radius * angle(step).cos(), 50.0 + radius * angle(step).sin())).collect()
    }

    #[test]
    fn numbers_stand_on_the_longest_line_where_it_is_flat() {
        let area = place(&[circle(10.0), circle(40.0)], (14.0, 8.0), ROOM, &[]).expect("there is room");
        let (x, y) = (area.x + 7.0, area.y + 4.0);
        assert!((x - 50.0).abs() < 3.0 && ((y - 50.0).abs() - 40.0).abs() < 1.0, "({x}, {y})");
        assert_eq!(place(&[circle(9.0)], (14.0, 8.0), ROOM, &[]), None, "as large as its number");
        assert_eq!(place(&[vec![(200.0, 0.0), (300.0, 0.0)]], (14.0, 8.0), ROOM, &[]), None, "outside");
    }

    #[test]
    fn numbers_keep_off_each_other_and_off_the_edge() {
        let mut taken = Vec::new();
        while let Some(area) = place(&[circle(44.0)], (14.0, 8.0), ROOM, &taken) {
            assert!(lies_within(&area, &ROOM) && !taken.iter().any(|other| overlap(&area, other)));
            taken.push(area);
        }
        assert!(taken.len() > 10, "{}", taken.len());
    }

    #[test]
    fn steps_are_of_equal_length_around_corners() {
        let points = stepped(&[(0.0, 0.0), (3.0, 0.0), (3.0, 3.0), (3.0, 3.0), (3.0, 3.5)]);
        assert_eq!(points, [(0.0, 0.0), (2.0, 0.0), (3.0, 1.0), (3.0, 3.0)]);
    }
}
