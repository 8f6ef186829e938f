"""Collectives of the CUDA port on a fake driver and a fake NCCL: what works, and how it fails."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hal

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "cuda_fake"))

from build import build, environment, run_script  # noqa: E402 -- found by the line above

HEAD = """
import json, threading, numpy as np
import hal, hal.errors
from hal import collective
out = {}
port = hal.load_port("cuda")
def told(function):
    try:
        function()
    except hal.errors.HalError as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]
class Member:
    def __init__(self, comm):
        self.comm, self.device = comm, comm.device
        self.stream = self.device.stream()
        self.array = self.device.array(np.full(7, 10 ** comm.rank, np.int32))
    def sum(self):
        self.comm.all_reduce(self.stream, self.array, self.array)
def members(devices, timeout_s=30.0):
    return [Member(comm) for comm in collective.join(devices, timeout_s=timeout_s)]
def sums(team):
    with collective.group():
        for one in team:
            one.sum()
    for one in team:
        one.stream.synchronize()
    return [one.array.numpy().tolist()[0] for one in team]
"""


@pytest.fixture(scope="session")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the libraries of the fake."""
    return build(tmp_path_factory.mktemp("nccl") / "lib")


def run(fake: Path, body: str, **more: str) -> dict[str, Any]:
    """What a script of its own process leaves in `out`."""
    return run_script(fake, HEAD + body, **{"FAKE_CUDA_DEVICES": "4"} | more)


ABSENT = {"HAL_CUDA_NCCL": "/nowhere/libnccl.so.2"}
SUM = """
devices = [port.device(i) for i in range(4)]
out["sums"] = sums(members(devices))
out["offer"] = devices[0].info().capabilities["collective.all_reduce"]
out["claimed"] = devices[0].hcd.get("features.collective")
out["runtime"] = port.info("runtime").rpartition(", ")[2]
"""


def test_devices_of_one_process_add_up_by_nccl(fake: Path) -> None:
    wanted = {"sums": [1111] * 4, "offer": "native", "claimed": True, "runtime": "NCCL 2.27.3"}
    assert run(fake, SUM) == wanted


@pytest.mark.parametrize(
    "library", ["/nowhere/libnccl.so.2", str(Path(hal.__file__).parent / "_lib" / "libhal.so")]
)
def test_without_nccl_the_loader_adds_up(fake: Path, library: str) -> None:
    wanted = {"sums": [1111] * 4, "offer": "emulated", "claimed": False}
    assert run(fake, SUM, HAL_CUDA_NCCL=library) == wanted | {
        "runtime": "collectives through the host"
    }


def test_two_ranks_of_one_device_are_the_loaders(fake: Path) -> None:
    found = run(
        fake,
        """
two = port.device(0)
out["sums"] = sums(members([two, two, port.device(1)]))
out["then by nccl"] = told(lambda: sums(members([two, port.device(1)])))
""",
        FAKE_CUDA_FAIL="ncclAllReduce:3",
    )
    name, text = found["then by nccl"]
    assert (found["sums"], name) == ([111] * 3, "ExecutionFailed")
    assert "ncclAllReduce: NCCL error 3" in text


JOIN = """
from hal.port.native import ffi, lib
name = ffi.new("hal_unique_id *")
out["id"] = lib.hal_collective_unique_id(port.native, name)
def join(devices, rank, handle):
    desc = ffi.new("hal_comm_desc *", {"size": ffi.sizeof("hal_comm_desc"), "rank": rank,
                                       "rank_count": len(devices), "timeout_ns": 60 * 10 ** 9})
    desc.id = name[0]
    return lib.hal_collective_comm_create(port.native, devices[rank].handle, desc, handle)
def on_threads(count, work):
    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


def test_ranks_on_threads_of_one_device_are_the_loaders(fake: Path) -> None:
    found = run(
        fake,
        JOIN
        + """
devices = [port.device(0), port.device(1), port.device(0)]
answers, handles = [None] * 3, [ffi.new("hal_comm *") for _ in range(3)]
def work(rank):
    answers[rank] = join(devices, rank, handles[rank])
on_threads(3, work)
out["answers"], out["made"] = answers, [handle[0] != 0 for handle in handles]
""",
    )
    assert found == {"id": 0, "answers": [0, 0, 0], "made": [True] * 3}


def test_ranks_on_threads_add_up_turn_after_turn(fake: Path) -> None:
    """Each rank waits in its own thread; each is moved on by whoever waits."""
    found = run(
        fake,
        JOIN
        + """
devices, held = [port.device(rank) for rank in range(4)], [None] * 4
def work(rank):
    handle = ffi.new("hal_comm *")
    if join(devices, rank, handle) != 0: return
    one = Member(collective.Communicator(devices[rank], int(handle[0]), rank, 4))
    values = []
    for turn in range(20):
        one.stream.copy(one.array, np.full(7, turn * 10 ** rank, np.int32))
        one.sum()
        one.stream.synchronize()
        values.append(int(one.array.numpy()[3]))
    held[rank] = values
