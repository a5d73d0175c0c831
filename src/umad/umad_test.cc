// SPDX-License-Identifier: Apache-2.0
// libibumad.so.3 as programs use it, with the process of a fabric that returns each datagram.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/umad.h>
#include <infiniband/umad_str.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/byte_order.h"
#include "host/test_fabric.h"
#include "host/test_process.h"

namespace verbatim::umad {
namespace {

using host::test::FabricFolder;
using host::test::ServedFabric;

/// A program in a fabric.
class Umad : public ::testing::Test {
 protected:
  Umad() : fabric_(std::make_unique<ServedFabric>(folder_.place())) {
    ::setenv("VERBATIM_FABRIC", folder_.fabric().c_str(), 1);
    ::setenv("VERBATIM_NODE", "h0", 1);
  }
  ~Umad() override {
    ::unsetenv("VERBATIM_FABRIC");
    ::unsetenv("VERBATIM_NODE");
  }
  /// An open port with one agent, whose number is 0.
  int open_port() {
    const int port = ::umad_open_port(nullptr, 0);
    EXPECT_GE(port, 0);
    EXPECT_EQ(::umad_register(port, 3, 2, 1, nullptr), 0);
    return port;
  }

  FabricFolder folder_;
  std::unique_ptr<ServedFabric> fabric_;
};

/// A buffer for datagrams.
class Buffer {
 public:
  explicit Buffer(std::size_t octets) : octets_(::umad_size() + octets) {}
  [[nodiscard]] void* get() noexcept { return octets_.data(); }
  [[nodiscard]] std::uint8_t* mad() noexcept {
    return static_cast<std::uint8_t*>(::umad_get_mad(octets_.data()));
  }
  [[nodiscard]] ib_user_mad& header() noexcept {
    return *reinterpret_cast<ib_user_mad*>(octets_.data());
  }

