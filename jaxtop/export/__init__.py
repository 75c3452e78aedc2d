"""The cluster as text: for scripts, spreadsheets and metric collectors."""

from jaxtop.export.csv import to_csv
from jaxtop.export.json import to_document, to_json
from jaxtop.export.openmetrics import to_openmetrics

FORMATS = {"json": to_json, "csv": to_csv, "openmetrics": to_openmetrics}

__all__ = ["FORMATS", "to_csv", "to_document", "to_json", "to_openmetrics"]
