// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>

#include "base/assert.h"
#include "base/pointer.h"
#include "direct/half.h"
#include "direct/target.h"
#include "host/bells.h"
#include "host/segment_header.h"
#include "transport/queues/completion_lanes.h"

/// Shared by the tests of this layer. Only tests include this file.
namespace verbatim::direct::test {

/// A segment with one connected queue pair that takes requests, a region, and a requester for it.
/// The pages before and behind the segment are not mapped: an access outside of it faults.
class Owner {
 public:
  static constexpr std::size_t kOctets = 1 << 16;
  static constexpr std::uint32_t kDepth = 8;
  static constexpr std::uint32_t kSges = 2;
  static constexpr wire::QpNumber kNumber{20};
  static constexpr wire::QpNumber kRequester{21};
  static constexpr memory::DomainId kDomain{3};
  static constexpr wire::MemoryKey kKey{0x111};
  static constexpr std::size_t kRegionOctets = 4096;
  enum class Receives : std::uint8_t { kOwn, kShared };

  explicit Owner(Receives receives) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* at = ::mmap(nullptr, kOctets + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    VB_ASSERT(at != MAP_FAILED);
    whole_ = {static_cast<std::byte*>(at), kOctets + 2 * page};
    segment_ = whole_.subspan(page, kOctets);
    VB_ASSERT(::mprotect(segment_.data(), kOctets, PROT_READ | PROT_WRITE) == 0);
    lay_out(receives);
  }
  ~Owner() { ::munmap(whole_.data(), whole_.size()); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  [[nodiscard]] std::span<std::byte> segment() const noexcept { return segment_; }
  [[nodiscard]] HalfRecord& record() const noexcept { return records_[20]; }
  [[nodiscard]] HalfRecord& record_of_requester() const noexcept { return records_[21]; }
  [[nodiscard]] Half& half() noexcept { return half_; }
  [[nodiscard]] std::span<std::byte> state_block() const noexcept { return state_; }
  [[nodiscard]] transport::ResponderState& state() const noexcept {
    return *pointer_as<transport::ResponderState>(state_.data());
  }
  [[nodiscard]] std::span<std::byte> receive_block() const noexcept { return receive_; }
  [[nodiscard]] std::span<std::byte> lane_block() const noexcept { return lane_; }
  [[nodiscard]] std::span<std::byte> board_block() const noexcept { return board_; }
  [[nodiscard]] std::span<std::byte> region() noexcept { return region_; }

  [[nodiscard]] Target requester() const noexcept {
    return {nullptr,
            {.segment = segment_.data(), .bell = nullptr},
            {.number = kRequester,
             .dest_qp = kNumber,
             .type = transport::QpType::kRc,
             .path_mtu = 1024},
            [] { return Instant{}; }};
  }
  void withdraw_key() noexcept { memory::withdraw(*key_); }
  /// Another life, with the same requester.
  void begin_again() noexcept {
    half_.begin({.type = transport::QpType::kRc,
                 .number = kNumber,
                 .dest_qp = kRequester,
                 .path_mtu = 1024},
                Visitor::of(nullptr, segment_.data(), kRequester));
    half_.open();
  }
  bool post_receive(std::uint64_t id) {
    const memory::Sge sge{.address = numeric_address(region_.data()), .octets = 1024, .lkey = kKey};
    const transport::ReceiveRequest request{.wr_id = id, .list = {&sge, 1}};
    return queue_.exists() ? queue_.post(request, collected_).ok() : shared_.post(request).ok();
  }
  bool collect(transport::Completion& into) {
    auto lane = transport::CompletionLane::attach(lane_);
    if (!lane.pop(into)) return false;
    ++collected_;
    return true;
  }
  /// A request with this number of octets.
  [[nodiscard]] transport::SendEntry entry(transport::SendOpcode opcode,
                                           std::uint32_t octets) noexcept {
    transport::SendEntry made{};
    made.opcode = opcode;
    made.octets = octets;
    made.packets = 1;
    made.remote_address = numeric_address(region_.data());
    made.rkey = kKey;
    return made;
  }

 private:
  std::span<std::byte> take(std::size_t octets) noexcept {
    const auto block = segment_.subspan(used_, octets);
    used_ += (octets + 63) / 64 * 64;
    return block;
  }

  void lay_out(Receives receives) {
    auto* header = new (take(sizeof(host::SegmentHeader)).data()) host::SegmentHeader;
    header->magic = host::SegmentHeader::kMagic;
    header->version = host::SegmentHeader::kVersion;
    header->octets = kOctets;
    const auto keys = take(4 * sizeof(memory::KeyEntry));
    const auto records = take(32 * sizeof(HalfRecord));
    const auto bells = take(host::Bells::kOctets);
    header->keys_at = offset_of(keys);
    header->key_count = 4;
    header->first_key = 1;
    header->halves_at = offset_of(records);
    header->half_count = 32;
    header->bells_at = offset_of(bells);
    records_ = pointer_as<HalfRecord>(records.data());
    add_region(*pointer_as<memory::KeyEntry>(keys.data()));
    make_queues(receives);
    half_ = Half(&record(), {.responder_at = offset_of(state_),
                             .receive_at = queue_.exists() ? offset_of(receive_) : 0,
                             .shared_at = queue_.exists() ? 0 : offset_of(receive_),
                             .lane_at = offset_of(lane_),
                             .board_at = offset_of(board_),
                             .lane_hint = 1,
                             .end = kOctets});
    begin_again();
  }

  void add_region(memory::KeyEntry& entry) noexcept {
    key_ = &entry;
    entry.status.live = entry.key = static_cast<std::uint32_t>(kKey);
    entry.domain = kDomain;
    entry.access = memory::Access::kLocalWrite | memory::Access::kRemoteWrite |
                   memory::Access::kRemoteRead | memory::Access::kRemoteAtomic;
    entry.base = entry.local = numeric_address(region_.data());
    entry.octets = region_.size();
    entry.status.kind = memory::KeyKind::kRegion;
  }

  void make_queues(Receives receives) {
    state_ = take(sizeof(transport::ResponderState));
    auto* state = new (state_.data()) transport::ResponderState;
    state->number = kNumber;
    state->domain = kDomain;
    state->access =
        memory::Access::kRemoteWrite | memory::Access::kRemoteRead | memory::Access::kRemoteAtomic;
    state->replay_limit = 4;
    lane_ = take(transport::CompletionLane::octets_for(kDepth));
    (void)transport::CompletionLane::create(lane_, kDepth);
    board_ = take(transport::CompletionBoard::octets_for(4));
    (void)transport::CompletionBoard::create(board_, 4);
    const transport::ReceiveQueue::Limits limits{.depth = kDepth, .sge_limit = kSges};
    if (receives == Receives::kOwn) {
      receive_ = take(transport::ReceiveQueue::octets_for(limits));
      queue_ = transport::ReceiveQueue::create(receive_, limits);
    } else {
      receive_ = take(transport::SharedReceiveRing::octets_for(limits));
      shared_ = transport::SharedReceiveRing::create(receive_, kDomain, limits);
    }
  }

  [[nodiscard]] std::uint64_t offset_of(std::span<std::byte> block) const noexcept {
    return static_cast<std::uint64_t>(block.data() - segment_.data());
  }

  std::span<std::byte> whole_;
  std::span<std::byte> segment_;
  std::size_t used_ = 0;
  HalfRecord* records_ = nullptr;
  memory::KeyEntry* key_ = nullptr;
  std::span<std::byte> state_;
  std::span<std::byte> receive_;
  std::span<std::byte> lane_;
  std::span<std::byte> board_;
  transport::ReceiveQueue queue_;
  transport::SharedReceiveRing shared_;
  std::uint32_t collected_ = 0;
  Half half_;
  alignas(64) std::array<std::byte, kRegionOctets> region_{};
};

}  // namespace verbatim::direct::test
