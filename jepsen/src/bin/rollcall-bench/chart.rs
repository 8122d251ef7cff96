//! Line charts as SVG: two axes, a few series, each named at its end.

use std::fmt::Write as _;

use rollcall_jepsen::page::escape;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
/// Right of the plot, for the names of the series.
const RIGHT: f64 = WIDTH - 110.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = HEIGHT - 52.0;

/// Told apart by eyes that see red and green alike, on light and on dark ground.
const COLOURS: [&str; 4] = ["#2f6fde", "#d9730d", "#2f9e75", "#8a63d2"];

/// Names nearer to each other than this would be written over each other.
const NAME_HEIGHT: f64 = 14.0;

/// A chart.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Its file's name, without `.svg`.
    pub file: &'static str,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// One of its two axes.
#[derive(Debug, Clone)]
pub struct Axis {
    pub label: &'static str,
    pub is_log: bool,
    /// What is written at which values; empty: round numbers.
    pub ticks: Vec<(f64, String)>,
}

/// One line.
#[derive(Debug, Clone)]
pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

impl Axis {
    /// Equal steps.
    pub fn linear(label: &'static str) -> Self {
        Self { label, is_log: false, ticks: Vec::new() }
    }

    /// Equal factors.
    pub fn log(label: &'static str) -> Self {
        Self { label, is_log: true, ticks: Vec::new() }
    }

    /// With these values written at it.
    pub fn ticks(mut self, ticks: impl IntoIterator<Item = (f64, String)>) -> Self {
        self.ticks = ticks.into_iter().collect();
        self
    }
}

/// An axis that knows what is on it.
struct Scale {
    is_log: bool,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Scale {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.chain(axis.ticks.iter().map(|tick| tick.0)).filter(|it| it.is_finite()).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high, mut ticks) = if axis.is_log {
            let (low, high) = (least.max(1e-6), most.max(1e-6) * 1.1);
            (low, high, round_factors(low, high))
        } else {
            let (high, step) = round_steps(most.max(1e-9));
            let count = (high / step).round() as usize;
            (0.0, high, (0..=count).map(|at| at as f64 * step).collect())
        };
        let mut named: Vec<(f64, String)> = ticks.drain(..).map(|at| (at, crate::row::number(at))).collect();
        if !axis.ticks.is_empty() {
            named.clone_from(&axis.ticks);
        }
        Self { is_log: axis.is_log, low, high, ticks: named }
    }

    /// From 0 at its low end to 1 at its high end.
    fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln().max(1e-9)
        } else {
            (value - self.low) / (self.high - self.low).max(1e-9)
        };
        share.clamp(0.0, 1.0)
    }
}

/// A round number above `most`, and steps to it: at most six.
fn round_steps(most: f64) -> (f64, f64) {
    let ten = 10_f64.powf(most.log10().floor() - 1.0);
    let fits = |step: &f64| most / step <= 6.0;
    let step = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0].map(|step| step * ten).into_iter().find(fits).unwrap_or(most);
    ((most / step).ceil() * step, step)
}

/// 1, 2, 5, 10, 20, … or, where that would be too many, powers of ten.
fn round_factors(low: f64, high: f64) -> Vec<f64> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let within = |value: &f64| *value >= low * 0.999 && *value <= high;
    let with = |steps: &[f64]| -> Vec<f64> {
        decades
            .clone()
            .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)))
            .filter(within)
            .collect()
    };
    let many = with(&[1.0, 2.0, 5.0]);
    if many.len() <= 9 { many } else { with(&[1.0]) }
}

