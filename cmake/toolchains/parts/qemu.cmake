# CMake runs what it builds under qemu-user, where that is installed.
find_program(_hal_qemu qemu-${CMAKE_SYSTEM_PROCESSOR})
if(_hal_qemu)
  set(CMAKE_CROSSCOMPILING_EMULATOR "${_hal_qemu};-L;/usr/${CMAKE_SYSTEM_PROCESSOR}-linux-gnu")
endif()
