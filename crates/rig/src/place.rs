//! Which thread runs on which core.

use usect_core::port_name::Engine;
use usect_core::scenario::{CoreSpec, Scenario, Wait};

/// The cores of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// The sending thread's.
    pub sender: usize,
    /// The receiving thread's; one thread does both where it is the sender's.
    pub receiver: usize,
    /// The DUT's or the reflector's thread's, where one of them spins.
    pub dut: Option<usize>,
    /// That of the forwarder's second stream, where there is one to spare; otherwise one thread has both.
    pub dut_back: Option<usize>,
    /// That of the other direction's thread, where both are sent at once.
    pub back: usize,
}

impl Placement {
    /// Whether a DUT's work is done by the receiving thread, which is not the sender's.
    pub(crate) fn shares(&self) -> bool {
        self.dut == Some(self.receiver) && self.sender != self.receiver
    }
}

/// The cores on which a scenario is measured.
///
/// Errors: as [`place`].
pub fn measuring(scenario: &Scenario, online: &[usize]) -> Result<Vec<usize>, String> {
    let Placement { sender, receiver, dut, dut_back, back } = place(scenario, online)?;
    let pairs = scenario.clients.iter().flat_map(|client| &client.pairs).map(|pair| pair.core);
    let back = scenario.traffic.both.then_some(back);
    Ok([sender, receiver].into_iter().chain(dut).chain(dut_back).chain(back).chain(pairs).collect())
}

/// Chooses cores for a scenario among those that are there; what the user named is kept.
///
/// The last core sends, because the first one takes most interrupts and housekeeping. A spinning DUT or
/// reflector gets a core of its own: two spinning threads on one core would wait for each other's
/// scheduler slices. Where trains leave and there are two cores, the receiving thread does the DUT's work besides,
/// because a thread that sends a train would find its head no sooner than all have left.
pub fn place(scenario: &Scenario, online: &[usize]) -> Result<Placement, String> {
    check_named(&scenario.cores, online)?;
    let polls = scenario.clients.iter().any(|c| c.wait == Wait::Poll);
    let reflects = scenario.traffic.mode.returns() && !scenario.dut.is_external() && polls;
    let spinning = usize::from(scenario.dut.spins()) + usize::from(reflects);
    if spinning == 2 && online.len() < 3 {
        return Err(
            "a user-space forwarder and a polling reflector need three cores: choose another dut or one-way mode"
                .into(),
        );
    }
    let pairs: Vec<usize> = scenario.clients.iter().flat_map(|c| &c.pairs).map(|pair| pair.core).collect();
    if let Some(core) = pairs.iter().find(|core| !online.contains(core)) {
        return Err(no_core(*core, "a pair", online));
    }
    let free: Vec<usize> = online.iter().copied().filter(|core| !pairs.contains(core)).collect();
    let one_way = !scenario.traffic.mode.returns() && !scenario.traffic.both;
    let may_share = scenario.dut.spins() && one_way;
    let trains = scenario.traffic.pattern.train().is_some();
    let placement = choose(&scenario.cores, &free, spinning > 0, may_share && trains)?;
    check_pairs(scenario, &placement)?;
    if spinning == 2 && [Some(placement.sender), placement.dut].contains(&Some(placement.receiver)) {
        return Err(format!("the reflector spins on the receiver's core, {}: give it its own", placement.receiver));
    }
    if scenario.traffic.both && polls && placement.back == placement.sender {
        return Err(format!(
            "both directions at once need a core each besides a spinning DUT's, and core {} is left for both: name others \
             under [cores], choose another dut, or one direction",
            placement.back
        ));
    }
    let polling = [placement.sender, placement.receiver, placement.back];
    let duts = [placement.dut, placement.dut_back];
    if let Some(core) = placement.dut.filter(|_| placement.dut == placement.dut_back) {
        return Err(format!("core {core} is named for both of the forwarder's streams: leave dut_back out"));
    }
    let shares = may_share && placement.shares();
    if let Some(core) =
        duts.into_iter().flatten().find(|core| spinning > 0 && polls && polling.contains(core) && !shares)
    {
        return Err(format!(
            "core {core} is named for the dut or reflector and for a client, and both spin: give each its own"
        ));
    }
    Ok(placement)
}

