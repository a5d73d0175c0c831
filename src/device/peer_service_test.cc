// SPDX-License-Identifier: Apache-2.0
// Two adapters of one host, without queue pairs: bells, errands, replies and deaths.
#include "device/peer_service.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "host/test_process.h"

namespace verbatim::device {
namespace {

constexpr std::size_t kRoom = std::size_t{64} << 20;
constexpr wire::QpNumber kRequester{40};

class RecordedEvents final : public PeerEvents {
 public:
  void handle_bell(std::uint32_t place) override { bells.push_back(place); }
  void handle_reply(const direct::Errand& reply, std::span<const std::byte> octets) override {
    replies.push_back({.errand = reply, .octets = octets.size()});
  }
  void handle_deaths() override { ++deaths; }

  struct Reply {
    direct::Errand errand;
    std::size_t octets;
  };
  std::vector<std::uint32_t> bells;
  std::vector<Reply> replies;
  int deaths = 0;
};

/// The parts of an adapter that PeerService needs.
struct TestAdapter {
  explicit TestAdapter(PeerService::Admission admission = {}) {
    auto claimed = host::Slot::claim();
    EXPECT_TRUE(claimed.ok());
    slot = std::move(*claimed);
    EXPECT_TRUE(segment.open(kRoom).ok());
    EXPECT_TRUE(layout.lay_out(segment, {.slot = slot.number()}).ok());
    service.admit(admission);
    EXPECT_TRUE(service.open(epoll.number(), bell).ok());
  }
  /// Waits until there is something for serve(), and calls it.
  void serve_next() {
    epoll_event event;
    ASSERT_EQ(::epoll_wait(epoll.number(), &event, 1, -1), 1);
    service.serve();
  }
  void send(const host::Peer& to, const direct::Errand& errand) const {
    EXPECT_TRUE(to.send(std::as_bytes(std::span(&errand, 1)), {}));
  }

  host::AdapterLock lock;
  host::Slot slot;
  host::Segment segment;
  SegmentLayout layout;
  host::OwnDescriptor epoll{::epoll_create1(EPOLL_CLOEXEC)};
  host::OwnDescriptor bell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  RecordedEvents events;
  Visitors visitors{segment, [](Instant) {}};
  MemoryWork memory_work;
  PeerService service{{.lock = lock,
                       .slot = slot,
                       .segment = segment,
                       .layout = layout,
                       .events = events,
                       .visitors = visitors,
                       .memory_work = memory_work}};
};

/// Serves an adapter by a thread, as its engine does.
class Served {
 public:
  explicit Served(TestAdapter& adapter) : adapter_(adapter) {}
  ~Served() {
    stop_ = true;
    thread_.join();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

 private:
  TestAdapter& adapter_;
  std::atomic<bool> stop_{false};
  std::thread thread_{[this] {
    while (!stop_) {
      epoll_event event;
      if (::epoll_wait(adapter_.epoll.number(), &event, 1, 1) > 0) adapter_.service.serve();
    }
  }};
};

/// `near` has attached to `far`.
std::shared_ptr<host::Peer> attach(TestAdapter& near, TestAdapter& far) {
  const Served served(far);
  for (int tries = 0; tries < 100; ++tries) {  // on a busy machine the other end may be late
    if (auto peer = near.service.peers().attach(far.slot.number())) return peer;
  }
  return nullptr;
}

/// Runs `body` with two adapters, the first of which has attached to the second.
template <typename Body>
void with_attached_adapters(Body&& body) {
  host::test::in_a_private_network([&] {
    TestAdapter near;
    TestAdapter far;
    const auto peer = attach(near, far);
    ASSERT_NE(peer, nullptr);
    body(near, far, *peer);
  });
}

TEST(PeerService, ReportsEachBellOnce) {
  host::test::in_a_private_network([] {
    TestAdapter adapter;
    adapter.layout.bells().raise(17);
    adapter.layout.bells().raise(4242);
    adapter.service.take_bells();
    adapter.service.take_bells();
    EXPECT_EQ(adapter.events.bells, (std::vector<std::uint32_t>{17, 4242}));
  });
}

TEST(PeerService, AnErrandForNoQueuePairIsAnsweredWithSilence) {
  with_attached_adapters([](TestAdapter& near, TestAdapter& far, const host::Peer& peer) {
    direct::Errand errand{.number = 9, .requester = kRequester};
    errand.entry.opcode = transport::SendOpcode::kFetchAdd;
    errand.target =
        wire::QpNumber{far.slot.number() * host::kNumbersPerSlot + 50};  // there is none
    near.send(peer, errand);
    far.serve_next();
    near.serve_next();
    ASSERT_EQ(near.events.replies.size(), 1U);
    const RecordedEvents::Reply& reply = near.events.replies.front();
    EXPECT_EQ(reply.errand.kind, direct::Errand::Kind::kReply);
    EXPECT_EQ(reply.errand.number, 9U);
    EXPECT_EQ(reply.errand.requester, kRequester);
    EXPECT_EQ(reply.errand.answer, direct::Answer::kSilence);
    EXPECT_TRUE(far.events.replies.empty());
  });
}

TEST(PeerService, AMessageThatIsNoErrandIsDropped) {
  with_attached_adapters([](TestAdapter& near, TestAdapter& far, const host::Peer& peer) {
    direct::Errand wrong{.magic = 0, .kind = direct::Errand::Kind::kReply};
    near.send(peer, wrong);
    direct::Errand reply{.kind = direct::Errand::Kind::kReply, .number = 1};
    near.send(peer, reply);
    while (far.events.replies.empty()) far.serve_next();
    ASSERT_EQ(far.events.replies.size(), 1U);
    EXPECT_EQ(far.events.replies.front().errand.number, 1U);
  });
}

TEST(PeerService, ReportsThatAPeerHasEnded) {
  host::test::in_a_private_network([] {
    TestAdapter near;
    auto far = std::make_unique<TestAdapter>();
    const auto peer = attach(near, *far);
    ASSERT_NE(peer, nullptr);
    EXPECT_EQ(near.events.deaths, 0);
    far.reset();
    near.serve_next();
    EXPECT_EQ(near.events.deaths, 1);
    EXPECT_TRUE(peer->has_gone());
  });
}

TEST(PeerService, APeerThatAttachedAndEndedIsNoDeathOfATarget) {
  host::test::in_a_private_network([] {
    auto near = std::make_unique<TestAdapter>();
    TestAdapter far;
    ASSERT_NE(attach(*near, far), nullptr);
    near.reset();
    far.serve_next();
    EXPECT_EQ(far.events.deaths, 0);
  });
}

TEST(PeerService, AnAdapterThatAdmitsNoPeersIsNotAttachedTo) {
  host::test::in_a_private_network([] {
    TestAdapter near;
    TestAdapter far({.admits_peers = false});
    EXPECT_EQ(near.service.peers().attach(far.slot.number()), nullptr);
  });
}

TEST(PeerService, OffersItsOwnSegmentToItsOwnQueuePairs) {
  host::test::in_a_private_network([] {
    TestAdapter adapter({.has_peer_calls = false});
    const direct::Target::Own own = adapter.service.as_target();
    EXPECT_EQ(static_cast<const void*>(own.segment), &adapter.layout.header());
    EXPECT_EQ(own.bell, &adapter.bell);
    EXPECT_FALSE(own.has_peer_calls);
  });
}

}  // namespace
}  // namespace verbatim::device
