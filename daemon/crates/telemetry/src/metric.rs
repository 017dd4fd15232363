//! A metric, in the text format of Prometheus (exposition format 0.0.4) and as OTLP.

use std::fmt::Write as _;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric as OtlpMetric, NumberDataPoint, Sum,
};

use super::{nanoseconds, text};
use recall_domain::ids::Timestamp;

/// How the value of a metric changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricChange {
    /// It only increases until the daemon restarts.
    Counter,
    Gauge,
}

/// A metric with its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// As Prometheus recommends: with the unit, and with `_total` if it only increases.
    pub name: &'static str,
    pub change: MetricChange,
    pub help: &'static str,
    pub samples: Vec<Sample>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub label: Option<(&'static str, String)>,
    pub value: f64,
}

/// Returns the text, which ends with a line feed.
pub fn exposition(metrics: &[Metric]) -> String {
    let mut page = String::new();
    for Metric { name, change, help, samples } in metrics {
        let change = match change {
            MetricChange::Counter => "counter",
            MetricChange::Gauge => "gauge",
        };
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {change}");
        for Sample { label, value } in samples {
            let label = label
                .as_ref()
                .map(|(label, value)| format!("{{{label}=\"{}\"}}", escaped(value)))
                .unwrap_or_default();
            let _ = writeln!(page, "{name}{label} {value}");
        }
    }
    page
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Metric {
    /// `since` is the start time of the daemon, when its counters were 0.
    pub(super) fn to_otlp(&self, since: Timestamp, now: Timestamp) -> OtlpMetric {
        let point = |Sample { label, value }: &Sample| NumberDataPoint {
            attributes: label.iter().map(|(label, value)| text(label, value)).collect(),
            start_time_unix_nano: if self.change == MetricChange::Counter { nanoseconds(since.0) } else { 0 },
            time_unix_nano: nanoseconds(now.0),
            value: Some(Value::AsDouble(*value)),
            ..NumberDataPoint::default()
        };
        let data_points = self.samples.iter().map(point).collect();
        let data = match self.change {
            MetricChange::Gauge => Data::Gauge(Gauge { data_points }),
            MetricChange::Counter => Data::Sum(Sum {
                data_points,
                aggregation_temporality: AggregationTemporality::Cumulative.into(),
                is_monotonic: true,
            }),
        };
        let (name, unit) = self.name_and_unit();
        OtlpMetric {
            name,
            unit: unit.to_owned(),
            description: self.help.to_owned(),
            data: Some(data),
            ..OtlpMetric::default()
        }
    }

    /// In OpenTelemetry the unit is not part of the name, and the type shows whether a metric only increases.
    fn name_and_unit(&self) -> (String, &'static str) {
        let name = self.name.trim_end_matches("_total");
        let units = [("_seconds", "s"), ("_bytes", "By")];
        let known = units.iter().find_map(|(end, unit)| Some((name.strip_suffix(end)?, *unit)));
        let (name, unit) = known.unwrap_or((name, ""));
        (name.replacen('_', ".", 1), unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_a_metric_is_split_from_its_name() {
        let named = |name| {
            let metric = Metric { name, change: MetricChange::Gauge, help: "", samples: Vec::new() };
            metric.name_and_unit()
        };
        assert_eq!(named("recall_uptime_seconds"), ("recall.uptime".to_owned(), "s"));
        assert_eq!(named("recall_events_lost_total"), ("recall.events_lost".to_owned(), ""));
        assert_eq!(named("recall_resident_memory_bytes"), ("recall.resident_memory".to_owned(), "By"));
        assert_eq!(named("recall_jobs"), ("recall.jobs".to_owned(), ""));
    }

    #[test]
    fn special_characters_in_a_metric_label_are_escaped() {
        let samples = vec![Sample { label: Some(("what", "a\"b\\c\nd".to_owned())), value: 1.5 }];
        let metric = Metric { name: "m", change: MetricChange::Counter, help: "Help.", samples };
        let page = "# HELP m Help.\n# TYPE m counter\nm{what=\"a\\\"b\\\\c\\nd\"} 1.5\n";
        assert_eq!(exposition(&[metric]), page);
    }
}
