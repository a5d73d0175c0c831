# SPDX-License-Identifier: Apache-2.0
# One switch for the whole tree, so that gtest and our code agree.
if(VB_SANITIZE)
  add_compile_options(-fsanitize=${VB_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${VB_SANITIZE})
endif()
if(VB_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
