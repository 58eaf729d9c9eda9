//! Outlines of markers, and simplified lines.

use crate::style::{Filling, Marker, Paint};
use crate::svg::{Canvas, Fill, Path, Stroke};

/// Half the height of a marker.
const RADIUS: f64 = 2.3;

pub(crate) fn draw_marker(canvas: &mut Canvas, at: (f64, f64), marker: Marker, filling: Filling, paint: Paint) {
    let outline = Stroke::new(paint, 1.0);
    if marker == Marker::Stroke {
        canvas.line((at.0, at.1 - 2.8), (at.0, at.1 + 2.8), &outline);
        return;
    }
    let fill = if filling == Filling::Full { Fill::Paint(paint, 1.0) } else { Fill::Paper };
    // Half of the outline lies outside, so a hollow marker is drawn smaller to look as large as a full one.
    let (radius, stroke) = if filling == Filling::Full { (RADIUS, None) } else { (RADIUS - 0.3, Some(&outline)) };
    if marker == Marker::Circle {
        canvas.circle(at, radius, fill, stroke);
    } else {
        let points: Vec<(f64, f64)> =
            outline_of(marker).iter().map(|(x, y)| (at.0 + radius * x, at.1 + radius * y)).collect();
        canvas.path(&Path::around(&points), fill, stroke);
    }
    match filling {
        Filling::Dotted => canvas.circle(at, 0.7, Fill::Paint(paint, 1.0), None),
        Filling::Half => {
            let lower: Vec<(f64, f64)> =
                lower_half(marker).iter().map(|(x, y)| (at.0 + radius * x, at.1 + radius * y)).collect();
            canvas.path(&Path::around(&lower), Fill::Paint(paint, 1.0), None);
        }
        Filling::Full | Filling::Hollow => {}
    }
}

/// The part of a marker's outline below its middle.
fn lower_half(marker: Marker) -> Vec<(f64, f64)> {
    let whole = match marker {
        Marker::Circle => (0..24).map(|corner| (f64::from(corner) * std::f64::consts::PI / 12.0).sin_cos()).collect(),
        other => outline_of(other),
    };
    let mut lower = Vec::new();
    for (index, &(x, y)) in whole.iter().enumerate() {
        let (next_x, next_y) = whole[(index + 1) % whole.len()];
        if y >= 0.0 {
            lower.push((x, y));
        }
        // Where the outline crosses the middle.
        if (y < 0.0) != (next_y < 0.0) {
            lower.push((x + (next_x - x) * y / (y - next_y), 0.0));
        }
    }
    lower
}

