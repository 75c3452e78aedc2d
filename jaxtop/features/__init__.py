"""The optional parts of the monitor, one folder each. The core never imports them; see `base/feature.py`."""

# In the order of the commands in the help.
NAMES = (
    "inject",
    "planning",
    "alerts",
    "metrics",
    "captures",
    "postmortem",
    "relay",
    "probe",
    "operations",
    "web",
    "ledger",
    "notebook",
    "mcp",
)
