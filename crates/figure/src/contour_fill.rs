//! The area of a surface above a level, as polygons (marching squares).

use crate::extent::HUGE;

/// A corner of a polygon: fractional column and row of the grid.
type Corner = (f64, f64);

/// The area at or above a level. All polygons run in the same direction, and neighbours share their edges, so that one path
/// of all of them has no seams. Cells with a corner that is not finite are left out. In a saddle, the mean of the cell decides
/// whether the two high corners belong together, as it does for the lines.
pub(crate) fn above(rows: &[Vec<f64>], level: f64) -> Vec<Vec<Corner>> {
    let mut polygons = Vec::new();
    for (row, pair) in rows.windows(2).enumerate() {
        let columns = pair[0].len().min(pair[1].len());
        let mut whole: Option<(usize, usize)> = None;
        for column in 0..columns.saturating_sub(1) {
            let values = [pair[0][column], pair[0][column + 1], pair[1][column + 1], pair[1][column]];
            let is_known = values.iter().all(|value| value.abs() < HUGE);
            if is_known && values.iter().all(|value| *value >= level) {
                // Cells that lie above the level as a whole are joined.
                whole = Some((whole.map_or(column, |(first, _)| first), column + 1));
                continue;
            }
            polygons.extend(whole.take().map(|ends| rectangle(row, ends)));
            if is_known {
                polygons.extend(part_of_cell(row, column, values, level));
            }
        }
        polygons.extend(whole.map(|ends| rectangle(row, ends)));
    }
    polygons
}

fn rectangle(row: usize, (first, last): (usize, usize)) -> Vec<Corner> {
    let (left, right, low, high) = (first as f64, last as f64, row as f64, row as f64 + 1.0);
    vec![(left, low), (right, low), (right, high), (left, high)]
}

/// The parts of a cell above the level: none, one, or two at a saddle.
fn part_of_cell(row: usize, column: usize, values: [f64; 4], level: f64) -> Vec<Vec<Corner>> {
    let (x, y) = (column as f64, row as f64);
    let corners = [(x, y), (x + 1.0, y), (x + 1.0, y + 1.0), (x, y + 1.0)];
    let is_above = values.map(|value| value >= level);
    let crossing = |from: usize| {
        let to = (from + 1) % 4;
        let share = (level - values[from]) / (values[to] - values[from]);
        let between = |a: f64, b: f64| a + share * (b - a);
        (between(corners[from].0, corners[to].0), between(corners[from].1, corners[to].1))
    };
    let is_saddle = is_above[0] == is_above[2] && is_above[1] == is_above[3] && is_above[0] != is_above[1];
    if is_saddle && values.iter().sum::<f64>() / 4.0 < level {
        let high = (0..4).filter(|&corner| is_above[corner]);
        return high.map(|corner| vec![crossing((corner + 3) % 4), corners[corner], crossing(corner)]).collect();
    }
    let mut polygon = Vec::new();
    for corner in 0..4 {
        if is_above[corner] {
            polygon.push(corners[corner]);
        }
        if is_above[corner] != is_above[(corner + 1) % 4] {
            polygon.push(crossing(corner));
        }
    }
    if polygon.len() > 2 { vec![polygon] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice the area would be the sum of the cross products.
    fn area(polygons: &[Vec<Corner>]) -> f64 {
        let of = |polygon: &Vec<Corner>| {
            let next = |index: usize| polygon[(index + 1) % polygon.len()];
            let cross = |index: usize| polygon[index].0 * next(index).1 - next(index).0 * polygon[index].1;
            (0..polygon.len()).map(cross).sum::<f64>() / 2.0
        };
        polygons.iter().map(of).sum()
    }

    #[test]
    fn the_area_above_a_level_is_that_of_the_surface() {
        let side = 41;
        let place = |index: usize| index as f64 / 20.0 - 1.0;
        let bowl: Vec<Vec<f64>> =
            (0..side).map(|j| (0..side).map(|i| place(i).powi(2) + place(j).powi(2)).collect()).collect();
        assert_eq!(area(&above(&bowl, f64::NEG_INFINITY)), 1600.0);
        assert_eq!(area(&above(&bowl, 3.0)), 0.0);
        let disc = std::f64::consts::PI * 400.0 * 0.5;
        assert!((1600.0 - area(&above(&bowl, 0.5)) - disc).abs() < 2.0, "{}", area(&above(&bowl, 0.5)));
    }

    #[test]
    fn saddles_and_holes() {
        let saddle = |peak: f64| vec![vec![peak, 0.0], vec![0.0, peak]];
        assert_eq!(above(&saddle(4.0), 1.0).len(), 1, "the high corners belong together");
        assert_eq!(above(&saddle(1.25), 1.0).len(), 2, "the low corners do");
        assert!((area(&above(&saddle(1.25), 1.0)) - 0.04).abs() < 1e-12);
        assert!(above(&[vec![1.0, f64::NAN], vec![1.0, 1.0]], 0.0).is_empty());
        assert!(above(&[], 0.0).is_empty() && above(&[vec![], vec![1.0]], 0.0).is_empty());
    }
}
