// SPDX-License-Identifier: Apache-2.0
// Events of the network below a device: neighbours that do not answer, addresses
// and interfaces that come and go.
#include <sys/resource.h>

#include "rdmacm_world.h"
#include "wired_network.h"

namespace verbatim::testing {
namespace {

constexpr std::uint16_t kPort = 7471;

TEST(InterfaceChanges, ANeighbourThatDoesNotAnswerDelaysNoCall) {
  in_a_wired_network([] {
    Channel channel;
    rdma_cm_id* id = channel.create_id();
    sockaddr_in absent = ipv4("10.9.0.9", kPort);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(absent), 500), 0);
    EXPECT_FALSE(channel.has_event(0)) << "the call has waited for the answer";
    EXPECT_EQ(rdma_resolve_route(id, 500), -1);
    EXPECT_EQ(errno, EINVAL);
    const SeenEvent failed = channel.next();
    EXPECT_EQ(failed.kind, RDMA_CM_EVENT_ADDR_ERROR);
    EXPECT_EQ(failed.status, -ETIMEDOUT);
    destroy(id);
  });
}

TEST(InterfaceChanges, NeighboursOfBothFamiliesAreSought) {
  in_a_wired_network([] {
    Channel channel;
    rdma_cm_id* id = channel.create_id();
    sockaddr_in6 absent{};
    absent.sin6_family = AF_INET6;
    absent.sin6_port = htons(kPort);
    inet_pton(AF_INET6, "fd09::9", &absent.sin6_addr);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&absent), 200), 0);
    const SeenEvent failed = channel.next();
    EXPECT_EQ(failed.kind, RDMA_CM_EVENT_ADDR_ERROR);
    EXPECT_EQ(failed.status, -ETIMEDOUT);
    destroy(id);
  });
}

TEST(InterfaceChanges, AnIdMayGoWhileItsNeighbourIsSought) {
  in_a_wired_network([] {
    Channel channel;
    rdma_cm_id* id = channel.create_id();
    sockaddr_in absent = ipv4("10.9.0.9", kPort);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(absent), 50), 0);
    destroy(id);
    EXPECT_FALSE(channel.has_event(200));
  });
}

TEST(InterfaceChanges, ASynchronousIdWaitsForTheOutcome) {
  in_a_wired_network([] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
    sockaddr_in absent = ipv4("10.9.0.9", kPort);
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(absent), 200), -1);
    EXPECT_EQ(errno, ETIMEDOUT);
    destroy(id);
  });
}

/// The only device, and its events.
struct Device {
  ibv_device** list = ibv_get_device_list(nullptr);
  ibv_context* context = ibv_open_device(list[0]);

  Device() { EXPECT_NE(context, nullptr); }
  ~Device() {
    EXPECT_EQ(ibv_close_device(context), 0);
    ibv_free_device_list(list);
  }
  [[nodiscard]] ibv_port_attr port() const {
    ibv_port_attr attr{};
    EXPECT_EQ(ibv_query_port(context, 1, &attr), 0);
    return attr;
  }
  /// Where the GID of an IPv4 address is; -1 when it is not there.
  [[nodiscard]] int index_of(const char* address) const {
    ibv_gid wanted{};
    wanted.raw[10] = wanted.raw[11] = 0xff;
    inet_pton(AF_INET, address, wanted.raw + 12);
    for (int i = 0; i < port().gid_tbl_len; ++i) {
      ibv_gid gid{};
      if (ibv_query_gid(context, 1, i, &gid) == 0 && std::memcmp(&gid, &wanted, sizeof gid) == 0) {
        return i;
      }
    }
    return -1;
  }
  /// Waits for an event of this kind, whatever else comes before.
  void await(ibv_event_type kind) const {
    for (;;) {
      pollfd readable{.fd = context->async_fd, .events = POLLIN, .revents = 0};
      ASSERT_EQ(poll(&readable, 1, kCmPatienceMs), 1) << "no " << ibv_event_type_str(kind);
      ibv_async_event event{};
      ASSERT_EQ(ibv_get_async_event(context, &event), 0);
      ibv_ack_async_event(&event);
      if (event.event_type != kind) continue;
      EXPECT_TRUE(kind == IBV_EVENT_DEVICE_FATAL || event.element.port_num == 1);
      return;
    }
  }
};

