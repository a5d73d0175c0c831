// SPDX-License-Identifier: Apache-2.0
// Threads on the same objects and on different ones; meant for the thread sanitizer.
#include <array>
#include <atomic>
#include <functional>
#include <span>
#include <thread>

#include "qp_capacity.h"
#include "world.h"

namespace verbatim::testing {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 100;
const Attributes kPatient{.timeout = 14, .retry_count = 7, .rnr_retry = 7};

class VerbsThreads : public Pair {
 protected:
  /// Runs each body in a thread of its own, all at once, and waits for their ends.
  static void run(const std::vector<std::function<void()>>& bodies) {
    std::vector<std::thread> threads;
    for (const auto& body : bodies) threads.emplace_back(body);
    for (std::thread& thread : threads) thread.join();
  }
  /// Polls, perhaps beside others, until every request has completed, and counts each by its id.
  static void collect(ibv_cq* cq, std::span<std::atomic<int>> seen,
                      std::atomic<std::size_t>& total) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (total.load() < seen.size() && std::chrono::steady_clock::now() < end) {
      ibv_wc wc[4];
      const int polled = ibv_poll_cq(cq, 4, wc);
      for (int i = 0; i < polled; ++i) {
        EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
        ++seen[wc[i].wr_id];
        ++total;
      }
    }
  }
  /// Two queue pairs on one completion queue. The caller destroys them, and no other thread uses
  /// them.
  std::array<ibv_qp*, 2> make_own_pair(ibv_cq* cq) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = qp_capacity(16, 16);
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = 1;
    const std::array<ibv_qp*, 2> pair{ibv_create_qp(pd, &init), ibv_create_qp(pd, &init)};
    EXPECT_NE(pair[0], nullptr);
    EXPECT_NE(pair[1], nullptr);
    connect(pair[0], pair[1], kPatient);
    return pair;
  }
};

