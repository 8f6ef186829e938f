"""How far predictions are from the measured times that come with the SDK.

Each case is a file of sim/data, a chip and the constants; the rows that were fitted and those that
were not are told apart by the split that the calibration file records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hal.sim import eager, model, tables
from hal.sim.calibrate import Split, only
from hal.sim.chip import Chip
from hal.sim.fit import Errors, errors
from hal.sim.predict import Target, plan
from hal.sim.run import time_model
from hal.sim.tables import Table

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Case:
    """One group of measured rows.

    Attributes:
        file: Name of the file in sim/data.
        device: Value of its column device.
        chip: Name of the description.
        family: Family whose calibration says which rows were fitted; empty for none.
        split: Split of that calibration.
        harness: Harness of the rows.
        bars: Name of a part to the largest mean error allowed on unseen rows.
        by_dtype: Report each element type by itself.
    """

    file: str
    device: str
    chip: str
    family: str
    split: str = "random"
    harness: str = ""
    bars: tuple[tuple[str, float], ...] = ()
    by_dtype: bool = False


A100, H100, V100 = "nvidia/a100-sxm-80gb", "nvidia/h100-sxm", "nvidia/v100-sxm2"
CASES = (
    Case("gemm_bf16", "H100-SXM", H100, "gemm",
         bars=(("matmul, 20 us and more", 0.06), ("matmul", 0.07))),
    Case("gemm_bf16", "A100-SXM4-80GB", A100, "gemm",
         bars=(("matmul, 20 us and more", 0.08), ("matmul", 0.095))),
    Case("gemm_bf16", "H100-SXM", H100, "gemm", "block", bars=(("matmul", 0.08),)),
    Case("gemm_bf16", "A100-SXM4-80GB", A100, "gemm", "block", bars=(("matmul", 0.10),)),
    Case("deepbench_gemm", "NV_V100", V100, "", by_dtype=True, bars=(("matmul", 0.13),)),
    Case("operators_pytorch_eager", "A100-80GB", A100, "eager", "even", "pytorch-eager",
         bars=(("all", 0.074),)),
    Case("vector_operators", "A100-80GB", A100, "vector"),
    Case("collectives", "H100-SXM", H100, "collective", "even",
         bars=(("all_reduce", 0.15), ("all_reduce, 1 MiB and more", 0.10))),
    Case("collectives", "A100-SXM4-80GB", A100, "collective", "even",
         bars=(("all_reduce", 0.15), ("all_reduce, 1 MiB and more", 0.10))),
    Case("allreduce_a100x4", "A100-80GB", A100, "",
         bars=(("all_reduce", 0.15), ("all_reduce, 1 MiB and more", 0.10))),
)  # fmt: skip
PEER = "llmcompass_us"


@dataclass(frozen=True, kw_only=True)
class Row(Errors):
    """One line of the report: errors, and of what.

    Attributes:
        device, operator: What was measured.
        split: How the rows were divided: random, even, block, or none (nothing fitted).
        part: fitted or unseen.
        peer_mape: Mean error of LLMCompass on the rows it predicts; None where it has none.
        same_rows_mape: Our mean error on those rows.
        bar: Largest mean error that the design allows; None for none.
    """

    device: str
    operator: str
    split: str
    part: str
    peer_mape: float | None = None
    same_rows_mape: float | None = None
    bar: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None without one."""
        return None if self.bar is None else self.mape <= self.bar


@dataclass(frozen=True)
class Points:
    """Predicted and measured times of one case, for a plot."""

    title: str
    measured: Array
    predicted: Array
    unseen: Mask


@dataclass(frozen=True)
class Report:
    """All lines, the points behind them, and what the inputs rest on, a sentence for each chip."""

    rows: tuple[Row, ...]
    points: tuple[Points, ...]
    basis: tuple[str, ...]


def validate() -> Report:
    """Predict all shipped rows and compare. Raises UsageError when a shipped file is damaged."""
    rows: list[Row] = []
    points: list[Points] = []
    for case in CASES:
        found, drawn = _case(case)
        rows += found
        points.append(drawn)
    layer, drawn = _layer()
    chips = [_target(chip).chip for chip in dict.fromkeys(case.chip for case in CASES)]
    basis = tuple(
        f"{chip.name}: {chip.estimated_share:.0%} of {len(chip.inputs)} inputs are estimated"
        for chip in chips
    )
    return Report((*rows, *layer), (*points, drawn), basis)


def data(name: str) -> Table:
    """A table of sim/data by name."""
    from hal import _paths

    return tables.read(_paths.measurements_dir() / f"{name}.csv")


