//! Charts, in the terminal and as SVG.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Figures of several series, for each of several places along the horizontal axis.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) form: Form,
    pub(crate) series: Vec<String>,
    /// What a place is called, and a figure for each series, where there is one.
    pub(crate) places: Vec<(String, Vec<Option<f64>>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// From zero upwards.
    Bars,
    /// For figures that differ by orders of magnitude.
    LogarithmicBars,
    /// The same, with the figures of a series connected.
    LogarithmicLines,
}

const COLOURS: [&str; 6] = ["#1b6ca8", "#d1495b", "#66a182", "#edae49", "#6c4f9c", "#767676"];
const WIDTH: f64 = 760.0;
/// Of one chart, with its title and legend.
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 70.0;
/// Of the area with the bars or lines.
const DEPTH: f64 = 240.0;

impl Chart {
    /// A bar for each figure, of at most so many characters.
    pub(crate) fn in_terminal(&self, longest: usize) -> String {
        let name_width = self.series.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let mut text = format!("{} ({}", self.title, self.unit);
        text += if self.form == Form::Bars { ")\n" } else { "; bars are logarithmic)\n" };
        for (place, figures) in &self.places {
            let _ = writeln!(text, "{place}");
            for (name, figure) in self.series.iter().zip(figures) {
                let Some(figure) = figure else { continue };
                let length = (self.part(*figure) * longest as f64).round().max(1.0) as usize;
                let bar = "█".repeat(length);
                let _ = writeln!(text, "  {name:<name_width$} {bar} {}", short(*figure));
            }
        }
        text
    }

    fn figures(&self) -> impl Iterator<Item = f64> {
        self.places.iter().flat_map(|(_, figures)| figures).flatten().copied()
    }

    /// The powers of ten between which all figures are.
    fn decades(&self) -> (f64, f64) {
        let highest = self.figures().fold(f64::MIN_POSITIVE, f64::max);
        let lowest = self.figures().filter(|figure| *figure > 0.0).fold(highest, f64::min);
        let bottom = lowest.log10().floor();
        (bottom, highest.log10().ceil().max(bottom + 1.0))
    }

    /// How far up a figure reaches, from 0 to 1.
    fn part(&self, figure: f64) -> f64 {
        if self.form == Form::Bars {
            return figure / self.figures().fold(f64::MIN_POSITIVE, f64::max);
        }
        let (bottom, top) = self.decades();
        ((figure.max(f64::MIN_POSITIVE).log10() - bottom) / (top - bottom)).max(0.01)
    }

