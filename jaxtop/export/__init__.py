"""The cluster as text: for scripts, spreadsheets and metric collectors.

What is where, in the order in which to read it:

- readings.py: what all exporters read
- json.py: the cluster as one JSON object
- steps.py: steps, what scripts report, and ledgers, as plain values
- collectives.py: collectives and traffic of mesh axes, as plain values
- compiles.py: compilations, as plain values
- peaks.py: what holds memory at a peak, as plain values
- stacks.py: stacks, as plain values
- findings.py: findings, as plain values
- check.py: the result of `jaxtop check`, as text, JSON and Markdown
- csv.py: the devices as CSV
- metrics.py: the table of metrics
- samples.py: the cluster as samples of metrics
- openmetrics.py: samples in the formats of Prometheus
- series.py: figures over time, a row for each
- decoded_messages.py: messages decoded without their types
- mcap_json.py: a session as an MCAP file of JSON
"""

from jaxtop.export.csv import to_csv
from jaxtop.export.json import to_document, to_json
from jaxtop.export.openmetrics import to_openmetrics

FORMATS = {"json": to_json, "csv": to_csv, "openmetrics": to_openmetrics}

__all__ = ["FORMATS", "to_csv", "to_document", "to_json", "to_openmetrics"]
