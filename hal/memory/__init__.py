"""Device memory: buffers, arrays, pinned host memory, and the caching allocator."""

from hal.memory.array import Array
from hal.memory.pinned import PinnedMemory
from hal.memory.pool import Pool, PoolStats
from hal.memory.region import Buffer, Region, View

__all__ = ["Array", "Buffer", "PinnedMemory", "Pool", "PoolStats", "Region", "View"]
