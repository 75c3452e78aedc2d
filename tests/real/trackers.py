"""Scripts that log with the real W&B, MLflow or Trackio: what they need, and an environment that is quiet."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from jaxtop.model import reported_findings
from tests.support import environment, viewer

if TYPE_CHECKING:
    from pathlib import Path


def needs(library: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        find_spec(library) is None, reason=f"{library} is not installed: `make soak` has it"
    )


needs_wandb, needs_mlflow, needs_trackio = needs("wandb"), needs("mlflow"), needs("trackio")
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "HF_HUB_OFFLINE": "1",
    "PYTHONWARNINGS": "ignore",
    "WANDB_SILENT": "true",
}


def quiet(folder: Path, **more: str) -> dict[str, str]:
    """The environment of such a script, whose files are all in this folder."""
    return environment(1, TRACKIO_DIR=str(folder / "trackio"), **QUIET, **more)


def losses_found_at(step: str) -> list[str]:
    """What the run `logs` is said to have of bad losses, once one is of this step."""
    with viewer("logs") as attached:
        attached.until(lambda: any(step in each.text for each in reported_findings(attached.cluster)))
        return [each.text for each in reported_findings(attached.cluster) if each.rule == "bad_loss"]
