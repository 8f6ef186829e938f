# Functions for ports, inside the project and outside it (find_package(hal) brings them).

# hal_add_port(NAME SOURCES… [KIT] [LIBRARIES…])
#
# Builds hal_port_NAME.so from C sources. All symbols are hidden but hal_port_entry. With KIT the
# port is linked with the kit. LIBRARIES are the chip's own libraries or other CMake targets.
# The target is called hal_port_NAME; change it with target_compile_options and the like.
function(hal_add_port name)
  cmake_parse_arguments(PARSE_ARGV 1 _port "KIT" "" "SOURCES;LIBRARIES")
  set(_target hal_port_${name})
  add_library(${_target} MODULE ${_port_SOURCES} ${_port_UNPARSED_ARGUMENTS})
  set_target_properties(${_target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${_target} SUFFIX ".so"
    C_STANDARD 11 C_STANDARD_REQUIRED ON)
  target_link_libraries(${_target} PRIVATE hal::headers ${_port_LIBRARIES})
  if(_port_KIT)
    target_link_libraries(${_target} PRIVATE hal::kit)
  endif()
  if(NOT APPLE)
    target_link_options(${_target} PRIVATE
      "LINKER:--version-script=${HAL_CMAKE_DIR}/hal-port.map")
    set_property(TARGET ${_target} APPEND PROPERTY LINK_DEPENDS "${HAL_CMAKE_DIR}/hal-port.map")
    if(NOT "${CMAKE_C_FLAGS} ${HAL_SANITIZE}" MATCHES "sanitize|address|thread|undefined")
      target_link_options(${_target} PRIVATE "LINKER:-z,defs") # a port imports nothing of the host
    endif()
  endif()
  if(COMMAND hal_project_port)
    hal_project_port(${_target})
  endif()
endfunction()

# hal_add_kit(TARGET SOURCES…)
#
# Builds the kit as a static library. The interpreter of VIL rounds after each operation on every
# machine, so the compiler may not join a product and a sum (-ffp-contract=off).
function(hal_add_kit target)
  add_library(${target} STATIC ${ARGN})
  set_target_properties(${target} PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON
    POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
  target_compile_options(${target} PRIVATE -Wall -Wextra -ffp-contract=off)
  target_link_libraries(${target} PUBLIC hal::headers Threads::Threads ${CMAKE_DL_LIBS} m)
endfunction()
set(HAL_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}")
