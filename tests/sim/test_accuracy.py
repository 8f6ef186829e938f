"""The bars of the design, on the measured rows that no fit has seen."""

from __future__ import annotations

import pytest

from hal.sim.validate import Report, Row, data, validate


@pytest.fixture(scope="module")
def report() -> Report:
    """All shipped rows, predicted once."""
    return validate()


def test_every_bar_of_the_design_is_met_on_unseen_rows(report: Report) -> None:
    barred = [row for row in report.rows if row.bar is not None]
    missed = [f"{r.device} {r.operator} {r.split}: {r.mape:.1%}" for r in barred if not r.met]
    assert (missed, len(barred)) == ([], 16)
    assert all(row.part == "unseen" for row in barred)


@pytest.mark.parametrize(
    ("device", "split", "mape"),
    [
        ("H100-SXM", "random", 0.07),
        ("A100-SXM4-80GB", "random", 0.095),
        ("H100-SXM", "block", 0.08),
        ("A100-SXM4-80GB", "block", 0.10),
    ],
)
def test_products_meet_the_bars_that_the_design_states(
    report: Report, device: str, split: str, mape: float
) -> None:
    row = find(report, device=device, operator="matmul", split=split, part="unseen")
    assert row.mape <= mape
    assert row.spearman >= 0.99


def test_no_fit_is_much_better_on_its_own_rows_than_on_the_others(report: Report) -> None:
    for device in ("H100-SXM", "A100-SXM4-80GB"):
        own = find(report, device=device, operator="matmul", split="random", part="fitted")
        other = find(report, device=device, operator="matmul", split="random", part="unseen")
        assert other.mape <= 1.15 * own.mape


def test_we_are_nearer_than_llmcompass_on_the_rows_that_it_predicts(report: Report) -> None:
    for operator in ("all", "matmul", "layernorm", "gelu"):
        row = find(report, device="A100-80GB", operator=operator, split="even", part="unseen")
        assert row.same_rows_mape is not None
        assert row.peer_mape is not None
        assert row.same_rows_mape < row.peer_mape


def test_every_shipped_row_names_a_source() -> None:
    known = {row["source"] for row in data("sources").rows}
    for name in ("gemm_bf16", "collectives", "operators_pytorch_eager", "allreduce_a100x4",
                 "gpt3_layer_a100x4", "deepbench_gemm", "vector_operators"):  # fmt: skip
        assert {row["source"] for row in data(name).rows} <= known


def find(report: Report, **keys: str) -> Row:
    """The one row with these values."""
    rows = [r for r in report.rows if all(getattr(r, k) == v for k, v in keys.items())]
    assert len(rows) == 1
    return rows[0]
