# SPDX-License-Identifier: Apache-2.0
# One switch for the whole tree, so that gtest and our code agree.
if(VB_SANITIZE)
  add_compile_options(-fsanitize=${VB_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VB_SANITIZE})
endif()
# For shared libraries: every symbol must be found when they are linked. Not so with clang's sanitizers,
# whose runtime is in the executable.
if(VB_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(VB_NO_UNDEFINED "")
else()
  set(VB_NO_UNDEFINED -Wl,-z,defs)
endif()
if(VB_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
