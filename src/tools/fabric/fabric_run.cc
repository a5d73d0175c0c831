// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "tools/fabric/child_process.h"
#include "tools/fabric/fabric_environment.h"
#include "tools/fabric/fabric_options.h"
#include "tools/fabric/fabric_programs.h"
#include "tools/fabric/fabric_session.h"

namespace verbatim::tools {
namespace {

// As env(1) has it, and `verbatim run`.
constexpr int kLauncherFailed = 125;
constexpr Duration kForever = std::chrono::hours(1);
// A command that has been asked to end.
constexpr Duration kEndingPatience = std::chrono::seconds(5);

void complain(const std::string& message) {
  std::fprintf(stderr, "verbatim fabric run: %s\n", message.c_str());
}

Expected<std::uint32_t> node_of_command(const std::string& name, FabricSession& session,
                                        std::string& message) {
  if (!name.empty()) return session.loop().names().find(name, message);
  const auto& nodes = session.loop().fabric().topology().nodes;
  std::uint32_t node = 0;
  while (node < nodes.size() && nodes[node].kind != fabric::NodeKind::kHost) ++node;
  return node < nodes.size() ? node : 0;
}

Expected<ChildProcess> start_command(const FabricRunOptions& options, FabricSession& session,
                                     std::string& message) {
  const auto node = node_of_command(options.node, session, message);
  if (!node) return node.error();
  const std::string id = session.loop().fabric().topology().nodes[*node].id;
  if (!export_fabric(session.place(), id, *node, message)) return Errc::kNoSuchObject;
  export_node_sysfs(session.place(), id,
                    {.node = *node, .state = node_state(session.loop().fabric(), *node)});
  ChildProcess::Settings settings{.command = options.command};
  return ChildProcess::start(settings, message);
}

/// Runs until the command has ended; asks it to when this process is asked. Its exit status.
int await_command(ChildProcess& command, FabricSession& session) {
  const auto has_ended = [&] {
    command.reap();
    return !command.runs();
  };
  session.set_on_child([&] {
    if (session.opensm().has_just_ended()) {
      complain(session.opensm().explain_end());
    }
  });
  session.run_until(has_ended, kForever);
  if (!has_ended()) {
    command.signal(session.ending_signal() != 0 ? session.ending_signal() : SIGTERM);
    const auto deadline = std::chrono::steady_clock::now() + kEndingPatience;
    while (!has_ended() && std::chrono::steady_clock::now() < deadline) {
      session.loop().turn(std::chrono::milliseconds(20));
    }
    command.signal(SIGKILL);
    while (!has_ended()) session.loop().turn(std::chrono::milliseconds(20));
  }
  return command.exit_status().value_or(kLauncherFailed);
}

std::nullopt_t refuse(const std::string& message) {
  complain(message);
  return std::nullopt;
}

/// Nothing: the command was not started, and a message says why.
std::optional<int> run_in(FabricSession& session, const host::FabricPlace& place,
                          const FabricRunOptions& options) {
  std::string message;
  const FabricSettings& settings = options.settings;
  if (!session.open(settings, place, message)) return refuse(message);
  session.loop().set_on_news(complain);
  if (settings.opensm.is_wanted) {
    if (!session.start_opensm(settings.opensm, message)) return refuse(message);
    if (!session.await_active(std::chrono::seconds(settings.limit_seconds), message)) {
      return refuse(message);
    }
  }
  auto command = start_command(options, session, message);
  if (!command) return refuse(message);
  return await_command(*command, session);
}

}  // namespace

int run_fabric_run(const FabricRunOptions& options) {
  std::string message;
  const auto place = host::FabricPlace::of("run-" + std::to_string(::getpid()), message);
  if (!place) {
    complain(message);
    return kLauncherFailed;
  }
  FabricSession session;
  const auto status = run_in(session, *place, options);
  session.end();
  // Otherwise the log of OpenSM stays, because a message has named it.
  std::error_code failed;
  if (status) std::filesystem::remove_all(files_of(*place), failed);
  return status.value_or(kLauncherFailed);
}

}  // namespace verbatim::tools
