//! What the doctor says.

use crate::output::{Page, Tone, View, wrap};
use crate::view::{At, DoctorView, FindingView};

impl View for At<DoctorView> {
    fn to_table(&self, page: &Page) -> String {
        let doctor = &self.item;
        let mut blocks: Vec<_> = doctor.findings.iter().map(|finding| finding_lines(finding, page)).collect();
        let (errors, all) = (doctor.error_count(), doctor.findings.len());
        let verdict = match (errors, all - errors) {
            (0, 0) => Tone::Good.paint("all is well"),
            (errors, warnings) => {
                let counts = [(errors, "error", Tone::Bad), (warnings, "warning", Tone::Warning)];
                let counts = counts.iter().filter(|(count, ..)| *count > 0);
                counts.map(|(count, what, tone)| tone.paint(&counted(*count, what))).collect::<Vec<_>>().join(", ")
            }
        };
        let (checks, peers) = (doctor.checks as usize, doctor.peers_asked as usize);
        blocks.push(format!("{} over {}: {verdict}", counted(checks, "check"), counted(peers, "peer")));
        blocks.join("\n\n")
    }
}

fn finding_lines(finding: &FindingView, page: &Page) -> String {
    let tone = if finding.is_error() { Tone::Bad } else { Tone::Warning };
    let room = usize::from(page.width).saturating_sub(2).max(20);
    let mut lines = vec![format!("{}  {}: {}", tone.paint(&finding.severity), finding.subject, finding.check)];
    lines.extend(wrap(&finding.text, room).into_iter().map(|line| format!("  {line}")));
    if let Some(advice) = &finding.advice {
        lines.extend(wrap(&format!("→ {advice}"), room).into_iter().map(|line| format!("  {line}")));
    }
    lines.join("\n")
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
