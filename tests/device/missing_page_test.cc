// SPDX-License-Identifier: Apache-2.0
// A page of registered memory is missing for a while, as when the thread that moves it gets no
// processor. A peer that accesses it waits as long as that takes.
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "in_process.h"
#include "missing_page.h"
#include "two_ends.h"

namespace verbatim::testing {
namespace {

constexpr auto kWritten = std::byte{'W'};
constexpr auto kOwners = std::byte{'O'};
constexpr std::uint32_t kOctets = 1000;

struct Notes {
  EndNotes owner;
  EndNotes requester;
  std::atomic<bool> is_over{false};
};

int be_owner(Notes& notes, ibv_wr_opcode opcode) {
  End end;
  MissingPage page;
  if (!end.open() || !page.open() || !end.make_qp(&end.qp)) return 1;
  ibv_mr* const mr = ibv_reg_mr(end.pd, page.at(), MissingPage::kOctets, End::kAllAccess);
  if (mr == nullptr) return 2;
  if (!await([&] { return notes.requester.ready == 1; })) return 3;
  if (!end.connect(end.qp, notes.requester.number, {.timeout = 18})) return 4;  // 1 s
  const ibv_sge whole{.addr = reinterpret_cast<std::uintptr_t>(page.at()),
                      .length = MissingPage::kOctets,
                      .lkey = mr->lkey};
  if (!end.receive(end.qp, 1, whole)) return 5;
  notes.owner.number = end.qp->qp_num;
  notes.owner.rkey = mr->rkey;
  notes.owner.address = whole.addr;
  notes.owner.ready = 1;
  // The owner's engine does the access that the requester cannot do, and waits for the page.
  if (!page.wait_for_touch()) return 6;
  page.fill(kOwners);
  if (!await([&] { return notes.is_over.load(); })) return 7;
  const std::byte expected = opcode == IBV_WR_RDMA_READ ? kOwners : kWritten;
  return page.at()[kOctets - 1] == expected && page.at()[kOctets] == kOwners ? 0 : 8;
}

int be_requester(Notes& notes, ibv_wr_opcode opcode) {
  End end;
  if (!end.open() || !end.make_qp(&end.qp)) return 11;
  std::memset(end.buffer, static_cast<int>(kWritten), End::kOctets);
  end.tell(notes.requester, 1);
  if (!await([&] { return notes.owner.ready == 1; })) return 12;
  if (!end.connect(end.qp, notes.owner.number, {.timeout = 18})) return 13;
  const int status = end.run(opcode, notes.owner, kOctets);
  if (status != IBV_WC_SUCCESS) return 100 + status;
  const std::byte expected = opcode == IBV_WR_RDMA_READ ? kOwners : kWritten;
  if (end.buffer[kOctets - 1] != expected || end.buffer[kOctets] != kWritten) return 14;
  notes.is_over = true;
  return 0;
}

class MissingPageTest : public ::testing::TestWithParam<ibv_wr_opcode> {
 protected:
  void TearDown() override { ::munmap(&notes_, sizeof notes_); }
  Notes& notes_ = *share_with_children<Notes>();
};

INSTANTIATE_TEST_SUITE_P(Requests, MissingPageTest,
                         ::testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND));

TEST_P(MissingPageTest, IsWaitedFor) {
  const pid_t owner = start_process([&] { return be_owner(notes_, GetParam()); });
  const int requester = in_process([&] { return be_requester(notes_, GetParam()); });
  EXPECT_EQ(requester, 0) << "the requester " << ibv_wc_status_str(ibv_wc_status(requester % 100));
  if (requester != 0) ::kill(owner, SIGKILL);  // it would wait for the requester
  EXPECT_EQ(exit_status_of(owner), 0);
}

}  // namespace
}  // namespace verbatim::testing
