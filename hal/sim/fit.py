"""Fit of a few constants to measured times, on NumPy alone.

Levenberg-Marquardt (Marquardt 1963) on logarithms of predicted / measured, with weights that turn
the squared error into nearly an absolute one (iteratively reweighted least squares), so that a few
rows where a library chose a bad kernel do not pull the constants. Constants stay inside their
ranges through a logistic map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hal.sim.calibration import Constant, Constants, specification

Array = np.ndarray[Any, np.dtype[np.float64]]
Predict = Callable[[Constants], Array]

_STEP = 0.03  # of the logistic coordinate, for derivatives
_SOFT = 1e-3  # squared error below which a row counts as a square, not as an absolute


@dataclass(frozen=True)
class Errors:
    """How far predictions are from measurements.

    Attributes:
        count: Rows.
        mape: Mean of |predicted / measured - 1|.
        median, p90, worst: Of the same.
        spearman: Rank correlation of predicted and measured, 1 is best; 0 for under two rows.
        bias: Mean of predicted / measured - 1.
    """

    count: int
    mape: float
    median: float
    p90: float
    worst: float
    spearman: float
    bias: float


def errors(predicted: Array, measured: Array) -> Errors:
    """Compare two arrays of times, row by row."""
    if len(measured) == 0:
        return Errors(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    signed = predicted / measured - 1
    size = np.abs(signed)
    return Errors(
        count=len(measured),
        mape=float(size.mean()),
        median=float(np.median(size)),
        p90=float(np.quantile(size, 0.9)),
        worst=float(size.max()),
        spearman=_spearman(predicted, measured),
        bias=float(signed.mean()),
    )


def _ranks(values: Array) -> Array:
    """Ranks from 0, equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    mean: Array = (ends - counts + ends - 1) / 2.0
    ranks: Array = mean[inverse]
    return ranks


def _spearman(a: Array, b: Array) -> float:
    x, y = _ranks(a), _ranks(b)
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale else 0.0


def fit(
    family: str,
    predict: Predict,
    measured: Array,
    *,
    start: Constants,
    chip: str,
    rounds: int = 16,
    names: Sequence[str] | None = None,
) -> Constants:
    """Find the constants whose predictions are nearest to measured times.

    Args:
        family: Family of the constants.
        predict: Constants to predicted times, for the same rows as `measured`.
        measured: Times, all positive, in the unit of `predict`.
        start: Where to begin; constants not in `names` keep this value.
        chip: Name that the result carries.
        rounds: Most steps.
        names: Constants that may move; None for all of the family.
    """
    free = [c for c in specification(family) if names is None or c.name in names]

    def at(z: Array) -> Constants:
        values = {
            **start.values,
            **dict(zip([c.name for c in free], _decode(z, free), strict=True)),
        }
        return Constants(family, values, chip=chip)

    def residual(z: Array) -> Array:
        found: Array = np.log(predict(at(z)) / measured)
        return found

    z = _encode(start, free)
    now = residual(z)
    damping = 1e-2
    for _ in range(rounds):
        step = _improve(residual, z, now, damping)
        if step is None:
            break
        gain = _cost(now) - _cost(step[1])
        z, now, damping = step
        if gain < 1e-5:
            break
    return at(z)


def _improve(
    residual: Callable[[Array], Array], z: Array, now: Array, damping: float
) -> tuple[Array, Array, float] | None:
    """One damped step that lowers the cost, or None when there is none."""
    slopes = np.empty((len(now), len(z)))
    for i in range(len(z)):
        moved = z.copy()
        moved[i] += _STEP
        slopes[:, i] = (residual(moved) - now) / _STEP
    weight = 1 / np.sqrt(now * now + _SOFT)
    normal = slopes.T @ (slopes * weight[:, None])
    gradient = slopes.T @ (now * weight)
    for _ in range(6):
        matrix = normal + damping * np.diag(np.diag(normal) + 1e-3)
        move = np.clip(np.linalg.solve(matrix, -gradient), -1, 1)
        after = residual(z + move)
        if _cost(after) < _cost(now):
            return z + move, after, max(damping / 4, 1e-5)
        damping *= 5
    return None


def log_error(predicted: Array, measured: Array) -> float:
    """What a fit makes small: nearly the mean absolute logarithm of predicted / measured."""
    return _cost(np.log(predicted / measured))


def _cost(residual: Array) -> float:
    return float(np.sqrt(residual * residual + 1e-4).mean())


def _encode(start: Constants, free: Sequence[Constant]) -> Array:
    low, high = (np.array([getattr(c, key) for c in free]) for key in ("low", "high"))
    share = np.clip((np.array([start[c.name] for c in free]) - low) / (high - low), 1e-3, 1 - 1e-3)
    z: Array = np.log(share / (1 - share))
    return z


def _decode(z: Array, free: Sequence[Constant]) -> list[float]:
    shares = 1 / (1 + np.exp(-np.clip(z, -30, 30)))
    return [c.low + (c.high - c.low) * float(s) for c, s in zip(free, shares, strict=True)]


def random_split(count: int, *, share: float, seed: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Mask of the rows to fit: a random share of all."""
    order = np.random.default_rng(seed).permutation(count)
    mask = np.zeros(count, dtype=np.bool_)
    mask[order[: round(count * share)]] = True
    return mask


def block_split(lengths: Sequence[Array], *, seed: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Mask of the rows to fit when whole values of each length are held out.

    The smallest and the largest tenth of the values, and a random tenth of the rest, are held out;
    a row is held out when any of its lengths is.
    """
    random = np.random.default_rng(seed)
    mask = np.ones(len(lengths[0]), dtype=np.bool_)
    for values in lengths:
        unique = np.unique(values)
        tenth = max(1, round(len(unique) / 10))
        middle = random.permutation(unique[tenth:-tenth])[:tenth]
        held = np.concatenate([unique[:tenth], unique[-tenth:], middle])
        mask &= ~np.isin(values, held)
    return mask
