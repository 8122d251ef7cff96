//! The wall clock of a peer jumps, by minutes or days, forwards or back. Its monotonic clock is left alone: timers go by
//! that, and a real machine's doesn't jump either.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::hosts::Hosts;
use crate::hosts::layout::OFFSET;
use crate::nemesis::{Active, Begun, Bite, Wound};

/// The library reads its file anew this often.
const TAKES_EFFECT: Duration = Duration::from_millis(1_200);

/// Where Debian's package has it.
const LIBRARIES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1"];

/// The library that moves clocks, where it is installed.
pub fn library() -> Option<std::path::PathBuf> {
    LIBRARIES.iter().map(Path::new).find(|path| path.exists()).map(Path::to_path_buf)
}

/// A clock that has jumped.
#[derive(Debug)]
pub struct Jumped {
    host: String,
    seconds: i64,
}

/// One peer's clock jumps.
pub fn begin(hosts: &mut Hosts, random: &mut StdRng) -> Result<Begun> {
    let Some(host) = hosts.peers.choose(random) else { return Ok(Begun::Skipped("there is no peer".into())) };
    let size = *[90, 3_600, 86_400, 30 * 86_400].choose(random).unwrap_or(&90);
    let seconds: i64 = if random.random_bool(0.5) { size } else { -size };
    let name = host.name().to_owned();
    let Ok(process) = host.living() else { return Ok(Begun::Skipped(format!("the peer of {name} doesn't run"))) };
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    if !maps.contains("libfaketime") {
        return Ok(Begun::Skipped(
            "libfaketime isn't loaded: apt-get install libfaketime (scripts/jepsen does it)".into(),
        ));
    }
    set(host.machine.folder(), seconds)?;
    let what = format!("the wall clock of {name} jumps by {seconds} s");
    let active = Active::Clock(Jumped { host: name.clone(), seconds });
    Ok(Begun::Installed(Wound { what, targets: vec![name], active }))
}

impl Jumped {
    /// It jumps back. What shows that it had jumped is the peer's own answer to what time it is.
    pub async fn end(self, hosts: &mut Hosts) -> Result<Bite> {
        let host = hosts.named(&self.host)?;
        // At least until the library has looked once.
        tokio::time::sleep(TAKES_EFFECT).await;
        let asked = date_of(&host.grpc().replace(":7400", ":7480")).await;
        set(host.machine.folder(), 0)?;
        let Some(told) = asked else { return Ok(Bite::unseen("the peer doesn't say what time it is")) };
        Ok(bite(told - unix_now(), self.seconds))
    }
}

/// What a date that is off by so much shows of a jump of `seconds`. A server's date never goes back: it stands still until
/// the clock is there again.
fn bite(off: i64, seconds: i64) -> Bite {
    if seconds < 0 {
        return Bite { bit: off < 0, evidence: format!("the peer's date has stood still for {} s", -off) };
    }
    Bite { bit: (off - seconds).abs() < 60, evidence: format!("the peer's clock is off by {off} s") }
}

fn set(folder: &Path, seconds: i64) -> Result<()> {
    let new = folder.join("clock-offset.new");
    std::fs::write(&new, format!("{seconds:+}\n"))?;
    Ok(std::fs::rename(new, folder.join(OFFSET))?)
}

fn unix_now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0))
}

/// The `Date` of an answer by HTTP, in seconds since 1970.
async fn date_of(http: &str) -> Option<i64> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let ask = async {
        let mut stream = tokio::net::TcpStream::connect(http).await.ok()?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").await.ok()?;
        let mut answer = String::new();
        stream.take(16 * 1024).read_to_string(&mut answer).await.ok()?;
        parse_date(answer.lines().find_map(|line| line.strip_prefix("date: ").or(line.strip_prefix("Date: ")))?)
    };
    tokio::time::timeout(Duration::from_secs(2), ask).await.ok()?
}

/// `Mon, 30 Nov 2026 23:40:13 GMT`
fn parse_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, _] = words[..] else { return None };
    let (day, year): (i64, i64) = (day.parse().ok()?, year.parse().ok()?);
    let month = i64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
    let clock: Vec<i64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, seconds] = clock[..] else { return None };
    // Days since 1970 by the civil calendar, with years that begin in March.
    let (shifted, of_year) = (if month <= 2 { year - 1 } else { year }, (month + 9) % 12);
    let era = shifted.div_euclid(400);
    let year_of_era = shifted - era * 400;
    let day_of_year = (153 * of_year + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    Some(days * 86_400 + hours * 3_600 + minutes * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_http_are_read() {
        assert_eq!(parse_date("Thu, 01 Jan 1970 00:00:07 GMT"), Some(7));
        assert_eq!(parse_date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(1_709_208_000));
        assert_eq!(parse_date("nonsense"), None);
    }

    #[test]
    fn a_jump_shows_in_the_date() {
        assert!(bite(3_599, 3_600).bit && !bite(0, 3_600).bit && !bite(-1, 3_600).bit);
        assert!(bite(-2, -3_600).bit && !bite(0, -3_600).bit);
    }

    #[test]
    fn an_offset_is_written_with_its_sign() {
        let folder = tempfile::tempdir().unwrap();
        set(folder.path(), 90).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join(OFFSET)).unwrap(), "+90\n");
        set(folder.path(), -3_600).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join(OFFSET)).unwrap(), "-3600\n");
    }
}
