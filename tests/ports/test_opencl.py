"""The port of OpenCL devices on every implementation that this machine has, each in a child."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.ports.opencl_runtimes import environments

ENVIRONMENTS = environments(Path(tempfile.mkdtemp(prefix="hal-opencl-")))

CODE = """
import json, sys
import numpy as np
import hal
from hal import dtypes
from hal.codegen.dialect import image
from hal.testing import programs
from hal.vil import decode, recipes

device = hal.open("opencl")
stream, told = device.stream(), {}

a = np.arange(19 * 33, dtype=np.float32).reshape(19, 33) % 7
b = np.arange(33 * 21, dtype=np.float32).reshape(33, 21) % 5
module = recipes.matmul(dtypes.f32, dtypes.f32, dtypes.f32)
kernel = device.load(image(module, device.hcd), "source.opencl")[module.kernels[0].name]
out = device.empty((19, 21), "f32")
kernel.launch(stream, 19, 21, 33, device.array(a), device.array(b), out)
stream.synchronize()
told["product"] = bool(np.array_equal(out.numpy(), a @ b))

line = device.array(np.arange(64, dtype=np.uint8))
stream.copy(line[3:43], line[0:40])  # Over itself.
stream.fill(line[50:58], b"\\x01\\x02\\x03\\x04")  # Off the pattern's grid.
stream.synchronize()
wanted = np.arange(64, dtype=np.uint8)
wanted[3:43] = wanted[0:40].copy()
wanted[50:58] = [1, 2, 3, 4] * 2
told["bytes"] = bool(np.array_equal(line.numpy(), wanted))

faulty = decode(programs.outside())
kernel = device.load(image(faulty, device.hcd), "source.opencl")["outside"]
source, target = device.array(np.ones(1, np.int32)), device.array(np.full(1, 2, np.int32))
bad = device.stream()
kernel.launch(bad, 1 << 40, source, target)
try:
    bad.fill(target, 9)  # Refused at once where the fault is known already.
    bad.synchronize()
except hal.errors.ExecutionFailed as error:
    told["fault"] = [error.operation_id, "outside of its buffer" in str(error)]
told["behind"] = target.numpy().tolist()
print(json.dumps(told))
"""


@pytest.mark.parametrize("lanes", ["0", "1", "8"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_kernels_copies_fills_and_faults_on_a_real_driver(name: str, lanes: str) -> None:
    environment = {**os.environ, **ENVIRONMENTS[name], "HAL_OPENCL_LANES": lanes}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "product": True,
        "bytes": True,
        "fault": [1, True],
        "behind": [2],
    }
