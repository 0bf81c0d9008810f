//! Where the figures go: a table for people, JSON for machines.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::measure::{Figure, Outcome, Plan};
use crate::row::{Against, Row, Side};

pub(crate) fn list(rows: &[Row]) {
    let width = widest(rows.iter().map(|row| row.id));
    for row in rows {
        println!("{:width$}  {}", row.id, row.about);
    }
}

/// Prints a row as soon as it is measured, so that a long run can be watched.
pub(crate) struct Table {
    name_width: usize,
}

const BAR_WIDTH: usize = 43;

impl Table {
    pub(crate) fn begin(rows: &[Row], plan: &Plan) -> Table {
        let name_width = widest(rows.iter().map(|row| row.id));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        println!(
            "medians of {} rounds of {} ms, {cores} cores; best = ours / best peer, below 1 is faster",
            plan.rounds,
            plan.sample.as_millis()
        );
        println!(
            "{:name_width$}  unit   {:>7}  {:>15}  {:>6}  {:BAR_WIDTH$}  peers",
            "row", "ours", "p10..p90", "best", "bar"
        );
        Table { name_width }
    }

    pub(crate) fn line(&self, outcome: &Outcome) {
        let (ours, reading) = (outcome.ours(), outcome.reading());
        println!(
            "{:name_width$}  {:5}  {:>7}  {:>15}  {:>6}  {:BAR_WIDTH$}  {}",
            outcome.row.id,
            reading.unit(outcome.row),
            reading.figure(ours.median),
            ours.spread_in_words(reading),
            outcome.ratio_to_best().map_or("-".into(), |ratio| format!("{ratio:.2}")),
            outcome.verdict().map_or("-".into(), |verdict| verdict.in_words(reading)),
            outcome.others_in_words(),
            name_width = self.name_width,
        );
    }

    pub(crate) fn end(&self, outcomes: &[Outcome]) {
        let verdicts: Vec<Verdict> = outcomes.iter().filter_map(Outcome::verdict).collect();
        let met = verdicts.iter().filter(|verdict| verdict.met).count();
        println!("{met} of {} bars met", verdicts.len());
        for caveat in caveats(outcomes) {
            println!("* {caveat}");
        }
        if let Some(reason) = crate::java::absence() {
            println!("without Java: {reason}");
        }
    }
}

pub(crate) fn write_json(outcomes: &[Outcome], mut file: File) -> io::Result<()> {
    let rows: Vec<Value> = outcomes.iter().map(Outcome::to_json).collect();
    serde_json::to_writer_pretty(&mut file, &json!({ "rows": rows }))?;
    writeln!(file)
}

/// Each once, however many figures it belongs to.
fn caveats(outcomes: &[Outcome]) -> BTreeSet<&'static str> {
    let figures = outcomes.iter().flat_map(|outcome| &outcome.figures);
    figures.filter_map(|figure| figure.caveat).collect()
}

/// How people see the figures of a row. Machines get them as they were measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    AsMeasured,
    /// Microseconds per operation, turned into operations per second.
    PerSecond,
}

impl Reading {
    fn unit(self, row: &Row) -> &'static str {
        match self {
            Reading::AsMeasured => row.unit,
            Reading::PerSecond => "/s",
        }
    }

    fn figure(self, figure: f64) -> String {
        match self {
            Reading::AsMeasured => compact(figure),
            Reading::PerSecond => compact(per_second(figure)),
        }
    }

    fn range(self, low: f64, high: f64) -> String {
        match self {
            Reading::AsMeasured => format!("{}..{}", self.figure(low), self.figure(high)),
            Reading::PerSecond => format!("{}..{}", self.figure(high), self.figure(low)),
        }
    }
}

fn per_second(microseconds: f64) -> f64 {
    (1e6 / microseconds).round()
}

/// How ours stands to its bar.
struct Verdict {
    against: String,
    at_most: f64,
    ratio: f64,
    /// The bar on ours' spread, and the spread.
    spread: Option<(f64, f64)>,
    met: bool,
}

impl Verdict {
    /// "0.83 x saa <= 0.95 met": the ratio, to whom, what it may be at most. Where people see
    /// operations per second the ratio is of those: "1.2 x redis >= 0.95 met".
    fn in_words(&self, reading: Reading) -> String {
        let met = if self.met { "met" } else { "MISSED" };
        let spread = self.spread.map_or(String::new(), |(at_most, spread)| {
            format!(", p90/p10 {spread:.1} <= {at_most}")
        });
        let against = &self.against;
        match reading {
            Reading::AsMeasured => {
                format!("{:.2} x {against} <= {}{spread} {met}", self.ratio, self.at_most)
            }
            Reading::PerSecond => {
                let (times, at_least) = (1.0 / self.ratio, compact(1.0 / self.at_most));
                format!("{times:.2} x {against} >= {at_least}{spread} {met}")
            }
        }
    }

    fn to_json(&self) -> Value {
        let mut bar = json!({
            "against": self.against,
            "at_most": rounded(self.at_most),
            "ratio": rounded(self.ratio),
            "met": self.met,
        });
        if let Some((at_most, spread)) = self.spread {
            bar["spread_at_most"] = at_most.into();
            bar["spread"] = rounded(spread);
        }
        bar
    }
}

impl Figure {
    /// With the spread where the median alone would mislead, with a star for a caveat.
    fn in_words(&self, reading: Reading) -> String {
        let star = if self.caveat.is_some() { "*" } else { "" };
        let median = reading.figure(self.median);
        match self.hung || self.ninetieth_percentile > 2.0 * self.tenth_percentile {
            true => format!("{}{star} {median} ({})", self.name, self.spread_in_words(reading)),
            false => format!("{}{star} {median}", self.name),
        }
    }

