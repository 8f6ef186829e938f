"""The tolerance law of the certification, implemented once.

    close(got, ref, law="dot", dtype="f16", terms=64, scale=np.abs(a) @ np.abs(b))

One rule holds for each element: `|got − ref| ≤ a·ulp_out(ref) + b·u_acc·S`, with the reference
`ref` in float64 (or in a pair of float64, see `hal.testing.exact`), S the condition scale of the
operation and u_acc the unit roundoff of the accumulator. NaN, ±inf and the sign of zero compare
exactly unless the law or the chip's declared numerics free them.

| law | a | b | S |
|---|---|---|---|
| exact | 0 | 0 | bit for bit |
| rounded, minmax | correctly rounded | | minmax frees the sign of zero |
| div sqrt rsqrt exp log sin cos tanh pow erf | by type, `ULPS` | 0 | |
| activation | 1 | 8 | max(\\|ref\\|, \\|x\\|) |
| dot | 0.5 | 4 + 2√K | Σ\\|a\\|\\|b\\| |
| rows | 1 | 32 | maximum of the row's terms |
| scan | 0.5 | 4 + 2√i | running Σ\\|x\\| |
| collective | 0.5 | 4 + 2√R | Σ over ranks |
| code | one code of an 8-bit float | | |
| kernel | 1 | 1 / u_acc | what `hal.testing.kernels` measured on the definition |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hal.testing import record
from hal.testing.exact import Pair
from hal.testing.formats import FORMATS, Floats, Format, format_of, round_to, ulp

__all__ = ["LAWS", "ULPS", "Numerics", "bound_of", "close", "compare", "self_check"]

ULPS: dict[str, dict[str, float]] = {
    "div": {"f32": 2.5, "f16": 1, "bf16": 1, "f64": 2.5},
    "sqrt": {"f32": 3, "f16": 1.5, "bf16": 1, "f64": 3},
    "rsqrt": {"f32": 2, "f16": 1, "bf16": 1, "f64": 2},
    "exp": {"f32": 3, "f16": 2, "bf16": 1, "f64": 3},
    "log": {"f32": 3, "f16": 2, "bf16": 1, "f64": 3},
    "sin": {"f32": 4, "f16": 2, "bf16": 1, "f64": 4},
    "cos": {"f32": 4, "f16": 2, "bf16": 1, "f64": 4},
    "tanh": {"f32": 5, "f16": 2, "bf16": 1, "f64": 5},
    "pow": {"f32": 16, "f16": 4, "bf16": 1, "f64": 16},
    "erf": {"f32": 16, "f16": 4, "bf16": 1, "f64": 16},
}
"""Units in the last place of the output that an elementary function may be off."""

SCALED = {"activation": (1.0, 8.0), "rows": (1.0, 32.0)}
GROWING = {"dot", "scan", "collective"}
LAWS = ("exact", "rounded", "minmax", *ULPS, *SCALED, *sorted(GROWING), "code", "kernel")
STRICT = {"exact", "rounded", "minmax"}
"""Laws whose only good answer is the correctly rounded one."""

FREE_ZERO = {"minmax", *SCALED, *GROWING, "kernel"}
"""Laws under which a zero may have either sign."""

TF32_ROUNDOFF = 2.0**-11
_OVER = float(np.nextafter(1, 2))  # what is wrong is over its bound, however little


@dataclass(frozen=True)
class Numerics:
    """Weaker arithmetic that the HCD declares; it is printed on the certificate's first page.

    Attributes:
        flush_subnormals: Results below the smallest normal number may be zero.
        ulps: Law to units in the last place that are allowed instead of the table's.
        accumulator: Unit roundoff of sums instead of the type's own, as 2^-11 for TF32.
    """

    flush_subnormals: bool = False
    ulps: dict[str, float] | None = None
    accumulator: float | None = None

    @classmethod
    def of(cls, flat: dict[str, str]) -> Numerics:
        """Read the section `numerics` of a flat HCD."""
        ulps = {}
        for path, value in flat.items():
            if path.startswith("numerics.") and path.endswith("_ulp"):
                ulps[path.removeprefix("numerics.").removesuffix("_ulp")] = float(value)
        tf32 = flat.get("numerics.matmul.f32") == "tf32"
        return cls(
            flat.get("numerics.flush_subnormals") == "true", ulps, TF32_ROUNDOFF if tf32 else None
        )


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Attributes:
        good: Per element.
        error: |got − ref|; 0 where special values agree, inf where they do not.
        bound: The allowed error.
        ratio: Largest error over bound; 1 is the limit, inf means that a bound of 0 was broken.
    """

    good: NDArray[np.bool_]
    error: Floats
    bound: Floats
    ratio: float


def _scale_terms(law: str, terms: ArrayLike | None, shape: tuple[int, ...]) -> tuple[float, Floats]:
    """Return a and b of a law."""
    if law in SCALED:
        a, b = SCALED[law]
        return a, np.full(shape, b)
    if terms is None:
        raise TypeError(f"law {law!r} needs terms: how many numbers were added")
    return 0.5, np.broadcast_to(4 + 2 * np.sqrt(np.asarray(terms, np.float64)), shape)