TEST(InterfaceChanges, ThePortGoesDownAndUpWithTheInterface) {
  in_a_wired_network([] {
    const Device device;
    EXPECT_EQ(device.port().state, IBV_PORT_ACTIVE);
    ip("link set e0 down");
    device.await(IBV_EVENT_PORT_ERR);
    EXPECT_EQ(device.port().state, IBV_PORT_DOWN);
    ip("link set e0 up");
    device.await(IBV_EVENT_PORT_ACTIVE);
    EXPECT_EQ(device.port().state, IBV_PORT_ACTIVE);
  });
}

TEST(InterfaceChanges, AddressesComeAndGoInTheTableOfGids) {
  in_a_wired_network([] {
    const Device device;
    const int first = device.index_of("10.9.0.1");
    EXPECT_GT(first, 0);
    ip("addr add 10.9.0.2/24 dev e0");
    device.await(IBV_EVENT_GID_CHANGE);
    EXPECT_GT(device.index_of("10.9.0.2"), first);
    EXPECT_EQ(device.index_of("10.9.0.1"), first) << "the others keep their places";

    ip("addr del 10.9.0.2/24 dev e0");
    device.await(IBV_EVENT_GID_CHANGE);
    EXPECT_EQ(device.index_of("10.9.0.2"), -1);
    ip("addr add 10.9.0.2/24 dev e0");
    device.await(IBV_EVENT_GID_CHANGE);
    EXPECT_GT(device.index_of("10.9.0.2"), first);
  });
}

/// The list of interfaces cannot be read without a descriptor. It is not empty because of that.
TEST(InterfaceChanges, AProcessWithoutDescriptorsLosesNoDeviceAndHearsOfTheChangeLater) {
  in_a_wired_network([] {
    const Device device;
    std::FILE* shell = ::popen("sh", "w");
    ASSERT_NE(shell, nullptr);
    rlimit enough{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &enough), 0);
    const rlimit few{.rlim_cur = 128, .rlim_max = enough.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    while (::dup(0) >= 0) {
    }
    std::fputs("ip addr add 10.9.0.2/24 dev e0\n", shell);
    std::fflush(shell);
    pollfd readable{.fd = device.context->async_fd, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&readable, 1, 300), 0) << "nothing is known of the interfaces";

    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &enough), 0);
    device.await(IBV_EVENT_GID_CHANGE);
    EXPECT_GT(device.index_of("10.9.0.2"), 0);
    EXPECT_EQ(::pclose(shell), 0);
  });
}

