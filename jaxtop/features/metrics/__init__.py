"""The figures of a run for Prometheus, Grafana and OpenTelemetry: exporter, boards, alert rules."""

from jaxtop.base.feature import Command, Feature

FEATURE = Feature(
    "metrics",
    commands={
        "exporter": Command(
            "serve the figures of a run to Prometheus and to scripts", "jaxtop.features.metrics.command"
        ),
    },
)
