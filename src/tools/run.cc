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
#include "host/fabric_client.h"
#include "host/fabric_place.h"
#include "host/runtime_directory.h"
#include "link/fault_rules.h"
#include "tools/commands.h"
#include "tools/elf_file.h"
#include "tools/fabric/fabric_control.h"
#include "tools/fabric/fabric_environment.h"
#include "tools/installation.h"
#include "tools/program_environment.h"
#include "tools/sysfs_tree.h"

namespace verbatim::tools {
namespace {

// The exit statuses of env(1) and nohup(1).
constexpr int kLauncherFailed = 125;
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

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
  prepend_to_variable("LD_PRELOAD", library.string());
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

/// Puts the faults and the capture into the environment; false when something is wrong with them,
/// which is printed.
bool export_wrappers(const RunOptions& options) {
  if (!options.faults.empty()) {
    if (!accepts_faults("--faults", options.faults)) return false;
    ::setenv("VERBATIM_FAULTS", options.faults.c_str(), 1);
  } else if (const char* rules = std::getenv("VERBATIM_FAULTS"); rules != nullptr) {
    if (!accepts_faults("VERBATIM_FAULTS", rules)) return false;
  }
  return options.capture.empty() || export_capture(options.capture);
}

/// Whether programs can load the libraries in the folder; if not, prints why.
bool is_loadable(const std::filesystem::path& folder) {
  const auto objection = objection_to_library(folder);
  if (!objection) return true;
  std::fprintf(stderr, "verbatim run: %s; %s\n", objection->what.c_str(),
               objection->advice.c_str());
  return false;
}

/// Whether the program will load the libraries; if not, prints why. One that only starts other
/// programs can be started by env(1).
bool takes_libraries(const std::string& name) {
  const auto obstacle = obstacle_in(read_elf_file(find_program(name)));
  if (!obstacle) return true;
  std::fprintf(stderr, "verbatim run: %s: %s; %s\n", name.c_str(), obstacle->what.c_str(),
               obstacle->advice.c_str());
  if (obstacle->may_start_others) {
    std::fprintf(stderr, "If it only starts other programs: verbatim run env %s\n", name.c_str());
  }
  return false;
}

/// Replaces this process by the command; returns if that fails.
int execute(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));  // execvp does not change it
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  const int why = errno;
  std::fprintf(stderr, "verbatim run: %s: %s\n", arguments[0], std::strerror(why));
  return why == ENOENT ? kNotFound : kCannotExecute;
}

/// The program loads libibumad.so.3 too, and its adapter is that of the node.
int run_in_fabric(const RunOptions& options) {
  const auto refuse = [](const std::string& why) {
    std::fprintf(stderr, "verbatim run: %s\n", why.c_str());
    return kLauncherFailed;
  };
  std::string node = options.node;
  if (const char* variable = std::getenv("VERBATIM_NODE"); node.empty() && variable != nullptr) {
    node = variable;
  }
  if (node.empty()) return refuse("a node of the fabric is missing, as in --node h0");
  std::string message;
  const auto place = host::FabricPlace::of(options.fabric, message);
  if (!place) return refuse(message);
  const auto view = host::look_at_node(*place, node, message);
  if (!view) {
    return refuse(message + (view.error() == Errc::kNoSuchObject ? other_fabrics() : ""));
  }
  if (!export_fabric(*place, node, view->node, message)) return refuse(message);
  if (!export_wrappers(options)) return kLauncherFailed;
  if (!takes_libraries(options.command.front())) return kCannotExecute;
  export_node_sysfs(*place, node, *view);
  return execute(options.command);
}

}  // namespace

int run_command(const RunOptions& options) {
  if (!options.fabric.empty()) return run_in_fabric(options);
  const auto folder = library_folder();
  if (!is_loadable(folder)) return kLauncherFailed;
  if (!options.devices.empty()) {
    if (!accepts_devices(options.devices)) return kLauncherFailed;
    ::setenv("VERBATIM_DEVICES", options.devices.c_str(), 1);
  }
  if (!export_wrappers(options)) return kLauncherFailed;
  if (!takes_libraries(options.command.front())) return kCannotExecute;
  export_sysfs(folder);
  export_verbs(folder);

  return execute(options.command);
}

}  // namespace verbatim::tools
