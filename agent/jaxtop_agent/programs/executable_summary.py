"""A loaded program as its compiler describes it: names, devices and memory."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from jaxtop import wire
from jaxtop.base.names import shorten
from jaxtop_agent import jaxprivate
from jaxtop_agent.arrays import origins

LONGEST_NAME = 120
# The id and the fingerprint of an executable.
Key = tuple[int, Any]
# Reading a program of a plugin copies its modules, so we skip programs with more code than this.
MOST_CODE_BYTES = 256 << 20


def describe(executable: Any, *, alone: bool) -> tuple[wire.Program | None, int]:
    """Describe a program and count its computations; None if it cannot be read or its code is too large."""
    try:
        if (code := jaxprivate.code_bytes(executable)) and code > MOST_CODE_BYTES:
            return None, 0
        module = jaxprivate.module(executable)
        name, computations = str(module.name)[:LONGEST_NAME], len(jaxprivate.parts(module))
    except Exception:
        return None, 0
    local = _local_devices(executable)
    created = origins.created(jaxprivate.program_traceback(executable))
    program = wire.Program(
        name=name,
        fingerprint=_text(jaxprivate.fingerprint(executable)),
        devices=local if alone else _devices(executable, name, local),
        local_devices=local,
        created=shorten(created, LONGEST_NAME) if created else None,
    )
    return program, computations


def key_of(executable: Any) -> Key:
    """Return what names a loaded program, which supports no weak references and must not be held."""
    return id(executable), jaxprivate.fingerprint(executable)


def with_memory(program: wire.Program, executable: Any) -> wire.Program:
    """Add the memory that a program needs on a device, if the compiler reports it."""
    with suppress(Exception):
        memory = jaxprivate.compiled_memory(executable)
        return msgspec.structs.replace(
            program,
            argument_bytes=memory.argument_size_in_bytes,
            output_bytes=memory.output_size_in_bytes,
            alias_bytes=memory.alias_size_in_bytes,
            temp_bytes=memory.temp_size_in_bytes,
            code_bytes=memory.generated_code_size_in_bytes,
        )
    return program


def needs(program: wire.Program) -> int:
    """Return the bytes of a launch on a device, as far as they are known."""
    parts = (program.argument_bytes, program.output_bytes, program.temp_bytes)
    return sum(part for part in parts if part is not None)


def _local_devices(executable: Any) -> int | None:
    with suppress(Exception):
        return len(jaxprivate.local_devices(executable))
    return None


def _devices(executable: Any, name: str, local: int | None) -> int | None:
    """Return the number of devices in all processes; None if a program of several devices shards nothing."""
    with suppress(Exception):
        cuts = jaxprivate.cuts(executable)
        if cuts:
            return max(cuts) if max(cuts) > 1 else None
        if local == 1 and not name.startswith("pmap_"):
            return 1
    return None


def _text(fingerprint: Any) -> str | None:
    if isinstance(fingerprint, bytes):
        try:
            text = fingerprint.decode("ascii")
        except UnicodeDecodeError:
            text = ""
        return text if text.isalnum() else fingerprint.hex()
    return None if fingerprint is None else str(fingerprint)
