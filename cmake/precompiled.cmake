# SPDX-License-Identifier: Apache-2.0
# Headers of the standard library and of GoogleTest that most files include, compiled once per build and not once
# per file: half of the time that a file takes. g++ only. The sources include what they use all the same:
# `make compilers` and the presets with clang compile without this.
#
# vb_precompiled(target vb_pch): the target's compile options must be those of the named one.
set(VB_PRECOMPILED FALSE)
if(VB_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(VB_PRECOMPILED TRUE)
endif()

function(vb_precompiled_headers name)
  if(NOT VB_PRECOMPILED)
    return()
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cc CONTENT "// Compiled for its precompiled headers.\n")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cc)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  target_compile_options(${name} PRIVATE -fpch-preprocess)  # for ccache
endfunction()

# g++ 12 has false warnings about std::string, which it suppresses in system headers but not in precompiled ones.
# `make compilers` compiles without these headers and with these warnings.
function(vb_precompiled target from)
  if(TARGET ${from})
    target_precompile_headers(${target} REUSE_FROM ${from})
    target_compile_options(${target} PRIVATE -fpch-preprocess -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
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
