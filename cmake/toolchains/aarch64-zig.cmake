# Cross-compiles for aarch64 Linux with the compiler of PyPI's ziglang, which needs no root:
#   pip install ziglang
# HAL_GLIBC is the oldest glibc that the result runs on.
set(_hal_zig_target aarch64-linux-gnu)
set(HAL_GLIBC 2.28 CACHE STRING "Oldest glibc that the result runs on")
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
include("${CMAKE_CURRENT_LIST_DIR}/parts/zig.cmake")