on_threads(4, work)
out["values"] = held
""",
    )
    assert found["values"] == [[1111 * turn for turn in range(20)]] * 4


def test_a_type_that_nccl_does_not_reduce_is_told(fake: Path) -> None:
    found = run(
        fake,
        """
one = members([port.device(0)])[0]
mask = one.device.array(np.ones(4, bool))
out["told"] = told(lambda: one.comm.all_reduce(one.stream, mask, mask))
out["then"] = sums([one])
""",
    )
    assert (found["told"][0], found["then"]) == ("Unsupported", [1])
    assert "is not reduced" in found["told"][1]


def test_a_failure_in_the_middle_ends_all_ranks(fake: Path) -> None:
    """The third collective's kernels wait for ever; the devices go on with new communicators."""
    found = run(
        fake,
        """
team = members([port.device(0), port.device(1)])
out["first"] = sums(team)
with collective.group():
    for one in team: one.sum()
out["told"] = [told(one.stream.synchronize) for one in team]
out["async"] = [one.comm.async_error() for one in team]
out["next"] = told(team[0].sum)[0]
stream, back = team[0].device.stream(), np.zeros(7, np.int32)
stream.copy(back, team[0].device.array(np.full(7, 5, np.int32)))
stream.synchronize()
out["device"] = back.tolist()
""",
        FAKE_CUDA_FAIL="ncclKernel:6:3",
    )
    assert found["first"] == [11, 11]
    assert [name for name, _ in found["told"]] == ["PeerFailed"] * 2
    assert "NCCL error 6, another rank is gone" in found["told"][0][1]
    assert (found["async"][0] < 0, found["next"], found["device"]) == (True, "PeerFailed", [5] * 7)


def test_an_operation_does_not_end_before_its_collective(fake: Path) -> None:
    """One rank is missing: the others' streams have work until it comes."""
    found = run(
        fake,
        """
team = members([port.device(i) for i in range(3)])
with collective.group():
    team[0].sum()
    team[1].sum()
from hal.port.native import lib
out["ready"] = [lib.hal_stream_query(port.native, one.stream.handle) == 0
                for one in team[:2] for _ in range(20)]
team[2].sum()
for one in team: one.stream.synchronize()
out["sums"] = [one.array.numpy().tolist()[0] for one in team]
""",
    )
    assert found == {"ready": [False] * 40, "sums": [111] * 3}


def test_a_rank_that_stays_away_times_out(fake: Path) -> None:
    found = run(
        fake,
        """
team = members([port.device(0), port.device(1)], timeout_s=0.05)
team[0].sum()
out["told"] = told(team[0].stream.synchronize)
out["new"] = sums(members([port.device(0), port.device(1)]))
""",
    )
    assert (found["told"][0], found["new"]) == ("Timeout", [11, 11])


def test_a_communicator_that_nccl_does_not_make_is_told(fake: Path) -> None:
    found = run(
        fake,
        "out['told'] = told(lambda: members([port.device(0), port.device(1)]))",
        FAKE_CUDA_FAIL="ncclCommInitRankConfig:2",
    )
    assert found["told"][0] == "ExecutionFailed"
    assert "ncclCommInitRankConfig: NCCL error 2, NCCL_DEBUG=WARN" in found["told"][1]


def test_a_lost_device_ends_ranks_that_wait(fake: Path) -> None:
    found = run(
        fake,
        """
from hal import dtypes
from hal.codegen.dialect import image
from hal.vil import recipes
team = members([port.device(0), port.device(1)])
team[0].sum()
device = team[1].device
data = image(recipes.matmul(dtypes.f32, dtypes.f32, dtypes.f32), device.hcd)
kernel = device.load(data, "source.cuda")["main"]
kernel.launch(team[1].stream, 4, 4, 4, *(device.array(np.zeros((4, 4), np.float32)) for _ in "abc"))
out["told"] = [told(one.stream.synchronize)[0] for one in reversed(team)]
""",
        FAKE_CUDA_FAIL="kernel:700",
    )
    assert found["told"] == ["DeviceLost"] * 2


@pytest.mark.parametrize(
    ("more", "select", "cases"),
    [({}, "tier2/collective.py", 345), (ABSENT, "all_reduce_in_place or several_collectives", 20)],
    ids=["nccl", "loader"],
)
def test_the_collectives_of_certification_pass(
    fake: Path, tmp_path: Path, more: dict[str, str], select: str, cases: int
) -> None:
    command = [sys.executable, "-c", "from hal.certify.cli import main; main()", "cuda"]
    command += ["--tier", "2", "--isolation", "group:24", "--select", select]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)],
        env=environment(fake, **{"FAKE_CUDA_DEVICES": "4"} | more),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    counts = re.search(r": (\d+) PASS, \d+ NOT_RUN of", done.stdout)
    assert counts is not None, done.stdout + done.stderr
    assert int(counts[1]) >= cases
