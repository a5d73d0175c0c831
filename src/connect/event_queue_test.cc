// SPDX-License-Identifier: Apache-2.0
#include "connect/event_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/test_cancelled_thread.h"
#include "connect/test_host.h"

namespace verbatim::connect {
namespace {

using namespace test;

bool is_readable(int descriptor) {
  pollfd polled{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) == 1;
}

struct EventQueueTest : testing::Test {
  Network network;
  FakeHost host{network, 1, {gid(1)}};
  FakePair pair;
};

TEST_F(EventQueueTest, ItIsReadableWhileThereIsAnEvent) {
  const auto id = host.make_id(pair);
  const int descriptor = host.queue.descriptor();
  EXPECT_FALSE(is_readable(descriptor));
  id->post({.kind = 1});
  id->post({.kind = 2});
  EXPECT_TRUE(is_readable(descriptor));
  EXPECT_EQ(host.expect(EventKind::kOfBorder)->of_border.kind, 1);
  EXPECT_TRUE(is_readable(descriptor));
  EXPECT_EQ(host.expect(EventKind::kOfBorder)->of_border.kind, 2);
  EXPECT_FALSE(is_readable(descriptor));
}

TEST_F(EventQueueTest, EventsOfAnIdThatEndsAreTakenOut) {
  auto first = host.make_id(pair);
  const auto second = host.make_id(pair);
  first->post({.kind = 1});
  second->post({.kind = 2});
  first->post({.kind = 3});
  first.reset();
  EXPECT_EQ(host.expect(EventKind::kOfBorder)->of_border.kind, 2);
  EXPECT_FALSE(is_readable(host.queue.descriptor()));
}

TEST_F(EventQueueTest, WaitingFollowsTheFlagsOfTheDescriptor) {
  const auto id = host.make_id(pair);
  ASSERT_EQ(::fcntl(host.queue.descriptor(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(host.queue.wait().error(), Error::kTryAgain);
  id->post({.kind = 1});
  EXPECT_TRUE(host.queue.wait());
  host.expect(EventKind::kOfBorder);
  ASSERT_EQ(::fcntl(host.queue.descriptor(), F_SETFL, 0), 0);
  std::thread writes([&] { id->post({.kind = 2}); });
  EXPECT_TRUE(host.queue.wait());
  writes.join();
}

TEST_F(EventQueueTest, ADescriptorThatTheProgramHasClosedIsNotUsed) {
  const auto id = host.make_id(pair);
  const int number = host.queue.descriptor();
  ASSERT_EQ(::close(number), 0);
  ASSERT_EQ(::dup2(STDERR_FILENO, number), number);  // the program's own file
  id->post({.kind = 1});
  EXPECT_EQ(host.queue.wait().error(), Error::kClosed);
  host.expect(EventKind::kOfBorder);
  ::close(number);
}

/// A thread that is in wait().
struct Waiter {
  explicit Waiter(EventQueue& in) : queue(in) {
    EXPECT_EQ(::pthread_create(&thread, nullptr, run, this), 0);
    while (!queue.has_calls()) std::this_thread::yield();
  }
  static void* run(void* argument) {
    verbatim::test::expect_cancellation();
    auto& waiter = *static_cast<Waiter*>(argument);
    waiter.queue.enter();
    const Outcome outcome = waiter.queue.wait();
    waiter.queue.leave();
    waiter.failure = outcome ? -1 : static_cast<int>(outcome.error());
    waiter.is_done = true;
    return nullptr;
  }
  void* join() const {
    void* result = nullptr;
    EXPECT_EQ(::pthread_join(thread, &result), 0);
    return result;
  }

  EventQueue& queue;
  pthread_t thread{};
  std::atomic<bool> is_done{false};
  int failure = -1;
};

TEST_F(EventQueueTest, AThreadThatWaitsInARetiredQueueIsCancelledThere) {
  Waiter waiter(host.queue);
  host.queue.retire();
  EXPECT_TRUE(host.queue.has_calls());
  EXPECT_FALSE(waiter.is_done);
  ASSERT_EQ(::pthread_cancel(waiter.thread), 0);
  EXPECT_EQ(waiter.join(), PTHREAD_CANCELED);
  EXPECT_FALSE(host.queue.has_calls());
}

TEST_F(EventQueueTest, ASignalEndsTheWaitInARetiredQueue) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};  // no SA_RESTART
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  Waiter waiter(host.queue);
  host.queue.retire();
  while (!waiter.is_done) {  // a signal that comes before the thread waits has no effect
    ASSERT_EQ(::pthread_kill(waiter.thread, SIGUSR1), 0);
    std::this_thread::yield();
  }
  EXPECT_EQ(waiter.join(), nullptr);
  EXPECT_EQ(waiter.failure, static_cast<int>(Error::kInterrupted));
  ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST_F(EventQueueTest, ARetiredQueueThatDoesNotBlockSaysThatItIsClosed) {
  ASSERT_EQ(::fcntl(host.queue.descriptor(), F_SETFL, O_NONBLOCK), 0);
  host.queue.retire();
  EXPECT_EQ(host.queue.wait().error(), Error::kClosed);
}

TEST(RetiredQueue, RefusesThePeerWhoseRequestWasNotTaken) {
  TwoHosts hosts;
  FakePair of_listener;
  FakePair of_client;
  const auto listener = hosts.listener(of_listener);
  const auto client = hosts.resolved(of_client);
  ASSERT_TRUE(client->connect(TwoHosts::parameters()));
  hosts.deliver();
  ASSERT_TRUE(is_readable(hosts.server.queue.descriptor()));
  const int descriptor = hosts.server.queue.descriptor();
  hosts.server.queue.retire();
  EXPECT_EQ(::fcntl(descriptor, F_GETFD), -1);
  hosts.deliver();
  hosts.client.expect(EventKind::kRejected);
  // A later request waits in the retired queue, which has no descriptor, and ends with its
  // listener.
  const auto late = hosts.resolved(of_client);
  ASSERT_TRUE(late->connect(TwoHosts::parameters()));
  hosts.deliver();
}

}  // namespace
}  // namespace verbatim::connect
