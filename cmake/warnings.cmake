# SPDX-License-Identifier: Apache-2.0
# What our own targets are compiled with. Third-party sources do not link this.
add_library(vb_warnings INTERFACE)
target_compile_options(vb_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror
  -fno-rtti -fno-exceptions -fvisibility=hidden -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(vb_warnings INTERFACE -Wthread-safety)
endif()
