//! Contour lines of a surface (marching squares).

use std::collections::BTreeMap;

use crate::extent::HUGE;

/// A contour line. A point is a fractional column and row of the grid. A closed line ends where it starts.
type IsoLine = Vec<(f64, f64)>;

/// A grid edge that a line crosses: the grid point it starts from, and whether it leads to the next row or the next
/// column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    row: usize,
    column: usize,
    upwards: bool,
}

/// The lines of a level, each as long as possible. A cell with a corner that is not finite has none. In a saddle, the
/// mean of the cell decides which corners belong together.
pub(crate) fn iso_lines(rows: &[Vec<f64>], level: f64) -> Vec<IsoLine> {
    let grid = Grid { rows, level };
    let line = |edges: &Vec<Edge>| edges.iter().map(|&edge| grid.crossing(edge)).collect();
    joined(&grid.segments()).iter().map(line).collect()
}

struct Grid<'a> {
    rows: &'a [Vec<f64>],
    level: f64,
}

impl Grid<'_> {
    /// The segments of the lines within the cells.
    fn segments(&self) -> Vec<[Edge; 2]> {
        let mut segments = Vec::new();
        for (row, pair) in self.rows.windows(2).enumerate() {
            for column in 1..pair[0].len().min(pair[1].len()) {
                self.add_cell(row, column - 1, &mut segments);
            }
        }
        segments
    }

    fn add_cell(&self, row: usize, column: usize, segments: &mut Vec<[Edge; 2]>) {
        let edge = |row, column, upwards| Edge { row, column, upwards };
        // Around the cell: each edge leads from one corner to the next.
        let corners = [(row, column), (row, column + 1), (row + 1, column + 1), (row + 1, column)];
        let edges = [
            edge(row, column, false),
            edge(row, column + 1, true),
            edge(row + 1, column, false),
            edge(row, column, true),
        ];
        let values = corners.map(|(row, column)| self.rows[row][column]);
        // Differences of larger values would overflow; comparisons with NaN are false.
        if !values.iter().all(|value| value.abs() < HUGE) {
            return;
        }
        let above = values.map(|value| value >= self.level);
        let crossed: Vec<Edge> =
            (0..4).filter(|&index| above[index] != above[(index + 1) % 4]).map(|index| edges[index]).collect();
        match crossed[..] {
            [one, other] => segments.push([one, other]),
            [bottom, right, top, left] => {
                let mean_above = values.iter().sum::<f64>() / 4.0 >= self.level;
                let first_corner_joins_mean = above[0] == mean_above;
                segments.extend(if first_corner_joins_mean {
                    [[bottom, right], [top, left]]
                } else {
                    [[bottom, left], [top, right]]
                });
            }
            _ => {}
        }
    }

    /// Where the surface crosses the level on an edge, interpolated linearly.
    fn crossing(&self, Edge { row, column, upwards }: Edge) -> (f64, f64) {
        let (next_row, next_column) = if upwards { (row + 1, column) } else { (row, column + 1) };
        let (from, to) = (self.rows[row][column], self.rows[next_row][next_column]);
        let share = (self.level - from) / (to - from);
        let (x, y) = (column as f64, row as f64);
        if upwards { (x, y + share) } else { (x + share, y) }
    }
}

