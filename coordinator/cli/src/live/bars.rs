//! A watch that somebody looks at: a bar per node, drawn in place.

use console::measure_text_width;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::clock::LiveClock;
use super::position::{FULL, position_of, soaked_ms};
use crate::output::{Tone, millis};
use crate::table::{phase_text, rollout_header, step_note};
use crate::view::{RolloutView, StepView};

const BAR_WIDTH: usize = 24;
const LONGEST_NAME: usize = 24;
/// Phase and its duration, in front of a step's note.
const PHASE_WIDTH: usize = 10;
const LASTS_WIDTH: usize = 6;
/// Lines that aren't steps: head, status, waiting, what a person is asked for, and what doesn't fit.
const FRAME_LINES: usize = 7;

/// The picture of one rollout.
pub struct Bars {
    screen: MultiProgress,
    head: ProgressBar,
    status: ProgressBar,
    rows: Vec<ProgressBar>,
    rest: ProgressBar,
    waiting: ProgressBar,
    ask: ProgressBar,
    rollout: Option<RolloutView>,
    clock: LiveClock,
    is_connected: bool,
}

impl Bars {
    pub fn new() -> Self {
        let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        let text = || {
            let bar = screen.add(ProgressBar::new(0));
            bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is well-formed"));
            bar
        };
        let (head, status, rest, waiting, ask) = (text(), text(), text(), text(), text());
        Self {
            screen,
            head,
            status,
            rows: Vec::new(),
            rest,
            waiting,
            ask,
            rollout: None,
            clock: LiveClock::new(0),
            is_connected: true,
        }
    }

    /// Takes an answer in and draws it.
    pub fn update(&mut self, rollout: &RolloutView) {
        self.clock = LiveClock::new(rollout.now_at_cluster_ms.unwrap_or_default());
        self.is_connected = true;
        self.rollout = Some(rollout.clone());
        self.draw();
    }

    /// Shows that nothing is heard.
    pub fn reconnecting(&mut self) {
        if std::mem::replace(&mut self.is_connected, false) {
            self.clock.stop();
        }
        self.draw();
    }

    /// Draws what there is, with the clocks as they are now.
    pub fn draw(&mut self) {
        let Some(rollout) = self.rollout.take() else { return };
        let (height, width) = terminal_size();
        self.head.set_message(truncate(&head_line(&rollout), width));
        self.status.set_message(truncate(&self.status_line(&rollout), width));
        let shown = shown_steps(&rollout.steps, height.saturating_sub(FRAME_LINES).max(3));
        self.resize(shown.len());
        let name_width = shown.iter().map(|step| measure_text_width(&step.node_name)).max().unwrap_or(0);
        let name_width = name_width.min(LONGEST_NAME);
        for (bar, step) in self.rows.iter().zip(&shown) {
            self.draw_row(bar, step, &rollout, name_width, width);
        }
        self.rest.set_message(rest_line(&rollout, &shown));
        self.waiting.set_message(truncate(&self.waiting_line(&rollout), width));
        self.ask.set_message(truncate(&rollout.asks_for().unwrap_or_default(), width));
        self.rollout = Some(rollout);
    }

    /// Leaves the last picture on the screen.
    pub fn close(&mut self) {
        for bar in [&self.head, &self.status, &self.rest, &self.waiting, &self.ask].into_iter().chain(&self.rows) {
            if !bar.is_finished() {
                bar.abandon();
            }
        }
    }

    fn resize(&mut self, count: usize) {
        while self.rows.len() > count {
            if let Some(bar) = self.rows.pop() {
                self.screen.remove(&bar);
            }
        }
        while self.rows.len() < count {
            let bar = self.screen.insert_before(&self.rest, ProgressBar::new(FULL));
            self.rows.push(bar);
        }
    }

    fn draw_row(&self, bar: &ProgressBar, step: &StepView, rollout: &RolloutView, name_width: usize, width: usize) {
        let since_heard = if rollout.is_ended() { 0 } else { self.clock.since_heard_ms() };
        let name = truncate(&step.node_name, name_width);
        let padding = " ".repeat(name_width - measure_text_width(&name));
        let room = width.saturating_sub(name_width + BAR_WIDTH + 6);
        bar.set_style(style_of(step));
        bar.set_prefix(format!("{name}{padding}"));
        bar.set_position(position_of(step, since_heard));
        bar.set_message(truncate(&self.step_text(step, rollout, since_heard), room));
    }