TEST_F(VerbsThreads, PostAndPollTheSameQueuePair) {
  join({.timeout = 14, .retry_count = 7}, {}, {.depth = 64});
  Buffer& from = make_buffer(2000);
  Buffer& to = make_buffer(2000);
  std::atomic<int> posted{0};
  std::atomic<int> completed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const auto end = std::chrono::steady_clock::now() + kPatience;
      while (completed.load() < kThreads * kRounds && std::chrono::steady_clock::now() < end) {
        if (posted.load() < kThreads * kRounds && posted.fetch_add(1) < kThreads * kRounds) {
          while (rdma(near, 1, IBV_WR_RDMA_WRITE, from.sge(), to.address(), to.mr->rkey) != 0) {
            ibv_wc wc;
            completed += ibv_poll_cq(near_sends, 1, &wc);
          }
        }
        ibv_wc wc[4];
        completed += ibv_poll_cq(near_sends, 4, wc);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(completed.load(), kThreads * kRounds);
  EXPECT_EQ(state_of(near), IBV_QPS_RTS);
}

TEST_F(VerbsThreads, MakeUseAndDestroyTheirOwn) {
  std::vector<std::thread> threads;
  std::atomic<int> succeeded{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        ibv_pd* domain = ibv_alloc_pd(context);
        ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
        ibv_qp_init_attr init{};
        init.send_cq = init.recv_cq = cq;
        init.cap = qp_capacity(4, 4);
        init.qp_type = IBV_QPT_RC;
        init.sq_sig_all = 1;
        ibv_qp* one = ibv_create_qp(domain, &init);
        ibv_qp* other = ibv_create_qp(domain, &init);
        std::vector<std::uint8_t> memory(4000);
        ibv_mr* mr = ibv_reg_mr(domain, memory.data(), memory.size(), kAllAccess);
        connect(one, other, {.timeout = 14, .retry_count = 7});
        const ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(memory.data()),
                          .length = 2000,
                          .lkey = mr->lkey};
        if (rdma(one, 1, IBV_WR_RDMA_WRITE, sge, sge.addr + 2000, mr->rkey) == 0 &&
            collect_one(cq).status == IBV_WC_SUCCESS) {
          ++succeeded;
        }
        EXPECT_EQ(ibv_destroy_qp(one), 0);
        EXPECT_EQ(ibv_destroy_qp(other), 0);
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
        EXPECT_EQ(ibv_dealloc_pd(domain), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(succeeded.load(), kThreads * 10);
}

TEST_F(VerbsThreads, OneWaitsForWhatAnotherSends) {
  ibv_comp_channel* channel = make_channel();
  near_sends = make_cq();
  far_receives = make_cq(64, channel);
  near = make_qp({.send_cq = near_sends});
  far = make_qp({.send_cq = near_sends, .receive_cq = far_receives, .depth = 32});
  connect(near, far, {.timeout = 14, .retry_count = 7, .rnr_retry = 7});
  Buffer& from = make_buffer(100);
  Buffer& to = make_buffer(100);
  ASSERT_EQ(ibv_req_notify_cq(far_receives, 0), 0);
  std::thread waiter([&] {
    int arrived = 0;
    for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(receive(far, i, to.sge()), 0);
    while (arrived < kRounds) {
      ibv_cq* cq = nullptr;
      void* tag = nullptr;
      ASSERT_EQ(ibv_get_cq_event(channel, &cq, &tag), 0);
      ibv_ack_cq_events(cq, 1);
      ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
      ibv_wc wc;
      while (ibv_poll_cq(cq, 1, &wc) == 1) {
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ++arrived;
        ASSERT_EQ(receive(far, 1, to.sge()), 0);
      }
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_EQ(send(near, 1, from.sge()), 0);
    ASSERT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
  }
  waiter.join();
}

TEST_F(VerbsThreads, PollOneQueueThatManyQueuePairsShare) {
  constexpr std::size_t kPosters = 3;
  constexpr std::size_t kEach = 150;
  ibv_cq* cq = make_cq(256);
  Buffer& from = make_buffer(3000);
  std::array<ibv_qp*, kPosters> posters{};
  std::array<Buffer*, kPosters> targets{};
  for (std::size_t i = 0; i < kPosters; ++i) {
    posters[i] = make_qp({.send_cq = cq});
    ibv_qp* peer = make_qp({.send_cq = make_cq()});
    connect(posters[i], peer, kPatient);
    targets[i] = &make_buffer(3000);
  }
  std::array<std::atomic<int>, kPosters * kEach> seen{};
  std::atomic<std::size_t> total{0};
  std::vector<std::function<void()>> bodies;
  for (std::size_t i = 0; i < kPosters; ++i) {
    bodies.emplace_back([&, i] {
      for (std::size_t n = 0; n < kEach;) {
        const Buffer& to = *targets[i];
        const int result = rdma(posters[i], i * kEach + n, IBV_WR_RDMA_WRITE, from.sge(),
                                to.address(), to.mr->rkey);
        ASSERT_TRUE(result == 0 || result == ENOMEM) << result;
        if (result == 0) ++n;
      }
    });
  }
  for (int poller = 0; poller < 2; ++poller) {
    bodies.emplace_back([&] { collect(cq, seen, total); });
  }
  run(bodies);
  for (const auto& times : seen) EXPECT_EQ(times.load(), 1);
  for (const Buffer* to : targets) EXPECT_EQ(to->octets, from.octets);
}

// So many lanes that the hints of empty ones are lowered while completions come to others.
TEST_F(VerbsThreads, PollOneQueueThatAHundredQueuePairsUseInTurn) {
  constexpr std::size_t kPairs = 100;
  constexpr std::size_t kMessages = 3000;
  constexpr std::size_t kAhead = 4;  // receives of each
  ibv_cq* sends = make_cq(4096);
  ibv_cq* receives = make_cq(4096);
  Buffer& from = make_buffer(8);
  Buffer& to = make_buffer(8);
  std::array<ibv_qp*, kPairs> senders{};
  std::array<ibv_qp*, kPairs> receivers{};
  for (std::size_t i = 0; i < kPairs; ++i) {
    senders[i] = make_qp({.send_cq = sends});
    receivers[i] = make_qp({.send_cq = receives});
    connect(senders[i], receivers[i], kPatient);
    for (std::size_t n = 0; n < kAhead; ++n) {
      ASSERT_EQ(receive(receivers[i], n * kPairs + i, to.sge()), 0);
    }
  }
  std::array<std::atomic<int>, kMessages> seen{};
  std::atomic<std::size_t> total{0};
  std::thread poller([&] {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (total.load() < kMessages && std::chrono::steady_clock::now() < end) {
      ibv_wc wc;
      if (ibv_poll_cq(receives, 1, &wc) != 1) continue;
      EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
      ++seen[wc.wr_id];
      const std::size_t next = wc.wr_id + kAhead * kPairs;
      EXPECT_EQ(receive(receivers[next % kPairs], next, to.sge()), 0);
      ++total;
    }
  });
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (std::size_t n = 0; n < kMessages && std::chrono::steady_clock::now() < end; ++n) {
    ASSERT_EQ(send(senders[n % kPairs], n, from.sge()), 0);
    // Its lane has run dry when the next message comes.
    while (total.load() <= n && std::chrono::steady_clock::now() < end) {
      ibv_wc wc;
      (void)ibv_poll_cq(sends, 1, &wc);
    }
  }
  poller.join();
  for (const auto& times : seen) EXPECT_EQ(times.load(), 1);
}

// An end that only receives need never be ready to send.
TEST_F(VerbsThreads, PostReceivesToOneThatNeverSends) {
  constexpr std::size_t kPosters = 3;
  constexpr std::size_t kEach = 150;
  ibv_cq* sends = make_cq(256);
  ibv_cq* receives = make_cq(256);
  ibv_qp* sender = make_qp({.send_cq = sends});
  ibv_qp* receiver = make_qp({.send_cq = receives});
  ASSERT_EQ(to_init(receiver), 0);
  ASSERT_EQ(to_rtr(receiver, sender->qp_num), 0);
  ASSERT_EQ(to_init(sender), 0);
  ASSERT_EQ(to_rtr(sender, receiver->qp_num), 0);
  ASSERT_EQ(to_rts(sender, kPatient), 0);
  Buffer& from = make_buffer(100);
  Buffer& to = make_buffer(100);
  std::array<std::atomic<int>, kPosters * kEach> seen{};
  std::atomic<std::size_t> received{0};
  std::vector<std::function<void()>> bodies;
  for (std::size_t i = 0; i < kPosters; ++i) {
    bodies.emplace_back([&, i] {
      const auto end = std::chrono::steady_clock::now() + kPatience;
      for (std::size_t n = 0; n < kEach && std::chrono::steady_clock::now() < end;) {
        if (receive(receiver, i * kEach + n, to.sge()) == 0) ++n;
      }
    });
  }
  bodies.emplace_back([&] {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (std::size_t n = 0; n < seen.size() && std::chrono::steady_clock::now() < end;) {
      if (send(sender, n, from.sge()) == 0) ++n;
      ibv_wc wc[4];
      const int polled = ibv_poll_cq(sends, 4, wc);
      for (int i = 0; i < polled; ++i) EXPECT_EQ(wc[i].status, IBV_WC_SUCCESS);
    }
  });
  bodies.emplace_back([&] { collect(receives, seen, received); });
  run(bodies);
  for (const auto& times : seen) EXPECT_EQ(times.load(), 1);
  EXPECT_EQ(to.octets, from.octets);
  EXPECT_EQ(state_of(receiver), IBV_QPS_RTR);
}

TEST_F(VerbsThreads, PostToOneSharedQueueWhileItIsEmptied) {
  constexpr std::size_t kMessages = 120;  // of each sender, and receives of each poster
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 64, .max_sge = 1, .srq_limit = 0};
  ibv_srq* srq = keep(srqs, ibv_create_srq(pd, &init));
  ibv_cq* arrivals = make_cq(256);
  std::array<ibv_qp*, 2> senders{};
  for (ibv_qp*& sender : senders) {
    sender = make_qp({.send_cq = make_cq()});
    connect(sender, make_qp({.send_cq = make_cq(), .receive_cq = arrivals, .srq = srq}), kPatient,
            {.min_rnr_timer = 1});
  }
  Buffer& from = make_buffer(700);
  Buffer& to = make_buffer(700);
  std::array<std::atomic<int>, 2 * kMessages> seen{};
  std::atomic<std::size_t> arrived{0};
  std::vector<std::function<void()>> bodies;
  for (std::size_t t = 0; t < 2; ++t) {
    bodies.emplace_back([&, t] {
      for (std::size_t n = 0; n < kMessages;) {
        const int result = receive(srq, t * kMessages + n, to.sge());
        ASSERT_TRUE(result == 0 || result == ENOMEM) << result;
        if (result == 0) ++n;
      }
    });
    bodies.emplace_back([&, t] {
      for (std::size_t n = 0; n < kMessages; ++n) {
        ASSERT_EQ(send(senders[t], n, from.sge()), 0);
        ASSERT_EQ(collect_one(senders[t]->send_cq).status, IBV_WC_SUCCESS);
      }
    });
    bodies.emplace_back([&] {
      const auto end = std::chrono::steady_clock::now() + kPatience;
      while (arrived.load() < seen.size() && std::chrono::steady_clock::now() < end) {
        ibv_wc wc;
        if (ibv_poll_cq(arrivals, 1, &wc) != 1) continue;
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        ++seen[wc.wr_id];
        ++arrived;
      }
    });
  }
  bodies.emplace_back([&] {  // asks for limits, and reads what is told about them
    while (arrived.load() < seen.size() && !HasFailure()) {
      ibv_srq_attr attr{.max_wr = 0, .max_sge = 0, .srq_limit = 8};
      EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
      EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
      const auto event = next_event(std::chrono::milliseconds(1));
      EXPECT_TRUE(!event || event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED);
    }
  });
  run(bodies);
  for (const auto& times : seen) EXPECT_EQ(times.load(), 1);
  EXPECT_EQ(to.octets, from.octets);
}

TEST_F(VerbsThreads, OneReadsEventsAboutObjectsThatComeAndGo) {
  ibv_cq* cq = make_cq(256);
  Buffer& buffer = make_buffer(64);
  std::atomic<bool> done{false};
  std::atomic<int> told{0};
  run({[&] {
         while (!done.load()) {
           if (next_event(std::chrono::milliseconds(1))) ++told;
         }
       },
       [&] {
         for (int round = 0; round < 40; ++round) {
           const auto pair = make_own_pair(cq);
           EXPECT_EQ(rdma(pair[0], 1, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), 0xbad), 0);
           // In some rounds the queue pair is destroyed without waiting for the error.
           EXPECT_TRUE(round % 2 == 0 || reaches(pair[1], IBV_QPS_ERR));
           EXPECT_EQ(ibv_destroy_qp(pair[1]), 0);
           EXPECT_EQ(ibv_destroy_qp(pair[0]), 0);
           while (!is_empty(cq)) {
           }
         }
         done = true;
       }});
}

TEST_F(VerbsThreads, OnePollsWhileQueuePairsAreDestroyed) {
  ibv_cq* cq = make_cq(256);
  Buffer& buffer = make_buffer(6000);
  std::atomic<bool> done{false};
  const auto poll = [&] {
    while (!done.load()) {
      ibv_wc wc[4];
      const int polled = ibv_poll_cq(cq, 4, wc);
      for (int i = 0; i < polled; ++i) {
        EXPECT_TRUE(wc[i].status == IBV_WC_SUCCESS || wc[i].status == IBV_WC_WR_FLUSH_ERR ||
                    wc[i].status == IBV_WC_RETRY_EXC_ERR)
            << ibv_wc_status_str(wc[i].status);
      }
    }
  };
  run({poll, poll, [&] {
         for (int round = 0; round < 60; ++round) {
           const auto pair = make_own_pair(cq);
           for (std::uint64_t i = 0; i < 4; ++i) {
             EXPECT_EQ(receive(pair[1], i, buffer.sge()), 0);
             EXPECT_EQ(send(pair[0], i, buffer.sge()), 0);
             EXPECT_EQ(rdma(pair[1], i, IBV_WR_RDMA_READ, buffer.sge(), buffer.address(),
                            buffer.mr->rkey),
                       0);
           }
           EXPECT_EQ(ibv_destroy_qp(pair[round % 2 == 0 ? 0 : 1]), 0);
           EXPECT_EQ(ibv_destroy_qp(pair[round % 2 == 0 ? 1 : 0]), 0);
         }
         done = true;
       }});
}

TEST_F(VerbsThreads, MemoryIsRegisteredWhileOtherMemoryIsInUse) {
  join(kPatient);
  Buffer& from = make_buffer(5000);
  Buffer& to = make_buffer(5000);
  std::atomic<bool> done{false};
  const auto registrar = [&] {
    std::vector<std::uint8_t> memory(8192);
    while (!done.load()) {
      ibv_mr* one = ibv_reg_mr(pd, memory.data(), 4096, kAllAccess | IBV_ACCESS_MW_BIND);
      ibv_mr* other = ibv_reg_mr(pd, memory.data(), memory.size(), kAllAccess);
      ibv_mw* window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
      ASSERT_TRUE(one != nullptr && other != nullptr && window != nullptr);
      EXPECT_NE(one->rkey, other->rkey);
      EXPECT_EQ(
          ibv_rereg_mr(other, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(), 100, 0), 0);
      EXPECT_EQ(ibv_dealloc_mw(window), 0);
      EXPECT_EQ(ibv_dereg_mr(one), 0);
      EXPECT_EQ(ibv_dereg_mr(other), 0);
    }
  };
  run({registrar, registrar, [&] {
         for (std::size_t round = 0; round < kRounds; ++round) {
           from.octets[round] ^= 0x5a;
           EXPECT_EQ(receive(far, round, to.sge()), 0);
           EXPECT_EQ(send(near, round, from.sge()), 0);
           EXPECT_EQ(collect_one(near_sends).status, IBV_WC_SUCCESS);
           EXPECT_EQ(collect_one(far_receives).status, IBV_WC_SUCCESS);
           EXPECT_EQ(to.octets, from.octets);
         }
         done = true;
       }});
}

TEST_F(VerbsThreads, OneQueuePairIsChangedAskedAndUsedAtOnce) {
  ibv_cq* cq = make_cq(256);
  ibv_qp* qp = make_qp({.send_cq = cq});
  ibv_qp* peer = make_qp({.send_cq = make_cq()});
  ASSERT_EQ(to_init(peer), 0);
  ASSERT_EQ(to_rtr(peer, qp->qp_num), 0);
  Buffer& buffer = make_buffer(2000);
  std::atomic<bool> done{false};
  run({[&] {
         for (int round = 0; round < kRounds; ++round) {
           EXPECT_EQ(to_init(qp), 0);
           EXPECT_EQ(to_rtr(qp, peer->qp_num), 0);
           EXPECT_EQ(to_rts(qp, kPatient), 0);
           ibv_qp_attr attr{};
           attr.qp_state = round % 2 == 0 ? IBV_QPS_ERR : IBV_QPS_RESET;
           EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
           attr.qp_state = IBV_QPS_RESET;
           EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
         }
         done = true;
       },
       [&] {
         while (!done.load()) {
           ibv_qp_attr attr{};
           ibv_qp_init_attr init{};
           EXPECT_EQ(ibv_query_qp(qp, &attr, 0, &init), 0);
           EXPECT_LE(attr.qp_state, IBV_QPS_ERR);
         }
       },
       [&] {
         // The state may or may not allow it at that moment; it must end without a crash in both
         // cases.
         while (!done.load()) {
           (void)receive(qp, 1, buffer.sge());
           (void)rdma(qp, 2, IBV_WR_RDMA_WRITE, buffer.sge(), buffer.address(), buffer.mr->rkey);
         }
       },
       [&] {
         for (int capacity = 200; !done.load(); capacity = capacity == 200 ? 250 : 200) {
           ibv_wc wc[8];
           EXPECT_GE(ibv_poll_cq(cq, 8, wc), 0);
           EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
           EXPECT_EQ(ibv_resize_cq(cq, capacity), 0);
         }
       }});
}

TEST_F(VerbsThreads, AllListOpenAndCloseDevices) {
  const auto visit = [&] {
    for (int round = 0; round < 20; ++round) {
      int count = 0;
      ibv_device** list = ibv_get_device_list(&count);
      ASSERT_NE(list, nullptr);
      ASSERT_EQ(count, 1);
      EXPECT_NE(ibv_get_device_guid(list[0]), 0U);
      ibv_context* own = ibv_open_device(list[0]);
      ibv_free_device_list(list);
      ASSERT_NE(own, nullptr);
      ibv_port_attr port;
      EXPECT_EQ(ibv_query_port(own, 1, &port), 0);
      ibv_comp_channel* channel = ibv_create_comp_channel(own);
      ibv_cq* cq = ibv_create_cq(own, 4, nullptr, channel, 0);
      ibv_pd* domain = ibv_alloc_pd(own);
      EXPECT_EQ(ibv_dealloc_pd(domain), 0);
      EXPECT_EQ(ibv_destroy_cq(cq), 0);
      EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
      EXPECT_EQ(ibv_close_device(own), 0);
    }
  };
  run({visit, visit, visit});
}

TEST_F(VerbsThreads, BuildersAndExtendedPollingTakeTurns) {
  constexpr std::uint32_t kMessages = 150;  // of each of the two senders
  ibv_cq_init_attr_ex cq_init{};
  cq_init.cqe = 64;
  cq_init.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM;
  ibv_cq_ex* arrivals = ibv_create_cq_ex(context, &cq_init);
  ASSERT_NE(arrivals, nullptr);
  cqs.push_back(ibv_cq_ex_to_cq(arrivals));
  ibv_cq* sends = make_cq(256);
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = sends;
  init.cap = qp_capacity(64, 1);
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd;
  init.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM;
  near = keep(qps, ibv_create_qp_ex(context, &init));
  far = make_qp({.send_cq = sends, .receive_cq = ibv_cq_ex_to_cq(arrivals), .depth = 64});
  connect(near, far, kPatient, {.min_rnr_timer = 1});
  Buffer& from = make_buffer(1000);
  Buffer& to = make_buffer(1000);
  for (std::uint64_t i = 0; i < 64; ++i) ASSERT_EQ(receive(far, i, to.sge()), 0);
  std::array<std::atomic<int>, 2 * kMessages> seen{};
  std::atomic<std::size_t> arrived{0};
  std::vector<std::function<void()>> bodies;
  for (std::uint32_t t = 0; t < 2; ++t) {
    bodies.emplace_back([&, t] {
      ibv_qp_ex* ex = ibv_qp_to_qp_ex(near);
      for (std::uint32_t n = 0; n < kMessages;) {
        const std::uint32_t id = t * kMessages + n;
        ibv_wr_start(ex);
        ex->wr_id = id;
        ex->wr_flags = 0;
        ibv_wr_send_imm(ex, id);
        ibv_wr_set_sge(ex, from.mr->lkey, from.address(), id + 1);  // the length tells the id, too
        if (ibv_wr_complete(ex) == 0) ++n;
        ibv_wc wc;
        (void)ibv_poll_cq(sends, 1, &wc);
      }
    });
    bodies.emplace_back([&] {
      const auto end = std::chrono::steady_clock::now() + kPatience;
      while (arrived.load() < seen.size() && std::chrono::steady_clock::now() < end) {
        ibv_poll_cq_attr attr{};
        if (ibv_start_poll(arrivals, &attr) != 0) continue;
        int polled = 0;
        do {
          const std::uint32_t id = ibv_wc_read_imm_data(arrivals);
          EXPECT_EQ(arrivals->status, IBV_WC_SUCCESS);
          EXPECT_EQ(ibv_wc_read_byte_len(arrivals), id + 1);
          ++seen[id % seen.size()];
          ++arrived;
          ++polled;
        } while (polled < 3 && ibv_next_poll(arrivals) == 0);
        ibv_end_poll(arrivals);
        while (polled-- > 0) EXPECT_EQ(receive(far, 0, to.sge()), 0);
      }
    });
  }
  run(bodies);
  for (const auto& times : seen) EXPECT_EQ(times.load(), 1);
}

}  // namespace
}  // namespace verbatim::testing
