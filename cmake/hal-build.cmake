# How the project's own targets are built. Not installed; ports need hal-functions.cmake only.
find_package(Threads REQUIRED)

# hal_glob(OUT PATTERN…): files under the project that match, in a fixed order, looked up each build.
function(hal_glob out)
  list(TRANSFORM ARGN PREPEND "${CMAKE_SOURCE_DIR}/")
  file(GLOB _files CONFIGURE_DEPENDS ${ARGN})
  list(SORT _files)
  set(${out} "${_files}" PARENT_SCOPE)
endfunction()

# hal_install(…): install(…), but nothing for a checkout, which uses its own folders.
function(hal_install)
  if(NOT SKBUILD_STATE STREQUAL "editable")
    install(${ARGN})
  endif()
endfunction()

# hal_add_absent_port(NAME REASON): a port that only says why this build has not the real one.
function(hal_add_absent_port name reason)
  message(STATUS "The port ${name} is left out: ${reason}")
  hal_add_port(${name} SOURCES "${CMAKE_SOURCE_DIR}/vendors/absent_port.c" KIT)
  target_compile_definitions(hal_port_${name} PRIVATE
    "HAL_ABSENT_NAME=\"${name}\"" "HAL_ABSENT_REASON=\"${reason}\"")
endfunction()

