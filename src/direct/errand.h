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

/// A part of a request that only the owner of the memory can execute, because the system lets no
/// other process reach the memory, or because the access must be atomic there. This is the message
/// from the requester to the owner's process, and the reply to it. The octets of a SEND or WRITE
/// follow the message, those of a READ follow the reply.
struct Errand {
  static constexpr std::uint32_t kMagic = 0x5642'4531;
  static constexpr std::uint32_t kOctetsMax = 32 * 1024;  // that follow the message
  enum class Kind : std::uint32_t { kRequest = 1, kReply = 2 };

  std::uint32_t magic = kMagic;
  Kind kind = Kind::kRequest;
  std::uint64_t number = 0;  // counts the requester's errands
  wire::QpNumber requester{};
  wire::QpNumber target{};
  transport::SendEntry entry{};  // a copy of the requester's
  std::uint32_t offset = 0;      // of the part, in the message
  std::uint32_t octets = 0;      // of the part
  bool is_first = false;
  bool is_last = false;
  Answer answer{};             // reply
  std::uint64_t original = 0;  // reply to an atomic, or what an ATOMIC WRITE stores

  /// False if the message is no errand, or if its length does not match its fields.
  [[nodiscard]] bool parse(std::span<const std::byte> message) noexcept {
    if (message.size() < sizeof *this) return false;
    std::memcpy(this, message.data(), sizeof *this);
    return magic == kMagic && (kind == Kind::kRequest || kind == Kind::kReply) &&
           octets <= kOctetsMax && is_sensible_entry() &&
           message.size() - sizeof *this == payload_octets();
  }
  /// Takes the answer and the original value from a reply that `reply_octets` follow, and nothing
  /// else: the other fields stay as the requester has set them. A reply with a wrong number of
  /// octets counts as an operation error.
  void adopt(const Errand& reply, std::size_t reply_octets) noexcept {
    const bool reads = entry.opcode == transport::SendOpcode::kRead;
    const std::size_t owed = reads && reply.answer == Answer::kDone ? octets : 0;
    answer = reply_octets == owed ? reply.answer : Answer::kOperationError;
    original = reply.original;
  }
  /// Octets that follow this message.
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
/// Executes an errand in the owner's process, where `target` stands in for the requester. `octets`
/// are those that followed the message, or the place for those that follow the reply.
void execute(Errand& errand, std::span<std::byte> octets, Target& target) noexcept;

}  // namespace verbatim::direct
