//! Compiles the forwarder's eBPF program and generates its skeleton. Needs clang.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=src/bpf");
    SkeletonBuilder::new()
        .source("src/bpf/redirect.bpf.c")
        // Debian keeps <asm/types.h> in a folder per architecture, which clang leaves out for eBPF.
        .clang_args(["-Wall", "-Wextra", "-idirafter", "/usr/include/x86_64-linux-gnu"])
        .build_and_generate(out.join("redirect.skel.rs"))
        .unwrap_or_else(|e| panic!("compiling src/bpf/redirect.bpf.c failed; `make deps` installs clang: {e:#}"));
}
