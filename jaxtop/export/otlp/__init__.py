"""The cluster as metrics and logs of OpenTelemetry. The extra `otlp` installs what this imports."""

from jaxtop.export.otlp.logs import Logs
from jaxtop.export.otlp.metrics import metric_messages
from jaxtop.export.otlp.resources import Resources

__all__ = ["Logs", "Resources", "metric_messages"]
