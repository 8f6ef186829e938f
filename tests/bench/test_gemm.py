"""The peers of the matrix products: right, or absent with a name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from bench import gemm_subject, onednn_peer
from hal import dtypes

INSTALLED = [library for library in (onednn_peer.onednn(),) if library is not None]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    onednn_peer.onednn.cache_clear()
    yield
    onednn_peer.onednn.cache_clear()


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("library", INSTALLED, ids=lambda library: library.version)
def test_onednn_makes_the_product_of_matrices_that_lie_plainly(
    library: onednn_peer.OneDnn, dtype: str
) -> None:
    rng = np.random.default_rng(0)
    kind = dtypes.by_name(dtype).numpy
    a = rng.integers(-2, 3, (5, 24)).astype(kind)
    b = rng.integers(-2, 3, (24, 7)).astype(kind)
    c = np.full((5, 7), 9).astype(kind)
    library.matmul(dtype, 1, a, b, c)()
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(c.astype(np.float32), wanted)


def test_an_absent_onednn_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_peer, "NAMES", ("libno_such_dnnl.so.9",))
    case = gemm_subject.Case("bf16", 16, 1)
    peers, absent = gemm_subject._peers(case)
    assert not [name for name, _ in peers if "oneDNN" in name]
    assert onednn_peer.NOTE in absent


def test_a_library_without_openmp_is_no_peer() -> None:
    with pytest.raises(OSError, match="has no omp_set_num_threads"):
        onednn_peer.OneDnn("libm.so.6")


def test_a_wrong_product_of_a_peer_is_refused() -> None:
    case = gemm_subject.Case("f32", 16, 1)
    with pytest.raises(RuntimeError, match="by a peer is wrong"):
        gemm_subject._check(case, np.full((16, 16), 0.5, np.float32), "a peer")
