"""The simulated chips with an explicit profile, opened once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.codegen.explicit.port import CHIPS, Chip


@pytest.fixture(scope="session", params=CHIPS)
def chip(request: pytest.FixtureRequest) -> Iterator[Chip]:
    """A chip that runs programs and checks them for races."""
    with Chip(request.param) as opened:
        yield opened
