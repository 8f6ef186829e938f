# What the toolchain files of zig share. They set _hal_zig_target, the processor and HAL_GLIBC.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HAL_GLIBC)
find_program(_hal_zig zig)
if(NOT _hal_zig)
  execute_process(
    COMMAND python3 -c "import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))"
    OUTPUT_VARIABLE _hal_zig OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT _hal_zig)
  message(FATAL_ERROR "There is no zig. Install it: pip install ziglang")
endif()
set(CMAKE_C_COMPILER "${_hal_zig}" cc -target ${_hal_zig_target}.${HAL_GLIBC})

# CMake calls these tools by one word, so each is a small script.
foreach(_hal_tool ar ranlib)
  string(TOUPPER ${_hal_tool} _hal_variable)
  set(_hal_script "${CMAKE_BINARY_DIR}/zig-${_hal_tool}")
  if(NOT EXISTS "${_hal_script}")
    file(WRITE "${_hal_script}" "#!/bin/sh\nexec '${_hal_zig}' ${_hal_tool} \"$@\"\n")
    file(CHMOD "${_hal_script}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  endif()
  set(CMAKE_${_hal_variable} "${_hal_script}")
endforeach()
include("${CMAKE_CURRENT_LIST_DIR}/qemu.cmake")