/// Corners around the origin. The areas are similar, so that no series looks heavier than another.
fn outline_of(marker: Marker) -> Vec<(f64, f64)> {
    let turned = |points: &[(f64, f64)]| points.iter().map(|&(x, y)| (y, x)).collect();
    let flipped = |points: &[(f64, f64)]| points.iter().map(|&(x, y)| (-x, -y)).collect::<Vec<_>>();
    let up = [(0.0, -1.3), (1.2, 0.8), (-1.2, 0.8)];
    let arm = 0.42;
    let plus = [
        (-arm, -1.2),
        (arm, -1.2),
        (arm, -arm),
        (1.2, -arm),
        (1.2, arm),
        (arm, arm),
        (arm, 1.2),
        (-arm, 1.2),
        (-arm, arm),
        (-1.2, arm),
        (-1.2, -arm),
        (-arm, -arm),
    ];
    match marker {
        Marker::Circle | Marker::Stroke => Vec::new(),
        Marker::Square => vec![(-0.92, -0.92), (0.92, -0.92), (0.92, 0.92), (-0.92, 0.92)],
        Marker::Diamond => vec![(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        Marker::Up => up.to_vec(),
        Marker::Down => flipped(&up),
        Marker::Left => turned(&up),
        Marker::Right => flipped(&turned(&up)),
        Marker::Plus => plus.to_vec(),
        Marker::Cross => {
            let half = std::f64::consts::FRAC_1_SQRT_2;
            plus.iter().map(|&(x, y)| (half * (x - y), half * (x + y))).collect()
        }
        Marker::Star => (0..10)
            .map(|corner| {
                let angle = std::f64::consts::PI * (f64::from(corner) / 5.0 - 0.5);
                let radius = if corner % 2 == 0 { 1.45 } else { 0.65 };
                (radius * angle.cos(), radius * angle.sin())
            })
            .collect(),
    }
}

/// If a line has more than two vertices per point of width, their averages over each point of width: finer detail would
/// only blacken the line and break its dashes.
pub(crate) fn averaged(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let width = (last.0 - first.0).abs();
    if points.len() as f64 <= 2.0 * width.max(2.0) {
        return points.to_vec();
    }
    let mut means: Vec<(f64, f64)> = Vec::new();
    for column in points.chunk_by(|a, b| a.0.floor() == b.0.floor()) {
        let mean = |of: fn(&(f64, f64)) -> f64| column.iter().map(of).sum::<f64>() / column.len() as f64;
        means.push((mean(|point| point.0), mean(|point| point.1)));
    }
    // The ends keep their x positions.
    let count = means.len();
    means[0].0 = first.0;
    means[count - 1].0 = last.0;
    means
}

/// Largest distance in points between a line and the vertices left out of it: half a pixel at 300 dpi.
const TOLERANCE: f64 = 0.1;

/// Drops vertices that do not visibly change the line (Ramer–Douglas–Peucker).
pub(crate) fn simplified(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() < 3 {
        return points.to_vec();
    }
    let mut kept = vec![false; points.len()];
    kept[0] = true;
    kept[points.len() - 1] = true;
    let mut pieces = vec![(0, points.len() - 1)];
    while let Some((first, last)) = pieces.pop() {
        let distances = (first + 1..last).map(|index| (index, distance(points[index], points[first], points[last])));
        let farthest = distances.fold((first, TOLERANCE), |best, next| if next.1 > best.1 { next } else { best });
        if farthest.0 != first {
            kept[farthest.0] = true;
            pieces.extend([(first, farthest.0), (farthest.0, last)]);
        }
    }
    points.iter().zip(kept).filter_map(|(&point, kept)| kept.then_some(point)).collect()
}

/// Distance of a point from a line segment.
fn distance((x, y): (f64, f64), from: (f64, f64), to: (f64, f64)) -> f64 {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx * dx + dy * dy;
    let share = if length > 0.0 { (((x - from.0) * dx + (y - from.1) * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
    (x - from.0 - share * dx).hypot(y - from.1 - share * dy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simplified_lines_stay_within_the_tolerance() {
        let wave: Vec<(f64, f64)> =
            (0..1000).map(|step| (f64::from(step) * 0.2, 30.0 * (f64::from(step) * 0.01).sin())).collect();
        let few = simplified(&wave);
        assert!(few.len() < 90, "{}", few.len());
        for point in &wave {
            let nearest = few.windows(2).map(|pair| distance(*point, pair[0], pair[1])).fold(f64::MAX, f64::min);
            assert!(nearest <= TOLERANCE);
        }
        let spike = [(0.0, 0.0), (1.0, 0.0), (1.1, 9.0), (1.2, 0.0), (5.0, 0.0)];
        assert_eq!(simplified(&spike), spike, "a spike stays");
        assert_eq!(simplified(&[(0.0, 0.0), (1.0, 0.01), (2.0, 0.0)]), [(0.0, 0.0), (2.0, 0.0)]);
    }

    #[test]
    fn dense_lines_are_averaged_and_thin_ones_left_alone() {
        let dense: Vec<(f64, f64)> = (0..1000).map(|step| (f64::from(step) * 0.1, f64::from(step % 2))).collect();
        let means = averaged(&dense);
        assert_eq!(means.len(), 100);
        assert!(means.iter().all(|mean| (mean.1 - 0.5).abs() < 1e-9));
        assert_eq!((means[0].0, means[99].0), (0.0, 999.0 * 0.1));
        let thin: Vec<(f64, f64)> = (0..100).map(|step| (f64::from(step), f64::from(step % 2))).collect();
        assert_eq!(averaged(&thin), thin);
        assert_eq!(averaged(&[(3.0, 4.0)]), [(3.0, 4.0)]);
    }

    #[test]
    fn markers_are_alike_in_area() {
        use Marker::{Cross, Diamond, Down, Left, Plus, Right, Square, Star, Up};
        for marker in [Square, Diamond, Up, Down, Left, Right, Plus, Cross, Star] {
            let corners = outline_of(marker);
            let next = corners.iter().cycle().skip(1);
            let area = corners.iter().zip(next).map(|(a, b)| a.0 * b.1 - b.0 * a.1).sum::<f64>().abs() / 2.0;
            assert!((2.3..3.5).contains(&area), "{marker:?}: {area}");
        }
    }
}
