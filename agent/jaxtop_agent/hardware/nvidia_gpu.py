"""One NVIDIA GPU or one MIG instance, with every figure that its driver provides."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxtop_agent.hardware.gpm import OF_INSTANCES, Gpm
from jaxtop_agent.hardware.links import LINK_COLUMNS, PCIE_COLUMNS, Counters

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtop_agent.hardware.reader import Figures

    _Read = Callable[[Any, Any], tuple[int, ...]]

# NVML's values for a missing figure, in 32 and 64 bits.
NOT_AVAILABLE = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})


class HandleScope(Enum):
    """Which handle provides a figure of an instance.

    Power, energy, traffic and errors are known only for the whole GPU. They are unknown for instances: shown
    with each instance they would be counted several times. Temperature and clocks are the same for the GPU
    and all its instances.
    """

    OWN = "the instance"
    WHOLE = "the GPU, for its instances too"
    ONLY_WHOLE = "the GPU, unknown of instances"


class DriverFigure(NamedTuple):
    """The columns that one call fills."""

    columns: tuple[str, ...]
    read: _Read
    scope: HandleScope = HandleScope.ONLY_WHOLE
    is_fixed: bool = False  # read once


# The bits of NVML's reasons for each entry of `wire.SLOWED`. Being idle is not one of these reasons.
_SLOWED = (0x4, 0x20 | 0x40, 0x8, 0x80, 0x10, 0x2)


def _slowed(nvml: Any, handle: Any) -> tuple[int, ...]:
    try:
        reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except nvml.NVMLError as error:  # the function's name in drivers before 535
        if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
            raise
        reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return (sum(1 << place for place, bits in enumerate(_SLOWED) if reasons & bits),)


def _memory(nvml: Any, handle: Any) -> tuple[int, ...]:
    try:  # version 2 excludes the memory that the driver reserves
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
    try:  # the temperature at which it slows down
        return (nvml.nvmlDeviceGetTemperatureThreshold(handle, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),)
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_NOT_SUPPORTED:
            raise
        return (nvml.nvmlDeviceGetTemperatureThreshold(handle, nvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX),)


def _single_value(function: str, *constants: str) -> _Read:
    def read(nvml: Any, handle: Any) -> tuple[int, ...]:
        return (getattr(nvml, function)(handle, *(getattr(nvml, each) for each in constants)),)

    return read


_ERRORS = "nvmlDeviceGetTotalEccErrors"
FIGURES = (
    DriverFigure(("utilization_permille", "memory_activity_permille"), _utilization),
    DriverFigure(("driver_used_bytes", "driver_total_bytes"), _memory, HandleScope.OWN),
    DriverFigure(("power_mw",), _single_value("nvmlDeviceGetPowerUsage")),
    DriverFigure(("power_limit_mw",), _single_value("nvmlDeviceGetEnforcedPowerLimit")),
    DriverFigure(("energy_mj",), _single_value("nvmlDeviceGetTotalEnergyConsumption")),
    DriverFigure(
        ("temperature_c",),
        _single_value("nvmlDeviceGetTemperature", "NVML_TEMPERATURE_GPU"),
        HandleScope.WHOLE,
    ),
    DriverFigure(("temperature_limit_c",), _temperature_limit, HandleScope.WHOLE, is_fixed=True),
    DriverFigure(("clock_mhz",), _single_value("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"), HandleScope.WHOLE),
    DriverFigure(
        ("clock_max_mhz",),
        _single_value("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
        HandleScope.WHOLE,
        is_fixed=True,
    ),
    DriverFigure(
        ("memory_clock_mhz",), _single_value("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"), HandleScope.WHOLE
    ),
    DriverFigure(("slowed",), _slowed, HandleScope.WHOLE),
    DriverFigure(
        ("ecc_corrected",), _single_value(_ERRORS, "NVML_MEMORY_ERROR_TYPE_CORRECTED", "NVML_VOLATILE_ECC")
    ),
    DriverFigure(
        ("ecc_uncorrected",),
        _single_value(_ERRORS, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_VOLATILE_ECC"),
    ),
)


class Lost(Exception):
    """The GPU no longer answers; the text completes "GPU 3 …"."""


class Gpu:
    """One GPU; a figure that the driver refuses permanently is not requested again."""

    def __init__(self, nvml: Any, handle: Any, uuid: str, title: str, parent: Any = None) -> None:
        self.handle = handle
        self.parent = parent  # the GPU of which this is an instance
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
        return self.handle if self.parent is None else self.parent

    def read(self) -> Figures:
        """Return all figures that are available now; raise Lost if the GPU no longer answers."""
        found: Figures = {}
        for figure in FIGURES:
            if self.parent is None or figure.scope is not HandleScope.ONLY_WHOLE:
                handle = self.handle if figure.scope is HandleScope.OWN else self.whole
                self._take(found, figure, handle)
        self._read(found, OF_INSTANCES, self._activity)
        is_new = self._gpm is not None and OF_INSTANCES[0] not in found  # GPM needs two samples
        if self.parent is None and not is_new:
            self._read_missing(found, LINK_COLUMNS, self._counters.links)
            self._read_missing(found, PCIE_COLUMNS, self._counters.pcie)
        return found

    def _read_missing(self, found: Figures, columns: tuple[str, ...], read: Callable[[Any], Figures]) -> None:
        """Request figures that GPM did not provide; GPM's are averages and need no further call."""
        if not found.keys() & set(columns):
            self._read(found, columns, lambda: read(self.handle))

    def _take(self, found: Figures, figure: DriverFigure, handle: Any) -> None:
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

        got = self._read(found, figure.columns, read)
        if figure.is_fixed:
            self._fixed.update(got)

    def _read(self, found: Figures, columns: tuple[str, ...], read: Callable[[], Figures]) -> Figures:
        """Add the figures that a call returns, and remember a permanent refusal."""
        if columns[0] in self.refused:
            return {}
        try:
            got = read()
        except self._nvml.NVMLError as error:
            if error.value in self._ends:
                self.close()
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
            return {}  # the next reading has a sample to compare with
        return self._gpm.read()

    def return_as(self, handle: Any) -> None:
        """Continue with a GPU that answers again, maybe under a new handle; earlier counts are discarded."""
        self.handle = handle
        self.rest()

    def rest(self) -> None:
        """Discard the counts of earlier readings."""
        self._counters = Counters(self._nvml)
        self.close()

    def close(self) -> None:
        gpm, self._gpm = self._gpm, None
        if gpm is not None:
            gpm.close()
