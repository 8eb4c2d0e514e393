//! A forwarder that loses, doubles, swaps and damages frames by number: every client must count exactly
//! what was done to its frames.

use crate::compare::assert_adds_up;
use crate::world::{CLIENTS, FEW, FEW_RATE, FEW_SECONDS, World};
use usect_core::run::TrialRecord;
use usect_testing::cases;

/// Trials of every client through a forwarder with faults.
fn through(world: &World, faults: &str, size: u16) -> Vec<TrialRecord> {
    let dut = format!("{{ kind = \"forwarder\", faults = {{ {faults} }} }}");
    let traffic = format!("{{ frame_size = {size}, rate = \"{FEW_RATE}\" }}");
    let (run, _) = world.compare(&world.scenario(&dut, &traffic, CLIENTS), &["--duration", FEW_SECONDS]);
    assert_eq!(run.trials.len(), CLIENTS.len());
    for trial in &run.trials {
        let (name, truth) = (&trial.trial.client.name, trial.truth.as_ref().unwrap());
        assert_eq!((trial.measured.counts.sent, said(trial, "forwarded")), (FEW, FEW), "{name}");
        assert_adds_up(&trial.measured.counts, name);
        assert_adds_up(&truth.counts, &format!("truth of {name}"));
    }
    run.trials
}

/// What the DUT says it did.
fn said(trial: &TrialRecord, what: &str) -> u64 {
    trial.dut.iter().find(|(name, _)| name == what).map(|(_, number)| *number).unwrap()
}

#[test]
fn losses_copies_and_swaps_are_counted_exactly() {
    let Some(world) = World::new() else { return };
    let faults = "drop_every = 30, duplicate_every = 45, swap_every = 60";
    for trial in through(&world, faults, 64) {
        let name = &trial.trial.client.name;
        // Of frames 0 to 239: dropped are 14, 44, ...; doubled 22, 67, ...; of the pairs 0 to 119 swapped are 59 and 119.
        let imposed = (said(&trial, "dropped"), said(&trial, "duplicated"), said(&trial, "swapped pairs"));
        assert_eq!(imposed, (8, 5, 2), "{name}");
        let seen = |c: &usect_core::tracker::Counts| (c.lost, c.duplicates, c.reordered, c.corrupted, c.foreign);
        assert_eq!(seen(&trial.measured.counts), (8, 5, 2, 0, 0), "{name}");
        assert_eq!(seen(&trial.truth.unwrap().counts), (8, 5, 2, 0, 0), "truth of {name}");
    }
    world.assert_clean();
}

/// The forwarder flips a bit of the last byte of the payload. The kernel's stack finds the UDP checksum
/// wrong and drops the datagram: lost to a socket. Clients of frames see the frame, and that it is damaged.
/// The in-kernel client and the taps look at headers and number only, by design: to them it arrived.
#[test]
fn damage_is_seen_by_those_who_look() {
    let Some(world) = World::new() else { return };
    // Above 64 bytes the damage is behind the signature, in the fill.
    for &size in cases(&[64, 256]) {
        for trial in through(&world, "corrupt_every = 30", size) {
            let (name, c) = (trial.trial.client.name.as_str(), trial.measured.counts);
            assert_eq!(said(&trial, "corrupted"), 8, "{name}");
            let expected = match name {
                "udp-polling" | "udp-blocking" => (8, 0),
                "packet" | "xdp" | "dpdk" => (8, 8),
                _ => (0, 0),
            };
            assert_eq!((c.lost, c.corrupted), expected, "{name} at {size} bytes: {c:?}");
            assert_eq!((c.duplicates, c.reordered, c.foreign), (0, 0, 0), "{name} at {size} bytes: {c:?}");
            assert_eq!(trial.truth.unwrap().counts.lost, 0, "truth of {name}");
        }
    }
}