    fn spread_in_words(&self, reading: Reading) -> String {
        match self.hung {
            true => "HUNG".into(),
            false => reading.range(self.tenth_percentile, self.ninetieth_percentile),
        }
    }
}

impl Outcome<'_> {
    fn reading(&self) -> Reading {
        if self.row.per_second { Reading::PerSecond } else { Reading::AsMeasured }
    }

    fn ours(&self) -> &Figure {
        self.of(Side::Ours).next().expect("every row has a contestant of ours")
    }

    fn of(&self, side: Side) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(move |figure| figure.side == side)
    }

    /// None where ours has no peer.
    fn ratio_to_best(&self) -> Option<f64> {
        Some(self.ours().median / best(self.of(Side::Peer))?.median)
    }

    /// None where the row has no bar, or the peer it names is not there or not fast enough.
    fn verdict(&self) -> Option<Verdict> {
        let bar = self.row.bar.as_ref()?;
        let (against, figure) = match bar.against {
            Against::Limit(figure) => self.limit(figure),
            Against::LimitReachedBy(name, figure) => {
                let (_, reached) = self.standard(&[name])?;
                (reached <= figure).then(|| self.limit(figure))?
            }
            Against::Contestant(name) => self.standard(&[name])?,
            Against::BestOf(names) => self.standard(names)?,
        };
        let ours = self.ours();
        let ratio = ours.median / figure;
        let spread =
            bar.spread.map(|at_most| (at_most, ours.ninetieth_percentile / ours.tenth_percentile));
        let met = !ours.hung
            && ratio <= bar.at_most
            && spread.is_none_or(|(at_most, spread)| spread <= at_most);
        Some(Verdict { against, at_most: bar.at_most, ratio, spread, met })
    }

    fn limit(&self, figure: f64) -> (String, f64) {
        (format!("{figure} {}", self.row.unit), figure)
    }

    fn standard(&self, names: &[&str]) -> Option<(String, f64)> {
        let best = best(self.figures.iter().filter(|figure| names.contains(&figure.name)))?;
        Some((best.name.to_owned(), best.median))
    }

    fn others_in_words(&self) -> String {
        let groups = [("", Side::Peer), ("also ours: ", Side::Sibling), ("beside: ", Side::Beside)];
        let groups = groups.into_iter().filter_map(|(title, side)| {
            let figures: Vec<String> =
                self.of(side).map(|figure| figure.in_words(self.reading())).collect();
            (!figures.is_empty()).then(|| format!("{title}{}", figures.join(", ")))
        });
        groups.collect::<Vec<_>>().join("; ")
    }

    fn to_json(&self) -> Value {
        let ours = self.ours();
        let medians = |side| -> Map<String, Value> {
            self.of(side).map(|figure| (figure.name.to_owned(), rounded(figure.median))).collect()
        };
        let mut row = json!({
            "id": self.row.id,
            "unit": self.row.unit,
            "ours": rounded(ours.median),
            "spread": [rounded(ours.tenth_percentile), rounded(ours.ninetieth_percentile)],
            "peers": medians(Side::Peer),
            "ratio_to_best": self.ratio_to_best().map(rounded),
        });
        if self.reading() == Reading::PerSecond {
            let rates = self.figures.iter().filter(|figure| figure.median.is_finite());
            let rates = rates.map(|it| (it.name.to_owned(), json!(per_second(it.median))));
            row["per_second"] = rates.collect::<Map<_, _>>().into();
        }
        // Absent, not null: a row without a bar, or whose bar names a peer that is not here.
        if let Some(verdict) = self.verdict() {
            row["bar"] = verdict.to_json();
        }
        for (key, side) in [("also_ours", Side::Sibling), ("beside", Side::Beside)] {
            let others = medians(side);
            if !others.is_empty() {
                row[key] = others.into();
            }
        }
        let hung = self.figures.iter().filter(|figure| figure.hung).map(|figure| figure.name);
        let hung: Vec<&str> = hung.collect();
        if !hung.is_empty() {
            row["hung"] = hung.into();
        }
        for figure in &self.figures {
            if let Some(caveat) = figure.caveat {
                row["caveats"][figure.name] = caveat.into();
            }
        }
        row
    }
}

fn best<'outcome>(figures: impl Iterator<Item = &'outcome Figure>) -> Option<&'outcome Figure> {
    figures.min_by(|left, right| left.median.total_cmp(&right.median))
}

fn widest<'row>(names: impl Iterator<Item = &'row str>) -> usize {
    names.map(str::len).max().unwrap_or(0)
}

fn compact(figure: f64) -> String {
    if figure.is_nan() {
        "-".into()
    } else if figure < 10.0 && figure.fract() != 0.0 {
        format!("{figure:.2}")
    } else if figure < 100.0 && figure.fract() != 0.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.0}")
    }
}

/// Three decimals: what lies below is noise.
fn rounded(figure: f64) -> Value {
    json!((figure * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_shown_per_second_and_ratios_the_other_way_round() {
        let reading = Reading::PerSecond;
        assert_eq!(reading.figure(50.0), "20000");
        assert_eq!(reading.range(40.0, 50.0), "20000..25000");
        assert_eq!(Reading::AsMeasured.range(40.0, 50.5), "40..50.5");
        let against = "redis".to_owned();
        let verdict = Verdict { against, at_most: 1.0 / 0.95, ratio: 0.5, spread: None, met: true };
        assert_eq!(verdict.in_words(reading), "2.00 x redis >= 0.95 met");
    }
}
