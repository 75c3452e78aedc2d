"""Dashboards for Grafana: what they show, as queries of Prometheus, and how Grafana's JSON says it."""

from jaxtop.features.metrics.boards.collectives import COLLECTIVES
from jaxtop.features.metrics.boards.devices import DEVICES
from jaxtop.features.metrics.boards.hosts import HOSTS
from jaxtop.features.metrics.boards.overview import OVERVIEW

BOARDS = {each.name: each for each in (OVERVIEW, HOSTS, DEVICES, COLLECTIVES)}

__all__ = ["BOARDS"]
