//! Metrics, in the text format of Prometheus (version 0.0.4).

use std::fmt::Write;

/// A snapshot of metrics.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    families: Vec<Family>,
}

/// The samples of one metric, told apart by their labels.
#[derive(Clone, Debug)]
pub struct Family {
    name: String,
    help: String,
    kind: &'static str,
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    /// What follows the name of the family.
    suffix: &'static str,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Metrics {
    /// No metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Something that only grows while the server lives; the name should end with `_total`.
    pub fn counter(&mut self, name: &str, help: &str) -> &mut Family {
        self.family(name, help, "counter")
    }

    /// Something that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str) -> &mut Family {
        self.family(name, help, "gauge")
    }

    /// How a quantity is spread.
    pub fn histogram(&mut self, name: &str, help: &str) -> &mut Family {
        self.family(name, help, "histogram")
    }

    fn family(&mut self, name: &str, help: &str, kind: &'static str) -> &mut Family {
        debug_assert!(is_name(name), "'{name}' is not a name of a figure");
        let family = Family { name: name.into(), help: help.into(), kind, samples: Vec::new() };
        self.families.push(family);
        let last = self.families.len() - 1;
        &mut self.families[last]
    }

    /// Writes all of them.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for family in &self.families {
            family.write(&mut text);
        }
        text
    }
}

impl Family {
    /// The figure of a name without labels.
    pub fn value(&mut self, value: f64) -> &mut Self {
        self.labelled(&[], value)
    }

    /// A figure with labels.
    pub fn labelled(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        self.add("", owned(labels), value);
        self
    }

    /// The samples of a histogram: how many fell into each bucket (by its upper bound, in order;
    /// not cumulated), how many above all of them, and the sum of all.
    pub fn buckets(
        &mut self,
        labels: &[(&str, &str)],
        buckets: &[(f64, u64)],
        above: u64,
        sum: f64,
    ) -> &mut Self {
        let mut count = 0;
        let all = buckets.iter().copied().chain([(f64::INFINITY, above)]);
        for (bound, inside) in all {
            count += inside;
            let mut labels = owned(labels);
            labels.push(("le".into(), figure(bound)));
            self.add("_bucket", labels, count as f64);
        }
        self.add("_sum", owned(labels), sum);
        self.add("_count", owned(labels), count as f64);
        self
    }

    fn add(&mut self, suffix: &'static str, labels: Vec<(String, String)>, value: f64) {
        self.samples.push(Sample { suffix, labels, value });
    }

    fn write(&self, text: &mut String) {
        let Self { name, kind, .. } = self;
        let help = self.help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for Sample { suffix, labels, value } in &self.samples {
            let _ = write!(text, "{name}{suffix}");
            for (number, (label, value)) in labels.iter().enumerate() {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                let before = if number == 0 { '{' } else { ',' };
                let _ = write!(text, "{before}{label}=\"{value}\"");
            }
            let after = if labels.is_empty() { "" } else { "}" };
            let _ = writeln!(text, "{after} {}", figure(*value));
        }
    }
}

fn owned(labels: &[(&str, &str)]) -> Vec<(String, String)> {
    labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

fn figure(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".into()
    } else if value == f64::NEG_INFINITY {
        "-Inf".into()
    } else {
        value.to_string()
    }
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format() {
        let mut metrics = Metrics::new();
        metrics.counter("a_total", "What\nis counted.").value(12.0);
        metrics.gauge("b", "Now.").labelled(&[("kind", "q\"\\\n"), ("x", "")], 0.5);
        metrics.histogram("c_seconds", "Time.").buckets(
            &[("k", "v")],
            &[(0.1, 2), (1.0, 3)],
            1,
            4.25,
        );
        assert_eq!(
            metrics.to_text(),
            "# HELP a_total What\\nis counted.\n# TYPE a_total counter\na_total 12\n\
             # HELP b Now.\n# TYPE b gauge\nb{kind=\"q\\\"\\\\\\n\",x=\"\"} 0.5\n\
             # HELP c_seconds Time.\n# TYPE c_seconds histogram\n\
             c_seconds_bucket{k=\"v\",le=\"0.1\"} 2\nc_seconds_bucket{k=\"v\",le=\"1\"} 5\n\
             c_seconds_bucket{k=\"v\",le=\"+Inf\"} 6\nc_seconds_sum{k=\"v\"} 4.25\n\
             c_seconds_count{k=\"v\"} 6\n"
        );
    }
}
