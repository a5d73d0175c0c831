// SPDX-License-Identifier: Apache-2.0
// From post_send to the completion nothing is allocated: not by the requester, not by the
// responder, not by the queues, and not when packets are lost. A program of its own, because it
// replaces operator new.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include "transport/rc/test_requester.h"
#include "transport/rc/test_responder.h"

namespace {

std::size_t allocation_count = 0;

void* counted(std::size_t octets, std::size_t alignment) noexcept {
  ++allocation_count;
  void* at = nullptr;
  if (posix_memalign(&at, alignment, octets) != 0) std::abort();
  return at;
}
void* counted(std::size_t octets) noexcept { return counted(octets, alignof(std::max_align_t)); }

}  // namespace

void* operator new(std::size_t octets) { return counted(octets); }
void* operator new[](std::size_t octets) { return counted(octets); }
void* operator new(std::size_t octets, std::align_val_t alignment) {
  return counted(octets, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t octets, std::align_val_t alignment) {
  return counted(octets, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t octets, const std::nothrow_t&) noexcept { return counted(octets); }
void* operator new[](std::size_t octets, const std::nothrow_t&) noexcept { return counted(octets); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete[](void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }

namespace verbatim::transport {
namespace {

using namespace test;

/// A requester and a responder back to back, without anything in between that allocates.
class Loop {
 public:
  explicit Loop(unsigned lost_per_mille) : lost_per_mille_(lost_per_mille), requester_(config()) {}

  /// Requests of each kind in turn, each until it completes.
  bool run(int rounds) {
    std::array<Completion, 8> completions;
    for (int round = 0; round < rounds; ++round) {
      for (const SendRequest& request : requests_) {
        if (!post_receive() || !requester_.queue().post(request, 0).ok()) return false;
        if (!run_to_completion()) return false;
        if (requester_.collect(completions) != 1) return false;
        if (completions[0].status != WcStatus::kSuccess) return false;
        (void)responder_.collect(completions);  // SENDs and WRITEs with immediate leave one
      }
    }
    return true;
  }

  void prepare() {
    for (const SendOpcode opcode :
         {SendOpcode::kSend, SendOpcode::kSendImm, SendOpcode::kWrite, SendOpcode::kWriteImm,
          SendOpcode::kRead, SendOpcode::kFetchAdd, SendOpcode::kCompareSwap, SendOpcode::kFlush,
          SendOpcode::kAtomicWrite}) {
      add(opcode, opcode == SendOpcode::kFlush ? 0 : octets_of(opcode));
    }
    SendRequest& inlined = add(SendOpcode::kSend, 100);
    inlined.flags = SendFlags::kSignaled | SendFlags::kInline;
  }

 private:
  static RcRequester::Config config() {
    auto config = RequesterRig::defaults();
    config.first_psn = wire::Psn(500);  // what the responder expects
    config.read_chunk_packets = 4;
    return config;
  }
  static std::uint32_t octets_of(SendOpcode opcode) {
    switch (opcode) {
      case SendOpcode::kFetchAdd:
      case SendOpcode::kCompareSwap:
      case SendOpcode::kAtomicWrite:
        return 8;
      default:
        return 3000;
    }
  }
  SendRequest& add(SendOpcode opcode, std::uint32_t octets) {
    SendRequest request = requester_.request(opcode, octets);
    request.remote_address = responder_.arena().address(Receiver::kRemote);
    request.rkey = responder_.arena().key();
    return requests_.emplace_back(request);
  }

  bool post_receive() {
    if (responder_.posted_count() > 0) return true;
    const std::array list{responder_.arena().sge(0, 4096)};
    return responder_.queue().post({.wr_id = 1, .list = list}, responder_.port().collected()).ok();
  }
  bool is_lost() { return prng_.per_mille(lost_per_mille_); }

  bool run_to_completion() {
    for (int step = 0; step < 10'000; ++step) {
      if (requester_.queue().is_empty()) return true;
      exchange();
      if (!requester_.queue().is_empty() && !requester_.sleep()) return false;
    }
    return false;
  }
  void exchange() {
    bool moved = true;
    while (moved) {
      moved = false;
      while (const std::size_t octets =
                 requester_.machine().poll_transmit(requester_.now(), frame_, 0)) {
        moved = true;
        const auto packet = wire::PacketView::parse(std::span(frame_).first(octets));
        if (packet && !is_lost()) responder_.machine().handle_request(*packet);
      }
      while (const std::size_t octets = responder_.machine().poll_transmit(path_, frame_, 0)) {
        moved = true;
        const auto packet = wire::PacketView::parse(std::span(frame_).first(octets));
        if (packet && !is_lost()) requester_.machine().handle_response(requester_.now(), *packet);
      }
    }
  }

  unsigned lost_per_mille_;
  RequesterRig requester_;
  RcRig responder_;
  std::vector<SendRequest> requests_;
  Path path_ = test_path();
  Prng prng_{42};
  std::array<std::byte, wire::kMaxTransportOctets> frame_;
};

TEST(Allocation, TheCounterCounts) {
  const std::size_t before = allocation_count;
  const auto some = std::vector<int>(100);
  EXPECT_EQ(some.size(), 100U);
  EXPECT_EQ(allocation_count, before + 1);
}

void expect_no_allocation(unsigned lost_per_mille) {
  Loop loop(lost_per_mille);
  loop.prepare();
  const std::size_t before = allocation_count;
  const bool completed = loop.run(20);
  const std::size_t after = allocation_count;
  EXPECT_TRUE(completed);
  EXPECT_EQ(after - before, 0U);
}

TEST(Allocation, NothingIsAllocatedBetweenPostingAndCompletion) { expect_no_allocation(0); }

TEST(Allocation, NothingIsAllocatedWhenPacketsAreLost) { expect_no_allocation(100); }

}  // namespace
}  // namespace verbatim::transport
