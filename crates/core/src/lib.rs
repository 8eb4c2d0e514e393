//! What a measurement *is*: instants, schedules, frames, matching, tails, and the stored run.
//!
//! Nothing here reads a clock, opens a socket or touches a file, so every rule of the instrument
//! (pacing, classification, intervals, the result schema) is tested on simulated time.
#![forbid(unsafe_code)]

pub mod advice;
pub mod buckets;
pub mod calibration;
pub mod capture;
pub mod converge;
pub mod dispersion;
pub mod dissect;
pub mod effects;
pub mod environment;
pub mod fiber;
pub mod findings;
pub mod frame;
pub mod frame_spec;
pub mod gathered;
pub mod histogram;
mod inline;
pub mod instant;
pub mod inventory;
mod inverse;
pub mod matrix;
pub mod measurement;
pub mod monitor;
pub mod one_way;
pub mod pattern;
pub mod periodic;
pub mod port_name;
pub mod printed;
pub mod profile;
pub mod rate;
pub mod run;
pub mod scenario;
pub mod schedule;
pub mod series;
pub mod shift;
pub mod signature;
pub mod stages;
pub mod stall;
pub mod stats;
pub mod stored;
pub mod suite;
pub mod summary;
pub mod template;
pub mod topology;
pub mod tracker;
pub mod trains;
pub mod trial;
