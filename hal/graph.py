"""Graphs: work that is recorded once and launched many times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hal.chip.owned import Owned
from hal.errors import InvalidState, OutOfRange, UsageError
from hal.memory.region import Buffer
from hal.port.native import ffi, lib

if TYPE_CHECKING:
    from types import TracebackType

    from hal.chip.opened import Chip
    from hal.chip.queue import Queue
    from hal.launch import Kernel

__all__ = ["Capture", "Graph"]


class Graph(Owned):
    """Launches, copies and fills in their order. Made by `with stream.capture() as graph: …`.

    It keeps the memory that it uses alive until it is closed. Nodes count from 0 in the order of
    recording.
    """

    __slots__ = ("_is_recorded", "_kernels", "_uses")

    NOUN = "graph"
    END = "graph.destroy"

    def __init__(self, device: Chip) -> None:
        super().__init__(device, 0)
        self._is_recorded = False
        self._kernels: list[Kernel | None] = []  # Of each node; None for a copy or fill.
        self._uses: list[object] = []

    @property
    def node_count(self) -> int:
        """Nodes recorded."""
        return len(self._kernels)

    def launch(self, stream: Queue) -> None:
        """Enqueue the recorded work on a stream of the same device."""
        if stream.device is not self.device:
            raise UsageError(
                f"the graph is of {self.device.name}, the stream of {stream.device.name}",
                call="graph.launch",
                next_step="Launch it on a stream of its own device.",
            )
        handle = self._ready("graph.launch")
        status = lib.hal_graph_launch(self.device.native, handle, stream._live("graph.launch"))
        if status:
            self._fail(status, "graph.launch")

    def update(self, node: int, *arguments: Any) -> None:
        """Replace the arguments of a recorded launch, for later launches of the graph.

        Raises:
            OutOfRange: there is no such node.
            UsageError: the node is no launch.
        """
        call = "graph.update_arguments"
        handle = self._ready(call)
        if not isinstance(node, int) or not 0 <= node < self.node_count:
            raise OutOfRange(
                f"there is no node {node!r}; the graph has {self.node_count}, from 0",
                call=call,
                device=self.device.name,
            )
        kernel = self._kernels[node]
        if kernel is None:
            raise UsageError(
                f"node {node} is a copy or fill, not a launch",
                call=call,
                next_step="Update launches alone; record the rest again.",
            )
        packed, count = kernel.pack(arguments, call=call), len(kernel.signature)
        workspace_bytes = kernel.check(packed, call=call)
        uses: list[object] = [arguments]
        if kernel.has_workspace:
            workspace = Buffer(self.device, max(workspace_bytes, 1))
            assert workspace._argument is not None
            packed, count = packed + workspace._argument, count + 1
            uses.append(workspace)
        status = lib.hal_python_update(self.device.native, handle, node, packed, count)
        if status:
            self._fail(status, call)
        self._uses.append(uses)

    def _ready(self, call: str) -> int:
        if not self._is_recorded:
            raise InvalidState(
                "the graph is still being recorded, or its recording failed",
                call=call,
                device=self.device.name,
                next_step="Use it after its with-statement has ended.",
            )
        return self.handle

    def _note(self, kernel: Kernel | None, *uses: object) -> None:
        """A node was recorded: remember its kernel, and keep alive what it uses."""
        self._kernels.append(kernel)
        self._uses.append(uses)

    def _destroy(self, handle: int) -> int:
        device, uses, self._uses = self.device, self._uses, []
        status = int(lib.hal_graph_destroy(device.native, handle))
        device._keep_until_idle(uses)
        return status

    def _describe(self) -> str:
        return f"graph of {self.node_count} nodes"


class Capture:
    """The with-statement of `stream.capture()`: records the stream's work into a graph.

    The graph can be launched when the statement has ended. An exception inside ends the recording
    and throws it away.
    """

    def __init__(self, stream: Queue) -> None:
        self._stream = stream
        self._graph = Graph(stream.device)

    def __enter__(self) -> Graph:
        stream = self._stream
        status = lib.hal_graph_begin(stream.device.native, stream._live("graph.begin"))
        if status:
            stream._fail(status, "graph.begin")
        stream._graph = self._graph
        stream._fast = None  # Launches take the careful way, which notes what they use.
        return self._graph

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stream = self._stream
        stream._graph = None
        if stream.is_closed:
            if error is None:
                stream._refuse_dead("graph.end")
            return
        stream._fast = stream._handle
        out = ffi.new("hal_graph *")
        status = lib.hal_graph_end(stream.device.native, stream._handle, out)
        if error is not None:
            if status == 0:
                lib.hal_graph_destroy(stream.device.native, out[0])
            return
        if status:
            stream._fail(status, "graph.end")
        self._graph._handle, self._graph._is_recorded = int(out[0]), True
