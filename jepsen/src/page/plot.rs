//! The sheet that everything is drawn on: time from left to right, and bands below each other.

use std::fmt::Write as _;

use crate::page::escape;
use crate::page::tables::seconds;

/// Where time begins and ends on the sheet.
const LEFT: f64 = 96.0;
/// See above.
const RIGHT: f64 = 1_180.0;
const WIDTH: f64 = 1_200.0;

/// A drawing in the making.
#[derive(Debug)]
pub struct Sheet {
    until: f64,
    /// How far down it is drawn.
    pub y: f64,
    body: String,
    below: String,
}

impl Sheet {
    /// For so many nanoseconds.
    pub fn new(until: u64) -> Self {
        Self { until: seconds(until).max(1.0), y: 8.0, body: String::new(), below: String::new() }
    }

    /// Where a time stands.
    pub fn x(&self, at: u64) -> f64 {
        LEFT + (RIGHT - LEFT) * (seconds(at) / self.until).clamp(0.0, 1.0)
    }

    /// A heading of its own line.
    pub fn title(&mut self, text: &str) {
        self.y += 20.0;
        let _ = writeln!(self.body, "<text class=\"title\" x=\"8\" y=\"{:.1}\">{}</text>", self.y, escape(text));
        self.y += 8.0;
    }

    /// What stands left of a band.
    pub fn name(&mut self, text: &str, y: f64) {
        let x = LEFT - 8.0;
        let _ = writeln!(
            self.body,
            "<text class=\"name\" x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>",
            escape(text)
        );
    }

    /// A bar from one time to another; a colour, or a class where it begins with a dot.
    pub fn bar(&mut self, (from, to): (u64, u64), y: f64, height: f64, paint: &str, tip: &str) -> f64 {
        let (x, width) = (self.x(from), (self.x(to) - self.x(from)).max(1.5));
        let paint = match paint.strip_prefix('.') {
            Some(class) => format!("class=\"{class}\""),
            None => format!("fill=\"{paint}\""),
        };
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" rx=\"2\" {paint}><title>{}</title></rect>",
            escape(tip)
        );
        width
    }

    /// Text in a bar.
    pub fn inside(&mut self, from: u64, y: f64, text: &str) {
        let x = self.x(from) + 4.0;
        let _ = writeln!(self.body, "<text class=\"inside\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
    }

    /// A column of a histogram, from below.
    pub fn column(&mut self, (from, to): (u64, u64), bottom: f64, height: f64, class: &str) {
        let (x, width) = (self.x(from), (self.x(to) - self.x(from) - 0.5).max(0.5));
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>",
            bottom - height
        );
    }

    /// A point.
    pub fn dot(&mut self, at: u64, y: f64, class: &str, radius: f64) {
        let x = self.x(at);
        let _ = writeln!(self.body, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>");
    }

    /// A line across, with what it stands for.
    pub fn rule(&mut self, y: f64, text: &str) {
        let _ = writeln!(self.below, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        let x = LEFT - 8.0;
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", y + 4.0, escape(text));
    }

    /// A shade behind what is drawn between two heights.
    pub fn shade(&mut self, (from, to): (u64, u64), top: f64, bottom: f64) {
        let (x, width, height) = (self.x(from), (self.x(to) - self.x(from)).max(1.0), bottom - top);
        let _ = writeln!(
            self.below,
            "<rect class=\"shade\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    /// The whole, with its axis of time.
    pub fn finish(mut self) -> String {
        self.y += 6.0;
        let step = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0]
            .into_iter()
            .find(|step| self.until / step <= 16.0)
            .unwrap_or(1_800.0);
        let mut at = 0.0;
        while at <= self.until {
            let x = LEFT + (RIGHT - LEFT) * at / self.until;
            let _ = writeln!(
                self.below,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"8\" y2=\"{:.1}\"/>",
                self.y
            );
            let _ = writeln!(
                self.body,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at} s</text>",
                self.y + 14.0
            );
            at += step;
        }
        let height = self.y + 24.0;
        format!(
            "<div class=\"scroll\"><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"timeline\">{}{}</svg></div>",
            self.below, self.body
        )
    }
}
