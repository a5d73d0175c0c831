// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "capture/capture_file.h"
#include "device/config.h"
#include "device/port_info.h"
#include "host/runtime_directory.h"
#include "link/fault_rules.h"
#include "tools/commands.h"
#include "tools/sysfs_tree.h"

namespace verbatim::tools {
namespace {

// The exit statuses of env(1) and nohup(1).
constexpr int kLauncherFailed = 125;
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

constexpr const char* kVerbsLibrary = "libibverbs.so.1";
constexpr const char* kRedirectLibrary = "libverbatim-preload.so";

/// The folder with Verbatim's libraries: ../lib from the folder of this executable.
std::filesystem::path library_folder() {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  return self.parent_path().parent_path() / "lib";
}

/// Puts `first` at the front of the list in a variable.
void prepend(const char* variable, const std::string& first) {
  const char* rest = std::getenv(variable);
  const bool has_rest = rest != nullptr && *rest != 0;
  ::setenv(variable, has_rest ? (first + ":" + rest).c_str() : first.c_str(), 1);
}

/// Both variables are needed: a DT_RPATH takes precedence over the path, and the preload has no
/// effect on a program that opens libibverbs.so with dlopen(3).
void export_library(const std::filesystem::path& folder) {
  prepend("LD_LIBRARY_PATH", folder.string());
  prepend("LD_PRELOAD", (folder / kVerbsLibrary).string());
}

/// Programs that look under /sys/class/infiniband find the adapters there. If that is not possible,
/// a message says that they will find none; programs that call the library still do.
void export_sysfs(const std::filesystem::path& folder) {
  const auto library = folder / kRedirectLibrary;
  std::string message;
  const auto config = device::read_config(message);
  if (!config || ::access(library.c_str(), R_OK) != 0) return;
  const auto tree = write_sysfs_tree(device::find_ports(*config));
  if (!tree) {
    std::string why = host::RuntimeDirectory::explain();
    if (why.empty()) why = "its folder there cannot be written; check the free space";
    std::fprintf(stderr,
                 "verbatim run: programs that look for adapters in /sys/class/infiniband will find "
                 "none: %s\n",
                 why.c_str());
    return;
  }
  ::setenv("VERBATIM_SYSFS", tree->c_str(), 1);
  prepend("LD_PRELOAD", library.string());
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

/// Whether the devices of --devices exist here; if not, prints why.
bool accepts_devices(const std::string& list) {
  std::string message;
  if (device::parse_devices(list, device::read_interfaces(), message).ok()) return true;
  std::fprintf(stderr, "verbatim run: %s\n", message.c_str());
  return false;
}

/// Whether the rules are valid; if not, prints where the mistake is.
bool accepts_faults(const char* source, const std::string& rules) {
  std::string message;
  if (link::parse_fault_rules(rules, message).ok()) return true;
  std::fprintf(stderr, "verbatim run: %s, %s\n  %s\n", source, message.c_str(), rules.c_str());
  return false;
}

/// Whether the capture can be written. Makes its path absolute, because programs may change their
/// folder.
bool export_capture(const std::string& name) {
  std::error_code failed;
  const std::string path = std::filesystem::absolute(name, failed).string();
  std::string message;
  if (!link::CaptureFile::prepare(path, message).ok()) {
    std::fprintf(stderr, "verbatim run: --capture: %s\n", message.c_str());
    return false;
  }
  ::setenv("VERBATIM_CAPTURE", path.c_str(), 1);
  return true;
}

/// Whether the dynamic linker can load from the folder; if not, prints why.
bool is_loadable(const std::filesystem::path& folder) {
  const auto library = folder / kVerbsLibrary;
  if (::access(library.c_str(), R_OK) != 0) {
    std::fprintf(stderr,
                 "verbatim run: cannot read %s: %s (it belongs beside this command's bin/)\n",
                 library.c_str(), std::strerror(errno));
    return false;
  }
  if (folder.string().find_first_of(": ;") != std::string::npos) {
    std::fprintf(
        stderr,
        "verbatim run: the dynamic linker takes no folder with a colon, semicolon or space "
        "in its name: %s\n",
        folder.c_str());
    return false;
  }
  return true;
}

}  // namespace

int run_command(const RunOptions& options) {
  const auto folder = library_folder();
  if (!is_loadable(folder)) return kLauncherFailed;
  if (!options.devices.empty()) {
    if (!accepts_devices(options.devices)) return kLauncherFailed;
    ::setenv("VERBATIM_DEVICES", options.devices.c_str(), 1);
  }
  if (!options.faults.empty()) {
    if (!accepts_faults("--faults", options.faults)) return kLauncherFailed;
    ::setenv("VERBATIM_FAULTS", options.faults.c_str(), 1);
  } else if (const char* rules = std::getenv("VERBATIM_FAULTS"); rules != nullptr) {
    if (!accepts_faults("VERBATIM_FAULTS", rules)) return kLauncherFailed;
  }
  if (!options.capture.empty() && !export_capture(options.capture)) return kLauncherFailed;
  export_sysfs(folder);
  export_library(folder);
  export_hints();

  std::vector<char*> arguments;
  for (const std::string& word : options.command) {
    arguments.push_back(const_cast<char*>(word.c_str()));  // execvp does not change it
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int why = errno;
  std::fprintf(stderr, "verbatim run: %s: %s\n", arguments[0], std::strerror(why));
  return why == ENOENT ? kNotFound : kCannotExecute;
}

}  // namespace verbatim::tools