def bound_of(
    law: str,
    ref: Floats,
    dtype: str,
    *,
    scale: ArrayLike | None = None,
    terms: ArrayLike | None = None,
    accumulator: str = "",
    numerics: Numerics | None = None,
) -> Floats:
    """Return the allowed error of each element; see `close` for the arguments."""
    allowed = numerics or Numerics()
    if law in ULPS:
        ulps = max(ULPS[law][dtype], (allowed.ulps or {}).get(law, 0.0))
        return ulps * ulp(ref, dtype)
    if scale is None:
        raise TypeError(f"law {law!r} needs scale: the condition scale of each element")
    if law == "kernel":
        return ulp(ref, dtype) + np.asarray(scale, np.float64)
    a, b = _scale_terms(law, terms, ref.shape)
    kind = accumulator or ("f64" if dtype == "f64" else "f32")
    roundoff = allowed.accumulator or FORMATS[kind].unit_roundoff
    size = np.broadcast_to(np.asarray(scale, np.float64), ref.shape)
    return a * ulp(ref, dtype) + b * roundoff * size


def compare(
    got: ArrayLike,
    ref: ArrayLike | Pair,
    *,
    law: str,
    dtype: str = "",
    scale: ArrayLike | None = None,
    terms: ArrayLike | None = None,
    accumulator: str = "",
    numerics: Numerics | None = None,
) -> Comparison:
    """Compare without raising; see `close`."""
    if law not in LAWS:
        raise TypeError(f"there is no law {law!r}; laws are {', '.join(LAWS)}")
    given = np.asarray(got)
    kind = format_of(dtype or given.dtype)
    if kind not in FORMATS:
        return _compare_integers(given, ref)
    options: dict[str, Any] = {"scale": scale, "terms": terms, "accumulator": accumulator}
    with np.errstate(all="ignore"):
        return _compare_floats(given, ref, law, FORMATS[kind], numerics, options)


def _compare_floats(
    given: NDArray[Any],
    ref: ArrayLike | Pair,
    law: str,
    form: Format,
    numerics: Numerics | None,
    options: dict[str, Any],
) -> Comparison:
    """Compare in float64."""
    pair = ref if isinstance(ref, Pair) else Pair.of(ref)
    value = given.astype(np.float64)
    if value.shape != pair.high.shape:
        raise AssertionError(f"the shape is {value.shape}, the reference's is {pair.high.shape}")
    expected = round_to(pair.high, form.name, pair.low)
    error = np.abs((value - pair.high) - pair.low)
    finite = np.where(np.isfinite(pair.high), pair.high, 0)
    flushed = _flushed(value, expected, form, numerics)
    if law in STRICT:
        bound = np.zeros_like(value)
        finite_good = (value == expected) | flushed
    elif law == "code":
        bound = ulp(finite, form.name)
        finite_good = error <= bound
    else:
        bound = bound_of(law, finite, form.name, numerics=numerics, **options)
        finite_good = (error <= bound) | flushed
    return _judge(law, value, pair.high, expected, finite_good, error, bound, form)


def _flushed(
    value: Floats, expected: Floats, form: Format, numerics: Numerics | None
) -> NDArray[np.bool_]:
    """Tell where a declared flush of subnormals explains a zero."""
    if numerics is None or not numerics.flush_subnormals:
        return np.zeros(value.shape, np.bool_)
    zeros: NDArray[np.bool_] = (value == 0) & (np.abs(expected) < form.smallest_normal)
    return zeros


def _judge(
    law: str,
    value: Floats,
    ref: Floats,
    expected: Floats,
    finite_good: NDArray[np.bool_],
    error: Floats,
    bound: Floats,
    form: Format,
) -> Comparison:
    """Add the rules of special values to a comparison of finite ones."""
    good = np.where(np.isfinite(value) & np.isfinite(ref), finite_good, False)
    good |= np.isnan(value) & np.isnan(expected)
    same_inf = np.isinf(value) & np.isinf(expected) & (np.signbit(value) == np.signbit(expected))
    good |= same_inf
    # A finite reference next to the largest number: infinity is right when the bound reaches it.
    edge = form.largest + ulp(np.array(form.largest), form.name) / 2
    reaches = np.isinf(value) & np.isfinite(ref) & (np.abs(ref) + bound >= edge)
    if form.has_inf and law not in STRICT:
        good |= reaches & (np.signbit(value) == np.signbit(ref))
    if law not in FREE_ZERO:
        zeros = (value == 0) & (ref == 0)
        good &= ~zeros | (np.signbit(value) == np.signbit(ref))
    plain = np.isfinite(value) & np.isfinite(ref)
    shown = np.where(plain, error, np.where(good, 0.0, np.inf))
    over = np.where(bound > 0, shown / np.where(bound > 0, bound, 1.0), np.inf)
    held = np.where(bound > 0, np.minimum(over, 1.0), 0.0)
    ratios = np.where(good, held, np.maximum(over, _OVER))
    ratio = float(np.max(ratios)) if ratios.size else 0.0
    return Comparison(good, shown, bound, ratio)


