"""Pictures of `hal sim`: predicted against measured, roofline, sweep. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hal.errors import UsageError
from hal.sim.chip import element_type

if TYPE_CHECKING:
    from hal.sim.run import Timing
    from hal.sim.validate import Points


def _figure(columns: int, rows: int, *, width: float = 4.2, height: float = 3.8) -> Any:
    """A new figure and its axes, drawn without a display.

    Raises UsageError when matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "a picture needs the Python package matplotlib",
            call="hal sim",
            next_step="Run 'pip install matplotlib'.",
        ) from None
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _save(figure: Any, path: Path) -> None:
    """Write a picture. Raises UsageError when the path cannot be written or has no known ending."""
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", call=str(path)) from None
    except ValueError as error:
        raise UsageError(str(error), call=str(path), next_step="Use .png, .svg or .pdf.") from None


def predicted(points: Sequence[Points], path: Path) -> None:
    """Draw predicted against measured for each case; fitted rows are pale."""
    columns = min(4, len(points))
    figure, axes = _figure(columns, -(-len(points) // columns))
    for axis, case in zip(axes.flat, points, strict=False):
        low, high = case.measured.min() / 1.5, case.measured.max() * 1.5
        axis.plot([low, high], [low, high], color="black", linewidth=0.8)
        axis.fill_between([low, high], [low * 0.9, high * 0.9], [low * 1.1, high * 1.1],
                          color="0.9", label="within 10 %")  # fmt: skip
        for mask, color, name in ((~case.unseen, "#b8c9dc", "fitted"),
                                  (case.unseen, "#c0392b", "unseen")):  # fmt: skip
            if mask.any():
                axis.scatter(case.measured[mask], case.predicted[mask], s=5, color=color,
                             label=f"{name} ({int(mask.sum())})", linewidths=0)  # fmt: skip
        axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high),
                 xlabel="measured, us", ylabel="predicted, us")  # fmt: skip
        axis.set_title(case.title, fontsize=9)
        axis.legend(fontsize=7, loc="upper left")
    for axis in list(axes.flat)[len(points) :]:
        axis.set_axis_off()
    _save(figure, path)


def roofline(timing: Timing, path: Path) -> None:
    """Draw the roofs of the chip and the model's operators at their intensity and rate."""
    figure, axes = _figure(1, 1, width=8.5, height=5.2)
    axis, chip = axes[0][0], timing.target.chip
    dtype = element_type(timing.model.dtype)
    roofs = [("lanes f32", chip.lane_rate(), "#7f8c8d")]
    if dtype in chip.macs_per_cycle:
        roofs.insert(0, (f"matrix {dtype}", chip.peak_flops(dtype), "#2c3e50"))
    rows = [row for row in timing.rows if row.flops > 0 and row.bytes > 0]
    spots = [(row.flops / row.bytes, row.flops / row.seconds, row) for row in rows]
    ridge = roofs[0][1] / chip.dram_bytes_per_s
    low = min([0.1, *(x for x, _, _ in spots)]) / 2
    high = max([ridge * 10, *(x for x, _, _ in spots)]) * 2
    x = np.geomspace(low, high, 200)
    for name, peak, color in roofs:
        axis.plot(x, np.minimum(peak, x * chip.dram_bytes_per_s), color=color, linewidth=1.5,
                  label=f"{name}: {peak / 1e12:,.1f} T/s")  # fmt: skip
    total = timing.seconds
    for index, (intensity, rate, row) in enumerate(spots):
        share = row.seconds / total
        axis.scatter([intensity], [rate], s=15 + 250 * share, alpha=0.7, linewidths=0,
                     color=f"C{index % 10}", marker="os^Dv"[index // 10 % 5],
                     label=f"{row.step.name} {share:.0%}" if share >= 0.01 else None)  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel="operations a byte of memory",
             ylabel="operations a second")  # fmt: skip
    bandwidth = chip.dram_bytes_per_s / 1e9
    axis.set_title(f"{timing.model.name} on {chip.name}, {bandwidth:,.0f} GB/s "
                   f"(area: share of {total * 1e3:.3g} ms)", fontsize=9)  # fmt: skip
    axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    axis.grid(which="major", color="0.92")
    _save(figure, path)


def sweep(path_name: str, values: Sequence[float], milliseconds: Sequence[float], title: str,
          path: Path) -> None:  # fmt: skip
    """Draw a model's time against one number of the description."""
    figure, axes = _figure(1, 1, width=6, height=4)
    axis = axes[0][0]
    axis.plot(values, milliseconds, marker="o", color="#2c3e50")
    axis.set(xlabel=path_name, ylabel="time, ms")
    axis.set_ylim(bottom=0, top=max(milliseconds) * 1.1)
    axis.set_title(title, fontsize=9)
    axis.grid(color="0.92")
    _save(figure, path)
