"""Time of a collective operation over the links between chips, in closed form.

For one algorithm that sends `wire` bytes from each chip in `steps` rounds

    launch + hop x latency x steps + root x sqrt(wire in MiB) + wire / bandwidth

and a library is taken to pick the fastest algorithm: a ring, a tree, direct exchange of pairs, or
a reduction inside the switch. The first, second and last terms are the alpha-beta model (Hockney
1994); the steps and bytes of rings and trees are those of Thakur, Rabenseifner and Gropp 2005; the
square root stands for the number of chunks that a library chooses to balance its pipeline's fill
against its overhead, which is proportional to the square root of the message. All arrays are
float64; bytes are those of the whole result (all_gather) or input (the others).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hal.errors import HcdError
from hal.sim.chip import Chip, Link
from hal.sim.literals import LITERALS as LIT

if TYPE_CHECKING:
    from hal.sim.calibration import Constants

Array = np.ndarray[Any, np.dtype[np.float64]]
MIB = 2.0**20
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


def predict_s(
    chip: Chip,
    constants: Constants,
    operation: str,
    count: Array,
    size: Array,
    *,
    direct: bool = False,
    link: Link | None = None,
) -> Array:
    """Seconds of each collective, from the first chip's start to the last one's end.

    Args:
        chip: One of the equal chips.
        constants: The constants of the family `collective`.
        operation: One of OPERATIONS.
        count: Chips that take part; 1 costs nothing but a launch.
        size: Bytes of the message.
        direct: The library also has kernels that read from all peers at once, for small messages.
        link: Links to use instead of those that the chip declares.

    Raises:
        HcdError: the chip declares no links.
    """
    link = link or chip.link
    if link is None:
        raise HcdError(
            f"{operation} needs links and the description declares none",
            call=chip.name,
            next_step="Add a section links, or name a system with --system.",
        )
    together = count > 1
    count = np.maximum(count, 2)
    ways = [_ring(operation), _tree(operation)]
    times = [
        _microseconds(constants, link, count, *way(count, size)) for way in ways if way is not None
    ]
    if operation == "all_to_all":
        times = [_pairs(constants, link, count, size)]
    if operation == "all_reduce" and link.in_switch_reduce:
        inside = _in_switch(constants, link, count, size)
        times.append(np.where(count > 2, inside, np.inf))
    if operation == "all_reduce" and direct:
        times.append(_direct(constants, link, count, size))
    found: Array = np.minimum.reduce(times) * 1e-6
    alone = constants["direct_launch"] * 1e-6
    return np.where(together, found, alone)


Way = Callable[[Array, Array], tuple[Array, Array]]


def _ring(operation: str) -> Way:
    """Steps and wire bytes of a ring: each chip passes parts to its neighbour.

    The own part is copied on the chip beside the ring.
    """

    def way(count: Array, size: Array) -> tuple[Array, Array]:
        share = (count - 1) / count
        own = LIT.own_copy / count
        if operation == "all_reduce":
            return 2 * (count - 1), (2 * share + own) * size
        if operation == "broadcast":
            return count - 1, size
        return count - 1, (share + own) * size

    return way


def _tree(operation: str) -> Way | None:
    """Steps and wire bytes of a double binary tree, for operations that have one root."""
    passes = {"all_reduce": 2.0, "broadcast": 1.0}.get(operation)
    if passes is None:
        return None

    def way(count: Array, size: Array) -> tuple[Array, Array]:
        levels = np.ceil(np.log2(np.maximum(count, 2)))
        return LIT.tree_hop * passes * levels, passes * size

    return way


def _microseconds(
    constants: Constants, link: Link, count: Array, steps: Array, wire: Array
) -> Array:
    bandwidth = link.among(count) * constants["wire"] * 1e-6
    found: Array = (
        constants["launch"]
        + constants["hop"] * link.latency_s * 1e6 * steps
        + constants["root"] * np.sqrt(wire / MIB)
        + wire / bandwidth
    )
    return found


def _pairs(constants: Constants, link: Link, count: Array, size: Array) -> Array:
    """All pairs exchange at once; sends and receives are set up when a part is not tiny."""
    wire = ((count - 1) / count + LIT.own_copy / count) * size
    part = size / count
    setup = constants["pairs"] * part / (part + LIT.pair_bytes)
    found: Array = setup + _microseconds(constants, link, count, np.ones_like(count), wire)
    return found


def _in_switch(constants: Constants, link: Link, count: Array, size: Array) -> Array:
    """The switch adds: every chip sends its data once and receives its part and the result."""
    wire = size * (1 + 1 / count)
    bandwidth = link.among(count) * constants["switch_wire"] * 1e-6
    found: Array = (
        constants["switch_launch"] + constants["root"] * np.sqrt(wire / MIB) + wire / bandwidth
    )
    return found


def _direct(constants: Constants, link: Link, count: Array, size: Array) -> Array:
    """One kernel on each chip reads the data of all peers and adds."""
    wire = (count - 1) * size
    bandwidth = link.among(count) * constants["direct_wire"] * 1e-6
    found: Array = constants["direct_launch"] + LIT.peer_us * (count - 1) + wire / bandwidth
    return found
