// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_waiting.h"

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace verbatim::host {
namespace {

/// Waits until one of the events is there; false when the time is over.
bool wait_for(int socket, short events, int patience_ms) noexcept {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::milliseconds(patience_ms);
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - steady_clock::now()).count();
    if (patience_ms != kForEver && left <= 0) return false;
    pollfd watched{.fd = socket, .events = events, .revents = 0};
    const int ready = ::poll(&watched, 1, patience_ms == kForEver ? -1 : static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

Status send_waiting(int socket, std::span<const std::byte> octets, int descriptor) noexcept {
  for (;;) {
    switch (send_parts(socket, octets, {}, descriptor)) {
      case Transfer::kDone:
        return Ok{};
      case Transfer::kRefused:
        return Errc::kNoMemory;
      case Transfer::kGone:
        return Errc::kNoDevice;
      case Transfer::kFull:
        if (!wait_for(socket, POLLOUT, kFabricPatienceMs)) return Errc::kTimedOut;
    }
  }
}

Expected<ArrivedMessage> receive_waiting(int socket, std::span<std::byte> room, int patience_ms) {
  for (;;) {
    bool is_gone = false;
    if (auto arrived = receive_message(socket, room, is_gone)) return std::move(*arrived);
    if (is_gone) return Errc::kNoDevice;
    if (!wait_for(socket, POLLIN, patience_ms)) return Errc::kTimedOut;
  }
}

}  // namespace verbatim::host
