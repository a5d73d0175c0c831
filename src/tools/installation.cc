// SPDX-License-Identifier: Apache-2.0
#include "tools/installation.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/version.h"
#include "tools/elf_file.h"

namespace verbatim::tools {

namespace {

/// The folder of a library: `below` in lib/verbatim as installed, or in lib as built.
std::filesystem::path folder_of(const char* library, const char* below) {
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto lib = self.parent_path().parent_path() / "lib";
  const auto within = [&](const std::filesystem::path& folder) {
    return *below == '\0' ? folder : folder / below;
  };
  const auto installed = within(lib / "verbatim");
  if (std::filesystem::exists(installed / library, failed)) return installed;
  // Where this command is /usr/bin/verbatim, this may be the system's library.
  const bool is_ours = !read_elf_file(within(lib) / library).verbatim_version.empty();
  return is_ours ? within(lib) : installed;
}

}  // namespace

std::filesystem::path library_folder() { return folder_of(kVerbsLibrary, ""); }
std::filesystem::path umad_folder() { return folder_of(kUmadLibrary, "fabric"); }

std::optional<Objection> objection_to_library(const std::filesystem::path& folder,
                                              const char* name) {
  const std::string library = folder / name;
  if (folder.is_relative()) return Objection{"cannot read /proc/self/exe", "mount /proc"};
  if (::access(library.c_str(), R_OK) != 0) {
    return Objection{
        "cannot read " + library + ": " + std::strerror(errno),
        "its folder belongs beside this command's bin/; install Verbatim again, whole"};
  }
  if (folder.string().find_first_of(": ;") != std::string::npos) {
    return Objection{
        "the dynamic linker takes no folder with a colon, semicolon or space in its "
        "name: " +
            folder.string(),
        "move Verbatim to a folder with another name"};
  }
  const std::string version = read_elf_file(library).verbatim_version;
  if (version == kVersionText) return std::nullopt;
  return Objection{library +
                       (version.empty() ? " is not Verbatim's" : " is of version " + version) +
                       ", and this command is of version " + kVersionText,
                   "install both from one package"};
}

}  // namespace verbatim::tools
