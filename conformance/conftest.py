"""Cases run under `hal-certify` and `hal repro`, which bring the fixtures of `hal.testing`."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Say what to use when somebody runs plain pytest here."""
    if not config.pluginmanager.has_plugin("hal.testing.fixtures"):
        raise pytest.UsageError(
            "conformance cases run under 'hal-certify PORT --tier N'; one case runs alone with "
            "'hal repro CASE-ID PORT'"
        )
