# SPDX-License-Identifier: Apache-2.0
# Every switch of the build. Presets set them; there are at most ten.
option(VB_TESTS "Build the tests" ON)
option(VB_BENCH "Build the benchmarks (needs libbenchmark-dev and libisal-dev)" OFF)
option(VB_PCH "Precompile common headers" ON)
option(VB_FUZZ "Link fuzz targets with libFuzzer (clang); otherwise they replay their corpus" OFF)
set(VB_DEBUG_INFO 1 CACHE STRING "Debug information: 1 for functions and lines; 2 for variables as well, in a debugger")
set(VB_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Backtraces and profiles need functions and lines; more costs a third of the compilation.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g${VB_DEBUG_INFO} -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g${VB_DEBUG_INFO}")
# The simulator runs the pure layers millions of times.
set(VB_PURE_OPTIONS "$<$<CONFIG:Debug>:-O1>")
# Paths in objects are those below the source folder, so two clones of one commit have the same objects.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
find_program(VB_CCACHE ccache)
if(VB_CCACHE)
  # The sloppiness is for what uses precompiled headers, which ccache does not cache otherwise. The base folder lets clones and
  # work trees share what one of them has compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
    CCACHE_NOHASHDIR=1 ${VB_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${VB_CCACHE})
endif()
