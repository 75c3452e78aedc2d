"""The cluster as metrics and logs of OpenTelemetry. The extra `otlp` installs what this imports."""

from jaxtop.features.metrics.otlp.logs import Logs
from jaxtop.features.metrics.otlp.metrics import metric_messages
from jaxtop.features.metrics.otlp.resources import Resources

__all__ = ["Logs", "Resources", "metric_messages"]
