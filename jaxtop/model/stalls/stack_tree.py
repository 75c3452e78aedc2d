"""Stacks as a tree: groups of hosts at the same place, each host, its threads, and the lines of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jaxtop.model.naming.sentences import host_names
from jaxtop.model.stalls.native import heading_of, innermost_first, libraries_of, wait_text
from jaxtop.model.stalls.stacks import StackGroup, line_text, place_text, stack_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from jaxtop.model.host import Host
    from jaxtop.model.state import ClusterState
    from jaxtop.wire import Place, Thread


@dataclass(frozen=True)
class StackNode:
    """A group, a host, a thread or a line: the most specific field that is set.

    `text` is a native frame of a `library`, or the heading of those of a thread.
    """

    path: tuple[Hashable, ...]
    depth: int
    hosts: tuple[Host, ...]
    group: StackGroup
    thread: Thread | None = None
    frame: Place | None = None
    text: str = ""
    library: str = ""
    is_group: bool = False
    run: str = ""

    @property
    def is_branch(self) -> bool:
        return self.frame is None and not self.text

    @property
    def opens_by_default(self) -> bool:
        """Whether the node is open by default: the first host of a group and main threads are."""
        if self.is_group:
            return False
        if self.thread is not None:
            return self.thread.is_main
        return self.hosts[0].agent == self.group.agents[0]

    @property
    def host(self) -> Host | None:
        """The host, if the node is about a single one."""
        return self.hosts[0] if len(self.hosts) == 1 else None

    @property
    def label(self) -> str:
        if self.text:
            return self.text
        if self.frame is not None:
            return line_text(self.frame)
        if self.thread is not None:
            more = f", {self.thread.unsent} more lines" if self.thread.unsent else ""
            return f"{'main thread' if self.thread.is_main else f'thread {self.thread.name}'}{more}"
        if self.is_group and len(self.hosts) > 1:
            return f"{self.run}{host_names(self.hosts)}"
        return f"{self.run}{self.hosts[0].label}"

    @property
    def place(self) -> str:
        """Where it is, as text: the innermost line, or the native function in which a thread waits."""
        if self.text:
            return self.library
        if self.thread is not None and not self.thread.frames and self.thread.native is not None:
            native = self.thread.native
            return native.waits_in or wait_text(native)
        return place_text(self.innermost)

    @property
    def innermost(self) -> Place | None:
        """The innermost line of a thread, or of the main thread of a host or group; or the line itself."""
        if self.frame is not None:
            return self.frame
        thread = self.thread or next(iter(self.hosts[0].stacks.threads), None)
        return thread.frames[-1] if thread is not None and thread.frames else None

    @cached_property
    def children(self) -> Sequence[StackNode]:
        if not self.is_branch:
            return ()
        if self.thread is not None:
            lines = list(reversed(self.thread.frames))
            children = [self._child(("line", i), frame=line) for i, line in enumerate(lines)]
            if (native := self.thread.native) is not None:
                texts = [
                    (heading_of(native), ""),
                    *zip(innermost_first(native), libraries_of(native), strict=True),
                ]
                children += [
                    self._child(("native", i), text=text, library=library)
                    for i, (text, library) in enumerate(texts)
                ]
            return children
        if self.is_group and len(self.hosts) > 1:
            return [self._child((host.agent,), hosts=(host,), run="") for host in self.hosts]
        threads = self.hosts[0].stacks.threads
        return [self._child((i, thread.name), thread=thread) for i, thread in enumerate(threads)]

    def _child(self, step: tuple[Hashable, ...], **changes: Any) -> StackNode:
        return replace(self, path=(*self.path, step), depth=self.depth + 1, is_group=False, **changes)


def stack_nodes(
    cluster: ClusterState, run_names: dict[str, str], test: Callable[[Host], bool] | None = None
) -> list[StackNode]:
    """Return the groups of all runs, with the hosts that pass the test. Several runs are shown by name."""
    nodes = []
    for group in stack_groups(cluster):
        hosts = tuple(cluster.hosts[agent] for agent in group.agents)
        if test is not None:
            hosts = tuple(host for host in hosts if test(host))
        if hosts:
            name = f"{run_names.get(group.run) or group.run} " if len(run_names) > 1 else ""
            # The first host identifies a group, so the group keeps its identity while other hosts come and
            # go.
            path = (group.run, hosts[0].agent)
            nodes.append(StackNode(path, 0, hosts, group, is_group=True, run=name))
    return nodes


def search_text(host: Host) -> str:
    """Return the text that a filter searches: the host, its threads and every line of their stacks."""
    lines = [place_text(frame) for thread in host.stacks.threads for frame in thread.frames]
    names = [thread.name for thread in host.stacks.threads]
    return " ".join([host.label, *names, *lines, *native_lines(host)]).lower()


def native_lines(host: Host) -> list[str]:
    """Return the native frames of all threads as text, and what they wait for."""
    found = [thread.native for thread in host.stacks.threads if thread.native is not None]
    return [line for native in found for line in [native.waits_for, *innermost_first(native)] if line]
