# Package file of find_package(hal). It lies in hal/_lib/cmake, of a checkout or of a wheel.
#
# hal::headers   the include path of hal/hal.h and of the kit's headers
# hal::kit       the kit, a static library that ports may link: the built one, or where the port is
#                cross-compiled or HAL_KIT_FROM_SOURCE is set, one of the same sources
# hal::hal       libhal, for programs in C that use devices
# hal_add_port   see hal-functions.cmake
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH _hal_lib)
cmake_path(GET _hal_lib PARENT_PATH _hal_package)
if(EXISTS "${_hal_package}/_data/include/hal/hal.h")
  set(_hal_root "${_hal_package}/_data")
elseif(EXISTS "${CMAKE_CURRENT_LIST_DIR}/hal-root.cmake")
  include("${CMAKE_CURRENT_LIST_DIR}/hal-root.cmake") # written by a build from source
endif()
if(NOT EXISTS "${_hal_root}/include/hal/hal.h")
  set(hal_FOUND FALSE)
  set(hal_NOT_FOUND_MESSAGE "hal/hal.h is not beside ${CMAKE_CURRENT_LIST_DIR}. Reinstall hal-sdk.")
  return()
endif()

include("${CMAKE_CURRENT_LIST_DIR}/hal-functions.cmake")
find_package(Threads REQUIRED)
if(NOT TARGET hal::headers)
  add_library(hal::headers INTERFACE IMPORTED)
  target_include_directories(hal::headers INTERFACE
    "${_hal_root}/include" "${_hal_root}/vendors" "${_hal_root}/vendors/kit")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/hal-built-for.cmake")
set(_hal_is_foreign OFF)
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL _hal_built_for)
  set(_hal_is_foreign ON)
endif()
option(HAL_KIT_FROM_SOURCE "Compile the kit with the port, with the port's compiler and flags" OFF)
file(GLOB _hal_kit_sources "${_hal_root}/vendors/kit/*.c")
if(NOT TARGET hal::kit AND _hal_kit_sources AND (_hal_is_foreign OR HAL_KIT_FROM_SOURCE))
  hal_add_kit(hal_kit_of_port ${_hal_kit_sources})
  add_library(hal::kit ALIAS hal_kit_of_port)
endif()
if(NOT TARGET hal::kit AND NOT _hal_is_foreign AND EXISTS "${_hal_lib}/libhal_kit.a")
  add_library(hal::kit STATIC IMPORTED)
  set_target_properties(hal::kit PROPERTIES IMPORTED_LOCATION "${_hal_lib}/libhal_kit.a")
  target_link_libraries(hal::kit INTERFACE hal::headers Threads::Threads ${CMAKE_DL_LIBS} m)
endif()
if(NOT TARGET hal::hal AND NOT _hal_is_foreign AND EXISTS "${_hal_lib}/libhal.so")
  add_library(hal::hal SHARED IMPORTED)
  set_target_properties(hal::hal PROPERTIES IMPORTED_LOCATION "${_hal_lib}/libhal.so")
  target_link_libraries(hal::hal INTERFACE hal::headers)
endif()
