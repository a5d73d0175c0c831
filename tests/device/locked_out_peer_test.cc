// SPDX-License-Identifier: Apache-2.0
// A requester is stopped in the middle of a copy into memory of the owner, and the owner's queue
// pair ends meanwhile. When the requester continues, its stores appear in no memory of the owner's
// program.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdio>
#include <thread>

#include "in_process.h"
#include "missing_page.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr std::uint32_t kPage = MissingPage::kOctets;
constexpr auto kWritten = std::byte{'W'};
constexpr auto kOwners = std::byte{'O'};

/// What the two processes tell each other.
struct Notes {
  EndNotes owner;
  EndNotes requester;
  std::atomic<bool> is_inside{false};  // the requester waits in the middle of its copy
  std::atomic<bool> goes_on{false};    // it may continue
  std::atomic<bool> is_over{false};    // its copy has ended
  bool closes_sockets = false;         // the requester, in the middle of its copy
  std::atomic<bool> has_failed{false};

  template <typename Condition>
  [[nodiscard]] bool await(Condition&& condition) const {
    return testing::await([&] { return condition() || has_failed; }) && !has_failed;
  }
};

/// As a program does that closes descriptors which it has not opened.
void close_all_sockets() {
  for (int number = 3; number < 4096; ++number) {
    struct stat file {};
    if (::fstat(number, &file) == 0 && S_ISSOCK(file.st_mode)) ::close(number);
  }
}

/// Posts a WRITE of a page that is missing until the owner says so. The WRITE may fail.
int be_requester(Notes& notes) {
  End end;
  MissingPage page;
  if (!end.open() || !end.make_qp(&end.qp)) return 1;
  end.tell(notes.requester, 1);
  if (!notes.await([&] { return notes.owner.ready == 1; })) return 2;
  if (!end.connect(end.qp, notes.owner.number, {})) return 3;
  // The first request of the connection decides the path, and the peer's engine records it.
  if (end.run(IBV_WR_RDMA_READ, notes.owner, kPage) != IBV_WC_SUCCESS) return 4;
  if (!page.open()) return 5;
  ibv_mr* const mr = ibv_reg_mr(end.pd, page.at(), kPage, End::kAllAccess);
  if (mr == nullptr) return 6;
  std::thread filler([&] {
    if (!page.wait_for_touch()) return;
    if (notes.closes_sockets) close_all_sockets();
    notes.is_inside = true;
    (void)notes.await([&] { return notes.goes_on.load(); });
    page.fill(kWritten);
  });
  const ibv_sge ours{
      .addr = std::bit_cast<std::uintptr_t>(page.at()), .length = kPage, .lkey = mr->lkey};
  const bool is_posted = End::post(end.qp, 0, IBV_WR_RDMA_WRITE, ours, notes.owner);
  filler.join();
  notes.is_over = true;
  return is_posted ? 0 : 7;
}

/// Whether peers see stores to the memory at this address.
bool is_shared(const void* address) {
  std::FILE* const maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return true;
  char line[512];
  bool is_shared = false;
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char rights[5]{};
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, rights) != 3) continue;
    const auto at = std::bit_cast<std::uintptr_t>(address);
    if (at >= begin && at < end) is_shared = rights[3] == 's';
  }
  std::fclose(maps);
  return is_shared;
}

using Ends = int (*)(End& owner);  // what ends the queue pair; 0, or where it failed

int be_owner(Notes& notes, Ends ends) {
  ::setenv("VERBATIM_REHOME", "1", 1);
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 21;
  std::fill_n(end.buffer, End::kOctets, kOwners);
  if (!notes.await([&] { return notes.requester.ready == 1; })) return 22;
  if (!end.connect(end.qp, notes.requester.number, {.rnr_retry = 0})) return 23;
  if (!is_shared(end.buffer)) return 24;
  end.tell(notes.owner, 1);
  if (!notes.await([&] { return notes.is_inside.load(); })) return 25;
  if (const int failed = ends(end); failed != 0) return failed;
  notes.goes_on = true;
  if (!notes.await([&] { return notes.is_over.load(); })) return 26;
  const bool is_unchanged =
      std::all_of(end.buffer, end.buffer + kPage, [](std::byte octet) { return octet == kOwners; });
  return is_unchanged ? 0 : 27;
}

class LockedOutPeer : public ::testing::Test {
 protected:
  void run(Ends ends) {
    const pid_t owner = start_process(notes_.has_failed, [&] { return be_owner(notes_, ends); });
    const pid_t requester = start_process(notes_.has_failed, [&] { return be_requester(notes_); });
    EXPECT_EQ(exit_status_of(requester), 0) << "the requester";
    EXPECT_EQ(exit_status_of(owner), 0) << "the owner";
  }
  void TearDown() override { ::munmap(&notes_, sizeof notes_); }

  Notes& notes_ = *share_with_children<Notes>();
};

/// The requester has no receive for it, and the owner does not repeat it.
int fail_a_send(End& owner) {
  if (!End::post(owner.qp, 0, IBV_WR_SEND, owner.sge(64 * 1024, kPage), {})) return 40;
  ibv_wc wc{};
  if (!owner.collect(wc)) return 41;
  return wc.status == IBV_WC_RNR_RETRY_EXC_ERR ? 0 : 42;
}

TEST_F(LockedOutPeer, ReachesNoMemoryThatIsDeregisteredAfterASendHasFailed) {
  run([](End& owner) {
    if (const int failed = fail_a_send(owner); failed != 0) return failed;
    if (ibv_dereg_mr(owner.mr) != 0) return 43;
    return is_shared(owner.buffer) ? 44 : 0;
  });
}

/// The connection between the two processes has ended, but the requester lives.
TEST_F(LockedOutPeer, ReachesNoMemoryThatIsDeregisteredAfterItHasClosedItsSockets) {
  notes_.closes_sockets = true;
  run([](End& owner) {
    ::usleep(300'000);  // so that the owner's engine has noticed the end of the connection
    if (ibv_dereg_mr(owner.mr) != 0) return 43;
    return is_shared(owner.buffer) ? 44 : 0;
  });
}

TEST_F(LockedOutPeer, ReachesNoMemoryThatARegionHasLeftAfterASendHasFailed) {
  run([](End& owner) {
    if (const int failed = fail_a_send(owner); failed != 0) return failed;
    auto* const other = static_cast<std::byte*>(std::aligned_alloc(4096, kPage));
    if (ibv_rereg_mr(owner.mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other, kPage, 0) != 0) {
      return 45;
    }
    return is_shared(owner.buffer) ? 46 : 0;
  });
}

}  // namespace
}  // namespace verbatim::testing
