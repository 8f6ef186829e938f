"""The peers of the kernels: a wrong result is no time."""

from __future__ import annotations

import numpy as np
import pytest

from bench import kernels_subject


def test_a_wrong_result_of_a_peer_is_refused() -> None:
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    right = kernels_subject.softmax(x)
    kernels_subject.check("softmax", "a peer", right, (x,))
    for wrong in (right + np.float32(0.01), np.full_like(right, np.nan), right[:4]):
        with pytest.raises(RuntimeError, match="softmax by a peer is wrong"):
            kernels_subject.check("softmax", "a peer", wrong, (x,))
