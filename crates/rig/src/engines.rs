//! What is usable on this host, and why not: each engine is tried, not looked up.
