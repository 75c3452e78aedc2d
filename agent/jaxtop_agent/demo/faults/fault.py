"""What a fault is, and what a training loop calls while one is planted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Fault:
    """A fault in one process of a run. The loop calls each method at its place; here they do nothing.

    Every process makes one and calls it, even where only the last process is at fault: all must launch the
    same programs in the same order.
    """

    name: ClassVar[str] = ""
    text: ClassVar[str] = ""
    # Whether every process is at fault, and not only the last.
    everywhere: ClassVar[bool] = False
    # The rules that may report it, and what their subjects contain, by field.
    rules: ClassVar[tuple[str, ...]] = ()
    subject: ClassVar[Mapping[str, str]] = {}
    # The faults that it consists of, each of which must be found; none if it is a single fault.
    parts: ClassVar[Sequence[type[Fault]]] = ()
    # Whether it can be seen which of two processes is at fault.
    is_of_one_process: ClassVar[bool] = True
    # Whether the lost time of each step is what the fault costs.
    costs_time: ClassVar[bool] = False
    # The healthy seconds before it, unless the user says how many; 0: it begins before the first step.
    after: ClassVar[float] = 20.0
    # After this many seconds it ends by itself.
    lasts: ClassVar[float | None] = None
    # The form in which the program is built while the fault lasts; programs have the forms of `VARIANTS`.
    variant: ClassVar[str] = ""

    def __init__(self, process: int, processes: int, mesh: Any) -> None:
        self.is_here = self.everywhere or process == processes - 1
        self.mesh = mesh
        # What it costs in memory, where that is known.
        self.bytes_per_device: float | None = None

    def begin(self, state: Any) -> Any:
        """Begin at the step that all processes agreed on; return the state with which the run continues."""
        return state

    def end(self, kept: dict[str, Any]) -> None:
        """End, where the run heals: release what was kept in `kept`, a variable of the loop."""

    def load_batch(self, i: int) -> None:
        """Run where the loop makes its batch."""

    def before_launch(self, i: int) -> None:
        """Run between the batch and the launch of a step."""

    def after_launch(self, i: int, loss: Any, kept: dict[str, Any]) -> None:
        """Run after the launch of a step. `kept` is a variable of the loop."""

    def shorter(self, i: int) -> int:  # noqa: ARG002 - a hook
        """Return by how much the batch of this step is shorter."""
        return 0

    def costs(self, i: int) -> bool:  # noqa: ARG002 - a hook
        """Whether step `i` is affected; the same in every process."""
        return True


VARIANTS = ("replicated_optimizer", "undonated", "other_constant")
