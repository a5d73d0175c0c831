# SPDX-License-Identifier: Apache-2.0
# Every switch of the build. Presets set them; there are at most ten.
option(VB_TESTS "Build the tests" ON)
option(VB_BENCH "Build the benchmarks (needs libbenchmark-dev and libisal-dev)" OFF)
option(VB_PCH "Precompile common headers (g++)" ON)
option(VB_FUZZ "Link fuzz targets with libFuzzer (clang); otherwise they replay their corpus" OFF)
set(VB_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# -g1: functions and lines, which backtraces and profiles need; more costs a third of the compilation.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
# The simulator runs the pure layers millions of times.
set(VB_PURE_OPTIONS "$<$<CONFIG:Debug>:-O1>")
find_program(VB_CCACHE ccache)
if(VB_CCACHE)
  # Without these, ccache does not cache what uses precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${VB_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${VB_CCACHE})
endif()