/// Each pair's thread spins on a core of its own, unless its client blocks.
fn check_pairs(scenario: &Scenario, placement: &Placement) -> Result<(), String> {
    for client in scenario.clients.iter().filter(|c| c.wait == Wait::Poll && !c.pairs.is_empty()) {
        // Where the kernel receives, no thread spins.
        let receiver = (client.engine != Engine::Kernel).then_some(placement.receiver);
        let mut taken: Vec<usize> = [placement.sender].into_iter().chain(receiver).collect();
        for pair in &client.pairs {
            if taken.contains(&pair.core) {
                let name = &client.name;
                return Err(format!(
                    "client `{name}`: core {} has a thread that spins already; give each pair its own, and the first \
                     one sender and receiver under [cores]",
                    pair.core
                ));
            }
            taken.push(pair.core);
        }
    }
    Ok(())
}

fn choose(named: &CoreSpec, online: &[usize], dut_spins: bool, shares: bool) -> Result<Placement, String> {
    let mut free: Vec<usize> = online.to_vec();
    free.retain(|core| ![named.sender, named.receiver, named.dut, named.dut_back, named.back].contains(&Some(*core)));
    let shared = free.last().or(online.last()).copied().ok_or("this process may run on no core at all")?;
    let sender = named.sender.or_else(|| free.pop()).unwrap_or(shared);
    let dut = match (named.dut, dut_spins) {
        (Some(core), _) => Some(core),
        (None, true) => {
            Some(free.pop().ok_or("a spinning dut or reflector needs a core of its own, and there is none left")?)
        }
        (None, false) => None,
    };
    let beside = dut.filter(|core| shares && *core != sender);
    let receiver = named.receiver.or_else(|| free.pop()).or(beside).unwrap_or(sender);
    // Core 0 is left alone where there are others.
    let spare = if dut_spins && free.len() > 1 { free.pop() } else { None };
    let dut_back = named.dut_back.or(spare).filter(|_| dut_spins);
    Ok(Placement { sender, receiver, dut, dut_back, back: named.back.unwrap_or(receiver) })
}

fn check_named(named: &CoreSpec, online: &[usize]) -> Result<(), String> {
    for (role, core) in [
        ("sender", named.sender),
        ("receiver", named.receiver),
        ("dut", named.dut),
        ("dut_back", named.dut_back),
        ("back", named.back),
    ] {
        if let Some(core) = core.filter(|c| !online.contains(c)) {
            return Err(no_core(core, &format!("cores.{role}"), online));
        }
    }
    Ok(())
}

fn no_core(core: usize, who: &str, online: &[usize]) -> String {
    format!("{who}: there is no core {core} to run on; usable are {online:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(named: CoreSpec, online: &[usize], dut_spins: bool) -> (usize, usize, Option<usize>) {
        let p = choose(&named, online, dut_spins, false).unwrap();
        (p.sender, p.receiver, p.dut)
    }

    #[test]
    fn two_cores_are_shared_as_the_dut_needs() {
        assert_eq!(placed(CoreSpec::default(), &[0, 1], false), (1, 0, None));
        assert_eq!(placed(CoreSpec::default(), &[0, 1], true), (1, 1, Some(0)));
    }

    #[test]
    fn trains_on_two_cores_leave_the_dut_to_the_receiver() {
        let placement = choose(&CoreSpec::default(), &[0, 1], true, true).unwrap();
        assert_eq!((placement.sender, placement.receiver, placement.dut), (1, 0, Some(0)));
        assert!(placement.shares());
        let placement = choose(&CoreSpec::default(), &[0, 1, 2], true, true).unwrap();
        assert_eq!((placement.sender, placement.receiver, placement.dut), (2, 0, Some(1)));
    }

    #[test]
    fn enough_cores_give_each_thread_its_own() {
        assert_eq!(placed(CoreSpec::default(), &[0, 1, 2, 3], true), (3, 1, Some(2)));
        let spare = |online: &[usize]| choose(&CoreSpec::default(), online, true, false).unwrap().dut_back;
        assert_eq!((spare(&[0, 1, 2, 3]), spare(&[0, 1, 2, 3, 4])), (None, Some(1)));
    }

    #[test]
    fn what_was_named_is_kept() {
        let named = CoreSpec { sender: Some(0), ..CoreSpec::default() };
        assert_eq!(placed(named, &[0, 1], false), (0, 1, None));
        assert!(
            check_named(&CoreSpec { dut: Some(7), ..CoreSpec::default() }, &[0, 1]).unwrap_err().contains("no core 7")
        );
    }

    #[test]
    fn one_core_can_measure_but_not_spin_twice() {
        assert_eq!(placed(CoreSpec::default(), &[5], false), (5, 5, None));
        assert!(choose(&CoreSpec::default(), &[5], true, false).is_err());
    }
}
