//! Compiles the eBPF programs and generates their skeletons. Needs clang.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    println!("cargo:rerun-if-changed=src/bpf");
    for name in ["arrivals", "gaps", "kernel", "tap", "xsk"] {
        SkeletonBuilder::new()
            .source(format!("src/bpf/{name}.bpf.c"))
            // Debian keeps <asm/types.h> in a folder per architecture, which clang leaves out for eBPF.
            .clang_args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-mcpu=v3"])
            .clang_args(["-idirafter", "/usr/include/x86_64-linux-gnu"])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .unwrap_or_else(|e| panic!("compiling src/bpf/{name}.bpf.c failed; `make deps` installs clang: {e:#}"));
    }
}
