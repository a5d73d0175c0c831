// SPDX-License-Identifier: Apache-2.0
// Programs that use rdma_cm, cancel threads that wait for events, and fork while other threads
// connect and disconnect. No lock stays taken, no event is lost, and parent and child both go on.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "base/test_cancelled_thread.h"
#include "heap_in_use.h"
#include "rdmacm_world.h"

namespace verbatim::testing {
namespace {

constexpr unsigned kPatienceSeconds = 60;

/// Runs it in a process of its own, which is killed when it hangs: the exit status, or -1.
template <typename Body>
int in_process(Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kPatienceSeconds);
    const int result = body();
    ::_exit(::testing::Test::HasFailure() ? 99 : result);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The events that threads have taken from a channel. A thread that has taken one is not cancelled
/// before it has counted it.
struct Taken {
  rdma_event_channel* channel = nullptr;
  std::atomic<int> events{0};

  static void* run(void* argument) {
    test::expect_cancellation();
    auto& taken = *static_cast<Taken*>(argument);
    for (;;) {
      rdma_cm_event* event = nullptr;
      int before = 0;
      if (rdma_get_cm_event(taken.channel, &event) != 0) return nullptr;
      ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
      ++taken.events;
      (void)rdma_ack_cm_event(event);
      ::pthread_setcancelstate(before, nullptr);
    }
  }
};

bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  return line.find(") S ") != std::string::npos;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(RdmacmCancel, AThreadThatWaitsHasAnEventOrHasNone) {
  EXPECT_EQ(in_process([] {
              Channel channel;
              Taken taken{.channel = channel.get()};
              for (int round = 1; round <= 300; ++round) {
                rdma_cm_id* const id = channel.create_id();
                sockaddr_in address = ipv4("127.0.0.1", 9);
                pthread_t thread;
                if (::pthread_create(&thread, nullptr, Taken::run, &taken) != 0) return 10;
                ::usleep(static_cast<useconds_t>(round * 7 % 200));
                if (rdma_resolve_addr(id, nullptr, as_sockaddr(address), 2000) != 0) return 11;
                ::usleep(static_cast<useconds_t>(round * 3 % 60));
                ::pthread_cancel(thread);
                if (::pthread_join(thread, nullptr) != 0) return 12;
                if (taken.events < round) {
                  // Then the event is still unread.
                  if (channel.next().kind != RDMA_CM_EVENT_ADDR_RESOLVED) return 13;
                  ++taken.events;
                }
                if (taken.events != round || channel.has_event(0)) return 14;
                if (rdma_destroy_id(id) != 0) return 15;
              }
              return 0;
            }),
            0);
}

/// The thread has acknowledged the last event of its id and is about to ask for another, at which
/// moment the id's destruction returns and the channel goes, as at the end of rping. The thread
/// must not come back with an error, which rping ends with.
TEST(RdmacmChannel, IsDestroyedBetweenTwoCallsOfAThread) {
  EXPECT_EQ(in_process([] {
              for (int round = 0; round < 500; ++round) {
                rdma_event_channel* const channel = rdma_create_event_channel();
                rdma_cm_id* id = nullptr;
                if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return 10;
                Taken taken{.channel = channel};
                pthread_t thread;
                if (::pthread_create(&thread, nullptr, Taken::run, &taken) != 0) return 11;
                sockaddr_in address = ipv4("127.0.0.1", 9);
                if (rdma_resolve_addr(id, nullptr, as_sockaddr(address), 2000) != 0) return 12;
                while (taken.events == 0) std::this_thread::yield();
                if (rdma_destroy_id(id) != 0) return 13;
                rdma_destroy_event_channel(channel);
                ::usleep(static_cast<useconds_t>(round * 7 % 200));
                ::pthread_cancel(thread);
                void* result = nullptr;
                if (::pthread_join(thread, &result) != 0) return 14;
                if (result != PTHREAD_CANCELED) return 15;
              }
              return 0;
            }),
            0);
}

/// A program destroys a listener while one of its threads waits for its requests. The thread
/// continues to wait, in a channel that the program has destroyed.
TEST(RdmacmChannel, OfASynchronousListenerIsDestroyedUnderAThread) {
  EXPECT_EQ(in_process([] {
              struct Accepts {
                rdma_cm_id* listener = nullptr;
                std::atomic<pid_t> thread{0};  // set when it is about to call
                static void* run(void* argument) {
                  test::expect_cancellation();
                  auto& accepts = *static_cast<Accepts*>(argument);
                  rdma_cm_id* id = nullptr;
                  accepts.thread = ::gettid();
                  (void)rdma_get_request(accepts.listener, &id);
                  return nullptr;
                }
              };
              for (int round = 0; round < 200; ++round) {
                Accepts accepts;
                if (rdma_create_id(nullptr, &accepts.listener, nullptr, RDMA_PS_TCP) != 0)
                  return 10;
                if (rdma_listen(accepts.listener, 1) != 0) return 11;
                pthread_t thread;
                if (::pthread_create(&thread, nullptr, Accepts::run, &accepts) != 0) return 12;
                while (accepts.thread == 0 || !is_asleep(accepts.thread)) std::this_thread::yield();
                if (rdma_destroy_id(accepts.listener) != 0) return 13;
                ::usleep(static_cast<useconds_t>(round));
                ::pthread_cancel(thread);
                void* result = nullptr;
                if (::pthread_join(thread, &result) != 0) return 14;
                if (result != PTHREAD_CANCELED) return 15;
              }
              return 0;
            }),
            0);
}

/// A thread takes the event of an id and fills it in while another thread destroys the id. The
/// first one does not wait for events, so that it is awake when one comes.
TEST(RdmacmId, IsDestroyedWhileAThreadIsAboutToShowItsEvent) {
  EXPECT_EQ(in_process([] {
              rdma_event_channel* const channel = rdma_create_event_channel();
              if (::fcntl(channel->fd, F_SETFL, O_NONBLOCK) != 0) return 9;
              std::atomic<bool> is_over{false};
              std::thread reads([&] {
                while (!is_over) {
                  rdma_cm_event* event = nullptr;
                  if (rdma_get_cm_event(channel, &event) == 0) (void)rdma_ack_cm_event(event);
                }
              });
              for (int round = 0; round < 20000; ++round) {
                rdma_cm_id* id = nullptr;
                if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) return 10;
                sockaddr_in address = ipv4("127.0.0.1", 9);
                if (rdma_resolve_addr(id, nullptr, as_sockaddr(address), 2000) != 0) return 12;
                for (int pause = 0; pause < round % 40; ++pause) (void)::getppid();
                if (rdma_destroy_id(id) != 0) return 13;
              }
              is_over = true;
              reads.join();
              return 0;
            }),
            0);
}

TEST(RdmacmChannel, LeavesNoDescriptor) {
  EXPECT_EQ(in_process([] {
              rdma_destroy_event_channel(rdma_create_event_channel());
              const std::size_t before = open_descriptors();
              for (int round = 0; round < 200; ++round) {
                rdma_destroy_event_channel(rdma_create_event_channel());
              }
              return open_descriptors() == before ? 0 : 1;
            }),
            0);
}

/// The connection comes while the thread that waits for its request is cancelled.
TEST(RdmacmCancel, AListenerGoesOnWithAnotherThread) {
  EXPECT_EQ(in_process([] {
              Channel passive;
              rdma_cm_id* const listener = passive.listen(0);
              const std::uint16_t port = ntohs(rdma_get_src_port(listener));
              for (int round = 0; round < 40; ++round) {
                Taken taken{.channel = passive.get()};
                pthread_t thread;
                if (::pthread_create(&thread, nullptr, Taken::run, &taken) != 0) return 10;
                ::usleep(static_cast<useconds_t>(round * 11 % 150));
                ::pthread_cancel(thread);
                if (::pthread_join(thread, nullptr) != 0) return 11;
                Channel active;
                rdma_cm_id* const id = active.create_id();
                active.resolve(id, port);
                create_qp(id);
                rdma_conn_param wish{};
                if (rdma_connect(id, &wish) != 0) return 12;
                const SeenEvent request = passive.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
                if (rdma_reject(request.id, nullptr, 0) != 0) return 13;
                if (active.next().kind != RDMA_CM_EVENT_REJECTED) return 14;
                destroy(id);
                destroy(request.id);
              }
              return 0;
            }),
            0);
}

/// One connection from its beginning to its end, both sides by one thread.
bool connect_and_disconnect() {
  Channel passive;
  Channel active;
  rdma_cm_id* const listener = passive.listen(0);
  rdma_cm_id* const id = active.create_id();
  active.resolve(id, ntohs(rdma_get_src_port(listener)));
  create_qp(id);
  rdma_conn_param wish{};
  EXPECT_EQ(rdma_connect(id, &wish), 0);
  const SeenEvent request = passive.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  create_qp(request.id);
  EXPECT_EQ(rdma_accept(request.id, &wish), 0);
  (void)active.expect(RDMA_CM_EVENT_ESTABLISHED);
  (void)passive.expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(rdma_disconnect(id), 0);
  (void)active.expect(RDMA_CM_EVENT_DISCONNECTED);
  (void)passive.expect(RDMA_CM_EVENT_DISCONNECTED);
  destroy(id);
  destroy(request.id);
  destroy(listener);
  return !::testing::Test::HasFailure();
}

/// Forks so many times while threads connect and disconnect. Returns the results of the children;
/// the threads continue meanwhile. A child keeps the names of ports until it runs for the first
/// time, so the threads do not come back to a port before it has: a block has 64 of them.
template <typename Child>
int fork_beside_connections(int forks, Child&& child) {
  constexpr int kThreads = 2;
  constexpr int kConnectionsPerFork = 16;
  std::atomic<int> allowed{0};
  std::atomic<bool> is_over{false};
  std::atomic<int> connections{0};
  std::atomic<bool> failed{false};
  std::thread workers[kThreads];
  for (std::thread& worker : workers) {
    worker = std::thread([&] {
      while (!is_over && !failed) {
        if (connections >= allowed) {
          ::usleep(50);
          continue;
        }
        if (!connect_and_disconnect()) failed = true;
        ++connections;
      }
    });
  }
  int worst = 0;
  for (int i = 0; i < forks && worst == 0 && !failed; ++i) {
    const int seen = connections;
    allowed = seen + kConnectionsPerFork;
    worst = in_process(child);
    allowed = connections + kConnectionsPerFork;
    // Each fork comes at another time of a connection, and none of them stops the threads.
    while (connections == seen && !failed) ::usleep(50);
  }
  is_over = true;
  for (std::thread& worker : workers) worker.join();
  return failed ? 100 : worst;
}

TEST(RdmacmFork, ThreadsGoOnAndChildrenLeave) {
  EXPECT_EQ(in_process([] { return fork_beside_connections(40, [] { return 0; }); }), 0);
}

TEST(RdmacmFork, ThreadsGoOnAndChildrenExitWithTheirHandlers) {
  if (kIsSanitized)
    GTEST_SKIP() << "what threads of the parent held is a leak of the child's to it";
  EXPECT_EQ(in_process([] {
              return fork_beside_connections(20, [] {
                std::exit(0);
                return 0;
              });
            }),
            0);
}

TEST(RdmacmFork, ChildrenHaveConnectionsOfTheirOwn) {
  EXPECT_EQ(in_process([] {
              return fork_beside_connections(10, [] { return connect_and_disconnect() ? 0 : 1; });
            }),
            0);
}

}  // namespace
}  // namespace verbatim::testing
