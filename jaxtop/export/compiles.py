"""Compilations as JSON: the latest ones with their causes, and the time they took by line of the script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jaxtop.base.times import timestamp
from jaxtop.model.host import run_of
from jaxtop.model.programs.compiles import compiled_lines, latest_compiles

if TYPE_CHECKING:
    from jaxtop.model import Cluster
    from jaxtop.model.programs.compiles import CompiledLineView, CompileView


def latest(cluster: Cluster, now: float) -> list[dict[str, Any]]:
    return [_compilation(view) for view in latest_compiles(cluster, now)]


def lines(cluster: Cluster, now: float) -> list[dict[str, Any]]:
    return [_line(view) for view in compiled_lines(cluster, now)]


def _compilation(view: CompileView) -> dict[str, Any]:
    each = view.compilation
    return {
        "at": timestamp(each.at_ms / 1000),
        "run": run_of(view.host),
        "process_index": view.host.process_index,
        "function": each.function,
        "source": each.source or None,
        "seconds": each.duration_ms / 1000,
        "cause": each.cause or None,
        "argument": each.argument or None,
        "before": each.before or None,
        "after": each.after or None,
        "others": each.others,
        "from_cache": each.from_cache,
    }


def _line(view: CompiledLineView) -> dict[str, Any]:
    line = view.line
    return {
        "run": view.run,
        "function": line.function,
        "source": line.source or None,
        "seconds": line.duration_ms / 1000,
        "count": line.count,
        "again": line.again,
        "cache_hits": line.hits,
        "cache_misses": line.misses,
        "processes": view.processes,
    }
