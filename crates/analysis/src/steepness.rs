//! Empirical Lipschitz constants of a loss surface: the change of the loss between neighbouring cells divided by their distance.

use serde::Serialize;

use crate::stats::quantile;
use semfocus_store::Grid;

/// The percentiles that are computed.
pub const PERCENTILES: [f64; 4] = [50.0, 75.0, 95.0, 99.0];

/// Percentiles of the differences inside growing squares around the trained model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Steepness {
    /// Half the side of each square.
    pub radii: Vec<f64>,
    /// For each radius, in the order of [`PERCENTILES`].
    pub percentiles: Vec<[f64; 4]>,
}

impl Steepness {
    /// From the values of a grid, row by row. Differences that are not finite are left out, and so are squares without any
    /// difference.
    pub fn new(grid: &Grid, values: &[f64]) -> Self {
        let differences = differences(grid, values);
        let mut steepness = Steepness { radii: Vec::new(), percentiles: Vec::new() };
        for ring in 1..=grid.side / 2 {
            // A grid with an even number of cells per side has no central cell, so its innermost square is one step wide.
            let radius = (ring as f64 - if grid.side.is_multiple_of(2) { 0.5 } else { 0.0 }) * grid.step();
            let inside: Vec<f64> = differences
                .iter()
                .filter(|(reach, _)| *reach <= radius * (1.0 + 1e-9))
                .map(|(_, difference)| *difference)
                .collect();
            let found = PERCENTILES.map(|percent| quantile(&inside, percent / 100.0).unwrap_or(f64::NAN));
            if !inside.is_empty() {
                steepness.radii.push(radius);
                steepness.percentiles.push(found);
            }
        }
        steepness
    }

    /// The percentiles within the largest square whose radius is at most this.
    pub fn within(&self, radius: f64) -> Option<[f64; 4]> {
        let place = self.radii.iter().rposition(|found| *found <= radius * (1.0 + 1e-9))?;
        self.percentiles.get(place).copied()
    }
}

/// For each pair of neighbours: the larger distance from the middle, and the difference divided by the step.
fn differences(grid: &Grid, values: &[f64]) -> Vec<(f64, f64)> {
    let mut found = Vec::new();
    let reach = |cell: usize| {
        let (x, y) = grid.place(cell);
        x.abs().max(y.abs())
    };
    for cell in 0..grid.cells() {
        let right = (cell % grid.side + 1 < grid.side).then_some(cell + 1);
        let above = (cell + grid.side < grid.cells()).then_some(cell + grid.side);
        for other in right.into_iter().chain(above) {
            let difference = (values[cell] - values[other]).abs() / grid.step();
            if difference.is_finite() {
                found.push((reach(cell).max(reach(other)), difference));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(grid: &Grid, f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        (0..grid.cells()).map(|cell| grid.place(cell)).map(|(x, y)| f(x, y)).collect()
    }

    #[test]
    fn a_plane_is_equally_steep_everywhere() {
        for side in [3, 4, 9, 21] {
            let grid = Grid { side, range: 1.0 };
            let found = Steepness::new(&grid, &values(&grid, |x, y| 3.0 * x - 3.0 * y));
            assert_eq!(found.radii.len(), side / 2);
            assert!((found.radii.last().unwrap() - 1.0).abs() < 1e-12, "{:?}", found.radii);
            assert!(found.percentiles.iter().flatten().all(|value| (value - 3.0).abs() < 1e-9), "{found:?}");
        }
    }

    #[test]
    fn a_bowl_gets_steeper_outwards_and_holes_are_left_out() {
        let grid = Grid { side: 5, range: 2.0 };
        let bowl = values(&grid, |x, y| x * x + y * y);
        let found = Steepness::new(&grid, &bowl);
        assert_eq!(found.radii, [1.0, 2.0]);
        // Inside radius 1 every step of 1 changes the square by 1; outside also by 3.
        assert_eq!(found.percentiles[0], [1.0; 4]);
        assert_eq!((found.percentiles[1][0], found.percentiles[1][3]), (2.0, 3.0));
        assert_eq!(found.within(1.5), Some([1.0; 4]));
        assert_eq!(found.within(0.5), None);
        let mut broken = bowl;
        broken[0] = f64::NAN;
        broken[24] = f64::INFINITY;
        assert_eq!(Steepness::new(&grid, &broken).percentiles[0], [1.0; 4]);
        assert!(Steepness::new(&grid, &[f64::NAN; 25]).radii.is_empty());
    }

    #[test]
    fn the_middle_of_an_odd_grid_is_the_trained_model() {
        for side in [3, 41, 51, 201] {
            let grid = Grid { side, range: 0.7 };
            assert_eq!(grid.place(grid.cells() / 2), (0.0, 0.0));
            assert_eq!((grid.place(0), grid.place(grid.cells() - 1)), ((-0.7, -0.7), (0.7, 0.7)));
        }
    }
}