def _compare_integers(got: NDArray[Any], ref: ArrayLike | Pair) -> Comparison:
    """Compare integers and booleans: only equal is good."""
    wanted = np.asarray(ref.high if isinstance(ref, Pair) else ref)
    if got.shape != wanted.shape:
        raise AssertionError(f"the shape is {got.shape}, the reference's is {wanted.shape}")
    good = got == wanted
    error = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
    return Comparison(good, error, np.zeros(got.shape), 0.0 if bool(np.all(good)) else np.inf)


def close(
    got: ArrayLike,
    ref: ArrayLike | Pair,
    *,
    law: str,
    dtype: str = "",
    scale: ArrayLike | None = None,
    terms: ArrayLike | None = None,
    accumulator: str = "",
    numerics: Numerics | None = None,
    operator: str = "",
) -> Comparison:
    """Check every element of a result against its reference.

    Args:
        got: The result, in the output's type.
        ref: The reference: float64, exact integers, or a `Pair`.
        law: One of `LAWS`.
        dtype: The output's type; default that of `got`.
        scale: S per element, for laws that have one.
        terms: How many numbers were added (K, i or R), for laws that grow with it.
        accumulator: Type of the running sum; default f64 for f64, else f32.
        numerics: What the HCD declares weaker.
        operator: Row of the report's heat map.

    Raises:
        AssertionError: an element is outside its bound; the message has the worst one.
    """
    options: dict[str, Any] = {"scale": scale, "terms": terms, "accumulator": accumulator}
    found = compare(got, ref, law=law, dtype=dtype, numerics=numerics, **options)
    notes = record.current()
    notes.comparisons += 1
    notes.error_over_bound = max(notes.error_over_bound or 0.0, found.ratio)
    notes.operator = operator or notes.operator
    notes.dtype = format_of(dtype or np.asarray(got).dtype)
    if not bool(np.all(found.good)):
        raise AssertionError(_message(np.asarray(got), ref, law, found))
    return found


def _message(got: NDArray[Any], ref: ArrayLike | Pair, law: str, found: Comparison) -> str:
    """Say how many elements are wrong and show the worst."""
    bad = ~found.good
    badness = np.where(bad, found.error / np.maximum(found.bound, 1e-300), -1.0)
    place = np.unravel_index(int(np.argmax(badness)), bad.shape) if bad.ndim else ()
    high = np.asarray(ref.high if isinstance(ref, Pair) else ref)
    index = ", ".join(str(int(i)) for i in place)
    count = int(np.sum(bad))
    return (
        f"law {law}: {count} of {bad.size} elements are wrong; worst at [{index}]: got "
        f"{got[place]!s}, reference {high[place]!r}, error {float(found.error[place]):.6g}, "
        f"bound {float(found.bound[place]):.6g}"
    )


def self_check() -> list[str]:
    """Return what the comparator gets wrong on arrays whose verdict is known; empty when honest.

    The harness calls it at its start, in the very process that forks the cases.
    """
    nan, inf = float("nan"), float("inf")
    bad: list[tuple[str, Any, Any, str, str]] = [
        ("one ulp beside exact", [1 + 2.0**-23], [1.0], "exact", "f32"),
        ("NaN where a number belongs", [nan], [0.0], "rounded", "f32"),
        ("a number where NaN belongs", [0.0], [nan], "rounded", "f32"),
        ("inf where a number belongs", [inf], [1.0], "exp", "f32"),
        ("the wrong infinity", [-inf], [inf], "exact", "f32"),
        ("plus zero for minus zero", [0.0], [-0.0], "rounded", "f32"),
        ("rounded to zero instead of nearest", [1.0], [1 + 0.9 * 2.0**-7], "rounded", "bf16"),
        ("four ulp in exp", [1 + 4 * 2.0**-23], [1.0], "exp", "f32"),
        ("an integer off by one", [3], [4], "exact", "i32"),
        ("a last element that is stale", [1.0, 2.0, 0.0], [1.0, 2.0, 3.0], "exact", "f32"),
    ]
    good: list[tuple[str, Any, Any, str, str]] = [
        ("equal numbers", [1.0, nan, inf, -0.0], [1.0, nan, inf, -0.0], "exact", "f32"),
        ("two ulp in exp", [1 + 2 * 2.0**-23], [1.0], "exp", "f32"),
        ("ties to even", [1.0], [1 + 2.0**-8], "rounded", "bf16"),
    ]
    wrong = []
    for want, cases in ((False, bad), (True, good)):
        for name, got, ref, law, dtype in cases:
            found = bool(np.all(compare(got, ref, law=law, dtype=dtype).good))
            if found != want:
                wrong.append(f"the comparator {'refuses' if want else 'accepts'} {name}")
    return wrong