TEST(InterfaceChanges, ReceivesOfALostDeviceAreFlushed) {
  in_a_wired_network([] {
    const Device device;
    ibv_pd* pd = ibv_alloc_pd(device.context);
    ibv_cq* cq = ibv_create_cq(device.context, 4, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = init.cap.max_recv_wr = 1;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    ibv_qp* qp = ibv_create_qp(pd, &init);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    ibv_recv_wr receive{};
    receive.wr_id = 77;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &receive, &bad), 0);
    ip("link del e0");
    device.await(IBV_EVENT_DEVICE_FATAL);
    EXPECT_EQ(state_of(qp), IBV_QPS_ERR);
    ibv_wc completion{};
    ASSERT_EQ(ibv_poll_cq(cq, 1, &completion), 1);
    EXPECT_EQ(completion.wr_id, 77U);
    EXPECT_EQ(completion.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(ibv_destroy_qp(qp), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  });
}

/// An id that is bound to an address of e0.
rdma_cm_id* bound_id(const Channel& channel, const char* address) {
  rdma_cm_id* id = channel.create_id();
  sockaddr_in at = ipv4(address, 0);
  EXPECT_EQ(rdma_bind_addr(id, as_sockaddr(at)), 0);
  return id;
}

TEST(InterfaceChanges, IdsOfADeviceThatGoesHearOfIt) {
  in_a_wired_network([] {
    Channel channel;
    rdma_cm_id* bound = bound_id(channel, "10.9.0.1");
    rdma_cm_id* idle = channel.create_id();
    ip("link del e0");
    const SeenEvent removal = channel.expect(RDMA_CM_EVENT_DEVICE_REMOVAL);
    EXPECT_EQ(removal.id, bound);
    EXPECT_FALSE(channel.has_event(0)) << "an id without a device hears of none";
    destroy(bound);
    destroy(idle);
  });
}

TEST(InterfaceChanges, IdsOfAnAddressThatGoesHearOfIt) {
  in_a_wired_network([] {
    ip("addr add 10.9.0.2/24 dev e0");
    Channel channel;
    rdma_cm_id* lost = bound_id(channel, "10.9.0.2");
    rdma_cm_id* other = bound_id(channel, "10.9.0.1");
    ip("addr del 10.9.0.2/24 dev e0");
    EXPECT_EQ(channel.expect(RDMA_CM_EVENT_ADDR_CHANGE).id, lost);
    EXPECT_FALSE(channel.has_event(0));
    destroy(lost);
    destroy(other);
  });
}

TEST(InterfaceChanges, IdsHearOfNewHardwareBehindTheirAddress) {
  in_a_wired_network([] {
    Channel channel;
    rdma_cm_id* bound = bound_id(channel, "10.9.0.1");
    ip("link set e0 address 02:00:00:00:00:77");
    EXPECT_EQ(channel.expect(RDMA_CM_EVENT_ADDR_CHANGE).id, bound);
    destroy(bound);
  });
}

/// Requests a connection to the listener at this address; the listener gets the request.
void expect_to_be_heard(const Channel& channel, const char* address) {
  // Before the device has the address, the address cannot be reached from it.
  for (int tries = 0;; ++tries) {
    rdma_cm_id* active = channel.create_id();
    sockaddr_in to = ipv4(address, kPort);
    sockaddr_in from = ipv4(address, 0);
    const bool is_there = rdma_bind_addr(active, as_sockaddr(from)) == 0;
    if (!is_there) {
      destroy(active);
      ASSERT_LT(tries, 3000) << address << " never was an address of the device";
      usleep(10'000);
      continue;
    }
    ASSERT_EQ(rdma_resolve_addr(active, nullptr, as_sockaddr(to), 2000), 0);
    (void)channel.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(rdma_resolve_route(active, 2000), 0);
    (void)channel.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    create_qp(active);
    ASSERT_EQ(rdma_connect(active, nullptr), 0);
    const SeenEvent request = channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_EQ(rdma_reject(request.id, nullptr, 0), 0);
    EXPECT_EQ(channel.next().kind, RDMA_CM_EVENT_REJECTED);
    destroy(request.id);
    destroy(active);
    return;
  }
}

rdma_cm_id* listen_everywhere(const Channel& channel) {
  rdma_cm_id* listener = channel.create_id();
  sockaddr_in any = ipv4("0.0.0.0", kPort);
  EXPECT_EQ(rdma_bind_addr(listener, as_sockaddr(any)), 0);
  EXPECT_EQ(rdma_listen(listener, 0), 0);
  return listener;
}

TEST(InterfaceChanges, AListenerAtAllAddressesListensAtNewAddresses) {
  in_a_wired_network([] {
    Channel channel;
    rdma_cm_id* listener = listen_everywhere(channel);
    expect_to_be_heard(channel, "10.9.0.1");
    ip("addr add 10.9.0.2/24 dev e0");
    expect_to_be_heard(channel, "10.9.0.2");
    destroy(listener);
  });
}

TEST(InterfaceChanges, AListenerAtAllAddressesListensOnADeviceThatComesBack) {
  in_a_wired_network([] {
    Channel channel;
    rdma_cm_id* listener = listen_everywhere(channel);
    ip("link del e0");
    ip("link add e0 type veth peer name e1");
    ip("link set e1 up");
    ip("link set e0 up");
    ip("addr add 10.9.0.3/24 dev e0");
    expect_to_be_heard(channel, "10.9.0.3");
    EXPECT_FALSE(channel.has_event(0)) << "a listener at all addresses loses no device of its own";
    destroy(listener);
  });
}

}  // namespace
}  // namespace verbatim::testing
