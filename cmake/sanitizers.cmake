# SPDX-License-Identifier: Apache-2.0
# One switch for the whole tree, so that gtest and our code agree.
if(VB_SANITIZE)
  add_compile_options(-fsanitize=${VB_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VB_SANITIZE})
endif()
# The address sanitizer's runtime is in the executable, as clang does it by itself: tests/sanitizer_forks.cc
# calls functions of it that a shared runtime does not export.
set(VB_SANITIZES_ADDRESSES FALSE)
if(VB_SANITIZE MATCHES address)
  set(VB_SANITIZES_ADDRESSES TRUE)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    add_link_options(-static-libasan)
  endif()
endif()
# What code that is different with a sanitizer asks for: compilers differ in how they say it.
set(VB_SANITIZES_THREADS FALSE)
if(VB_SANITIZE MATCHES thread)
  set(VB_SANITIZES_THREADS TRUE)
endif()
add_compile_definitions(VB_ADDRESS_SANITIZER=$<BOOL:${VB_SANITIZES_ADDRESSES}> VB_THREAD_SANITIZER=$<BOOL:${VB_SANITIZES_THREADS}>)
# For shared libraries: every symbol must be found when they are linked. Not so where a sanitizer's runtime
# is in the executable.
if(VB_SANITIZE AND (VB_SANITIZES_ADDRESSES OR CMAKE_CXX_COMPILER_ID MATCHES Clang))
  set(VB_NO_UNDEFINED "")
else()
  set(VB_NO_UNDEFINED -Wl,-z,defs)
endif()
if(VB_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
