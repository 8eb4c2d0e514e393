//! Running iproute2, ethtool and their like.

use crate::error::LabError;
use crate::netns::within;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};

/// Runs a program inside a namespace (`None`: the caller's) and returns what it printed. Its locale is
/// `C`, and the directories of system programs are searched even if `PATH` lacks them.
///
/// Errors: the namespace or the program doesn't exist, or the program failed.
pub fn run(netns: Option<&str>, program: &str, args: &[&str]) -> Result<String, LabError> {
    let mut command = command(program, args);
    command.stdin(Stdio::null());
    let output = within(netns, || command.output())?.map_err(|e| unstarted(program, args, e))?;
    checked(&spelled(netns, program, args), output)
}

/// Runs `ip -batch` on these commands. The child has the journal's lock as its standard output, to
/// which it prints nothing: if this process is killed, whoever recovers waits until the child is done,
/// and so can't miss what it still makes. A Ctrl-C at the terminal doesn't reach it.
pub(crate) fn ip_batch(lock: &File, netns: Option<&str>, script: &str) -> Result<(), LabError> {
    let args = ["-batch", "-"];
    let failed = |e| unstarted("ip", &args, e);
    let mut command = command("ip", &args);
    command.stdin(Stdio::piped()).stdout(lock.try_clone().map_err(failed)?).stderr(Stdio::piped()).process_group(0);
    let child = within(netns, || command.spawn())?.map_err(failed)?;
    let output = feed(child, script).map_err(failed)?;
    let culprit = culprit(script, &String::from_utf8_lossy(&output.stderr));
    checked(&spelled(netns, "ip", &[culprit]), output).map(drop)
}

/// Writes the script to the child and waits for it. A child that died early says why itself.
fn feed(mut child: Child, script: &str) -> io::Result<Output> {
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(script.as_bytes());
    }
    child.wait_with_output()
}

pub(crate) fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{path}{}/usr/sbin:/sbin:/usr/bin:/bin", if path.is_empty() { "" } else { ":" });
    command.args(args).env("LC_ALL", "C").env("PATH", path);
    command
}

/// The command as one would type it.
fn spelled(netns: Option<&str>, program: &str, args: &[&str]) -> String {
    let inside = netns.map_or(String::new(), |name| format!("ip netns exec {name} "));
    format!("{inside}{program} {}", args.join(" ")).trim_end().to_owned()
}

pub(crate) fn unstarted(program: &str, args: &[&str], error: io::Error) -> LabError {
    match error.kind() {
        io::ErrorKind::NotFound => {
            LabError::MissingProgram { program: program.to_owned(), package: package(program).to_owned() }
        }
        _ => LabError::Failed { command: spelled(None, program, args), why: error.to_string() },
    }
}

/// The Debian package that holds a program.
fn package(program: &str) -> &str {
    match program {
        "ip" | "tc" | "bridge" | "ss" => "iproute2",
        "ovs-vswitchd" | "ovs-vsctl" | "ovs-ofctl" | "ovsdb-server" | "ovsdb-tool" => "openvswitch-switch",
        "ps" | "sysctl" => "procps",
        "dpdk-testpmd" | "testpmd" => "dpdk",
        other => other,
    }
}

fn checked(command: &str, output: Output) -> Result<String, LabError> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let why = stderr.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
    let why = why.unwrap_or_else(|| output.status.to_string());
    Err(LabError::Failed { command: command.to_owned(), why })
}

/// The line of a batch that `ip` complains about with `Command failed -:LINE`.
fn culprit<'a>(script: &'a str, stderr: &str) -> &'a str {
    let number = stderr.lines().find_map(|line| line.strip_prefix("Command failed -:")?.trim().parse::<usize>().ok());
    number.and_then(|n| script.lines().nth(n.checked_sub(1)?)).unwrap_or("-batch -")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let said = run(None, "no-such-program", &[]).unwrap_err().to_string();
        assert_eq!(said, "the program `no-such-program` is not installed: `apt install no-such-program`");
        assert_eq!(package("tc"), "iproute2");
    }

    #[test]
    fn a_failure_quotes_command_and_first_line() {
        let said = run(None, "sh", &["-c", "echo; echo one >&2; echo two >&2; exit 3"]).unwrap_err().to_string();
        assert!(said.ends_with("failed: one"), "{said}");
        let said = run(None, "sh", &["-c", "exit 3"]).unwrap_err().to_string();
        assert!(said.ends_with("failed: exit status: 3"), "{said}");
    }

    #[test]
    fn a_batch_names_the_line_that_failed() {
        assert_eq!(culprit("link a\nlink b\n", "RTNETLINK answers: x\nCommand failed -:2\n"), "link b");
        assert_eq!(culprit("link a\n", "Command failed -:0\n"), "-batch -");
    }

    proptest! {
        #[test]
        fn any_complaint_is_survived(script in ".*", stderr in "(Command failed -:)?.*") {
            culprit(&script, &stderr);
        }
    }
}
