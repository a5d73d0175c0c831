// SPDX-License-Identifier: Apache-2.0
// The segment of a process may hold anything, at any time: a requester that executes requests there
// touches nothing but the segment and registered memory, and its calls end.
//
// The input is a history of eight octets a step: a block, a place in it, a value that is written
// there, and the request that is executed then.
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "base/assert.h"
#include "direct/test_owner.h"

namespace {

using verbatim::direct::Chunk;
using verbatim::direct::HalfRecord;
using verbatim::direct::Target;
using verbatim::direct::test::Owner;
using verbatim::transport::SendOpcode;

constexpr std::size_t kStepOctets = 8;
constexpr std::uint32_t kMessageOctets = 200;

/// One request, with any outcome.
void execute(Owner& owner, Target& target, std::uint8_t what) {
  std::array<std::byte, kMessageOctets> octets{};
  const iovec piece{.iov_base = octets.data(), .iov_len = octets.size()};
  const Chunk chunk{.offset = 0,
                    .octets = kMessageOctets,
                    .is_first = (what & 8) == 0,
                    .is_last = (what & 16) == 0,
                    .pieces = {&piece, 1}};
  std::uint64_t original = 0;
  if (target.visit().enter()) {
    switch (what % 5) {
      case 0:
        (void)target.send(owner.entry(SendOpcode::kSend, kMessageOctets), chunk);
        break;
      case 1:
        (void)target.write(owner.entry(SendOpcode::kWriteImm, kMessageOctets), chunk);
        break;
      case 2:
        (void)target.read(owner.entry(SendOpcode::kRead, kMessageOctets), chunk);
        break;
      case 3:
        (void)target.atomic(owner.entry(SendOpcode::kCompareSwap, 8), original);
        break;
      case 4:
        (void)target.send(owner.entry(SendOpcode::kSendInvalidate, kMessageOctets), chunk);
        break;
    }
    (void)target.has_receive();
    (void)target.visit().is_given_up();
  }
  target.visit().leave();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kStepOctets) return 0;
  const auto receives = (data[0] & 0x80) != 0 ? Owner::Receives::kShared : Owner::Receives::kOwn;
  const auto owner = std::make_unique<Owner>(receives);
  Target target = owner->requester();
  for (std::uint64_t id = 0; id < 4; ++id) VB_ASSERT(owner->post_receive(id));
  const auto record = std::as_writable_bytes(std::span(&owner->record(), 1));
  const std::array<std::span<std::byte>, 5> blocks{owner->state_block(), owner->receive_block(),
                                                   owner->lane_block(), owner->board_block(),
                                                   record.first(offsetof(HalfRecord, waits))};
  bool has_met = false;
  for (; size >= kStepOctets; data += kStepOctets, size -= kStepOctets) {
    const auto block = blocks[(data[0] & 0x7f) % blocks.size()];
    std::uint16_t at = 0;
    std::memcpy(&at, data + 1, sizeof at);
    std::memcpy(block.data() + at % (block.size() / 4) * 4, data + 4, 4);
    has_met = has_met || target.meet() == Target::Meeting::kMet;
    if (has_met) execute(*owner, target, data[3]);
  }
  return 0;
}
