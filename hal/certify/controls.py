"""Cases that examine the harness itself: their statuses are known before they run.

They run first, through the same server, children and comparator as the port's cases. When one of
them ends in any other way than `hal.certify.examine` expects, nothing that the harness tells can be
believed, and the run ends with a harness error.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from hal.testing.case import case

control = case(rules=["control"])


@control
def test_a_good_case_passes() -> None:
    assert True


@control
def test_a_false_assertion_fails() -> None:
    assert os.getpid() == -1


@control
def test_an_exception_fails() -> None:
    raise ValueError("a case that raises has failed")


@pytest.fixture
def _bad_end() -> object:
    yield
    raise AssertionError("what a fixture finds at the end counts")


@control
@pytest.mark.usefixtures("_bad_end")
def test_a_failure_after_the_case_fails() -> None:
    assert True


@control
def test_an_exit_from_python_fails() -> None:
    sys.exit(0)


@control
def test_a_skip_without_a_capability_fails() -> None:
    skip = pytest.importorskip
    skip("a_module_that_nobody_has")


@control
def test_wrong_numbers_fail() -> None:
    from hal.testing.tolerance import close

    close([1.0, 2.0, 3.0], [1.0, 2.0, 3.0000005], law="exact", dtype="f32")


@control
def test_a_missing_nan_fails() -> None:
    from hal.testing.tolerance import close

    close([1.0, 0.0], [1.0, float("nan")], law="rounded", dtype="f32")


@control
def test_an_invented_nan_fails() -> None:
    from hal.testing.tolerance import close

    close([1.0, float("nan")], [1.0, 0.0], law="rounded", dtype="f32")


@control
def test_right_numbers_pass() -> None:
    from hal.testing.tolerance import close

    close(
        [1.0, float("nan"), float("inf")],
        [1.0, float("nan"), float("inf")],
        law="exact",
        dtype="f32",
    )


@control
def test_a_crash_is_a_crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@control
def test_a_crash_that_says_unsupported_is_a_crash() -> None:
    print("UNSUPPORTED", flush=True)
    os.kill(os.getpid(), signal.SIGABRT)


@control
def test_an_exit_without_a_result_is_a_crash() -> None:
    os._exit(0)


@case(rules=["control"], timeout_s=0.3)
def test_a_hang_is_a_hang() -> None:
    time.sleep(60)
