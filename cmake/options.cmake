# SPDX-License-Identifier: Apache-2.0
# Every switch of the build. Presets set them; there are at most ten.
option(VB_TESTS "Build the tests" ON)
option(VB_BENCH "Build the benchmarks (needs libbenchmark-dev and libisal-dev)" OFF)
option(VB_FUZZ "Link fuzz targets with libFuzzer (clang); otherwise they replay their corpus" OFF)
set(VB_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
find_program(VB_CCACHE ccache)
if(VB_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${VB_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${VB_CCACHE})
endif()