def _target(chip: str, *, whole_lengths: bool = False) -> Target:
    from hal.hcd import load

    return Target.of(Chip.of(load(chip)), whole_lengths=whole_lengths)


def _case(case: Case) -> tuple[list[Row], Points]:
    table = only(data(case.file), "device", case.device)
    target = _target(case.chip, whole_lengths=case.split == "block")
    measured = np.array(tables.measured_us(table))
    predicted = plan(table, harness=case.harness).predict_us(target)
    fitted = np.zeros(len(measured), dtype=np.bool_)
    if case.family:
        record = target.constants[case.family].record["split"]
        fitted = Split(**record).fitted(table)
    peer = np.array([float(row.get(PEER) or "nan") for row in table.rows])
    bars = dict(case.bars)
    rows = []
    for name, mask in _parts(case, table, measured):
        for part, chosen in (("fitted", mask & fitted), ("unseen", mask & ~fitted)):
            if not chosen.any():
                continue
            bar = bars.get(name) if part == "unseen" else None
            rows.append(
                _row(case, name, part, predicted[chosen], measured[chosen], peer[chosen], bar)
            )
    title = f"{case.device} {case.file}" + (f", {case.split}" if case.family else "")
    return rows, Points(title, measured, predicted, ~fitted)


def _row(
    case: Case, name: str, part: str, ours: Array, measured: Array, peer: Array, bar: float | None
) -> Row:
    known = ~np.isnan(peer)
    theirs = errors(peer[known], measured[known]).mape if known.any() else None
    same = errors(ours[known], measured[known]).mape if known.any() else None
    return Row(
        device=case.device,
        operator=name,
        split=case.split if case.family else "none",
        part=part,
        **asdict(errors(ours, measured)),
        peer_mape=theirs,
        same_rows_mape=same,
        bar=bar,
    )


def _parts(case: Case, table: Table, measured: Array) -> Iterator[tuple[str, Mask]]:
    """Names of parts of a table and their rows: each operator, then cuts by size."""
    names = np.array(tables.operators(table), dtype=object)
    names[names == "gemm"] = "matmul"
    everything = np.ones(len(names), dtype=np.bool_)
    many = len(set(names)) > 1
    if many:
        yield "all", everything
    for name in dict.fromkeys(names):
        mask = np.equal(names, name)
        yield str(name), mask
        if case.by_dtype:
            kinds = np.array([row["dtype"] for row in table.rows])
            for kind in dict.fromkeys(kinds):
                yield f"{name} ({kind})", mask & np.equal(kinds, kind)
            continue
        if name in tables.COLLECTIVES:
            size = np.array([float(row["bytes"]) for row in table.rows])
            yield f"{name}, 1 MiB and more", mask & (size >= 2**20)
        elif name == "matmul" and not case.harness:
            yield f"{name}, 20 us and more", mask & (measured >= 20)


def _layer() -> tuple[list[Row], Points]:
    """One layer of GPT-3 on 4 x A100: the operators, and their sum."""
    table = data("gpt3_layer_a100x4")
    measured = {row["op"]: float(row["measured_us"]) for row in table.rows}
    target = _target(A100)
    harness = target.constants["eager"]
    gemm = target.constants["gemm"]
    values = {**gemm.values, "droop": gemm["droop"] * harness["droop"]}
    cool = Target(target.chip, {**target.constants, "gemm": replace(gemm, values=values)})
    ours: dict[str, float] = {}
    for row in time_model(model.load("gpt3-layer"), cool).rows:
        kernel = np.array([row.seconds * 1e6])
        if row.step.op != "all_reduce":
            op = "matmul" if row.step.op in tables.MATMULS else row.step.op
            kernel = eager.call_us(harness, op, kernel)
        ours[row.step.name.replace("Activation", "GeLU")] = float(kernel[0])
    a = np.array([ours[name] for name in measured])
    b = np.array(list(measured.values()))
    whole: Errors = errors(np.array([a.sum()]), np.array([b.sum()]))
    what: dict[str, Any] = {"device": "A100-80GBx4", "split": "none", "part": "unseen"}
    rows = [
        Row(operator="GPT-3 layer, operators", bar=0.15, **what, **asdict(errors(a, b))),
        Row(operator="GPT-3 layer, total", bar=0.05, peer_mape=0.021, **what, **asdict(whole)),
    ]
    return rows, Points("A100-80GBx4 GPT-3 layer", b, a, np.ones(len(b), dtype=np.bool_))
