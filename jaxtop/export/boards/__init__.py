"""Dashboards for Grafana: what they show, as queries of Prometheus, and how Grafana's JSON says it."""

from jaxtop.export.boards.collectives import COLLECTIVES
from jaxtop.export.boards.devices import DEVICES
from jaxtop.export.boards.hosts import HOSTS
from jaxtop.export.boards.overview import OVERVIEW

BOARDS = {each.name: each for each in (OVERVIEW, HOSTS, DEVICES, COLLECTIVES)}

__all__ = ["BOARDS"]