# Language, warnings and sanitizers of everything that the project compiles.
function(hal_project_target target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 11 C_STANDARD_REQUIRED ON POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  target_compile_options(${target} PRIVATE -Wall -Wextra -ffp-contract=off)
  if(HAL_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(HAL_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${HAL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
    target_link_options(${target} PRIVATE -fsanitize=${HAL_SANITIZE})
  endif()
endfunction()

# Called by hal_add_port for ports of this project.
function(hal_project_port target)
  hal_project_target(${target})
  if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/conformance/")
    return() # a broken port stays in the build folder; certification finds it by its path
  endif()
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${HAL_LIB_OUTPUT}")
  set_property(GLOBAL APPEND PROPERTY HAL_PORT_TARGETS ${target}) # C tests open them
  hal_install(TARGETS ${target} LIBRARY DESTINATION hal/_lib)
  set(_hcd "${CMAKE_CURRENT_SOURCE_DIR}/${target}.hcd.yaml") # what the port is loaded with, else its own
  if(EXISTS "${_hcd}")
    configure_file("${_hcd}" "${HAL_LIB_OUTPUT}/${target}.hcd.yaml" COPYONLY)
    hal_install(FILES "${_hcd}" DESTINATION hal/_lib)
  endif()
endfunction()

function(hal_add_headers)
  add_library(hal_headers INTERFACE)
  add_library(hal::headers ALIAS hal_headers)
  target_include_directories(hal_headers INTERFACE "${CMAKE_SOURCE_DIR}/include"
    "${CMAKE_SOURCE_DIR}/vendors" "${CMAKE_SOURCE_DIR}/vendors/kit")
endfunction()

# libhal.so, and hal_static: the same objects with every symbol within reach, for C tests.
function(hal_build_libhal)
  add_library(hal_objects OBJECT ${ARGN})
  hal_project_target(hal_objects)
  target_include_directories(hal_objects PUBLIC "${CMAKE_SOURCE_DIR}/hal/native")
  target_link_libraries(hal_objects PUBLIC hal_headers Threads::Threads ${CMAKE_DL_LIBS} m)

  add_library(libhal SHARED $<TARGET_OBJECTS:hal_objects>)
  add_library(hal::hal ALIAS libhal)
  hal_project_target(libhal)
  set_target_properties(libhal PROPERTIES OUTPUT_NAME hal LINKER_LANGUAGE C
    LIBRARY_OUTPUT_DIRECTORY "${HAL_LIB_OUTPUT}")
  target_link_libraries(libhal PUBLIC hal_headers PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
  if(NOT APPLE)
    set(_map "${CMAKE_SOURCE_DIR}/cmake/libhal.map")
    target_link_options(libhal PRIVATE "LINKER:--version-script=${_map}")
    set_property(TARGET libhal APPEND PROPERTY LINK_DEPENDS "${_map}")
  endif()
  hal_install(TARGETS libhal LIBRARY DESTINATION hal/_lib)

  add_library(hal_static STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:hal_objects>)
  set_target_properties(hal_static PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(hal_static PUBLIC "${CMAKE_SOURCE_DIR}/hal/native")
  target_link_libraries(hal_static PUBLIC hal_headers Threads::Threads ${CMAKE_DL_LIBS} m)
endfunction()

function(hal_build_kit)
  hal_add_kit(hal_kit ${ARGN})
  add_library(hal::kit ALIAS hal_kit)
  hal_project_target(hal_kit)
  set_target_properties(hal_kit PROPERTIES ARCHIVE_OUTPUT_DIRECTORY "${HAL_LIB_OUTPUT}")
  hal_install(TARGETS hal_kit ARCHIVE DESTINATION hal/_lib)
endfunction()

# hal._native: cffi's C source, made from the generated declarations, against the limited API.
function(hal_build_python)
  set(_cdefs "${CMAKE_SOURCE_DIR}/hal/_generated/cdef.h")
  if(NOT EXISTS "${_cdefs}")
    message(STATUS "hal/_generated/cdef.h is absent: hal._native is not built")
    return()
  endif()
  find_package(Python 3.11 COMPONENTS Interpreter Development.SABIModule)
  if(NOT Python_Development.SABIModule_FOUND)
    if(DEFINED SKBUILD)
      message(FATAL_ERROR "The headers of Python are missing. Debian: apt-get install python3-dev")
    endif()
    message(STATUS "The headers of Python are missing: hal._native is not built")
    return()
  endif()
  if(EXISTS "${CMAKE_SOURCE_DIR}/hal/_generated/loader_cdef.h")
    list(APPEND _cdefs "${CMAKE_SOURCE_DIR}/hal/_generated/loader_cdef.h")
  endif()
  list(APPEND _cdefs "${CMAKE_SOURCE_DIR}/hal/_generated/python_port_cdef.h"
    "${CMAKE_SOURCE_DIR}/hal/native/python_cdef.h")
  set(_includes "")
  foreach(_header hal calls loader)
    if(EXISTS "${CMAKE_SOURCE_DIR}/include/hal/${_header}.h")
      list(APPEND _includes --include "hal/${_header}.h")
    endif()
  endforeach()
  list(APPEND _includes --include "python.h")
  set(_source "${CMAKE_CURRENT_BINARY_DIR}/hal_native_module.c")
  set(_script "${CMAKE_SOURCE_DIR}/hal/native/build_ffi.py")
  add_custom_command(OUTPUT "${_source}"
    COMMAND "${Python_EXECUTABLE}" "${_script}" "${_source}" ${_cdefs} ${_includes}
    DEPENDS "${_script}" ${_cdefs} VERBATIM)
  python_add_library(hal_python MODULE USE_SABI 3.11 WITH_SOABI "${_source}")
  set_target_properties(hal_python PROPERTIES OUTPUT_NAME _native C_STANDARD 11
    BUILD_RPATH "$ORIGIN/_lib" INSTALL_RPATH "$ORIGIN/_lib" BUILD_WITH_INSTALL_RPATH ON)
  target_include_directories(hal_python PRIVATE "${CMAKE_SOURCE_DIR}/hal/native")
  target_link_libraries(hal_python PRIVATE libhal)
  if(SKBUILD_STATE STREQUAL "editable")
    set_target_properties(hal_python PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY "${CMAKE_SOURCE_DIR}/hal")
  endif()
  hal_install(TARGETS hal_python LIBRARY DESTINATION hal)
endfunction()

# tests/native/*.c: one program each; exit status 0 is a pass. They see the inside of libhal and of
# the kit. tests/fuzz/*.c: one fuzz target each, run for a fixed count of seeded inputs, or with
# HAL_FUZZ linked with libFuzzer. The target native_tests builds them; ctest or pytest runs them.
function(hal_add_native_tests)
  add_custom_target(native_tests)
  hal_glob(_tests tests/native/*.c)
  foreach(_test IN LISTS _tests)
    cmake_path(GET _test STEM _name)
    hal_add_test_program(test_${_name} "${_test}")
    add_test(NAME ${_name} COMMAND test_${_name})
  endforeach()
  hal_glob(_targets tests/fuzz/*.c)
  foreach(_target IN LISTS _targets)
    cmake_path(GET _target STEM _name)
    if(HAL_FUZZ)
      hal_add_test_program(fuzz_${_name} "${_target}")
      target_compile_options(fuzz_${_name} PRIVATE -fsanitize=fuzzer)
      target_link_options(fuzz_${_name} PRIVATE -fsanitize=fuzzer)
    else()
      hal_add_test_program(fuzz_${_name} "${_target}" "${CMAKE_SOURCE_DIR}/tests/fuzz/driver/driver.c")
    endif()
    set(_corpus "${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${_name}")
    if(NOT IS_DIRECTORY "${_corpus}")
      set(_corpus "")
    endif()
    add_test(NAME fuzz_${_name} COMMAND fuzz_${_name} -runs=20000 -seed=1 ${_corpus})
  endforeach()
  get_property(_real_ports GLOBAL PROPERTY HAL_PORT_TARGETS)
  if(_real_ports)
    add_dependencies(native_tests ${_real_ports})
  endif()
  hal_glob(_ports tests/native/ports/*.c) # small ports that C tests open by path
  foreach(_port IN LISTS _ports)
    cmake_path(GET _port STEM _name)
    set(_target hal_port_test_${_name})
    add_library(${_target} MODULE EXCLUDE_FROM_ALL "${_port}")
    hal_project_target(${_target})
    set_target_properties(${_target} PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden
      LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
    target_link_libraries(${_target} PRIVATE hal_headers Threads::Threads)
    add_dependencies(native_tests ${_target})
  endforeach()
  get_property(_all DIRECTORY PROPERTY TESTS)
  if(_all)
    set_tests_properties(${_all} PROPERTIES TIMEOUT 120
      ENVIRONMENT "HAL_LIB_DIR=${HAL_LIB_OUTPUT};HAL_ROOT=${CMAKE_SOURCE_DIR}")
  endif()
endfunction()

function(hal_add_test_program target)
  add_executable(${target} EXCLUDE_FROM_ALL ${ARGN})
  add_dependencies(native_tests ${target})
  hal_project_target(${target})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_link_libraries(${target} PRIVATE hal_headers Threads::Threads m)
  foreach(_library hal_static hal_kit)
    if(TARGET ${_library})
      target_link_libraries(${target} PRIVATE ${_library})
    endif()
  endforeach()
endfunction()

# The package files beside the libraries, and for a wheel the data in hal/_data.
function(hal_install_all)
  configure_file(cmake/hal-config-version.cmake.in
    "${HAL_LIB_OUTPUT}/cmake/hal-config-version.cmake" @ONLY)
  set(_package cmake/hal-config.cmake cmake/hal-functions.cmake cmake/hal-port.map)
  foreach(_file IN LISTS _package)
    cmake_path(GET _file FILENAME _name)
    configure_file(${_file} "${HAL_LIB_OUTPUT}/cmake/${_name}" COPYONLY)
  endforeach()
  hal_glob(_toolchains cmake/toolchains/*.cmake cmake/toolchains/parts/*.cmake)  # A change copies again.
  file(COPY cmake/toolchains DESTINATION "${HAL_LIB_OUTPUT}/cmake")
  hal_install(DIRECTORY cmake/toolchains DESTINATION hal/_lib/cmake)
  file(CONFIGURE OUTPUT "${HAL_LIB_OUTPUT}/cmake/hal-root.cmake"
    CONTENT "set(_hal_root \"${CMAKE_SOURCE_DIR}\")\n")
  file(CONFIGURE OUTPUT "${HAL_LIB_OUTPUT}/cmake/hal-built-for.cmake"
    CONTENT "set(_hal_built_for \"${CMAKE_SYSTEM_PROCESSOR}\")\n")
  hal_install(FILES ${_package} "${HAL_LIB_OUTPUT}/cmake/hal-config-version.cmake"
    "${HAL_LIB_OUTPUT}/cmake/hal-built-for.cmake" DESTINATION hal/_lib/cmake)
  foreach(_folder include hcd conformance sim/calibration sim/data sim/models vendors/template vendors/kit)
    if(IS_DIRECTORY "${CMAKE_SOURCE_DIR}/${_folder}")
      cmake_path(GET _folder PARENT_PATH _parent)
      hal_install(DIRECTORY ${_folder} DESTINATION hal/_data/${_parent}
        PATTERN "__pycache__" EXCLUDE
        PATTERN "sim/*.[ch]" EXCLUDE PATTERN "sim/CMakeLists.txt" EXCLUDE)
    endif()
  endforeach()
endfunction()
