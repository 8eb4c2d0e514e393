//! A yes to what a file asks to run: files come from others.

use anyhow::{Result, bail};
use std::io::{BufRead, IsTerminal, Write};
use usect_core::printed::on_one_line;
use usect_core::scenario::Scenario;

/// What is to be confirmed.
pub(crate) struct Asked<'a> {
    /// What would run, as it stands in the file.
    pub(crate) what: &'a str,
    /// What it would do: `will run 3 times, to reset the device`.
    pub(crate) does: String,
    /// What to do instead.
    pub(crate) instead: &'static str,
}

/// Asks whoever sits there, unless he said yes beforehand.
///
/// Errors: he doesn't say yes, or nobody sits there.
pub(crate) fn confirm(asked: &Asked<'_>, yes: bool) -> Result<()> {
    let stdin = std::io::stdin();
    let somebody = stdin.is_terminal().then(|| stdin.lock());
    answered(asked, yes, somebody, &mut std::io::stderr().lock())
}

fn answered(asked: &Asked<'_>, yes: bool, somebody: Option<impl BufRead>, terminal: &mut impl Write) -> Result<()> {
    let Asked { what, does, instead } = asked;
    if yes {
        return Ok(());
    }
    let what = on_one_line(what);
    let Some(somebody) = somebody else {
        bail!("`{what}` {does}, and nobody is there to confirm it: add --yes, or {instead}");
    };
    write!(terminal, "`{what}` {does}. Type yes to go on: ")?;
    terminal.flush()?;
    let mut answer = String::new();
    somebody.take(LONGEST_ANSWER).read_line(&mut answer)?;
    if answer.trim() != "yes" {
        bail!("nothing was measured: it was not confirmed; {instead}");
    }
    Ok(())
}

/// Bytes of an answer.
const LONGEST_ANSWER: u64 = 256;

/// Asks whether DPDK may be started as a file says, where that could run other code or touch files.
///
/// Errors: as [`confirm`].
pub(crate) fn of_dpdk(scenario: &Scenario, yes: bool) -> Result<()> {
    let foreign = scenario.dpdk.could_run();
    if foreign.is_empty() {
        return Ok(());
    }
    let asked = Asked {
        what: &foreign.join(" "),
        does: "is to be handed to DPDK's EAL, which may load code and write files for it".into(),
        instead: "take it out of eal in the scenario's [dpdk] table",
    };
    confirm(&asked, yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said, and what comes of an answer; of none where nobody is there.
    fn tried(what: &str, yes: bool, answer: Option<&str>) -> (String, Result<(), String>) {
        let asked = Asked { what, does: "will run 3 times".into(), instead: "leave it out" };
        let mut said = Vec::new();
        let came_to = answered(&asked, yes, answer.map(str::as_bytes), &mut said);
        (String::from_utf8(said).unwrap(), came_to.map_err(|e| e.to_string()))
    }

    #[test]
    fn nothing_runs_without_a_yes() {
        assert_eq!(tried("reboot", true, None), (String::new(), Ok(())));
        assert_eq!(tried("reboot", false, Some("yes\n")).1, Ok(()));
        for answer in ["", "no\n", "y\n", "yes, but\n"] {
            assert!(tried("reboot", false, Some(answer)).1.unwrap_err().contains("not confirmed"));
        }
        let why = tried("reboot", false, None).1.unwrap_err();
        assert_eq!(why, "`reboot` will run 3 times, and nobody is there to confirm it: add --yes, or leave it out");
    }

    #[test]
    fn what_is_asked_can_not_be_painted_over() {
        let (said, _) = tried("rm -rf /\r\x1b[2Kip link show\n", false, Some("yes\n"));
        assert_eq!(said, "`rm -rf /\\u000d\\u001b[2Kip link show\\n` will run 3 times. Type yes to go on: ");
        assert!(!tried("a\x1b", false, None).1.unwrap_err().contains('\x1b'));
    }

    #[test]
    fn a_scenario_that_loads_code_into_dpdk_is_asked_about() {
        let scenario = |eal: &str| {
            let text = format!(
                "title = \"t\"\ntraffic = {{ frame_size = 64, rate = \"1 kpps\" }}\ndut = {{ kind = \"external\" }}\n[dpdk]\neal = [{eal}]\n\
                 [[client]]\nname = \"dpdk\"\nengine = \"dpdk\"\ntx = \"dpdk:0\"\nrx = \"dpdk:1\"\n"
            );
            Scenario::parse(&text).unwrap()
        };
        for harmless in
            ["", "\"--log-level=8\"", "\"--log-level\", \"8\"", "\"--vdev=net_ring0,size=64\", \"-m\", \"64\""]
        {
            assert!(of_dpdk(&scenario(harmless), false).is_ok(), "{harmless}");
        }
        for foreign in [
            "\"-d\", \"evil.so\"",
            "\"-devil.so\"",
            "\"--vdev=net_pcap0,tx_pcap=/etc/x\"",
            "\"--trace-dir=/etc\"",
            "\"evil.so\"",
        ] {
            assert_ne!(scenario(foreign).dpdk.could_run(), Vec::<&str>::new(), "{foreign}");
            assert!(of_dpdk(&scenario(foreign), true).is_ok(), "{foreign}");
        }
        let mixed = scenario("\"--log-level\", \"8\", \"-d\", \"evil.so\"");
        assert_eq!(mixed.dpdk.could_run(), ["-d", "evil.so"]);
    }
}
