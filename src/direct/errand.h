// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "direct/answer.h"
#include "transport/queues/send_queue.h"
#include "wire/headers/ids.h"

namespace verbatim::direct {

/// A part of a request that only the owner of the memory can execute, because the system lets
/// nobody else at it or because it must be atomic there: what the requester sends to the owner's
/// process, and what comes back. Octets of a SEND or WRITE follow the request, those of a READ the
/// reply.
struct Errand {
  static constexpr std::uint32_t kMagic = 0x5642'4531;
  static constexpr std::uint32_t kOctetsMax = 32 * 1024;  // that follow
  enum class Kind : std::uint32_t { kRequest = 1, kReply = 2 };

  std::uint32_t magic = kMagic;
  Kind kind = Kind::kRequest;
  std::uint64_t number = 0;  // counts the requester's errands
  wire::QpNumber requester{};
  wire::QpNumber target{};
  transport::SendEntry entry{};  // as the requester has it
  std::uint32_t offset = 0;      // of the part, in the message
  std::uint32_t octets = 0;      // of the part
  bool is_first = false;
  bool is_last = false;
  Answer answer{};             // reply
  std::uint64_t original = 0;  // reply to an atomic, or what an ATOMIC WRITE stores

  /// False for what is no errand, or has not the octets that it says.
  [[nodiscard]] bool parse(std::span<const std::byte> message) noexcept {
    if (message.size() < sizeof *this) return false;
    std::memcpy(this, message.data(), sizeof *this);
    return magic == kMagic && (kind == Kind::kRequest || kind == Kind::kReply) &&
           octets <= kOctetsMax && is_sensible_entry() &&
           message.size() - sizeof *this == payload_octets();
  }
  /// Takes from a reply with so many octets how it ended, and nothing else: what was asked for is
  /// known here better than by whoever answers. One that brings other octets than it owes has
  /// failed.
  void adopt(const Errand& reply, std::size_t reply_octets) noexcept {
    const bool reads = entry.opcode == transport::SendOpcode::kRead;
    const std::size_t owed = reads && reply.answer == Answer::kDone ? octets : 0;
    answer = reply_octets == owed ? reply.answer : Answer::kOperationError;
    original = reply.original;
  }
  /// Octets that follow this.
  [[nodiscard]] std::size_t payload_octets() const noexcept {
    using transport::SendOpcode;
    if (answer != Answer::kDone) return 0;
    switch (entry.opcode) {
      case SendOpcode::kRead:
        return kind == Kind::kReply ? octets : 0;
      case SendOpcode::kWrite:
      case SendOpcode::kWriteImm:
      case SendOpcode::kSend:
      case SendOpcode::kSendImm:
      case SendOpcode::kSendInvalidate:
        return kind == Kind::kRequest ? octets : 0;
      case SendOpcode::kCompareSwap:
      case SendOpcode::kFetchAdd:
      case SendOpcode::kAtomicWrite:
      case SendOpcode::kFlush:
      case SendOpcode::kLocalInvalidate:
      case SendOpcode::kBindWindow:
        return 0;
    }
    return 0;
  }

 private:
  [[nodiscard]] bool is_sensible_entry() const noexcept {
    return offset <= entry.octets && octets <= entry.octets - offset &&
           answer <= Answer::kOwnerNeeded;
  }
};
static_assert(std::is_trivially_copyable_v<Errand>);

class Target;
/// Executes an errand in the owner's process, where `target` stands in for the requester; `octets`
/// are those that came along, or the place for those to send back.
void execute(Errand& errand, std::span<std::byte> octets, Target& target) noexcept;

}  // namespace verbatim::direct
