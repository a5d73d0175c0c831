// SPDX-License-Identifier: Apache-2.0
#include "host/challenge.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <utility>

#include "host/unix_name.h"

namespace verbatim::host {
namespace {

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

constexpr std::string_view kName = "verbatim-challenge-";
constexpr std::string_view kShownAs = "/memfd:verbatim-challenge-";  // as proc(5) says

/// The process at the other end of a connection, and whether it is still alive: another process may
/// get its number when it is not.
class PeerProcess {
 public:
  explicit PeerProcess(int connection) noexcept : number_(peer_of(connection).pid) {
    socklen_t octets = sizeof handle_;
    if (::getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &handle_, &octets) == 0) return;
    handle_ = -1;
    // Before Linux 6.5 there is no pidfd, only the number. Any other error: the process has ended.
    if (errno != ENOPROTOOPT) number_ = 0;
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess() {
    if (handle_ >= 0) ::close(handle_);
  }
  /// The target of a link in its directory of /proc; 0 octets if the directory may be that of
  /// another process.
  template <std::size_t kSize>
  [[nodiscard]] std::size_t read_link(const char* name, std::array<char, kSize>& into) const {
    if (number_ <= 0) return 0;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/%s", static_cast<int>(number_), name);
    const ssize_t octets = ::readlink(path, into.data(), into.size());
    return octets > 0 && is_alive() ? static_cast<std::size_t>(octets) : 0;
  }

 private:
  [[nodiscard]] bool is_alive() const noexcept {
    pollfd ends{.fd = handle_, .events = POLLIN, .revents = 0};
    return handle_ < 0 || ::poll(&ends, 1, 0) == 0;
  }

  pid_t number_;
  int handle_ = -1;
};

}  // namespace

bool Challenge::open() noexcept {
  close();
  if (::getrandom(secret_.data(), secret_.size(), 0) != static_cast<ssize_t>(secret_.size())) {
    return false;
  }
  std::array<char, kName.size() + 2 * sizeof(Secret) + 1> name{};
  kName.copy(name.data(), kName.size());
  for (std::size_t i = 0; i < secret_.size(); ++i) {
    std::snprintf(name.data() + kName.size() + 2 * i, 3, "%02x", secret_[i]);
  }
  descriptor_ = OwnDescriptor(::memfd_create(name.data(), MFD_CLOEXEC));
  return is_open();
}

void Challenge::close() noexcept {
  descriptor_.close();
  secret_ = {};
}

std::optional<Challenge::Secret> Challenge::answer_to(int connection, int descriptor) noexcept {
  const PeerProcess owner(connection);
  char name[32];
  std::snprintf(name, sizeof name, "fd/%d", descriptor);
  std::array<char, 128> text{};
  const std::size_t octets = owner.read_link(name, text);
  std::string_view shown(text.data(), octets);
  if (shown.substr(0, kShownAs.size()) != kShownAs) return std::nullopt;
  shown.remove_prefix(kShownAs.size());
  if (shown.size() < 2 * sizeof(Secret)) return std::nullopt;
  Secret secret{};
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char* digits = shown.data() + 2 * i;
    const auto [end, failed] = std::from_chars(digits, digits + 2, secret[i], 16);
    if (failed != std::errc{} || end != digits + 2) return std::nullopt;
  }
  return secret;
}

bool Challenge::may_look_into_peer_of(int connection) noexcept {
  std::array<char, 64> text;
  return PeerProcess(connection).read_link("ns/user", text) > 0;
}

}  // namespace verbatim::host
