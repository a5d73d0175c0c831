// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "base/pointer.h"
#include "transport/queues/work.h"
#include "transport/reason.h"
#include "wire/headers/psn.h"

namespace verbatim::transport {

/// The progress of a send request.
enum class SendStage : std::uint8_t {
  kPosted,   // not started
  kStarted,  // it has sequence numbers; some of its packets may have been sent
  kDone,     // acknowledged, or executed locally
  kFailed,   // it has failed; reported when all requests before it are done
};

/// The error of a request that is posted although it cannot be executed: it completes with this
/// status in its turn. kSuccess: no error.
struct Flaw {
  WcStatus status = WcStatus::kSuccess;
  Reason reason = Reason::kNone;
};

/// One posted send request with its progress. Private to the owner's process.
struct SendEntry {
  std::uint64_t wr_id = 0;
  SendOpcode opcode{};
  SendFlags flags{};
  SendStage stage = SendStage::kPosted;
  WcStatus failure = WcStatus::kSuccess;  // kFailed, or flawed from the start: what is reported
  std::uint8_t sge_count = 0;             // elements of the gather list; inline data has none
  bool is_inline = false;
  bool bind_type1 = false;
  Reason reason = Reason::kNone;  // why it fails
  std::uint32_t octets = 0;       // of the message
  wire::Psn first_psn{};          // kStarted: of its first packet
  std::uint32_t packets = 0;      // kStarted: sequence numbers it takes
  std::uint32_t answered = 0;     // READ: response packets that have arrived
  std::uint32_t walk_at = 0;      // message octet that `walk` stands at
  memory::SgeCursor walk{};       // where the last packet's payload ended

  std::uint64_t remote_address = 0;
  std::uint64_t compare_or_add = 0;
  std::uint64_t swap = 0;
  wire::MemoryKey rkey{};
  wire::Immediate immediate{};
  wire::MemoryKey invalidate_key{};
  wire::SrqNumber remote_srq{};
  std::uint32_t flush_octets = 0;
  wire::Feth flush{};
  wire::QpNumber remote_qp{};
  wire::QKey remote_qkey{};

  /// Whether it was posted with a flaw: then it is never executed.
  [[nodiscard]] bool is_flawed() const noexcept {
    return stage == SendStage::kPosted && failure != WcStatus::kSuccess;
  }
};

/// The send queue of one queue pair (IBA Vol 1, 10.8.2): a ring of entries numbered from zero on,
/// each with its gather list or inline data. Entries live from post() until the requester removes
/// them, in order.
///
/// Storage is the caller's and private. Thread: the one that holds the queue pair's lock.
class SendQueue {
 public:
  struct Limits {
    std::uint32_t depth = 0;
    std::uint32_t sge_limit = 0;
    std::uint32_t inline_limit = 0;  // octets
    bool carries_paths = false;      // UD: every request names its destination
    bool carries_binds = true;       // RC and UC: room for bind requests
  };

  [[nodiscard]] static std::size_t octets_for(const Limits& limits) noexcept {
    return std::size_t{ring_size(limits.depth)} * stride(limits);
  }

  SendQueue() noexcept = default;
  /// `block` is 64-aligned and has octets_for() octets.
  SendQueue(std::span<std::byte> block, const Limits& limits) noexcept;

  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }

  /// `uncollected` is how many completions of this queue wait in its lane. kNoMemory when the queue
  /// is full, kInvalidArgument when the request exceeds a limit. The entry gets `more_flags` too.
  [[nodiscard]] Status post(const SendRequest& request, std::uint32_t uncollected, Flaw flaw = {},
                            SendFlags more_flags = SendFlags::kNone) noexcept;

  [[nodiscard]] bool has_room_for(std::uint32_t requests,
                                  std::uint32_t uncollected) const noexcept {
    return tail_ - head_ + uncollected + requests <= limits_.depth;
  }

  // Entry numbers: head <= any live entry < tail. They wrap at 2^32, rings are powers of two.
  [[nodiscard]] std::uint32_t head() const noexcept { return head_; }
  [[nodiscard]] std::uint32_t tail() const noexcept { return tail_; }
  [[nodiscard]] bool is_empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] SendEntry& at(std::uint32_t number) const noexcept {
    return *pointer_as<SendEntry>(block_ + std::size_t{number & mask_} * stride_);
  }
  void remove_head() noexcept { ++head_; }
  /// Drops all requests: the queue pair goes to RESET.
  void clear() noexcept { head_ = tail_; }

  [[nodiscard]] std::span<const memory::Sge> list_of(const SendEntry& entry) const noexcept {
    return {pointer_as<const memory::Sge>(data_of(entry)), entry.sge_count};
  }
  [[nodiscard]] std::span<const std::byte> inline_data_of(const SendEntry& entry) const noexcept {
    return {data_of(entry), entry.octets};
  }
  [[nodiscard]] Path& path_of(const SendEntry& entry) const noexcept {
    return *pointer_as<Path>(cell_of(entry) + sizeof(SendEntry));
  }
  [[nodiscard]] memory::BindRequest& bind_of(const SendEntry& entry) const noexcept {
    return *pointer_as<memory::BindRequest>(cell_of(entry) + sizeof(SendEntry));
  }

 private:
  static std::uint32_t ring_size(std::uint32_t depth) noexcept {
    return std::bit_ceil(depth == 0 ? 1U : depth);
  }
  static std::size_t extra_octets(const Limits& limits) noexcept;
  static std::size_t stride(const Limits& limits) noexcept;
  static std::byte* cell_of(const SendEntry& entry) noexcept {
    return pointer_as<std::byte>(&entry);
  }
  [[nodiscard]] std::byte* data_of(const SendEntry& entry) const noexcept {
    return cell_of(entry) + data_offset_;
  }
  [[nodiscard]] Status check(const SendRequest& request, std::uint64_t octets,
                             Flaw flaw) const noexcept;
  void store_data(const SendRequest& request, SendEntry& entry) noexcept;

  // The members that a short request reads come first.
  std::uint32_t head_ = 0;  // oldest entry in the queue
  std::uint32_t tail_ = 0;  // one past the newest
  Limits limits_{};
  std::uint32_t mask_ = 0;       // ring size - 1
  std::byte* block_ = nullptr;   // the caller's, as long as the queue pair
  std::size_t stride_ = 0;       // octets from cell to cell
  std::size_t data_offset_ = 0;  // of the gather list or inline data within a cell
};

}  // namespace verbatim::transport
