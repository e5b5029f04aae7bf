//! Durations of one kind.

use std::time::Duration;

/// Measured times, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples(Vec<f64>);

impl Samples {
    pub(super) fn push(&mut self, time: Duration) {
        let at = |known: &f64| *known < time.as_secs_f64() * 1e3;
        let place = self.0.partition_point(at);
        self.0.insert(place, time.as_secs_f64() * 1e3);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Nearest rank: the smallest sample that at least this part of all does
    /// not exceed.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank is small and not negative"
        )]
        let rank = (self.0.len() as f64 * part).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1]
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<T: IntoIterator<Item = Duration>>(times: T) -> Self {
        let mut samples = Self::default();
        for time in times {
            samples.push(time);
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples_by_nearest_rank() {
        let samples: Samples = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(samples.len(), 100);
        assert!((samples.median() - 50.0).abs() < 1e-9);
        assert!((samples.quantile(0.99) - 99.0).abs() < 1e-9);
        let one: Samples = [Duration::from_millis(7)].into_iter().collect();
        assert!((one.median() - 7.0).abs() < 1e-9);
        assert!((one.quantile(0.99) - 7.0).abs() < 1e-9);
    }
}
