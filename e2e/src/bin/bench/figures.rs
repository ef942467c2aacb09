//! Figures, and the table of them.

use serde_json::{Value, json};

/// What was measured many times.
pub struct Figure {
    /// What it is.
    pub what: String,
    /// Unit of the samples.
    pub unit: &'static str,
    /// The samples, in the order in which they were taken.
    pub samples: Vec<f64>,
    /// The native controller's samples of the same, or of what comes nearest.
    pub native: Vec<f64>,
    /// What is to be reached.
    pub target: Option<Target>,
    /// More about it, for the report in JSON.
    pub more: Value,
}

/// What is to be reached.
#[derive(Clone, Copy)]
pub enum Target {
    /// The median is at most this.
    Median(f64),
    /// The median is at most this many times the native median.
    TimesNative(f64),
    /// No sample is above this.
    Most(f64),
}

impl Figure {
    /// Whether the target is reached.
    fn reached(&self) -> Option<bool> {
        Some(match self.target? {
            Target::Median(limit) => percentile(&self.samples, 50) <= limit,
            Target::TimesNative(limit) => self.ratio()? <= limit,
            Target::Most(limit) => percentile(&self.samples, 100) <= limit,
        })
    }

    fn ratio(&self) -> Option<f64> {
        let native = percentile(&self.native, 50);
        (native > 0.0).then(|| percentile(&self.samples, 50) / native)
    }

    /// The figure for programs.
    pub fn json(&self) -> Value {
        json!({
            "what": self.what,
            "unit": self.unit,
            "p50": percentile(&self.samples, 50),
            "p99": percentile(&self.samples, 99),
            "max": percentile(&self.samples, 100),
            "nativeP50": (!self.native.is_empty()).then(|| percentile(&self.native, 50)),
            "nativeP99": (!self.native.is_empty()).then(|| percentile(&self.native, 99)),
            "timesNative": self.ratio(),
            "target": self.target.map(Target::words),
            "reached": self.reached(),
            "samples": self.samples,
            "nativeSamples": self.native,
            "more": self.more,
        })
    }

    fn row(&self) -> [String; 8] {
        let cell = |samples: &[f64], percent| {
            if samples.is_empty() { "-".to_owned() } else { short(percentile(samples, percent)) }
        };
        [
            self.what.clone(),
            self.samples.len().to_string(),
            cell(&self.samples, 50),
            cell(&self.samples, 99),
            cell(&self.native, 50),
            self.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            self.target.map_or_else(|| "-".to_owned(), Target::words),
            match self.reached() {
                Some(true) => "reached",
                Some(false) => "MISSED",
                None => "-",
            }
            .to_owned(),
        ]
    }
}

impl Target {
    fn words(self) -> String {
        match self {
            Self::Median(limit) => format!("p50 <= {limit}"),
            Self::TimesNative(limit) => format!("<= {limit} x native"),
            Self::Most(limit) => format!("each <= {limit}"),
        }
    }
}

/// The smallest sample that at least `percent` of 100 samples do not exceed; 0 without samples.
pub fn percentile(samples: &[f64], percent: usize) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn short(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// The figures as a table in Markdown, which reads well in a terminal too.
pub fn table(figures: &[Figure]) -> String {
    let head = ["what", "n", "p50", "p99", "native p50", "times native", "target", ""];
    let mut rows = vec![head.map(ToOwned::to_owned)];
    rows.extend(figures.iter().map(Figure::row));
    let widths: [usize; 8] = std::array::from_fn(|column| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    });
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells: Vec<String> =
                row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            format!("| {} |", cells.join(" | "))
        })
        .collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    lines.insert(1, format!("| {} |", rule.join(" | ")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert!(close(percentile(&samples, 50), 100.0));
        assert!(close(percentile(&samples, 99), 198.0));
        assert!(close(percentile(&samples, 100), 200.0));
        assert!(close(percentile(&[3.0], 50), 3.0));
        assert!(close(percentile(&[], 50), 0.0));
    }

    #[test]
    fn a_target_is_reached_or_missed() {
        let mut figure = Figure {
            what: "time".into(),
            unit: "s",
            samples: vec![1.0, 3.0, 2.0],
            native: vec![1.0],
            target: Some(Target::Median(2.0)),
            more: Value::Null,
        };
        assert_eq!(figure.reached(), Some(true));
        figure.target = Some(Target::TimesNative(1.5));
        assert_eq!(figure.reached(), Some(false));
        figure.target = Some(Target::Most(2.5));
        assert_eq!(figure.reached(), Some(false));
        assert!(table(&[figure]).lines().nth(2).is_some_and(|row| row.contains("MISSED")));
    }
}