impl Chart {
    /// As SVG: readable on light and on dark ground.
    pub fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let (x, y) = (Scale::new(&self.x, points().map(|it| it.0)), Scale::new(&self.y, points().map(|it| it.1)));
        let mut body = String::new();
        self.draw_axes(&mut body, &x, &y);
        let mut ends = Vec::new();
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let place = |(at, value): &(f64, f64)| {
                (LEFT + (RIGHT - LEFT) * x.place(*at), BOTTOM - (BOTTOM - TOP) * y.place(*value))
            };
            let placed: Vec<(f64, f64)> = series.points.iter().map(place).collect();
            let path: Vec<String> = placed.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                body,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                path.join(" ")
            );
            if placed.len() <= 20 {
                for (x, y) in &placed {
                    let _ = writeln!(body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
                }
            }
            if let Some((x, y)) = placed.last() {
                ends.push((*x, *y, series.name.as_str(), *colour));
            }
        }
        draw_names(&mut body, ends);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n\
             <style>text{{font:12px system-ui,sans-serif;fill:#333}}.title{{font-size:15px;font-weight:600}}\
             .axis{{stroke:#8886}}.ground{{fill:#fff}}\
             @media(prefers-color-scheme:dark){{text{{fill:#ddd}}.ground{{fill:#161b22}}}}</style>\n\
             <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
             <text class=\"title\" x=\"16\" y=\"26\">{title}</text>\n{body}</svg>\n",
            title = escape(&self.title)
        )
    }

    fn draw_axes(&self, body: &mut String, x: &Scale, y: &Scale) {
        for (value, name) in &x.ticks {
            let at = LEFT + (RIGHT - LEFT) * x.place(*value);
            let _ = writeln!(
                body,
                "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>\
                 <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                BOTTOM + 18.0,
                escape(name)
            );
        }
        for (value, name) in &y.ticks {
            let at = BOTTOM - (BOTTOM - TOP) * y.place(*value);
            let _ = writeln!(
                body,
                "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.0,
                escape(name)
            );
        }
        let middle = (LEFT + RIGHT) / 2.0;
        let _ = writeln!(
            body,
            "<text x=\"{middle}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text x=\"16\" y=\"{:.1}\">{}</text>",
            HEIGHT - 12.0,
            escape(self.x.label),
            TOP - 8.0,
            escape(self.y.label)
        );
    }
}

/// At the ends of their lines, from top to bottom, none over another.
fn draw_names(body: &mut String, mut ends: Vec<(f64, f64, &str, &str)>) {
    ends.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut free_from = f64::NEG_INFINITY;
    for (x, y, name, colour) in ends {
        let y = y.max(free_from);
        free_from = y + NAME_HEIGHT;
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\" style=\"fill:{colour};font-weight:600\">{}</text>",
            x + 9.0,
            y + 4.0,
            escape(name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(x: Axis, y: Axis) -> String {
        let series = |name: &str, by: f64| Series {
            name: name.to_owned(),
            points: [1.0, 16.0, 64.0, 256.0].map(|at| (at, at * by)).to_vec(),
        };
        Chart { file: "x", title: "a < b".to_owned(), x, y, series: vec![series("one", 2.0), series("other", 2.0)] }
            .svg()
    }

    #[test]
    fn every_series_is_drawn_and_named() {
        let svg = chart(Axis::log("clients"), Axis::linear("writes/s"));
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 8);
        assert!(svg.contains(">one<") && svg.contains(">other<") && svg.contains("a &lt; b"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn names_at_the_same_place_are_not_written_over_each_other() {
        let svg = chart(Axis::log("clients"), Axis::linear("writes/s"));
        let heights: Vec<f64> = ["one", "other"]
            .map(|name| {
                let line = svg.lines().find(|line| line.contains(&format!(">{name}<"))).unwrap();
                line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
            })
            .to_vec();
        assert!((heights[0] - heights[1]).abs() >= NAME_HEIGHT, "{heights:?}");
    }

    #[test]
    fn axes_are_round() {
        assert_eq!(round_steps(512.0), (600.0, 100.0));
        assert_eq!(round_steps(7.0), (8.0, 2.0));
        assert_eq!(round_factors(1.0, 256.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0]);
        assert_eq!(round_factors(1.0, 1e5), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
    }
}
