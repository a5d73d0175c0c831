// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_control.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "host/fabric_client.h"

namespace verbatim::tools {
namespace {

// A process that ends waits for OpenSM, if it has started one.
constexpr int kPatienceMilliseconds = 15'000;
// The first octet of an answer, see answer_text().
constexpr char kDone = '+';

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

FabricControl::Answer answer_in(std::string_view text) {
  FabricControl::Answer answer;
  answer.is_done = text.starts_with(kDone);
  if (!text.empty()) answer.text = text.substr(1);
  return answer;
}

}  // namespace

std::vector<std::string> running_fabrics() {
  std::vector<std::string> names;
  std::string message;
  const auto any = host::FabricPlace::of("any", message);
  if (!any) return names;
  const auto folder = std::filesystem::path(any->folder()).parent_path();
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    const auto place = host::FabricPlace::of(name, message);
    if (!place || !std::filesystem::exists(place->socket_path(), failed)) continue;
    auto socket = place->connect(message);
    if (!socket) continue;
    names.push_back(name);
    host::Descriptor(*socket).close();
  }
  std::ranges::sort(names);
  return names;
}

Expected<host::FabricPlace> chosen_fabric(const std::string& name, std::string& message) {
  if (!name.empty()) return host::FabricPlace::of(name, message);
  const char* const variable = std::getenv("VERBATIM_FABRIC");
  if (variable != nullptr && *variable != '\0') return host::FabricPlace::of(variable, message);
  const auto names = running_fabrics();
  if (names.size() == 1) return host::FabricPlace::of(names[0], message);
  message = names.empty() ? "no fabric is running; start one, as with `verbatim fabric up demo "
                            "--tree 2x2 --opensm`"
                          : "several fabrics are running: " + list_of(names) +
                                "; choose one with --fabric NAME or VERBATIM_FABRIC";
  return Errc::kNoSuchObject;
}

std::string other_fabrics() {
  const auto names = running_fabrics();
  if (names.empty()) return "";
  return names.size() == 1 ? "; running is " + names[0] : "; running are " + list_of(names);
}

Expected<FabricControl> FabricControl::connect(const host::FabricPlace& place,
                                               std::string& message) {
  auto socket = host::open_fabric_commands(place, message);
  if (socket) return FabricControl(place.name(), std::move(*socket));
  if (socket.error() == Errc::kNoSuchObject) message += other_fabrics();
  return socket.error();
}

std::string FabricControl::explain(Errc error) const {
  return error == Errc::kTimedOut ? "fabric " + name_ + " does not answer: its process is stopped"
                                  : "fabric " + name_ + " is gone: its process has ended";
}

Expected<FabricControl::Answer> FabricControl::execute(std::string_view line,
                                                       std::string& message) {
  auto text = host::command_fabric(socket_.number(), line);
  if (text) return answer_in(*text);
  message = explain(text.error());
  return text.error();
}

Status FabricControl::follow(std::string_view line, const std::function<void(Answer)>& take,
                             std::string& message) {
  const auto done = host::command_fabric(socket_.number(), line,
                                         [&](std::string_view part) { take(answer_in(part)); });
  if (done) return Ok{};
  message = explain(done.error());
  return done.error();
}

bool FabricControl::await_end() {
  pollfd about{.fd = socket_.number(), .events = POLLIN, .revents = 0};
  std::byte octet{};
  return ::poll(&about, 1, kPatienceMilliseconds) == 1 &&
         ::recv(socket_.number(), &octet, sizeof octet, MSG_DONTWAIT) <= 0;
}

}  // namespace verbatim::tools
