# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, below any prefix. The command finds the libraries relative to its own
# file, in a folder that the dynamic linker does not search: a program that `verbatim run` has not started never loads
# them. docs/decisions/0033 says why; scripts/package.sh makes packages from these rules.
if(NOT TARGET verbatim OR NOT TARGET ibverbs)
  return()  # a cross-build may have none
endif()
include(GNUInstallDirs)
set(doc ${CMAKE_INSTALL_DATAROOTDIR}/doc/verbatim)

install(TARGETS verbatim RUNTIME DESTINATION bin)
install(TARGETS ibverbs rdmacm LIBRARY DESTINATION lib/verbatim NAMELINK_SKIP)
install(TARGETS verbatim-preload LIBRARY DESTINATION lib/verbatim)
if(TARGET ibumad)
  install(TARGETS ibumad LIBRARY DESTINATION lib/verbatim/fabric NAMELINK_SKIP)
endif()
# All that is installed, without the tests, which take long to compile.
add_custom_target(programs DEPENDS verbatim ibverbs rdmacm verbatim-preload $<TARGET_NAME_IF_EXISTS:ibumad>)
foreach(section 1 5 7)
  file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.${section})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
install(FILES ${CMAKE_SOURCE_DIR}/packaging/verbatim.bash
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions RENAME verbatim)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/SECURITY.md DESTINATION ${doc})
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/*.md)
install(FILES ${pages} DESTINATION ${doc}/docs)
install(FILES ${CMAKE_SOURCE_DIR}/examples/loopback.c ${CMAKE_SOURCE_DIR}/examples/verbatim-server.service
  DESTINATION ${doc}/examples)
install(PROGRAMS ${CMAKE_SOURCE_DIR}/examples/perftest.sh DESTINATION ${doc}/examples)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/CHANGELOG.md
  ${CMAKE_SOURCE_DIR}/packaging/debian/copyright DESTINATION ${doc})
