//! Holds the bucket layout in C to its twin in Rust.

#[cfg(test)]
mod tests {
    use crate::{kernel, sys};
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering::Relaxed;
    use usect_core::buckets;

    /// Every namespace has it.
    const LOOPBACK: u32 = 1;

    #[test]
    fn c_and_rust_agree_on_every_bucket() {
        if !usect_testing::root() {
            return;
        }
        let loaded = kernel::Loaded::new(&kernel::Config::for_test()).expect("root may load eBPF");
        let edges = (0..buckets::LEN).step_by(37).flat_map(|i| {
            let low = buckets::lowest(i);
            [low.saturating_sub(1), low, low + 1]
        });
        for value in edges.chain([0, 1, 2047, 2048, buckets::HIGHEST_NS, buckets::HIGHEST_NS + 1, u64::MAX]) {
            loaded.state.probe_value.store(value, Relaxed);
            sys::dry(loaded.probe_bucket.as_fd(), &[0; 64], LOOPBACK, 1).unwrap();
            assert_eq!(loaded.state.probe_index.load(Relaxed) as usize, buckets::index(value), "{value} ns");
        }
    }
}
