# SPDX-License-Identifier: Apache-2.0
# Headers of the standard library and of GoogleTest that most files include, compiled once per build and not once
# per file: half of the time that a file takes. The sources include what they use all the same: `make compilers`
# compiles without this.
#
# vb_precompiled(target vb_pch): the target's compile options must be those of the named one.
# vb_precompiles(target header...): headers of the target's own, for options that no other target has.
set(VB_PRECOMPILED FALSE)
set(VB_PCH_OPTIONS "")
if(VB_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(VB_PRECOMPILED TRUE)
  set(VB_PCH_OPTIONS -fpch-preprocess)  # for ccache
elseif(VB_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL Clang AND NOT VB_FUZZ)
  set(VB_PRECOMPILED TRUE)
  set(VB_PCH_OPTIONS -Xclang -fno-pch-timestamp)  # for ccache
endif()

function(vb_precompiled_headers name)
  if(NOT VB_PRECOMPILED)
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cc CONTENT "// Compiled for its precompiled headers.\n")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cc)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  target_compile_options(${name} PRIVATE ${VB_PCH_OPTIONS})
endfunction()

# g++ 12 has false warnings about std::string, which it suppresses in system headers but not in precompiled ones.
# `make compilers` builds the libraries and the tool without these headers and with these warnings. They come from
# the optimiser, so tests and benchmarks, which it only checks, are compiled without them.
set(VB_PCH_WARNINGS -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread)
function(vb_precompiled_options target)
  target_compile_options(${target} PRIVATE ${VB_PCH_OPTIONS})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE ${VB_PCH_WARNINGS})
  endif()
endfunction()

function(vb_precompiled target from)
  if(TARGET ${from})
    target_precompile_headers(${target} REUSE_FROM ${from})
    vb_precompiled_options(${target})
  endif()
endfunction()

function(vb_precompiles target)
  if(VB_PRECOMPILED)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    vb_precompiled_options(${target})
  endif()
endfunction()

set(VB_COMMON_HEADERS <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <functional> <memory> <mutex>
  <optional> <span> <string> <string_view> <utility> <variant> <vector>)
vb_precompiled_headers(vb_pch ${VB_COMMON_HEADERS})
vb_precompiled_headers(vb_pure_pch ${VB_COMMON_HEADERS})
if(VB_PRECOMPILED)
  target_link_libraries(vb_pch PRIVATE vb_warnings)
  target_link_libraries(vb_pure_pch PRIVATE vb_warnings)
  target_compile_options(vb_pure_pch PRIVATE ${VB_PURE_OPTIONS})
endif()
