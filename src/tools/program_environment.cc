// SPDX-License-Identifier: Apache-2.0
#include "tools/program_environment.h"

#include <cstdlib>

#include "tools/installation.h"

namespace verbatim::tools {
namespace {

/// Both variables are needed: a DT_RPATH takes precedence over the path, and the preload has no
/// effect on a program that opens libibverbs.so with dlopen(3).
void export_library(const std::filesystem::path& folder) {
  prepend_to_variable("LD_LIBRARY_PATH", folder.string());
  prepend_to_variable("LD_PRELOAD", (folder / kVerbsLibrary).string());
}

/// The address sanitizer's runtime ends a program in which it is not the first library. It need not
/// be: it must precede the C library, and Verbatim's libraries define nothing that it replaces. So
/// it is told not to look, also in programs that the program starts. The user's options follow, and
/// the last one counts.
void export_sanitizer() {
  const char* given = std::getenv("ASAN_OPTIONS");
  std::string options = "verify_asan_link_order=0";
  if (given != nullptr && *given != 0) options += std::string(":") + given;
  ::setenv("ASAN_OPTIONS", options.c_str(), 1);
}

/// Settings that some libraries need before they use an adapter that they do not know. Variables
/// that the user has set are kept.
void export_hints() {
  // Open MPI: UCX over any device will do.
  ::setenv("OMPI_MCA_pml_ucx_devices", "any", 0);
  ::setenv("OMPI_MCA_pml_ucx_tls", "any", 0);
  // NCCL 2.28: its device-initiated transport (GIN) through a proxy thread. By default it looks for
  // the variant in which a GPU drives a Mellanox adapter, and crashes with other adapters.
  ::setenv("NCCL_GIN_TYPE", "2", 0);
}

}  // namespace

void prepend_to_variable(const char* variable, const std::string& first) {
  const char* rest = std::getenv(variable);
  const bool has_rest = rest != nullptr && *rest != 0;
  ::setenv(variable, has_rest ? (first + ":" + rest).c_str() : first.c_str(), 1);
}

void export_verbs(const std::filesystem::path& folder) {
  export_library(folder);
  export_sanitizer();
  export_hints();
}

}  // namespace verbatim::tools
