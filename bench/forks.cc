// SPDX-License-Identifier: Apache-2.0
// What does a fork cost in a process with much memory that has moved to where peers map it?
//
// Usage: forks GID_INDEX moved|plain GIB
//   plain: the process has the same memory, and no adapter
// Prints milliseconds from the call of fork(2) until a child that exits at once has ended.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "queue_pairs.h"

namespace {

using namespace verbatim::bench;

/// Whether peers can map the memory that begins there.
bool has_moved(const void* at) {
  char begin[32];
  (void)std::snprintf(begin, sizeof begin, "%lx-", std::bit_cast<unsigned long>(at));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with(begin)) return line.find("memfd:") != std::string::npos;
  }
  return false;
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) stop("usage: forks GID_INDEX moved|plain GIB");
  const auto gid_index = static_cast<std::uint8_t>(std::atoi(words[1]));
  const std::size_t octets = std::strtoul(words[3], nullptr, 10) << 30;
  // Pages around it that are not there: its mapping begins where it does.
  void* const whole = ::mmap(nullptr, octets + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED) stop("no memory");
  std::byte* const memory = static_cast<std::byte*>(whole) + 4096;
  if (::mprotect(memory, octets, PROT_READ | PROT_WRITE) != 0) stop("no memory");
  std::memset(memory, 1, octets);
  if (std::string_view(words[2]) == "moved") {
    ibv_pd* const domain = open_domain_with_peer(gid_index);
    if (ibv_reg_mr(domain, memory, octets, kAccess) == nullptr) stop("ibv_reg_mr failed");
    if (!has_moved(memory)) stop("the memory has not moved; `verbatim stat` says why");
  }
  const auto start = Clock::now();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) stop("fork failed");
  std::printf("%.3f\n", seconds_since(start) * 1e3);
  return 0;
}
