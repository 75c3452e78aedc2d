"""NVIDIA GPUs, through NVML and NVIDIA's Python binding."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jaxtop_agent.hardware.mapping import DeviceHandle, find, handle_of, place_of
from jaxtop_agent.hardware.nvidia_gpu import Gpu, Lost
from jaxtop_agent.hardware.reader import Figures, Off, listed
from jaxtop_agent.hardware.xid import Xids, address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtop.wire import Device
    from jaxtop_agent.hardware.reader import Report

# A lost GPU rarely returns soon, and the call that finds it may be slow.
LOOK_AGAIN_S = 10.0


def binding() -> Any:
    """Return NVIDIA's Python binding of NVML; raise Off for an older package of the same name."""
    try:
        import pynvml as nvml
    except ImportError:
        raise Off("pip install nvidia-ml-py") from None
    if not hasattr(nvml, "NVML_FI_DEV_PCIE_COUNT_TX_BYTES"):
        raise Off(
            "another package provides pynvml; pip uninstall pynvml nvidia-ml-py3, "
            "then pip install --force-reinstall nvidia-ml-py"
        )
    return nvml


def why_no_driver(nvml: Any, error: Any) -> str:
    """Return why NVML is unavailable, and the remedy."""
    return {
        nvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
            "no NVIDIA driver on this machine; in a container, start it with --gpus all"
        ),
        nvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded; try: sudo modprobe nvidia",
        nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
            "the loaded NVIDIA driver and its library have different versions; reboot"
        ),
        nvml.NVML_ERROR_NO_PERMISSION: "the NVIDIA driver denies access; check who may read /dev/nvidiactl",
    }.get(error.value, f"the NVIDIA driver says: {error}")


def _named(title: str, devices: Sequence[int]) -> str:
    """Return the title of a GPU with JAX's ids of it: GPU 3 (GPU-1b2c3d4e, device 11)."""
    word = "device" if len(devices) == 1 else "devices"
    return f"{title.removesuffix(')')}, {word} {' '.join(map(str, devices))})"


class Nvidia:
    """A reader of the GPUs behind JAX's devices."""

    def __init__(self, devices: Sequence[Device], report: Report) -> None:
        self._nvml = nvml = binding()
        self._report = report
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise Off(why_no_driver(nvml, error)) from None
        self._gpus: list[Gpu | None] = []
        self._look_again: dict[str, float] = {}  # lost GPUs: the time of the next attempt
        self._xids: Xids | None = None
        self._unplaced = ""
        self._has_rested = False
        try:
            self._place(devices)
        except BaseException:
            self.close()
            raise
        self.uuids = tuple(None if gpu is None else gpu.uuid for gpu in self._gpus)

    def _place(self, devices: Sequence[Device]) -> None:
        nvml = self._nvml
        try:
            places, why = find(nvml, [device.local_id for device in devices])
        except nvml.NVMLError as error:
            raise Off(f"the NVIDIA driver says: {error}") from None
        self._gpus = [
            None
            if place is None
            else Gpu(nvml, place.handle, place.uuid, _named(place.title, [device.id]), place.parent)
            for place, device in zip(places, devices, strict=True)
        ]
        found = [gpu for gpu in self._gpus if gpu is not None]
        if not found:
            raise Off(f"these devices cannot be matched to GPUs: {why}")
        if len(found) < len(places):
            self._unplaced = f"{len(places) - len(found)} of {len(places)} devices not found: {why}"
        with suppress(nvml.NVMLError):  # some systems have figures but no events
            self._xids = Xids(nvml, self._wholes(devices), self._report)

    def _wholes(self, devices: Sequence[Device]) -> dict[int, DeviceHandle]:
        """Return each whole GPU once, with a title that lists all devices that are parts of it."""
        parts: dict[int, list[int]] = {}
        found: dict[int, DeviceHandle] = {}
        for gpu, device in zip(self._gpus, devices, strict=True):
            if gpu is not None:
                whole = address(gpu.whole)
                parts.setdefault(whole, []).append(device.id)
                place = place_of(self._nvml, gpu.whole)
                found[whole] = place._replace(title=_named(place.title, parts[whole]))
        return found

    def read(self, now: float) -> Sequence[Figures]:
        if self._xids is not None:
            self._xids.report_new(" while nobody watched" if self._has_rested else "")
        self._has_rested = False
        return [{} if gpu is None else self._read(gpu, now) for gpu in self._gpus]

    def _read(self, gpu: Gpu, now: float) -> Figures:
        again = self._look_again.get(gpu.uuid)
        if again is not None and now < again:
            return {}
        try:
            if again is not None:
                gpu.return_as(handle_of(self._nvml, gpu.uuid))
            found = gpu.read()
        except (Lost, self._nvml.NVMLError) as error:
            if getattr(error, "value", None) == self._nvml.NVML_ERROR_UNINITIALIZED:
                raise Off("another part of the program has shut NVML down") from None
            self._look_again[gpu.uuid] = now + LOOK_AGAIN_S
            if again is None:
                what = str(error) if isinstance(error, Lost) else f"does not answer: {error}"
                self._report("critical", "gpu", f"{gpu.title} {what}")
            return {}
        if again is not None:
            del self._look_again[gpu.uuid]
            self._report("info", "gpu", f"{gpu.title} is back")
        return found

    def rest(self) -> None:
        self._has_rested = True
        for gpu in self._gpus:
            if gpu is not None:
                gpu.rest()

    def remarks(self) -> str:
        nvml = self._nvml
        gpus = [gpu for gpu in self._gpus if gpu is not None]
        lost = [gpu.title for gpu in gpus if gpu.uuid in self._look_again]
        refused = {(mark, code) for gpu in gpus for mark, code in gpu.refused.items()}
        closed = {mark for mark, code in refused if code == nvml.NVML_ERROR_NO_PERMISSION}
        remarks = [
            self._unplaced,
            f"lost: {', '.join(lost)}" if lost else "",
            f"not permitted: {listed(closed)}" if closed else "",
            f"not offered by these GPUs: {listed({mark for mark, _ in refused} - closed)}"
            if len(refused) > len(closed)
            else "",
            "no XIDs" if self._xids is None or self._xids.is_deaf else "",
        ]
        return "; ".join(each for each in remarks if each)

    def close(self) -> None:
        for gpu in self._gpus:
            if gpu is not None:
                gpu.close()
        if self._xids is not None:
            self._xids.close()
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()
