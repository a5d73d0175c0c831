# SPDX-License-Identifier: Apache-2.0
# vb_test(name [DATA] LABEL unit SOURCES ... LINK ...) and vb_fuzzer(x_fuzz.cc LINK ...). A test with DATA
# knows where tests/ is; the others are the same objects in every checkout, so a compiler cache finds them.
if(VB_TESTS)
  # Debian ships GoogleTest as source, so one recipe serves every compiler, sanitizer and CPU.
  set(BUILD_GMOCK ON)
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)

  # Linked to every test: with the address sanitizer, handlers that make fork(2) work.
  add_library(vb_test_support INTERFACE)
  if(VB_SANITIZES_ADDRESSES)
    add_library(sanitizer_forks OBJECT ${CMAKE_SOURCE_DIR}/tests/sanitizer_forks.cc)
    target_compile_options(sanitizer_forks PRIVATE -fno-sanitize=all)  # a table of functions has no red zones
    target_link_libraries(sanitizer_forks PRIVATE vb_warnings)
    target_link_libraries(vb_test_support INTERFACE $<TARGET_OBJECTS:sanitizer_forks>)
  endif()

  # Compiled like every test, see below.
  vb_precompiled_headers(vb_test_pch <gmock/gmock.h> <gtest/gtest.h> ${VB_COMMON_HEADERS})
  if(TARGET vb_test_pch)
    target_link_libraries(vb_test_pch PRIVATE vb_warnings gtest gmock)
    target_compile_options(vb_test_pch PRIVATE -fPIE -O0 -g${VB_DEBUG_INFO})
    set_target_properties(vb_test_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
endif()

# The target <label>_tests builds all tests with this label.
function(vb_build_with_label name label)
  if(NOT TARGET ${label}_tests)
    add_custom_target(${label}_tests)
  endif()
  add_dependencies(${label}_tests ${name})
endfunction()

function(vb_test name)
  cmake_parse_arguments(arg "DATA" "LABEL;TIMEOUT" "SOURCES;LINK;ARGS" ${ARGN})
  if(NOT VB_TESTS)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK} vb_warnings vb_test_support gtest gmock gtest_main)
  # The code under test is optimised as the preset says; the tests around it need not be, and compile
  # in a third of the time.
  target_compile_options(${name} PRIVATE -O0 -g${VB_DEBUG_INFO})
  # A test is often the only thread that knows an object, and uses it without the lock.
  set_target_properties(${name} PROPERTIES VB_UNCHECKED_LOCKS TRUE)
  vb_precompiled(${name} vb_test_pch)
  vb_build_with_label(${name} ${arg_LABEL})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(arg_DATA)
    target_compile_definitions(${name} PRIVATE VB_TESTDATA="${CMAKE_SOURCE_DIR}/tests")
  endif()
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(CMAKE_CROSSCOMPILING)  # an emulator takes ten times as long
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABEL}" TIMEOUT ${arg_TIMEOUT})
endfunction()

# vb_race_tests(x_test.cc ... IN program): sources of the program in which two sides race, or litmus tests. They are always
# optimised: without that, the instructions of the test itself keep the two sides apart, and a missing fence is
# not noticed. The program gets the label `race`.
function(vb_race_tests)
  cmake_parse_arguments(arg "" "IN" "" ${ARGN})
  set_source_files_properties(${arg_UNPARSED_ARGUMENTS} PROPERTIES COMPILE_OPTIONS -O2 SKIP_PRECOMPILE_HEADERS ON)
  if(TARGET ${arg_IN})
    vb_build_with_label(${arg_IN} race)
    set_property(TEST ${arg_IN} APPEND PROPERTY LABELS race)
  endif()
endfunction()

# A fuzz target reads tests/corpus/<name>/. With VB_FUZZ it explores for a few seconds; without, it
# replays the corpus and a fixed number of mutations of it, under whatever sanitizer the preset has.
function(vb_fuzzer source)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  if(NOT VB_TESTS)
    return()
  endif()
  get_filename_component(name ${source} NAME_WE)
  set(corpus ${CMAKE_SOURCE_DIR}/tests/corpus/${name})
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${arg_LINK} vb_warnings)
  vb_build_with_label(${name} fuzz)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  if(VB_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -max_total_time=5 -max_len=4400 -print_final_stats=0
             -verbosity=0 ${CMAKE_BINARY_DIR}/fuzz/${name}_found ${corpus})
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz/${name}_found)
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz_replay.cc)
    add_test(NAME ${name} COMMAND ${name} ${corpus})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
endfunction()
