# SPDX-License-Identifier: Apache-2.0
# vb_layer(wire SOURCES ... TESTS ... RACES ... FUZZERS ...): one static library per folder of src/. RACES are tests
# in which two sides race, or litmus tests: a program of their own, which is always optimised (vb_race_tests).
# What it may link comes from src/LAYERS, and an #include outside of that stops the build.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_custom_target(check_layers ALL
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/check_layers.py ${CMAKE_SOURCE_DIR}/src
  COMMENT "Checking the edges of src/LAYERS" VERBATIM)

# The layers that `layer` may use, as targets. With a third argument: whether it is pure.
function(vb_edges layer result)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/LAYERS)
  file(STRINGS ${CMAKE_SOURCE_DIR}/src/LAYERS lines REGEX "^${layer} *:")
  if(NOT lines)
    message(FATAL_ERROR "layer '${layer}' is not in src/LAYERS")
  endif()
  string(REGEX REPLACE "^[^:]*:([^:]*):.*$" "\\1" uses "${lines}")
  string(STRIP "${uses}" uses)
  separate_arguments(uses)
  list(TRANSFORM uses PREPEND "vb_")
  set(${result} ${uses} PARENT_SCOPE)
  if(ARGC GREATER 2)
    string(REGEX MATCH ": *pure *$" kind "${lines}")
    set(${ARGV2} "${kind}" PARENT_SCOPE)
  endif()
endfunction()

function(vb_layer layer)
  cmake_parse_arguments(arg "" "" "SOURCES;TESTS;RACES;FUZZERS;LINK" ${ARGN})
  vb_edges(${layer} edges is_pure)
  list(REVERSE edges)
  add_library(vb_${layer} STATIC ${arg_SOURCES})
  target_include_directories(vb_${layer} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(vb_${layer} PUBLIC ${edges} PRIVATE vb_warnings ${arg_LINK})
  if(is_pure)
    target_compile_options(vb_${layer} PRIVATE ${VB_PURE_OPTIONS})
    vb_precompiled(vb_${layer} vb_pure_pch)
  else()
    vb_precompiled(vb_${layer} vb_pch)
  endif()
  add_dependencies(vb_${layer} check_layers)
  if(arg_TESTS AND VB_TESTS)
    vb_test(${layer}_test LABEL unit SOURCES ${arg_TESTS} LINK vb_${layer})
  endif()
  if(arg_RACES AND VB_TESTS)
    vb_test(${layer}_race_test LABEL unit SOURCES ${arg_RACES} LINK vb_${layer})
    vb_race_tests(${arg_RACES} IN ${layer}_race_test)
  endif()
  foreach(fuzzer IN LISTS arg_FUZZERS)
    vb_fuzzer(${fuzzer} LINK vb_${layer})
  endforeach()
endfunction()
