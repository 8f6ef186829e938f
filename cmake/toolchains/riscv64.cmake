# Cross-compiles for riscv64 Linux with Debian's compiler:
#   apt-get install gcc-riscv64-linux-gnu libc6-dev-riscv64-cross
# With qemu-user installed, CMake runs what it builds (tests, ctest) under qemu-riscv64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
include("${CMAKE_CURRENT_LIST_DIR}/parts/debian.cmake")