    fn svg_at(&self, svg: &mut String, y: f64) {
        let _ = write!(
            svg,
            "<g transform=\"translate(0 {y})\">\n\
             <text x=\"{LEFT}\" y=\"24\" font-size=\"16\">{} ({}{})</text>\n",
            escaped(&self.title),
            escaped(self.unit),
            if self.form == Form::Bars { "" } else { ", logarithmic" },
        );
        for (index, name) in self.series.iter().enumerate() {
            let x = LEFT + index as f64 * (WIDTH - LEFT) / self.series.len() as f64;
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"38\" width=\"12\" height=\"12\" fill=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"48\">{}</text>",
                colour(index),
                x + 17.0,
                escaped(name)
            );
        }
        let step = (WIDTH - LEFT - 10.0) / self.places.len() as f64;
        for (place, (name, _)) in self.places.iter().enumerate() {
            let x = LEFT + (place as f64 + 0.5) * step;
            let y = TOP + DEPTH + 18.0;
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                escaped(name)
            );
        }
        if self.form != Form::Bars {
            self.svg_decades(svg);
        }
        match self.form {
            Form::LogarithmicLines => self.svg_lines(svg, step),
            Form::Bars | Form::LogarithmicBars => self.svg_bars(svg, step),
        }
        let _ = write!(
            svg,
            "<path d=\"M{LEFT} {TOP}v{DEPTH}H{WIDTH}\" fill=\"none\" stroke=\"#333\"/>\n</g>\n"
        );
    }

    /// A line for each power of ten.
    fn svg_decades(&self, svg: &mut String) {
        let (bottom, top) = self.decades();
        for decade in bottom as i32..=top as i32 {
            let figure = 10_f64.powi(decade);
            let y = TOP + DEPTH * (1.0 - (f64::from(decade) - bottom) / (top - bottom));
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {y:.1}H{WIDTH}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{figure}</text>",
                LEFT - 5.0,
                y + 4.0
            );
        }
    }

    fn svg_bars(&self, svg: &mut String, step: f64) {
        let width = 0.8 * step / self.series.len() as f64;
        for (place, (_, figures)) in self.places.iter().enumerate() {
            for (index, figure) in figures.iter().enumerate() {
                let Some(figure) = *figure else { continue };
                let x = LEFT + place as f64 * step + 0.1 * step + index as f64 * width;
                let height = self.part(figure) * DEPTH;
                let top = TOP + DEPTH - height;
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\" \
                     fill=\"{}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" \
                     font-size=\"9\">{}</text>",
                    width * 0.92,
                    colour(index),
                    x + width / 2.0,
                    top - 3.0,
                    short(figure)
                );
            }
        }
    }

    fn svg_lines(&self, svg: &mut String, step: f64) {
        for index in 0..self.series.len() {
            let mut points = String::new();
            for (place, (_, figures)) in self.places.iter().enumerate() {
                let Some(figure) = figures[index] else { continue };
                let x = LEFT + (place as f64 + 0.5) * step;
                let y = TOP + DEPTH * (1.0 - self.part(figure));
                let _ = write!(points, "{x:.1},{y:.1} ");
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{}\">\
                     <title>{}</title></circle>",
                    colour(index),
                    short(figure)
                );
            }
            let _ = writeln!(
                svg,
                "<polyline points=\"{points}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>",
                colour(index)
            );
        }
    }
}

/// These charts, one below the other.
pub(crate) fn as_svg(charts: &[Chart]) -> String {
    let height = HEIGHT * charts.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (index, chart) in charts.iter().enumerate() {
        chart.svg_at(&mut svg, index as f64 * HEIGHT);
    }
    svg += "</svg>\n";
    svg
}

/// Writes these charts to a file, by default one in the temporary directory, and returns its path.
pub(crate) fn save(charts: &[Chart], file: Option<&Path>, name: &str) -> io::Result<PathBuf> {
    let path = match file {
        Some(path) => path.to_path_buf(),
        None => std::env::temp_dir().join(format!("semaforo-{name}-{}.svg", std::process::id())),
    };
    fs::write(&path, as_svg(charts))?;
    Ok(path)
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Three digits or so.
fn short(figure: f64) -> String {
    let decimals = match figure {
        figure if figure >= 100.0 => 0,
        figure if figure >= 10.0 => 1,
        figure if figure >= 0.1 => 2,
        _ => 4,
    };
    format!("{figure:.decimals$}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(form: Form) -> Chart {
        Chart {
            title: "Times < 1".to_string(),
            unit: "s",
            form,
            series: vec!["one".to_string(), "two".to_string()],
            places: vec![
                ("first".to_string(), vec![Some(1.0), Some(4.0)]),
                ("second".to_string(), vec![None, Some(2.0)]),
            ],
        }
    }

    #[test]
    fn a_bar_is_as_long_as_its_figure_says() {
        let text = chart(Form::Bars).in_terminal(8);
        let lengths: Vec<_> = text
            .lines()
            .map(|line| line.matches('█').count())
            .filter(|length| *length > 0)
            .collect();
        assert_eq!(lengths, [2, 8, 4], "{text}");
    }

    #[test]
    fn an_svg_has_every_figure_once_and_is_well_formed() {
        for (form, mark) in [(Form::Bars, "font-size=\"9\""), (Form::LogarithmicLines, "<circle")] {
            let svg = as_svg(&[chart(form)]);
            assert_eq!(svg.matches(mark).count(), 3, "{svg}");
            assert!(svg.contains("Times &lt; 1") && svg.ends_with("</svg>\n"));
            assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        }
    }
}
