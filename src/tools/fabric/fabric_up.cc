// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "tools/fabric/fabric_console.h"
#include "tools/fabric/fabric_options.h"
#include "tools/fabric/fabric_session.h"

namespace verbatim::tools {
namespace {

constexpr Duration kForever = std::chrono::hours(1);
constexpr Duration kLook = std::chrono::milliseconds(5);

int complain(const std::string& message) {
  std::fprintf(stderr, "verbatim fabric up: %s\n", message.c_str());
  return 1;
}

/// What a user does first in a new fabric.
std::string hints(FabricSession& session, const FabricUpOptions& options) {
  const auto& nodes = session.loop().fabric().topology().nodes;
  std::string host;
  for (std::uint32_t node = 0; node < nodes.size() && host.empty(); ++node) {
    if (nodes[node].kind == fabric::NodeKind::kHost) host = session.loop().names().name_of(node);
  }
  const std::string start = "  verbatim run --fabric " + options.name + " --node ";
  std::string text;
  if (!host.empty()) text += start + host + " ibstat\n";
  if (!options.settings.opensm.is_wanted) {
    text += "no subnet manager runs yet; start one with\n" + start +
            (host.empty() ? "NODE" : host) + " opensm\n";
  }
  return text;
}

std::string seconds_text(Duration duration) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", std::chrono::duration<double>(duration).count());
  return text.data();
}

/// Reports when all ports have become Active, once, and when OpenSM ends.
class OpensmWatch {
 public:
  OpensmWatch(FabricSession& session, FabricConsole& console) noexcept
      : session_(session), console_(console) {}

  void handle_child(Opensm& opensm) {
    if (!opensm.has_just_ended()) return;
    is_reported_ = true;
    console_.print(opensm.explain_end());
  }
  /// Whether one of the two was reported.
  [[nodiscard]] bool look() {
    if (is_reported_ || !session_.loop().is_active()) return is_reported_;
    is_reported_ = true;
    const auto census = session_.loop().fabric().census();
    console_.print("all " + std::to_string(census.active) + " ports are Active after " +
                   seconds_text(std::chrono::steady_clock::now() - start_) + " s");
    return true;
  }

 private:
  FabricSession& session_;
  FabricConsole& console_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool is_reported_ = false;
};

int run_in_foreground(const FabricUpOptions& options, const host::FabricPlace& place) {
  FabricSession session;
  std::string message;
  if (!session.open(options.settings, place, message)) return complain(message);
  if (options.settings.opensm.is_wanted &&
      !session.start_opensm(options.settings.opensm, message)) {
    return complain(message);
  }
  std::printf("%s\n%s", session.headline().c_str(), hints(session, options).c_str());
  std::fflush(stdout);
  FabricConsole console(session.loop(), options.name);
  OpensmWatch watch(session, console);
  session.set_on_continue([&] { console.handle_continue(); });
  session.loop().set_on_news([&](const std::string& text) { console.print(text); });
  session.set_on_child([&] { watch.handle_child(session.opensm()); });
  console.open();
  if (options.settings.opensm.is_wanted) {
    session.run_until([&] { return watch.look(); }, kLook);
  }
  while (!session.loop().stops()) session.loop().turn(kForever);
  session.end();
  return 0;
}

/// Tells the process that has started this one how it went, and lets go of the terminal.
void report(int to, bool is_up, const std::string& text) {
  const std::string message = (is_up ? "+" : "-") + text;
  (void)!::write(to, message.data(), message.size());  // it has gone if this fails
  ::close(to);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    (void)::dup2(nothing, descriptor);
  }
  if (nothing > STDERR_FILENO) ::close(nothing);
}

int run_in_background(const FabricUpOptions& options, const host::FabricPlace& place, int to) {
  (void)::setsid();
  FabricSession session;
  std::string message;
  bool is_up = session.open(options.settings, place, message).ok();
  const OpensmOptions& opensm = options.settings.opensm;
  if (is_up && opensm.is_wanted) {
    is_up =
        session.start_opensm(opensm, message).ok() &&
        session.await_active(std::chrono::seconds(options.settings.limit_seconds), message).ok();
  }
  if (!is_up) {
    session.end();
    report(to, false, message);
    return 1;
  }
  report(to, true,
         session.headline() + "\n" + hints(session, options) +
             "It runs in the background; this ends it:\n  verbatim fabric down " + options.name +
             "\n");
  session.set_on_child([&] { (void)session.opensm().has_just_ended(); });
  while (!session.loop().stops()) session.loop().turn(kForever);
  session.end();
  return 0;
}

/// Starts the process of the fabric, and waits until it is up.
int run_detached(const FabricUpOptions& options, const host::FabricPlace& place) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return complain(std::strerror(errno));
  (void)std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0)
    return complain(std::string("the system starts no process: ") + std::strerror(errno));
  if (pid == 0) {
    ::close(ends[0]);
    ::_exit(run_in_background(options, place, ends[1]));
  }
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> block{};
  ssize_t count = 0;
  while ((count = ::read(ends[0], block.data(), block.size())) > 0 ||
         (count < 0 && errno == EINTR)) {
    if (count > 0) text.append(block.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  if (text.empty()) return complain("the process of the fabric has ended at once");
  if (text.front() != '+') return complain(text.substr(1));
  std::fputs(text.c_str() + 1, stdout);
  return 0;
}

}  // namespace

int run_fabric_up(const FabricUpOptions& options) {
  std::string message;
  const auto place = host::FabricPlace::of(options.name, message);
  if (!place) return complain(message);
  return options.is_detached ? run_detached(options, *place) : run_in_foreground(options, *place);
}

}  // namespace verbatim::tools
