// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/fabric_console.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

namespace verbatim::tools {
namespace {

constexpr std::size_t kLineMax = 4096;  // octets of a command

bool is_in_foreground() noexcept { return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

}  // namespace

void FabricConsole::open() {
  is_terminal_ = ::isatty(STDIN_FILENO) != 0;
  // The kernel would stop the process if it read from the background.
  (void)std::signal(SIGTTIN, SIG_IGN);
  if (is_terminal_ && !is_in_foreground()) return;
  is_watched_ = loop_.watch(STDIN_FILENO, [this] { handle_ready(); });
  if (!is_watched_ && errno == EPERM) take_file();
  prompt();
}

void FabricConsole::handle_continue() {
  if (!is_terminal_ || is_watched_ || !is_in_foreground()) return;
  is_watched_ = loop_.watch(STDIN_FILENO, [this] { handle_ready(); });
  prompt();
}

void FabricConsole::handle_ready() {
  const bool is_readable = !is_terminal_ || is_in_foreground();
  std::array<char, 4096> block;
  const ssize_t count = is_readable ? ::read(STDIN_FILENO, block.data(), block.size()) : -1;
  if (count > 0) {
    take({block.data(), static_cast<std::size_t>(count)});
    prompt();
    return;
  }
  if (count < 0 && is_readable && (errno == EAGAIN || errno == EINTR)) return;
  loop_.unwatch(STDIN_FILENO);
  is_watched_ = false;
  if (count == 0 && is_terminal_) {
    std::puts("");
    loop_.stop();
  }
}

void FabricConsole::take(std::string_view octets) {
  for (const char c : octets) {
    if (c != '\n') {
      if (line_.size() < kLineMax) line_ += c;
      continue;
    }
    const std::string line = std::move(line_);
    line_.clear();
    execute(line);
    if (loop_.stops()) return;
  }
}

/// epoll(7) does not watch files; a file is there as a whole.
void FabricConsole::take_file() {
  std::array<char, 4096> block;
  ssize_t count = 0;
  while (!loop_.stops() && (count = ::read(STDIN_FILENO, block.data(), block.size())) > 0) {
    take({block.data(), static_cast<std::size_t>(count)});
  }
}

void FabricConsole::execute(const std::string& line) {
  const bool is_empty = line.find_first_not_of(" \t\r") == std::string::npos;
  const bool is_comment = line.starts_with('#');
  if (is_empty || is_comment) return;
  const CommandAnswer answer = loop_.execute(line);
  std::fputs(answer.text.c_str(), answer.is_done ? stdout : stderr);
  std::fflush(stdout);
}

void FabricConsole::prompt() {
  if (!is_terminal_ || !is_watched_ || loop_.stops()) return;
  std::printf("%s> ", name_.c_str());
  std::fflush(stdout);
}

void FabricConsole::print(const std::string& text) {
  if (is_terminal_ && is_watched_) std::puts("");
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  prompt();
}

}  // namespace verbatim::tools
