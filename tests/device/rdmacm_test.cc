// SPDX-License-Identifier: Apache-2.0
// rdma_cm as a program sees it: events and their contents, states of queue pairs, ports.
#include <rdma/rsocket.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "in_process.h"
#include "qp_capacity.h"
#include "rdmacm_world.h"

namespace verbatim::testing {
namespace {

constexpr std::uint16_t kPort = 7471;

/// Both ends of a connection in one process.
struct Connection {
  Channel channel;
  rdma_cm_id* listener = channel.listen(kPort);
  rdma_cm_id* active = channel.create_id();
  rdma_cm_id* passive = nullptr;
  SeenEvent request;

  /// Up to the request, which the passive side has not answered.
  void ask(rdma_conn_param param = {}) {
    channel.resolve(active, kPort);
    create_qp(active);
    ASSERT_EQ(rdma_connect(active, &param), 0) << std::strerror(errno);
    request = channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    passive = request.id;
  }
  void establish() {
    ask();
    create_qp(passive);
    ASSERT_EQ(rdma_accept(passive, nullptr), 0) << std::strerror(errno);
    (void)channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    (void)channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  }
  ~Connection() {
    if (passive != nullptr) destroy(passive);
    destroy(active);
    destroy(listener);
  }
};

/// How a child ended that runs `body`; its expectations count.
template <typename Body>
int in_a_child(Body&& body) {
  return in_process([&] {
    body();
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
}

/// An id that asks for a connection to kPort.
rdma_cm_id* ask_for_connection(const Channel& channel) {
  rdma_cm_id* active = channel.create_id();
  channel.resolve(active, kPort);
  create_qp(active);
  EXPECT_EQ(rdma_connect(active, nullptr), 0);
  return active;
}
rdma_cm_id* connect_to_port(const Channel& channel) {
  rdma_cm_id* active = ask_for_connection(channel);
  (void)channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  return active;
}
void accept(rdma_cm_id* id) {
  create_qp(id);
  EXPECT_EQ(rdma_accept(id, nullptr), 0);
}

/// A process that listens at a port of the loopback address, and then runs `body(process,
/// channel)`. It is killed at the end of the scope if it still runs.
class ListeningProcess {
 public:
  template <typename Body>
  ListeningProcess(std::uint16_t port, Body&& body) {
    EXPECT_EQ(pipe(reports_), 0);
    number_ = fork();
    if (number_ == 0) {
      Channel channel;
      (void)channel.listen(port);
      report('l');
      body(*this, channel);
      _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    EXPECT_EQ(next_report(), 'l');
  }
  ListeningProcess(const ListeningProcess&) = delete;
  ListeningProcess& operator=(const ListeningProcess&) = delete;
  ~ListeningProcess() {
    if (number_ > 0) end();
    close(reports_[0]);
    close(reports_[1]);
  }

  /// For `body`: what next_report() returns in the process of the test.
  void report(char what) const { (void)!write(reports_[1], &what, 1); }
  [[nodiscard]] char next_report() const {
    char what = 0;
    EXPECT_EQ(read(reports_[0], &what, 1), 1);
    return what;
  }
  void send(int signal) const { kill(number_, signal); }
  void end() {
    send(SIGKILL);
    (void)wait();
  }
  /// Waits for its end, and returns the status of waitpid(2).
  int wait() {
    int status = 0;
    waitpid(std::exchange(number_, -1), &status, 0);
    return status;
  }
  void stop() const {
    send(SIGSTOP);
    waitpid(number_, nullptr, WUNTRACED);
  }

 private:
  int reports_[2]{};
  pid_t number_ = -1;
};

TEST(Rdmacm, TheRequestCarriesWhatTheActiveSideAsksFor) {
  Connection connection;
  connection.ask({.private_data = "hello",
                  .private_data_len = 5,
                  .responder_resources = 3,
                  .initiator_depth = 2,
                  .flow_control = 1,
                  .retry_count = 5,
                  .rnr_retry_count = 6,
                  .srq = 0,
                  .qp_num = 0});
  const SeenEvent& request = connection.request;
  EXPECT_EQ(request.listener, connection.listener);
  EXPECT_EQ(request.private_data.substr(0, 6), std::string("hello\0", 6));
  EXPECT_EQ(request.private_data.size(), 56U);
  EXPECT_EQ(request.conn.responder_resources, 2) << "what the peer wants to begin";
  EXPECT_EQ(request.conn.initiator_depth, 3) << "what the peer is ready to accept";
  EXPECT_EQ(request.conn.flow_control, 1);
  EXPECT_EQ(request.conn.retry_count, 5);
  EXPECT_EQ(request.conn.rnr_retry_count, 6);
  EXPECT_EQ(request.conn.qp_num, connection.active->qp->qp_num);
  EXPECT_EQ(rdma_get_src_port(connection.passive), htons(kPort));
  EXPECT_EQ(rdma_get_dst_port(connection.passive), rdma_get_src_port(connection.active));
  EXPECT_NE(rdma_get_src_port(connection.active), 0);
}

TEST(Rdmacm, BothQueuePairsAreReadyWhenTheConnectionIs) {
  Connection connection;
  connection.establish();
  EXPECT_EQ(state_of(connection.active->qp), IBV_QPS_RTS);
  EXPECT_EQ(state_of(connection.passive->qp), IBV_QPS_RTS);
}

TEST(Rdmacm, BothSidesHearOfTheEnd) {
  Connection connection;
  connection.establish();
  ASSERT_EQ(rdma_disconnect(connection.active), 0);
  EXPECT_EQ(state_of(connection.active->qp), IBV_QPS_ERR);
  const SeenEvent first = connection.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  const SeenEvent second = connection.channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_NE(first.id, second.id);
  EXPECT_EQ(rdma_disconnect(connection.passive), 0) << "the end of what has ended";
  for (int i = 0; i < 2; ++i) (void)connection.channel.expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

TEST(Rdmacm, ARefusalCarriesItsReason) {
  Connection connection;
  connection.ask();
  ASSERT_EQ(rdma_reject(connection.passive, "no", 2), 0);
  const SeenEvent refused = connection.channel.next();
  EXPECT_EQ(refused.kind, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(refused.status, 28);
  EXPECT_EQ(refused.private_data.substr(0, 2), "no");
  EXPECT_EQ(refused.private_data.size(), 148U);
  EXPECT_EQ(state_of(connection.active->qp), IBV_QPS_ERR);
}

TEST(Rdmacm, AListenerThatIsDestroyedRefusesRequestsThatWereNotTaken) {
  Channel server;
  Channel client;
  rdma_cm_id* listener = server.listen(kPort);
  rdma_cm_id* active = client.create_id();
  client.resolve(active, kPort);
  create_qp(active);
  ASSERT_EQ(rdma_connect(active, nullptr), 0);
  ASSERT_TRUE(server.has_event(kCmPatienceMs));
  destroy(listener);
  EXPECT_EQ(client.next().kind, RDMA_CM_EVENT_REJECTED);
  destroy(active);
}

TEST(Rdmacm, NoListener) {
  Channel channel;
  rdma_cm_id* active = channel.create_id();
  channel.resolve(active, 9);
  create_qp(active);
  ASSERT_EQ(rdma_connect(active, nullptr), 0);
  const SeenEvent refused = channel.next();
  EXPECT_EQ(refused.kind, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(refused.status, 8);
  destroy(active);
}

TEST(Rdmacm, AnAddressWithoutARouteIsRefusedAtOnce) {
  Channel channel;
  rdma_cm_id* id = channel.create_id();
  sockaddr_in nowhere = ipv4("192.0.2.1", kPort);
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(nowhere), 2000), -1);
  EXPECT_EQ(errno, ENETUNREACH);
  destroy(id);
}

TEST(Rdmacm, AnAddressOfAnotherHostCannotBeBound) {
  Channel channel;
  rdma_cm_id* id = channel.create_id();
  sockaddr_in other = ipv4("192.0.2.1", kPort);
  EXPECT_EQ(rdma_bind_addr(id, as_sockaddr(other)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  destroy(id);
}

TEST(Rdmacm, APortBelongsToOneIdUntilItIsGivenBack) {
  Channel channel;
  rdma_cm_id* first = channel.listen(kPort);
  rdma_cm_id* second = channel.create_id();
  sockaddr_in address = ipv4("127.0.0.1", kPort);
  EXPECT_EQ(rdma_bind_addr(second, as_sockaddr(address)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  const int ended = in_a_child([&] {
    Channel other;
    rdma_cm_id* id = other.create_id();
    EXPECT_EQ(rdma_bind_addr(id, as_sockaddr(address)), -1);
    EXPECT_EQ(errno, EADDRINUSE);
    rdma_cm_id* in_another_space = other.create_id(RDMA_PS_UDP);
    EXPECT_EQ(rdma_bind_addr(in_another_space, as_sockaddr(address)), 0);
  });
  EXPECT_EQ(ended, 0);
  destroy(first);
  EXPECT_EQ(rdma_bind_addr(second, as_sockaddr(address)), 0);
  destroy(second);
}

TEST(Rdmacm, AProcessThatDiesFreesItsPorts) {
  ListeningProcess(kPort, [](auto&, Channel&) {
    for (;;) pause();
  }).end();
  Channel channel;
  destroy(channel.listen(kPort));
}

/// A request finds its listener while a process between them is stopped, whichever came first.
TEST(Rdmacm, AStoppedProcessDelaysNoOtherProcess) {
  const ListeningProcess bystander(kPort + 1, [](auto&, Channel&) {
    for (;;) pause();
  });
  bystander.send(SIGSTOP);
  ListeningProcess server(kPort, [](auto&, Channel& channel) {
    accept(channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
    (void)channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    (void)channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  });
  const int ended = in_a_child([&] {
    const Channel channel;
    rdma_cm_id* active = connect_to_port(channel);
    EXPECT_EQ(rdma_disconnect(active), 0);
    (void)channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  });
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(server.wait(), 0);
}

/// The end of a program that does not disconnect is noticed all the same.
TEST(Rdmacm, ThePeerOfAProgramThatEndsHearsOfIt) {
  ListeningProcess server(kPort, [](auto&, Channel& channel) {
    accept(channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
    (void)channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    exit(0);
  });
  const Channel channel;
  rdma_cm_id* active = connect_to_port(channel);
  (void)channel.expect(RDMA_CM_EVENT_DISCONNECTED);
  destroy(active);
  (void)server.wait();
}

TEST(Rdmacm, ThePeerOfAKilledProgramHearsOfIt) {
  ListeningProcess server(kPort, [](auto&, Channel& channel) {
    accept(channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id);
    for (;;) pause();
  });
  const Channel channel;
  rdma_cm_id* active = connect_to_port(channel);
  server.end();
  EXPECT_EQ(channel.next().kind, RDMA_CM_EVENT_DISCONNECTED);
  destroy(active);
}

/// The next process gets the slot of a program that was killed. Its connections are its own, even
/// if the other end learns of the end of the first and of the new connections at the same time.
TEST(Rdmacm, TheNextProcessInTheSlotOfAKilledProgramIsNotTakenForIt) {
  const Channel bystander;  // keeps the sockets of the killed process
  destroy(bystander.listen(0));
  const ListeningProcess server(kPort, [](const ListeningProcess& process, Channel& channel) {
    for (;;) {
      const SeenEvent event = channel.next();
      if (event.kind == RDMA_CM_EVENT_CONNECT_REQUEST) accept(event.id);
      if (event.kind == RDMA_CM_EVENT_ESTABLISHED) process.report('x');
      if (event.kind == RDMA_CM_EVENT_DISCONNECTED) process.report('d');
    }
  });
  const pid_t victim = fork();
  if (victim == 0) {
    const Channel channel;
    (void)connect_to_port(channel);
    for (;;) pause();
  }
  ASSERT_EQ(server.next_report(), 'x');
  server.stop();
  kill(victim, SIGKILL);
  waitpid(victim, nullptr, 0);
  const int ended = in_a_child([&] {
    const Channel channel;
    (void)ask_for_connection(channel);
    server.send(SIGCONT);
    (void)channel.expect(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_FALSE(channel.has_event(1000)) << rdma_event_str(channel.next().kind);
  });
  EXPECT_EQ(ended, 0);
  // The end of one connection and the beginning of another, in any order.
  EXPECT_NE(server.next_report(), server.next_report());
}

TEST(Rdmacm, AChannelThatMustNotBlockDoesNot) {
  Channel channel;
  ASSERT_EQ(fcntl(channel.get()->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(Rdmacm, EventsMoveWithTheirId) {
  Channel first;
  Channel second;
  rdma_cm_id* id = first.create_id();
  sockaddr_in address = ipv4("127.0.0.1", kPort);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(address), 2000), 0);
  ASSERT_EQ(rdma_migrate_id(id, second.get()), 0);
  EXPECT_FALSE(first.has_event(0));
  EXPECT_EQ(second.expect(RDMA_CM_EVENT_ADDR_RESOLVED).id, id);
  EXPECT_EQ(id->channel, second.get());
  destroy(id);
}

TEST(Rdmacm, DatagramsLearnWhereToGo) {
  Channel channel;
  rdma_cm_id* listener = channel.listen(kPort, RDMA_PS_UDP);
  rdma_cm_id* active = channel.create_id(RDMA_PS_UDP);
  channel.resolve(active, kPort);
  create_qp(active);
  EXPECT_EQ(state_of(active->qp), IBV_QPS_RTS) << "it needs no other process for that";
  rdma_conn_param param{};
  param.private_data = "where?";
  param.private_data_len = 6;
  ASSERT_EQ(rdma_connect(active, &param), 0);
  const SeenEvent request = channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.private_data.substr(0, 6), "where?");
  EXPECT_EQ(request.private_data.size(), 180U);
  create_qp(request.id);
  ASSERT_EQ(rdma_accept(request.id, nullptr), 0);
  const SeenEvent reply = channel.expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(reply.ud.qp_num, request.id->qp->qp_num);
  EXPECT_EQ(reply.ud.qkey, static_cast<std::uint32_t>(RDMA_UDP_QKEY));
  EXPECT_EQ(reply.ud.ah_attr.is_global, 1);
  destroy(request.id);
  destroy(active);
  destroy(listener);
}

TEST(Rdmacm, PrivateDataThatDoesNotFitIsRefused) {
  Channel channel;
  rdma_cm_id* active = channel.create_id();
  channel.resolve(active, kPort);
  create_qp(active);
  const std::string too_long(57, 'x');
  rdma_conn_param param{};
  param.private_data = too_long.data();
  param.private_data_len = static_cast<std::uint8_t>(too_long.size());
  EXPECT_EQ(rdma_connect(active, &param), -1);
  EXPECT_EQ(errno, EINVAL);
  destroy(active);
}

TEST(Rdmacm, ARequestNamesAQueuePairOfItsOwnProcessOnly) {
  const Channel channel;
  rdma_cm_id* listener = channel.listen(kPort);
  rdma_cm_id* id = channel.create_id();
  channel.resolve(id, kPort);
  ibv_cq* queue = ibv_create_cq(id->verbs, 1, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = queue;
  init.cap = qp_capacity(1, 1);
  ibv_pd* domain = ibv_alloc_pd(id->verbs);
  ibv_qp* own = ibv_create_qp(domain, &init);
  ASSERT_NE(own, nullptr);
  rdma_conn_param param{};
  param.qp_num = own->qp_num ^ 1;
  EXPECT_EQ(rdma_connect(id, &param), -1);
  EXPECT_EQ(errno, EINVAL);
  param.qp_num = own->qp_num;
  EXPECT_EQ(rdma_connect(id, &param), 0);
  const SeenEvent request = channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.conn.qp_num, own->qp_num);
  EXPECT_EQ(rdma_reject(request.id, nullptr, 0), 0);
  EXPECT_EQ(channel.next().kind, RDMA_CM_EVENT_REJECTED);
  for (rdma_cm_id* each : {request.id, id, listener}) destroy(each);
  EXPECT_EQ(ibv_destroy_qp(own), 0);
  EXPECT_EQ(ibv_destroy_cq(queue), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

TEST(Rdmacm, WhatIsOutOfOrderIsRefused) {
  Channel channel;
  rdma_cm_id* id = channel.create_id();
  EXPECT_EQ(rdma_connect(id, nullptr), -1);
  EXPECT_EQ(rdma_accept(id, nullptr), -1);
  EXPECT_EQ(rdma_reject(id, nullptr, 0), -1);
  EXPECT_EQ(rdma_disconnect(id), -1);
  EXPECT_EQ(rdma_establish(id), -1);
  EXPECT_EQ(rdma_resolve_route(id, 1), -1);
  destroy(id);
}

TEST(Rdmacm, AnIdWaitsUntilItsEventsAreAcknowledged) {
  Channel channel;
  rdma_cm_id* id = channel.create_id();
  sockaddr_in address = ipv4("127.0.0.1", kPort);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(address), 2000), 0);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel.get(), &event), 0);
  std::atomic<bool> is_acknowledged{false};
  std::atomic<bool> was_acknowledged{false};
  std::thread destroyer([&] {
    EXPECT_EQ(rdma_destroy_id(id), 0);
    was_acknowledged = is_acknowledged.load();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  is_acknowledged = true;
  ASSERT_EQ(rdma_ack_cm_event(event), 0);
  destroyer.join();
  EXPECT_TRUE(was_acknowledged);
}

TEST(Rdmacm, AnAddressThatIsKnownAlreadySaysItsFamily) {
  sockaddr_in known = ipv4("127.0.0.1", kPort);
  for (const int said : {AF_UNSPEC, AF_INET}) {
    rdma_addrinfo hints{};
    hints.ai_family = said;
    hints.ai_dst_addr = as_sockaddr(known);
    hints.ai_dst_len = sizeof known;
    rdma_addrinfo* info = nullptr;
    ASSERT_EQ(rdma_getaddrinfo(nullptr, nullptr, &hints, &info), 0);
    EXPECT_EQ(info->ai_family, AF_INET);
    ASSERT_EQ(info->ai_dst_len, sizeof known);
    EXPECT_EQ(std::memcmp(info->ai_dst_addr, &known, sizeof known), 0);
    EXPECT_EQ(info->ai_src_addr, nullptr);
    rdma_freeaddrinfo(info);
  }
}

TEST(Rdmacm, SynchronousIdsNeedNoChannel) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = RAI_PASSIVE;
  rdma_addrinfo* info = nullptr;
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
  ibv_qp_init_attr init{};
  init.cap = qp_capacity(1, 1);
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_ep(&listener, info, nullptr, &init), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  rdma_freeaddrinfo(info);
  std::thread server([&] {
    rdma_cm_id* passive = nullptr;
    ASSERT_EQ(rdma_get_request(listener, &passive), 0);
    EXPECT_NE(passive->qp, nullptr);
    ASSERT_EQ(rdma_accept(passive, nullptr), 0);
    EXPECT_EQ(passive->event->event, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(rdma_disconnect(passive), 0);
    rdma_destroy_ep(passive);
  });
  hints.ai_flags = 0;
  ASSERT_EQ(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &info), 0);
  ibv_qp_init_attr again = init;
  again.send_cq = again.recv_cq = nullptr;
  rdma_cm_id* active = nullptr;
  ASSERT_EQ(rdma_create_ep(&active, info, nullptr, &again), 0);
  rdma_freeaddrinfo(info);
  EXPECT_EQ(rdma_connect(active, nullptr), 0);
  EXPECT_EQ(state_of(active->qp), IBV_QPS_RTS);
  EXPECT_EQ(rdma_disconnect(active), 0);
  server.join();
  rdma_destroy_ep(active);
  rdma_destroy_ep(listener);
}

TEST(Rdmacm, ReliableSocketsAreRefused) {
  EXPECT_EQ(rsocket(AF_INET, SOCK_STREAM, 0), -1);
  EXPECT_EQ(errno, ENOSYS);
}

}  // namespace
}  // namespace verbatim::testing
