# Cross-compiles for aarch64 Linux with Debian's compiler:
#   apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross
# With qemu-user installed, CMake runs what it builds (tests, ctest) under qemu-aarch64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
include("${CMAKE_CURRENT_LIST_DIR}/parts/debian.cmake")
