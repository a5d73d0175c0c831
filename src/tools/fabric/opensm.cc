// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/opensm.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "tools/elf_file.h"
#include "tools/fabric/fabric_environment.h"
#include "tools/text.h"

namespace verbatim::tools {
namespace {

/// OpenSM is in a folder that the path of ordinary users does not contain. Empty: it is not
/// installed.
std::string opensm_path() {
  const std::string found = find_program("opensm");
  if (found.find('/') != std::string::npos) return found;
  for (const char* folder : {"/usr/sbin/", "/usr/local/sbin/", "/sbin/"}) {
    const std::string path = std::string(folder) + "opensm";
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// The first host, or the named node.
Expected<std::uint32_t> chosen_node(const std::string& name, const fabric::Topology& topology,
                                    const fabric::NodeNames& names, std::string& message) {
  if (!name.empty()) return names.find(name, message);
  for (std::uint32_t node = 0; node < topology.nodes.size(); ++node) {
    if (topology.nodes[node].kind == fabric::NodeKind::kHost) return node;
  }
  message = "the topology has no host on which OpenSM could run; name a switch with --opensm-node";
  return Errc::kNoSuchObject;
}

std::string last_lines(const std::string& file) {
  constexpr std::size_t kLines = 5;
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (line.empty()) continue;
    lines.push_back(printable(line));
    if (lines.size() > kLines) lines.erase(lines.begin());
  }
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

}  // namespace

Status Opensm::start(const OpensmOptions& options, const fabric::Topology& topology,
                     const fabric::NodeNames& names, const host::FabricPlace& place,
                     std::string& message) {
  const std::string program = opensm_path();
  if (program.empty()) {
    message =
        "OpenSM is not installed; install the package opensm (Debian, Ubuntu: `apt-get install "
        "opensm`), or omit --opensm";
    return Errc::kNoSuchObject;
  }
  message = objection_to_libraries();
  if (!message.empty()) return Errc::kNoSuchObject;
  const auto node = chosen_node(options.node, topology, names, message);
  if (!node) return node.error();
  const std::string folder = node_folder(place, *node, message);
  if (folder.empty()) return Errc::kAccessDenied;
  node_ = names.name_of(*node);
  log_ = folder + "/opensm.log";
  output_ = folder + "/opensm.out";
  ChildProcess::Settings settings{.command = {program, "-e", "-f", log_},
                                  .output = output_,
                                  .folder = folder,
                                  .has_own_group = true,
                                  .before_start = [&] {
                                    ::unsetenv("OSM_CACHE_DIR");
                                    ::unsetenv("OSM_TMP_DIR");
                                    std::string why;
                                    if (export_fabric(place, topology.nodes[*node].id, *node, why))
                                      return;
                                    std::fprintf(stderr, "%s\n", why.c_str());
                                  }};
  for (std::string& word : words_of(options.arguments)) {
    settings.command.push_back(std::move(word));
  }
  auto started = ChildProcess::start(settings, message);
  if (!started) return started.error();
  process_ = std::move(*started);
  return Ok{};
}

bool Opensm::has_just_ended() noexcept {
  if (!process_.runs()) return false;
  process_.reap();
  return !process_.runs();
}

void Opensm::end() noexcept { process_.signal(SIGTERM); }
void Opensm::kill() noexcept { process_.signal(SIGKILL); }

std::string Opensm::explain_end() const {
  return "OpenSM on " + node_ + " has ended with status " +
         std::to_string(process_.exit_status().value_or(0)) + "; its log is " + log_ +
         last_lines(output_) + last_lines(log_);
}

}  // namespace verbatim::tools
