"""Ports: finding them, loading them, and why one did not load.

`load_port("acme")` finds the port in the environment and the installed packages, opens it, and
holds its descriptions against it. Every attempt is kept with its reason; `ports()` lists them.
Nothing ever falls back to another port.
"""

from hal.port.loaded import Port
from hal.port.loading import PortRecord, load_port, open_device, ports, try_all

__all__ = ["Port", "PortRecord", "load_port", "open_device", "ports", "try_all"]