 private:
  std::vector<std::uint8_t> octets_;
};

int send_octets(int port, int length, std::uint8_t fill) {
  Buffer buffer(static_cast<std::size_t>(length));
  std::memset(buffer.mad(), fill, static_cast<std::size_t>(length));
  return ::umad_send(port, 0, buffer.get(), length, 100, 3);
}

TEST(UmadWithoutFabric, ThereIsNoAdapter) {
  char names[4][UMAD_CA_NAME_LEN];
  umad_ca_t adapter;
  umad_port_t port;
  char path[256];
  EXPECT_EQ(::umad_init(), 0);
  EXPECT_EQ(::umad_get_cas_names(names, 4), 0);
  EXPECT_EQ(::umad_get_ca_device_list(), nullptr);
  EXPECT_EQ(errno, 0);
  EXPECT_EQ(::umad_get_ca(nullptr, &adapter), -ENODEV);
  EXPECT_EQ(::umad_get_port(nullptr, 0, &port), -ENODEV);
  EXPECT_EQ(::umad_get_ca_portguids("mlx5_0", nullptr, 0), -ENODEV);
  EXPECT_EQ(::umad_get_issm_path(nullptr, 1, path, sizeof path), -ENODEV);
  EXPECT_EQ(::umad_open_port(nullptr, 0), -ENODEV);
  EXPECT_EQ(::umad_done(), 0);
}

TEST(UmadWithoutFabric, AFabricThatDoesNotRunHasNoAdapter) {
  const FabricFolder folder;
  ::setenv("VERBATIM_FABRIC", folder.fabric().c_str(), 1);
  EXPECT_EQ(::umad_open_port(nullptr, 0), -ENODEV);  // VERBATIM_NODE is missing
  ::setenv("VERBATIM_NODE", "h0", 1);
  EXPECT_EQ(::umad_open_port(nullptr, 0), -ENODEV);
  ::unsetenv("VERBATIM_FABRIC");
  ::unsetenv("VERBATIM_NODE");
}

TEST_F(Umad, ShowsTheAdapterOfTheNode) {
  char names[4][UMAD_CA_NAME_LEN];
  ASSERT_EQ(::umad_get_cas_names(names, 4), 1);
  EXPECT_STREQ(names[0], host::kFabricAdapterName);
  umad_ca_t adapter;
  ASSERT_EQ(::umad_get_ca(names[0], &adapter), 0);
  EXPECT_STREQ(adapter.ca_name, names[0]);
  EXPECT_EQ(adapter.node_type, 1U);
  EXPECT_EQ(adapter.numports, 1);
  EXPECT_EQ(adapter.node_guid, big_endian(std::uint64_t{0x10}));
  EXPECT_EQ(adapter.ports[0], nullptr);
  ASSERT_NE(adapter.ports[1], nullptr);
  EXPECT_EQ(adapter.ports[1]->base_lid, 7U);
  EXPECT_EQ(::umad_release_ca(&adapter), 0);
  EXPECT_EQ(adapter.ports[1], nullptr);
  EXPECT_LT(::umad_get_ca("mlx5_0", &adapter), 0);
  __be64 guids[2] = {1, 1};
  EXPECT_EQ(::umad_get_ca_portguids(nullptr, guids, 1), -ENOMEM);
  ASSERT_EQ(::umad_get_ca_portguids(nullptr, guids, 2), 2);
  EXPECT_EQ(guids[0], 0U);
  EXPECT_EQ(guids[1], big_endian(std::uint64_t{0x12}));
  umad_device_node* list = ::umad_get_ca_device_list();
  ASSERT_NE(list, nullptr);
  EXPECT_STREQ(list->ca_name, names[0]);
  EXPECT_EQ(::umad_sort_ca_device_list(&list, 0), 0);
  ::umad_free_ca_device_list(list);
}

TEST_F(Umad, ShowsThePort) {
  umad_port_t port;
  ASSERT_EQ(::umad_get_port(nullptr, 0, &port), 0);
  EXPECT_STREQ(port.ca_name, host::kFabricAdapterName);
  EXPECT_STREQ(port.link_layer, "InfiniBand");
  EXPECT_EQ(port.portnum, 1);
  EXPECT_EQ(port.base_lid, 7U);
  EXPECT_EQ(port.sm_lid, 3U);
  EXPECT_EQ(port.state, 4U);
  EXPECT_EQ(port.phys_state, 5U);
  EXPECT_EQ(port.rate, 100U);
  EXPECT_EQ(port.capmask, big_endian(0x0251'0868U));
  EXPECT_EQ(port.gid_prefix, big_endian(std::uint64_t{0xfe80'0000'0000'0000}));
  ASSERT_EQ(port.pkeys_size, 2U);
  EXPECT_EQ(port.pkeys[0], 0xffff);
  EXPECT_EQ(::umad_release_port(&port), 0);
  EXPECT_LT(::umad_get_port(nullptr, 2, &port), 0);
  EXPECT_EQ(::umad_open_port(host::kFabricAdapterName, 2), -EINVAL);
}

TEST_F(Umad, DatagramsKeepTheirHeader) {
  const int port = open_port();
  Buffer buffer(256);
  ::umad_set_addr(buffer.get(), 9, 1, 2, static_cast<int>(0x8001'0000));
  ::umad_set_pkey(buffer.get(), 1);
  ib_mad_addr_t grh{};
  grh.flow_label = 5;
  grh.hop_limit = 6;
  ::umad_set_grh(buffer.get(), &grh);
  buffer.mad()[255] = 77;
  ASSERT_EQ(::umad_send(port, 0, buffer.get(), 256, 100, 3), 0);
  Buffer received(256);
  int length = 256;
  ASSERT_EQ(::umad_poll(port, 10'000), 0);
  ASSERT_EQ(::umad_recv(port, received.get(), &length, 0), 0);
  EXPECT_EQ(length, 256);
  EXPECT_EQ(received.mad()[255], 77);
  EXPECT_EQ(received.header().timeout_ms, 100U);
  EXPECT_EQ(received.header().retries, 3U);
  EXPECT_EQ(received.header().length, 320U);
  EXPECT_EQ(::umad_status(received.get()), 0);
  EXPECT_EQ(::umad_get_pkey(received.get()), 1);
  const ib_mad_addr_t& address = *::umad_get_mad_addr(received.get());
  EXPECT_EQ(address.lid, big_endian(std::uint16_t{9}));
  EXPECT_EQ(address.qpn, big_endian(std::uint32_t{1}));
  EXPECT_EQ(address.qkey, big_endian(std::uint32_t{0x8001'0000}));
  EXPECT_EQ(address.sl, 2);
  EXPECT_EQ(address.grh_present, 1);
  EXPECT_EQ(address.flow_label, big_endian(std::uint32_t{5}));
  EXPECT_EQ(address.hop_limit, 6);
  EXPECT_EQ(::umad_close_port(port), 0);
}

TEST_F(Umad, AMessageWithoutRoomStaysFirst) {
  const int port = open_port();
  for (const int octets : {1000, 500'000}) {
    SCOPED_TRACE(octets);
    ASSERT_EQ(send_octets(port, octets, 5), 0);
    ASSERT_EQ(send_octets(port, 256, 6), 0);
    for (int i = 0; i < 2; ++i) {
      Buffer small(256);
      int length = 256;
      EXPECT_EQ(::umad_recv(port, small.get(), &length, 10'000), -ENOSPC);
      EXPECT_EQ(errno, ENOSPC);
      EXPECT_EQ(length, octets);
      EXPECT_EQ(small.header().length, static_cast<std::uint32_t>(octets) + 64);
      EXPECT_EQ(small.mad()[255], 5);
      length = 255;
      EXPECT_EQ(::umad_recv(port, small.get(), &length, 0), -EINVAL);
      EXPECT_EQ(length, 255);
    }
    Buffer large(static_cast<std::size_t>(octets));
    int length = octets;
    ASSERT_EQ(::umad_recv(port, large.get(), &length, 0), 0);
    EXPECT_EQ(length, octets);
    EXPECT_EQ(large.mad()[octets - 1], 5);
    length = octets;
    ASSERT_EQ(::umad_recv(port, large.get(), &length, 10'000), 0);
    EXPECT_EQ(length, 256);
    EXPECT_EQ(large.mad()[0], 6);
  }
  ::umad_close_port(port);
}

TEST_F(Umad, ReceivingEndsWithItsTime) {
  const int port = open_port();
  Buffer buffer(256);
  int length = 256;
  EXPECT_EQ(::umad_recv(port, buffer.get(), &length, 0), -EAGAIN);
  EXPECT_EQ(::umad_recv(port, buffer.get(), &length, 5), -ETIMEDOUT);
  EXPECT_EQ(errno, ETIMEDOUT);
  EXPECT_EQ(::umad_poll(port, 5), -ETIMEDOUT);
  EXPECT_EQ(::umad_recv(port, nullptr, &length, 5), -EINVAL);
  ::umad_close_port(port);
  EXPECT_LT(::umad_recv(port, buffer.get(), &length, 0), 0);
}

TEST_F(Umad, AFailureThatIsDueIsAwaited) {
  fabric_->holds_datagrams.store(true);
  const int port = open_port();
  Buffer buffer(256);
  int length = 256;
  ASSERT_EQ(::umad_send(port, 0, buffer.get(), 256, 20, 0), 0);
  std::thread fabric([&] {
    ::usleep(60'000);  // as a process that gets no processor
    fabric_->holds_datagrams.store(false);
  });
  EXPECT_EQ(::umad_recv(port, buffer.get(), &length, 20), 0);
  fabric.join();
  EXPECT_EQ(::umad_recv(port, buffer.get(), &length, 5), -ETIMEDOUT);  // nothing is due any more
  ::umad_close_port(port);
}

TEST_F(Umad, UnknownAgentsMayNotSend) {
  const int port = open_port();
  Buffer buffer(256);
  for (const int agent : {-1, 1, 32}) {
    EXPECT_EQ(::umad_send(port, agent, buffer.get(), 256, 0, 0), -EIO) << agent;
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(::umad_send(port, 0, buffer.get(), 23, 0, 0), -EIO);  // shorter than any datagram
  EXPECT_EQ(::umad_unregister(port, 0), 0);
  EXPECT_EQ(::umad_send(port, 0, buffer.get(), 256, 0, 0), -EIO);
  EXPECT_LT(::umad_unregister(port, 0), 0);
  ::umad_close_port(port);
}

/// A request of subnet administration with this transaction.
int send_request(int port, std::uint8_t transaction, std::uint8_t method = 0x01) {
  Buffer buffer(256);
  buffer.mad()[0] = 1;
  buffer.mad()[1] = 3;
  buffer.mad()[3] = method;
  buffer.mad()[15] = transaction;
  return ::umad_send(port, 0, buffer.get(), 256, 100, 3);
}

TEST_F(Umad, ARepeatedTransactionIsRefusedAsTheKernelDoes) {
  const int port = open_port();
  fabric_->swallows_datagrams = true;
  EXPECT_EQ(send_request(port, 1), 0);
  EXPECT_EQ(send_request(port, 2), 0);
  EXPECT_EQ(fabric_->asked.load(), 0);
  fabric_->send_error = EINVAL;
  EXPECT_EQ(send_request(port, 1), -EIO);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(fabric_->asked.load(), 1);
  fabric_->send_error = 0;
  EXPECT_EQ(send_request(port, 1), 0) << "it was answered meanwhile";
}

TEST_F(Umad, AnAnswerEndsItsTransaction) {
  const int port = open_port();
  fabric_->swallows_datagrams = true;
  ASSERT_EQ(send_request(port, 11), 0);
  ServedFabric::await(fabric_->swallowed, 1);
  fabric_->swallows_datagrams = false;
  ASSERT_EQ(send_request(port, 11, 0x81), 0);  // comes back as it is
  Buffer answer(256);
  int length = 256;
  ASSERT_EQ(::umad_recv(port, answer.get(), &length, 10'000), 0);
  EXPECT_EQ(send_request(port, 11), 0);
  EXPECT_EQ(fabric_->asked.load(), 0);
}

TEST_F(Umad, TheFabricIsAskedAboutLongDatagramsAndStrangeRoutes) {
  const int port = open_port();
  const int directed = ::umad_register(port, 0x81, 1, 0, nullptr);
  const auto send = [&](std::uint8_t pointer, std::uint8_t hops, std::uint8_t first) {
    static std::uint8_t transaction = 0;
    Buffer buffer(256);
    buffer.mad()[1] = 0x81;
    buffer.mad()[6] = pointer;
    buffer.mad()[7] = hops;
    buffer.mad()[15] = ++transaction;
    buffer.mad()[129] = first;
    return ::umad_send(port, directed, buffer.get(), 256, 0, 0);
  };
  EXPECT_EQ(send(0, 0, 0), 0);
  EXPECT_EQ(send(0, 2, 1), 0);
  EXPECT_EQ(fabric_->asked.load(), 0);
  fabric_->send_error = EINVAL;
  EXPECT_EQ(send(0, 2, 2), -EIO);
  EXPECT_EQ(send(1, 2, 1), -EIO);
  EXPECT_EQ(send_octets(port, 257, 3), -EIO);
  EXPECT_EQ(send_octets(port, 256, 4), -EIO) << "the agent has RMPP, the class has not";
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(fabric_->asked.load(), 4);
}

TEST_F(Umad, AClosedDescriptorIsNoFabricThatHasEnded) {
  const int port = open_port();
  EXPECT_EQ(::umad_close_port(port), 0);
  EXPECT_EQ(send_request(port, 1), -EIO);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(Umad, RegistrationIsRefusedAsManPagesSay) {
  const int port = open_port();
  std::uint8_t oui[3] = {0, 0x14, 5};
  EXPECT_EQ(::umad_register(port, 0xff, 1, 0, nullptr), -EPERM);
  EXPECT_EQ(::umad_register_oui(port, 0x04, 0, oui, nullptr), -EINVAL);
  EXPECT_EQ(::umad_register_oui(port, 0x32, 0, oui, nullptr), 1);
  umad_reg_attr attributes{};
  std::uint32_t agent = 99;
  attributes.mgmt_class = 0xff;
  EXPECT_EQ(::umad_register2(port, &attributes, &agent), EPERM);
  attributes.mgmt_class = 0x32;
  EXPECT_EQ(::umad_register2(port, &attributes, &agent), EINVAL);  // without an OUI
  attributes.oui = 0x1405;
  EXPECT_EQ(::umad_register2(port, &attributes, &agent), 0);
  EXPECT_EQ(agent, 2U);
  EXPECT_EQ(::umad_register(-1, 3, 2, 0, nullptr), -EPERM);
  ::umad_close_port(port);
}

TEST_F(Umad, AgentsRegisterWhileAnotherThreadReceives) {
  const int port = open_port();
  std::atomic<int> received{-1};
  std::thread receiver([&] {
    Buffer buffer(256);
    int length = 256;
    received.store(::umad_recv(port, buffer.get(), &length, -1));
  });
  for (int agent = 1; agent < 20; ++agent) {
    ASSERT_EQ(::umad_register(port, 4, 1, 0, nullptr), agent);
  }
  EXPECT_EQ(received.load(), -1);
  EXPECT_EQ(send_octets(port, 256, 1), 0);
  receiver.join();
  EXPECT_EQ(received.load(), 0);
  ::umad_close_port(port);
}

TEST_F(Umad, TheDescriptorTakesPartInPolling) {
  const int port = open_port();
  pollfd watched{.fd = ::umad_get_fd(port), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&watched, 1, 0), 0);
  ASSERT_EQ(send_octets(port, 256, 1), 0);
  EXPECT_EQ(::poll(&watched, 1, 10'000), 1);
  EXPECT_EQ(watched.revents, POLLIN);
  std::uint8_t raw[320];
  EXPECT_EQ(::read(watched.fd, raw, sizeof raw), 320);  // as from the kernel's device
  ::umad_close_port(port);
}

TEST_F(Umad, AForkedChildReceivesToo) {
  const int port = open_port();
  ASSERT_EQ(send_octets(port, 256, 8), 0);
  const int ended = host::test::in_a_child([&] {
    Buffer buffer(256);
    int length = 256;
    EXPECT_EQ(::umad_recv(port, buffer.get(), &length, 10'000), 0);
    EXPECT_EQ(buffer.mad()[0], 8);
  });
  EXPECT_EQ(ended, 0);
  ::umad_close_port(port);
}

TEST_F(Umad, AThreadThatReceivesCanBeCancelled) {
  const int port = open_port();
  Buffer buffer(256);
  int length = 256;
  std::thread receiver([&] {
    (void)::umad_recv(port, buffer.get(), &length, -1);
    ADD_FAILURE() << "not cancelled";
  });
  ::pthread_cancel(receiver.native_handle());
  receiver.join();
  ASSERT_EQ(send_octets(port, 256, 1), 0);
  EXPECT_EQ(::umad_recv(port, buffer.get(), &length, 10'000), 0);
  ::umad_close_port(port);
}

TEST_F(Umad, ASignalInterruptsReceiving) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  const int port = open_port();
  std::atomic<bool> is_done{false};
  std::thread receiver([&] {
    Buffer buffer(256);
    int length = 256;
    EXPECT_EQ(::umad_recv(port, buffer.get(), &length, -1), -EIO);
    EXPECT_EQ(errno, EINTR);
    is_done.store(true);
  });
  while (!is_done.load()) {
    ::pthread_kill(receiver.native_handle(), SIGUSR1);
    ::usleep(1000);
  }
  receiver.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  ::umad_close_port(port);
}

TEST_F(Umad, TheEndOfTheFabricIsAnError) {
  const int port = open_port();
  std::thread receiver([&] {
    Buffer buffer(256);
    int length = 256;
    EXPECT_EQ(::umad_recv(port, buffer.get(), &length, -1), -EIO);
    EXPECT_EQ(errno, EIO);
  });
  fabric_->end();
  receiver.join();
  pollfd watched{.fd = port, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&watched, 1, 0), 1);
  EXPECT_NE(watched.revents & POLLHUP, 0);
  EXPECT_EQ(send_octets(port, 256, 1), -EIO);
  EXPECT_EQ(::umad_register(port, 3, 2, 1, nullptr), -EPERM);
  EXPECT_EQ(::umad_open_port(nullptr, 0), -ENODEV);
  ::umad_close_port(port);
}

TEST_F(Umad, TheFileOfTheSubnetManagerIsOneThatItCanOpen) {
  char path[256];
  ASSERT_EQ(::umad_get_issm_path(host::kFabricAdapterName, 1, path, sizeof path), 0);
  host::Descriptor file(::open(path, O_NONBLOCK));
  ASSERT_TRUE(file.is_open());
  ServedFabric::await(fabric_->sm_opened, 1);
  file.close();
  ServedFabric::await(fabric_->sm_closed, 1);
}

TEST(UmadNames, AreThoseOfTheSystemsLibrary) {
  void* other = nullptr;
  for (const char* path :
       {"/usr/lib/x86_64-linux-gnu/libibumad.so.3", "/usr/lib/aarch64-linux-gnu/libibumad.so.3",
        "/usr/lib64/libibumad.so.3"}) {
    if (other == nullptr) other = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  if (other == nullptr) GTEST_SKIP() << "the system has no libibumad.so.3";
  const auto class_str =
      reinterpret_cast<decltype(&::umad_class_str)>(::dlsym(other, "umad_class_str"));
  const auto method_str =
      reinterpret_cast<decltype(&::umad_method_str)>(::dlsym(other, "umad_method_str"));
  const auto attribute_str =
      reinterpret_cast<decltype(&::umad_attribute_str)>(::dlsym(other, "umad_attribute_str"));
  const auto common_str = reinterpret_cast<decltype(&::umad_common_mad_status_str)>(
      ::dlsym(other, "umad_common_mad_status_str"));
  const auto sa_str = reinterpret_cast<decltype(&::umad_sa_mad_status_str)>(
      ::dlsym(other, "umad_sa_mad_status_str"));
  ASSERT_NE(class_str, &::umad_class_str);
  for (unsigned i = 0; i <= 0xff; ++i) {
    const auto octet = static_cast<std::uint8_t>(i);
    EXPECT_STREQ(::umad_class_str(octet), class_str(octet)) << i;
    for (const std::uint8_t management_class : std::to_array<std::uint8_t>({1, 3, 4})) {
      EXPECT_STREQ(::umad_method_str(management_class, octet), method_str(management_class, octet));
    }
  }
  for (unsigned i = 0; i <= 0xffff; ++i) {
    const auto number = static_cast<std::uint16_t>(i);
    for (const std::uint8_t management_class :
         std::to_array<std::uint8_t>({0x01, 0x81, 0x03, 0x04, 0x07})) {
      ASSERT_STREQ(::umad_attribute_str(management_class, number),
                   attribute_str(management_class, number))
          << i;
    }
    ASSERT_STREQ(::umad_common_mad_status_str(number), common_str(number)) << i;
    ASSERT_STREQ(::umad_sa_mad_status_str(number), sa_str(number)) << i;
  }
}

}  // namespace
}  // namespace verbatim::umad
