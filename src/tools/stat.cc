// SPDX-License-Identifier: Apache-2.0
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "device/fabric_ports.h"
#include "tools/commands.h"
#include "tools/stat_view.h"

namespace verbatim::tools {
namespace {

// A running process answers at once. One that has not answered after this time is stopped.
constexpr Duration kPatience = std::chrono::milliseconds(200);
// The time over which --once measures rates.
constexpr Duration kSample = std::chrono::milliseconds(250);

std::size_t terminal_lines() noexcept {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Until a signal ends it, or the output is closed.
void refresh(host::Viewer& viewer, HostView before, const StatOptions& options, bool is_terminal) {
  const std::chrono::seconds interval(options.interval_seconds);
  while (std::ferror(stdout) == 0) {
    std::this_thread::sleep_for(interval);
    HostView now = read_host(viewer.look(kPatience));
    compute_rates(before, now);
    const std::string text = text_of(now, {.in_colour = is_terminal,
                                           .shows_all = options.all,
                                           .lines = is_terminal ? terminal_lines() : 0});
    // One write over the previous screen, so that it does not flicker.
    print(is_terminal ? "\033[H\033[J" + text : text + "\n");
    before = std::move(now);
  }
}

}  // namespace

int run_stat(const StatOptions& options) {
  std::string message;
  if (!device::enter_node(message)) {
    std::fprintf(stderr, "verbatim stat: %s\n", message.c_str());
    return 1;
  }
  const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  host::Viewer viewer;
  HostView first = read_host(viewer.look(kPatience));
  if (options.watch || (is_terminal && !options.once && !options.json)) {
    if (is_terminal) print("\033[H\033[J");
    print(text_of(first, {.in_colour = is_terminal,
                          .shows_all = options.all,
                          .lines = is_terminal ? terminal_lines() : 0}));
    refresh(viewer, std::move(first), options, is_terminal);
    return 0;
  }
  if (!first.processes.empty()) std::this_thread::sleep_for(kSample);
  HostView now = read_host(viewer.look(kPatience));
  compute_rates(first, now);
  print(options.json ? json_of(now)
                     : text_of(now, {.in_colour = is_terminal, .shows_all = options.all}));
  return 0;
}

}  // namespace verbatim::tools
