# SPDX-License-Identifier: Apache-2.0
# What our own targets are compiled with; third-party sources link neither.
# vb_strict: the warnings. vb_warnings: the same without exceptions and type information, for all
# code of the libraries; only the command, whose option parser throws, has them.
add_library(vb_strict INTERFACE)
target_compile_options(vb_strict INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror
  -fvisibility=hidden -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  # Not in a target with this property. An option of the target itself would stand before this one, without effect.
  target_compile_options(vb_strict INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:VB_UNCHECKED_LOCKS>>>:-Wthread-safety>)
  # C++20 lets a call of a macro omit the arguments of `...`; clang 13 does not know this yet.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
    target_compile_options(vb_strict INTERFACE -Wno-gnu-zero-variadic-macro-arguments)
  endif()
endif()

add_library(vb_warnings INTERFACE)
target_link_libraries(vb_warnings INTERFACE vb_strict)
# A few thread-local octets, reached without a call; a library that is loaded late finds room for them.
target_compile_options(vb_warnings INTERFACE -fno-rtti -fno-exceptions -ftls-model=initial-exec)
