//! The messages of Prometheus's client data model, as far as we fill them: github.com/prometheus/client_model,
//! `io/prometheus/client/metrics.proto`, from which the numbers are. Written by hand, so that no build needs
//! `protoc`.
//!
//! All of their fields are optional there. Those that we always fill are `required` here, which is the same on
//! the wire, and writes a 0 too.

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MetricFamily {
    #[prost(string, required, tag = "1")]
    pub(super) name: String,
    #[prost(string, required, tag = "2")]
    pub(super) help: String,
    #[prost(enumeration = "MetricType", required, tag = "3")]
    pub(super) kind: i32,
    #[prost(message, repeated, tag = "4")]
    pub(super) metric: Vec<Metric>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum MetricType {
    Counter = 0,
    Gauge = 1,
    Histogram = 4,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(super) label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub(super) gauge: Option<Value>,
    #[prost(message, optional, tag = "3")]
    pub(super) counter: Option<Value>,
    #[prost(message, optional, tag = "7")]
    pub(super) histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LabelPair {
    #[prost(string, required, tag = "1")]
    pub(super) name: String,
    #[prost(string, required, tag = "2")]
    pub(super) value: String,
}

/// `Gauge` and `Counter`, which are alike.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Value {
    #[prost(double, required, tag = "1")]
    pub(super) value: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Histogram {
    #[prost(uint64, required, tag = "1")]
    pub(super) sample_count: u64,
    /// In seconds, as every value here.
    #[prost(double, required, tag = "2")]
    pub(super) sample_sum: f64,
    /// Classic buckets, ascending; the last is +Inf.
    #[prost(message, repeated, tag = "3")]
    pub(super) bucket: Vec<Bucket>,
    /// Native bucket `i` holds what is above `2^((i-1)/2^schema)` and up to `2^(i/2^schema)`.
    #[prost(sint32, required, tag = "5")]
    pub(super) schema: i32,
    /// Up to it a value counts as zero. It must not be 0 itself: that, without samples, would be a histogram
    /// without native buckets.
    #[prost(double, required, tag = "6")]
    pub(super) zero_threshold: f64,
    #[prost(uint64, required, tag = "7")]
    pub(super) zero_count: u64,
    /// Where runs of native buckets are.
    #[prost(message, repeated, tag = "12")]
    pub(super) positive_span: Vec<BucketSpan>,
    /// Samples of each of those buckets, less those of the bucket before.
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub(super) positive_delta: Vec<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Bucket {
    #[prost(uint64, required, tag = "1")]
    pub(super) cumulative_count: u64,
    /// Inclusive.
    #[prost(double, required, tag = "2")]
    pub(super) upper_bound: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct BucketSpan {
    /// Buckets skipped since the span before; of the first span, the index of its first bucket.
    #[prost(sint32, required, tag = "1")]
    pub(super) offset: i32,
    #[prost(uint32, required, tag = "2")]
    pub(super) length: u32,
}
