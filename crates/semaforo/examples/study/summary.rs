//! What a study tells of several runs.

use std::time::Duration;

/// In milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary {
    pub(crate) mean: f64,
    /// The standard deviation of the sample.
    pub(crate) deviation: f64,
    pub(crate) p95: f64,
    /// Half of the interval that has the true mean in it with a confidence of 99 %.
    pub(crate) error: f64,
}

impl Summary {
    pub(crate) fn of(times: &[Duration]) -> Self {
        let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        Self::of_sorted(&times)
    }

    /// Without the runs that were interrupted: those above the upper quartile by more than one and
    /// a half times the distance between the quartiles. BenchmarkDotNet, by which the studies were
    /// measured, leaves them out too.
    pub(crate) fn without_outliers(times: &[Duration]) -> Self {
        let mut times: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        let quartile = |part: f64| times[(part * (times.len() - 1) as f64).round() as usize];
        let (lower, upper) = (quartile(0.25), quartile(0.75));
        let fence = upper + 1.5 * (upper - lower);
        Self::of_sorted(&times[..times.partition_point(|time| *time <= fence)])
    }

    fn of_sorted(times: &[f64]) -> Self {
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        // There is one degree of freedom less than there are runs.
        let freedom = (count - 1.0).max(1.0);
        let deviation = (squares / freedom).sqrt();
        let rank = (0.95 * count).ceil() as usize;
        let p95 = times[rank.clamp(1, times.len()) - 1];
        Self { mean, deviation, p95, error: students_t(freedom) * deviation / count.sqrt() }
    }
}

/// How many standard errors the true mean may be away, with a confidence of 99 %: Student's t, which for few
/// runs is much more than for many.
fn students_t(freedom: f64) -> f64 {
    const OF_FEW: [f64; 9] = [63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250];
    if let Some(t) = OF_FEW.get(freedom as usize - 1) {
        return *t;
    }
    // Beyond, its expansion around that of the normal distribution, right to three digits.
    let z: f64 = 2.5758;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_runs_say_less_than_many() {
        let tables = [
            (1.0, 63.657),
            (9.0, 3.250),
            (10.0, 3.169),
            (30.0, 2.750),
            (120.0, 2.617),
            (1e6, 2.576),
        ];
        for (freedom, expected) in tables {
            let found = students_t(freedom);
            assert!((found - expected).abs() < 2e-3, "{freedom}: {found}");
        }
    }

    #[test]
    fn the_summary_of_some_runs() {
        let times = [2, 4, 4, 4, 5, 5, 7, 9].map(Duration::from_millis);
        let Summary { mean, deviation, p95, error } = Summary::of(&times);
        assert_eq!((mean, p95), (5.0, 9.0));
        assert!((deviation - 2.138).abs() < 1e-3, "{deviation}");
        assert!((error - 2.645).abs() < 1e-3, "{error}");
    }

    #[test]
    fn a_run_that_was_interrupted_does_not_count() {
        let times = [5, 5, 6, 6, 6, 7, 7, 500].map(Duration::from_millis);
        assert_eq!(Summary::without_outliers(&times).mean, 6.0);
    }
}
