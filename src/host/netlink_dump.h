// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace verbatim::host {

/// One question to the kernel that it answers with a list (netlink(7), NLM_F_DUMP), and that list.
///
///   NetlinkDump dump = NetlinkDump::of(NETLINK_ROUTE);
///   if (!dump.ask(RTM_GETNEIGH, std::as_bytes(std::span(&wanted, 1)))) return ...;
///   while (const auto entry = dump.next()) ...
///   return dump.is_complete() ? ...
///
/// Each object asks one question. Reading waits for the kernel, which answers at once, and
/// continues when a signal interrupts it. Other threads and processes may change the list between
/// two entries.
///
/// Thread: one at a time.
class NetlinkDump {
 public:
  struct Entry {
    std::uint16_t type = 0;           // of the message
    std::span<const std::byte> body;  // behind its header; valid until the next call of next()
  };

  /// A question to the part of the kernel that `protocol` names (NETLINK_ROUTE and others).
  [[nodiscard]] static NetlinkDump of(int protocol);
  /// Takes a socket, or the negative result of a failed call.
  explicit NetlinkDump(int socket);
  NetlinkDump(const NetlinkDump&) = delete;
  NetlinkDump& operator=(const NetlinkDump&) = delete;
  ~NetlinkDump();

  /// Sends a message of that type with that body. False when there is no socket or the kernel does
  /// not take it.
  [[nodiscard]] bool ask(std::uint16_t type, std::span<const std::byte> body) noexcept;
  /// The next entry of the list; nothing at its end, and when the rest cannot be read.
  [[nodiscard]] std::optional<Entry> next() noexcept;
  /// Whether the kernel has confirmed that next() has returned the whole list.
  [[nodiscard]] bool is_complete() const noexcept { return state_ == State::kComplete; }

 private:
  enum class State : std::uint8_t { kGoesOn, kComplete, kFailed };

  [[nodiscard]] bool receive() noexcept;
  [[nodiscard]] std::optional<Entry> take_message() noexcept;

  int socket_;
  State state_ = State::kGoesOn;
  std::unique_ptr<std::byte[]> room_;
  std::span<const std::byte> rest_;  // the rest of the last datagram
};

/// An attribute inside a message of the kernel (rtnetlink(7)).
struct NetlinkAttribute {
  std::uint16_t type = 0;
  std::span<const std::byte> value;
};

/// Takes the first attribute away from `attributes`; nothing when there is none, or its length does
/// not fit.
[[nodiscard]] std::optional<NetlinkAttribute> take_attribute(
    std::span<const std::byte>& attributes) noexcept;

}  // namespace verbatim::host