/// Joins segments end to end. An edge belongs to at most two cells, so at most two segments meet at an end.
fn joined(segments: &[[Edge; 2]]) -> Vec<Vec<Edge>> {
    let mut neighbours: BTreeMap<Edge, Vec<usize>> = BTreeMap::new();
    for (index, segment) in segments.iter().enumerate() {
        segment.iter().for_each(|&edge| neighbours.entry(edge).or_default().push(index));
    }
    let mut used = vec![false; segments.len()];
    let mut lines = Vec::new();
    let ends = neighbours.iter().filter(|(_, indices)| indices.len() == 1);
    // Open lines first: started anywhere but at an end, they would fall into two.
    for &start in ends.chain(&neighbours).map(|(edge, _)| edge) {
        let mut line = vec![start];
        let mut last = start;
        while let Some(&index) = neighbours[&last].iter().find(|&&index| !used[index]) {
            used[index] = true;
            let [one, other] = segments[index];
            last = if one == last { other } else { one };
            line.push(last);
        }
        if line.len() > 1 {
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    /// Points along each side of the grid that is tested; the plane reaches from −1 to 1.
    const SIDE: usize = 41;
    const STEP: f64 = 2.0 / (SIDE - 1) as f64;

    fn on_plane((column, row): (f64, f64)) -> (f64, f64) {
        (column * STEP - 1.0, row * STEP - 1.0)
    }

    fn surface(value: impl Fn(f64, f64) -> f64) -> Vec<Vec<f64>> {
        let place = |column: usize, row: usize| on_plane((column as f64, row as f64));
        let at = |(x, y)| value(x, y);
        (0..SIDE).map(|row| (0..SIDE).map(|column| at(place(column, row))).collect()).collect()
    }

    fn is_closed(line: &IsoLine) -> bool {
        line.first() == line.last()
    }

    fn length(line: &IsoLine) -> f64 {
        line.windows(2).map(|pair| STEP * (pair[1].0 - pair[0].0).hypot(pair[1].1 - pair[0].1)).sum()
    }

    #[test]
    fn a_bowl_has_circles() {
        let bowl = surface(|x, y| x * x + y * y);
        for radius in [0.2, 0.51, 0.9] {
            let lines = iso_lines(&bowl, radius * radius);
            let [circle] = &lines[..] else { panic!("{} lines at {radius}", lines.len()) };
            assert!(is_closed(circle));
            // x² taken as straight over an edge is too great by a quarter of the square of its length at most.
            let error = STEP * STEP / 4.0 / (2.0 * radius) * 1.1;
            for (x, y) in circle.iter().map(|&point| on_plane(point)) {
                assert!((x.hypot(y) - radius).abs() <= error, "({x}, {y}) at {radius}");
            }
            assert!((length(circle) / (TAU * radius) - 1.0).abs() < 0.02, "{} at {radius}", length(circle));
        }
        let corners = iso_lines(&bowl, 1.21);
        assert!(corners.len() == 4 && !corners.iter().any(is_closed), "the circle of radius 1.1 is cut off");
        assert!(
            iso_lines(&bowl, 2.5).is_empty()
                && iso_lines(&bowl, -0.1).is_empty()
                && iso_lines(&bowl, f64::NAN).is_empty()
        );
    }

    #[test]
    fn a_plane_has_one_straight_line() {
        let lines = iso_lines(&surface(|x, y| x + 2.0 * y), 0.3);
        let [line] = &lines[..] else { panic!("{} lines", lines.len()) };
        assert!(!is_closed(line) && (length(line) - 5f64.sqrt()).abs() < 1e-9, "{}", length(line));
        assert!(line.iter().map(|&point| on_plane(point)).all(|(x, y)| (x + 2.0 * y - 0.3).abs() < 1e-9));
    }

    #[test]
    fn the_mean_decides_at_a_saddle() {
        let saddle = |peak: f64| vec![vec![peak, 0.0], vec![0.0, peak]];
        let ends = |rows: &[Vec<f64>]| iso_lines(rows, 1.0);
        // Mean 2: the high corners hang together, the lines cut off the low ones.
        assert_eq!(ends(&saddle(4.0)), [[(0.75, 0.0), (1.0, 0.25)], [(0.0, 0.75), (0.25, 1.0)]]);
        // Mean 0.6: the lines cut off the high ones.
        let around_the_low = ends(&saddle(1.25));
        assert_eq!(around_the_low.len(), 2);
        assert!(around_the_low[0].iter().all(|point| point.0 + point.1 < 1.0), "{around_the_low:?}");
    }

    #[test]
    fn holes_interrupt_lines() {
        let mut bowl = surface(|x, y| x * x + y * y);
        let whole = length(&iso_lines(&bowl, 0.25)[0]);
        // On the circle, to the right.
        bowl[20][30] = f64::NAN;
        let lines = iso_lines(&bowl, 0.25);
        let [arc] = &lines[..] else { panic!("{} lines", lines.len()) };
        assert!(!is_closed(arc));
        assert!((whole - length(arc) - 2.0 * STEP).abs() < 0.1 * STEP, "two cells are missing: {}", length(arc));
    }

    #[test]
    fn strange_grids_do_no_harm() {
        let strange = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 0.0, 1.0, 1.0, 2.0];
        let mut state = 1u64;
        for case in 0..2000 {
            let mut next = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize % below
            };
            let (height, width) = (next(6), next(6));
            // Every other case has ragged rows.
            let mut row = || (0..if case % 2 == 0 { width } else { next(6) }).map(|_| strange[next(9)]).collect();
            let rows: Vec<Vec<f64>> = (0..height).map(|_| row()).collect();
            for level in strange {
                for line in iso_lines(&rows, level) {
                    let inside = |&(x, y): &(f64, f64)| (0.0..=5.0).contains(&x) && (0.0..=5.0).contains(&y);
                    assert!(line.len() > 1 && line.iter().all(inside), "{rows:?} at {level}: {line:?}");
                }
            }
        }
        assert!(iso_lines(&vec![vec![1.0; 9]; 9], 1.0).is_empty(), "a plain has no lines");
        assert_eq!(iso_lines(&[vec![0.0, 2.0], vec![0.0, 2.0]], 1.0), [[(0.5, 0.0), (0.5, 1.0)]]);
    }
}
