"""What only this port's vendor can test; certification tests the rest. Run: pytest tests"""

from pathlib import Path

import numpy

import hal

FOLDER = Path(__file__).resolve().parents[1]


def test_an_array_goes_to_the_chip_and_comes_back() -> None:
    values = numpy.arange(1000, dtype="float32")
    with hal.load_port(str(FOLDER)).device(0) as device:
        assert (device.array(values).numpy() == values).all()


def test_the_device_tells_its_name() -> None:
    with hal.load_port(str(FOLDER)).device(0) as device:
        assert device.text("device.name") != ""
