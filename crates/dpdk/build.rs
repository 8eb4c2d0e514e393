//! Compiles the shim where DPDK is installed, and sets `cfg(dpdk)` then.

fn main() {
    println!("cargo:rustc-check-cfg=cfg(dpdk)");
    println!("cargo:rerun-if-changed=src/shim.c");
    println!("cargo:rerun-if-changed=src/shim.h");
    println!("cargo:rerun-if-env-changed=USECT_WITHOUT_DPDK");
    if std::env::var_os("USECT_WITHOUT_DPDK").is_some() {
        return;
    }
    // Only its flags: of the many libraries that it would link, the shim needs five.
    let found = pkg_config::Config::new().cargo_metadata(false).atleast_version("20.11").probe("libdpdk");
    let Ok(dpdk) = found else { return };
    let mut shim = cc::Build::new();
    shim.file("src/shim.c").includes(&dpdk.include_paths).flag("-include").flag("rte_config.h");
    // It counts reading a device's clock as experimental still.
    // What DPDK's inline functions need of the processor; DPDK itself was built for it.
    shim.flag("-march=corei7").define("ALLOW_EXPERIMENTAL_API", None).opt_level(3).warnings_into_errors(true);
    shim.compile("usect_dpdk_shim");
    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    for library in ["rte_eal", "rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring"] {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
    println!("cargo:rustc-cfg=dpdk");
}