    /// `verifying  4s    healthy for 4s of 10s`
    fn step_text(&self, step: &StepView, rollout: &RolloutView, since_heard_ms: u64) -> String {
        let is_resting = matches!(step.phase.as_str(), "queued" | "succeeded" | "skipped" | "failed");
        let lasts = match step_took_ms(step) {
            Some(took) if step.phase == "succeeded" => millis(took),
            _ if is_resting || rollout.is_ended() => String::new(),
            _ => step.phase_since_at_cluster_ms.map(|since| millis(self.clock.lasts_ms(since))).unwrap_or_default(),
        };
        let mut soaking = step.clone();
        soaking.soaked_ms = soaked_ms(step, since_heard_ms);
        let mut note = step_note(&soaking);
        let waiting = step.waiting_on.as_ref().filter(|waiting| waiting.is_news() && !is_resting);
        if let Some(since) = waiting.and_then(|waiting| waiting.since_at_cluster_ms) {
            note.push_str(&format!(" (for {})", millis(self.clock.lasts_ms(since))));
        }
        let phase = Tone::of(&step.phase).paint(&format!("{:PHASE_WIDTH$}", phase_text(step)));
        format!("{phase}  {lasts:LASTS_WIDTH$}  {}", note_tone(step).paint(&note))
    }

    fn status_line(&self, rollout: &RolloutView) -> String {
        let mut parts = rollout_header(rollout);
        if let Some(started) = rollout.started_at_cluster_ms {
            let end = rollout.ended_at_cluster_ms.unwrap_or_else(|| self.clock.now_ms());
            parts.push(millis(end.saturating_sub(started)));
        }
        if !self.is_connected {
            parts.push(Tone::Bad.paint("connection lost, trying the other peers"));
        }
        parts.join(" · ")
    }

    fn waiting_line(&self, rollout: &RolloutView) -> String {
        let waiting = rollout.waiting_on.as_ref().filter(|waiting| !rollout.is_ended() && !waiting.is_status());
        let Some(waiting) = waiting else { return String::new() };
        let lasts = waiting.since_at_cluster_ms.map(|since| format!(" (for {})", millis(self.clock.lasts_ms(since))));
        format!("waits on {}{}", Tone::Warning.paint(&waiting.text()), lasts.unwrap_or_default())
    }
}

fn head_line(rollout: &RolloutView) -> String {
    let name = console::Style::new().bold().apply_to(&rollout.rollout_id);
    format!("{name}  {} to {}", rollout.group, rollout.target)
}

fn note_tone(step: &StepView) -> Tone {
    if step.failure.is_some() {
        Tone::Bad
    } else if step.waiting_on.as_ref().is_some_and(|waiting| waiting.is_news()) && step.phase != "queued" {
        Tone::Warning
    } else {
        Tone::Dim
    }
}

fn style_of(step: &StepView) -> ProgressStyle {
    let tone = match Tone::of(&step.phase) {
        Tone::Busy if step.is_way_back() => Tone::Warning,
        tone => tone,
    };
    let colours = match tone {
        Tone::Good => "green/238",
        Tone::Busy => "cyan/238",
        Tone::Bad => "red/238",
        Tone::Warning => "yellow/238",
        Tone::Dim | Tone::Plain => "238/238",
    };
    ProgressStyle::with_template(&format!("{{prefix}}  {{bar:{BAR_WIDTH}.{colours}}}  {{msg}}"))
        .expect("the template is well-formed")
        .progress_chars(if console::colors_enabled() { "━╸━" } else { "━╸·" })
}

/// How long a step's last attempt took, from its grant to its end.
fn step_took_ms(step: &StepView) -> Option<u64> {
    let granted = step.history.iter().rev().find(|time| time.phase == "granted")?;
    Some(step.phase_since_at_cluster_ms?.saturating_sub(granted.entered_at_cluster_ms?))
}

/// As many steps as have room, in their order: first what fails or moves, then what comes next, then what is done.
fn shown_steps(steps: &[StepView], room: usize) -> Vec<&StepView> {
    let rank = |step: &StepView| match step.phase.as_str() {
        "failed" => 0,
        "queued" => 2,
        "succeeded" | "skipped" => 3,
        _ => 1,
    };
    let mut order: Vec<_> = (0..steps.len()).collect();
    order.sort_by_key(|index| rank(&steps[*index]));
    order.truncate(room);
    order.sort_unstable();
    order.into_iter().map(|index| &steps[index]).collect()
}

fn rest_line(rollout: &RolloutView, shown: &[&StepView]) -> String {
    let hidden = rollout.steps.len() - shown.len();
    if hidden == 0 {
        return String::new();
    }
    let done = rollout.steps.iter().filter(|step| step.phase == "succeeded").count()
        - shown.iter().filter(|step| step.phase == "succeeded").count();
    Tone::Dim.paint(&format!("… and {hidden} more nodes, {done} of them done"))
}

fn terminal_size() -> (usize, usize) {
    let (height, width) = console::Term::stdout().size();
    (usize::from(height), usize::from(width))
}

fn truncate(text: &str, width: usize) -> String {
    console::truncate_str(text, width, "…").into_owned()
}
