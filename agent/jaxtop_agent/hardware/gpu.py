"""One NVIDIA GPU, or one instance (MIG) of one: each figure that its driver will give."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent.hardware.gpm import OF_INSTANCES, Gpm
from jaxtop_agent.hardware.links import LINK_COLUMNS, PCIE_COLUMNS, Counters

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.hardware.reader import Figures

    _Read = Callable[[Any, Any], tuple[int, ...]]

# What NVML returns for a figure that it does not have, in 32 and 64 bits.
NOT_AVAILABLE = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})


class Scope(Enum):
    """Whom a figure of an instance is asked of.

    Power, energy, traffic and errors are the GPU's as a whole: shown with each instance they would be counted
    several times, so they are unknown there. Heat and clocks are the same for all, whoever is asked.
    """

    OWN = "the instance"
    WHOLE = "the GPU, for its instances too"
    ONLY_WHOLE = "the GPU, unknown of instances"


class Figure(NamedTuple):
    """Columns that one call fills."""

    columns: tuple[str, ...]
    read: _Read
    scope: Scope = Scope.ONLY_WHOLE
    is_fixed: bool = False  # read once


# The bits of NVML's reasons, for each of `wire.SLOWED`; being idle is no reason.
_SLOWED = (0x4, 0x20 | 0x40, 0x8, 0x80, 0x10, 0x2)


def _slowed(nvml: Any, handle: Any) -> tuple[int, ...]:
    try:
        reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except nvml.NVMLError as error:  # the name that drivers before 535 have
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return (sum(1 << place for place, bits in enumerate(_SLOWED) if reasons & bits),)


def _memory(nvml: Any, handle: Any) -> tuple[int, ...]:
    try:  # without what the driver keeps for itself
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    except nvml.NVMLError as error:
        if error.value not in {nvml.NVML_ERROR_FUNCTION_NOT_FOUND, nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH}:
            raise
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return memory.used, memory.total


def _utilization(nvml: Any, handle: Any) -> tuple[int, ...]:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return rates.gpu * 10, rates.memory * 10


def _temperature_limit(nvml: Any, handle: Any) -> tuple[int, ...]:
    try:  # where it begins to slow down
        return (nvml.nvmlDeviceGetTemperatureThreshold(handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_NOT_SUPPORTED:
            raise
        return (nvml.nvmlDeviceGetTemperatureThreshold(handle, nvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX),)


def _errors(kind: str) -> _Read:
    def read(nvml: Any, handle: Any) -> tuple[int, ...]:
        return (nvml.nvmlDeviceGetTotalEccErrors(handle, getattr(nvml, kind), nvml.NVML_VOLATILE_ECC),)

    return read


def _one(function: str, *constants: str) -> _Read:
    def read(nvml: Any, handle: Any) -> tuple[int, ...]:
        return (getattr(nvml, function)(handle, *(getattr(nvml, each) for each in constants)),)

    return read


FIGURES = (
    Figure(("utilization_permille", "memory_activity_permille"), _utilization),
    Figure(("driver_used_bytes", "driver_total_bytes"), _memory, Scope.OWN),
    Figure(("power_mw",), _one("nvmlDeviceGetPowerUsage")),
    Figure(("power_limit_mw",), _one("nvmlDeviceGetEnforcedPowerLimit")),
    Figure(("energy_mj",), _one("nvmlDeviceGetTotalEnergyConsumption")),
    Figure(("temperature_c",), _one("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"), Scope.WHOLE),
    Figure(("temperature_limit_c",), _temperature_limit, Scope.WHOLE, is_fixed=True),
    Figure(("clock_mhz",), _one("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"), Scope.WHOLE),
    Figure(
        ("clock_max_mhz",), _one("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"), Scope.WHOLE, is_fixed=True
    ),
    Figure(("memory_clock_mhz",), _one("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"), Scope.WHOLE),
    Figure(("slowed",), _slowed, Scope.WHOLE),
    Figure(("ecc_corrected",), _errors("NVML_MEMORY_ERROR_TYPE_CORRECTED")),
    Figure(("ecc_uncorrected",), _errors("NVML_MEMORY_ERROR_TYPE_UNCORRECTED")),
)


class Lost(Exception):
    """The GPU does not answer any more; the text completes "GPU 3 …"."""


class Gpu:
    """Asks one GPU; what it refused for good is not asked again."""

    def __init__(self, nvml: Any, handle: Any, uuid: str, title: str, parent: Any = None) -> None:
        self.handle = handle
        self.parent = parent  # of an instance: the GPU that it is a part of
        self.uuid = uuid
        self.title = title
        self.refused: dict[str, int] = {}  # NVML's reason, by column
        self._nvml = nvml
        self._fixed: Figures = {}
        self._counters = Counters(nvml)
        self._gpm: Gpm | None = None
        self._refusals = {
            nvml.NVML_ERROR_NOT_SUPPORTED,
            nvml.NVML_ERROR_NO_PERMISSION,
            nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
            nvml.NVML_ERROR_INVALID_ARGUMENT,
            nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
            nvml.NVML_ERROR_DEPRECATED,
        }
        self._ends = {
            nvml.NVML_ERROR_GPU_IS_LOST: "has fallen off the bus",
            nvml.NVML_ERROR_GPU_NOT_FOUND: "has fallen off the bus",
            nvml.NVML_ERROR_RESET_REQUIRED: "needs a reset",
        }

    @property
    def whole(self) -> Any:
        """The handle of the GPU itself."""
        return self.handle if self.parent is None else self.parent

    def read(self) -> Figures:
        """All that can be had now; raises Lost."""
        found: Figures = {}
        for figure in FIGURES:
            if self.parent is None or figure.scope is not Scope.ONLY_WHOLE:
                handle = self.handle if figure.scope is Scope.OWN else self.whole
                self._take(found, figure, handle)
        self._ask(found, OF_INSTANCES, self._activity)
        is_new = self._gpm is not None and OF_INSTANCES[0] not in found  # it tells from the next time on
        if self.parent is None and not is_new:
            self._ask_missing(found, LINK_COLUMNS, self._counters.links)
            self._ask_missing(found, PCIE_COLUMNS, self._counters.pcie)
        return found

    def _ask_missing(self, found: Figures, columns: tuple[str, ...], read: Callable[[Any], Figures]) -> None:
        """What GPM has not told already, which gives averages and costs nothing more."""
        if not found.keys() & set(columns):
            self._ask(found, columns, lambda: read(self.handle))

    def _take(self, found: Figures, figure: Figure, handle: Any) -> None:
        if figure.is_fixed and figure.columns[0] in self._fixed:
            found.update((column, self._fixed[column]) for column in figure.columns)
            return

        def read() -> Figures:
            values = figure.read(self._nvml, handle)
            return {
                column: value
                for column, value in zip(figure.columns, values, strict=True)
                if value not in NOT_AVAILABLE
            }

        got = self._ask(found, figure.columns, read)
        if figure.is_fixed:
            self._fixed.update(got)

    def _ask(self, found: Figures, columns: tuple[str, ...], read: Callable[[], Figures]) -> Figures:
        """Take in what a call gives; a refusal is remembered."""
        if columns[0] in self.refused:
            return {}
        try:
            got = read()
        except self._nvml.NVMLError as error:
            if error.value in self._ends:
                self._release()
                raise Lost(self._ends[error.value]) from None
            if error.value == self._nvml.NVML_ERROR_UNINITIALIZED:
                raise
            if error.value in self._refusals:
                self.refused |= dict.fromkeys(columns, error.value)
            return {}
        found.update(got)
        return got

    def _activity(self) -> Figures:
        if self._gpm is None:
            instance = None if self.parent is None else self._nvml.nvmlDeviceGetGpuInstanceId(self.handle)
            self._gpm = Gpm(self._nvml, self.whole, instance)
            return {}  # there is something to compare with from the next time on
        return self._gpm.read()

    def return_as(self, handle: Any) -> None:
        """The GPU came back, under a handle that may be a new one; what was counted before is of no use."""
        self.handle = handle
        self.rest()

    def rest(self) -> None:
        """Forget what was counted so far."""
        self._counters = Counters(self._nvml)
        self._release()

    def _release(self) -> None:
        gpm, self._gpm = self._gpm, None
        if gpm is not None:
            gpm.close()

    def close(self) -> None:
        self._release()
