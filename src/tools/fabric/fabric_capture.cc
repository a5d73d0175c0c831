// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "tools/fabric/fabric_command.h"
#include "tools/fabric/fabric_control.h"
#include "tools/fabric/fabric_options.h"

namespace verbatim::tools {
namespace {

int complain(const std::string& message) {
  std::fprintf(stderr, "verbatim fabric capture: %s\n", message.c_str());
  return 1;
}

sigset_t ending_signals() noexcept {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, number);
  return signals;
}

/// Ends the capture when a signal arrives. The process ends normally then, with the last part of
/// the answer. A second signal ends it at once.
void stop_at_signal(const host::FabricPlace& place, const std::string& port) {
  const sigset_t signals = ending_signals();
  int number = 0;
  (void)::sigwait(&signals, &number);
  std::string message;
  auto control = FabricControl::connect(place, message);
  if (!control || !control->execute(line_of({"capture", "stop", port}), message)) {
    ::_exit(complain(message));
  }
  (void)::sigwait(&signals, &number);
  ::_exit(128 + number);
}

/// The fabric's process is in another folder.
std::string absolute(const std::string& file) {
  std::error_code failed;
  const auto path = std::filesystem::absolute(file, failed);
  return failed ? file : path.string();
}

int capture(const std::string& fabric, const FabricCommand& command) {
  std::string message;
  const auto place = chosen_fabric(fabric, message);
  if (!place) return complain(message);
  auto control = FabricControl::connect(*place, message);
  if (!control) return complain(message);
  std::vector<std::string> words{"capture", command.names[0], absolute(command.file), "--wait"};
  if (command.limits.packets != 0) {
    words.insert(words.end(), {"--count", std::to_string(command.limits.packets)});
  }
  if (command.limits.time != Duration(0)) {
    const auto seconds = std::chrono::duration<double>(command.limits.time).count();
    words.insert(words.end(), {"--for", std::to_string(seconds)});
  }
  const sigset_t signals = ending_signals();
  (void)::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread(stop_at_signal, *place, command.names[0]).detach();
  bool is_done = false;
  const auto followed = control->follow(
      line_of(words),
      [&](const FabricControl::Answer& part) {
        is_done = part.is_done;
        std::fprintf(part.is_done ? stdout : stderr, "%s%s",
                     is_done ? "" : "verbatim fabric: ", part.text.c_str());
        std::fflush(stdout);
      },
      message);
  if (!followed) return complain(message);
  return is_done ? 0 : 1;
}

}  // namespace

int run_fabric_capture(const std::string& fabric, const std::vector<std::string>& words) {
  std::string message;
  const auto command = parse_fabric_command(line_of(words), message);
  if (!command) return complain(message);
  if (command->verb != FabricCommand::Verb::kCapture) return run_fabric_command(fabric, words);
  return capture(fabric, *command);
}

}  // namespace verbatim::tools
