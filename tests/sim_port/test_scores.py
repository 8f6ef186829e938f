"""The list schedule beside the clock and beside the closed form, on small samples."""

from __future__ import annotations

import numpy as np
import pytest

from bench.schedule_fit import NOTHING, chip_text, fit, forecast_ns, names_of_costs
from bench.schedule_products import ratios
from bench.schedule_programs import cases
from bench.schedule_subject import measure_ns, score


def test_a_fit_finds_the_costs_that_times_were_made_from() -> None:
    """Times that a table made are met by the table that is fitted to them."""
    programs = cases(24)
    costs = dict.fromkeys(names_of_costs(), NOTHING) | {
        "launch": 2000.0,
        "issue": 100.0,
        "load_byte": 0.5,
        "store_byte": 0.25,
        "plain.f32": 1.0,
        "mac.f32": 0.125,
    }
    times = forecast_ns(programs, chip_text(costs))
    found = forecast_ns(programs, chip_text(fit(programs, times)))
    assert np.abs(found / times - 1).max() < 0.01


def test_forecasts_rank_programs_as_the_processor_does() -> None:
    """Ranks alone: they stand a noisy machine. The whole score is `python -m bench schedule`."""
    programs = cases(44)
    measured = measure_ns(programs)
    costs = fit(programs[::2], measured[::2])
    unseen = score(forecast_ns(programs[1::2], chip_text(costs)), measured[1::2])
    assert unseen.spearman >= 0.8


@pytest.mark.parametrize("chip", ["nvidia/a100-sxm-80gb", "nvidia/h100-sxm"])
def test_the_best_product_stands_near_the_closed_form(chip: str) -> None:
    found = ratios(chip, [(2048, 2048, 2048), (4096, 4096, 4096), (3000, 5000, 2000)])
    assert all(0.8 <= ratio <= 1.5 for ratio in found), found
