// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "qp_capacity.h"

namespace verbatim::testing {

/// Longer than any wait of these tests, also on a busy machine.
inline constexpr int kCmPatienceMs = 30'000;

inline sockaddr_in ipv4(const char* address, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  inet_pton(AF_INET, address, &in.sin_addr);
  return in;
}
inline sockaddr* as_sockaddr(sockaddr_in& in) { return reinterpret_cast<sockaddr*>(&in); }

/// What a program keeps of an event that it has acknowledged.
struct SeenEvent {
  rdma_cm_event_type kind{};
  int status = 0;
  rdma_cm_id* id = nullptr;
  rdma_cm_id* listener = nullptr;
  rdma_conn_param conn{};
  rdma_ud_param ud{};
  std::string private_data;
};

/// An event channel, and the events that are read from it one by one.
class Channel {
 public:
  Channel() : channel_(rdma_create_event_channel()) { EXPECT_NE(channel_, nullptr); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() { rdma_destroy_event_channel(channel_); }

  [[nodiscard]] rdma_event_channel* get() const { return channel_; }
  [[nodiscard]] rdma_cm_id* create_id(rdma_port_space space = RDMA_PS_TCP) const {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, space), 0);
    return id;
  }
  /// A listener at the loopback address; `port` 0: any.
  [[nodiscard]] rdma_cm_id* listen(std::uint16_t port, rdma_port_space space = RDMA_PS_TCP) const {
    rdma_cm_id* id = create_id(space);
    sockaddr_in address = ipv4("127.0.0.1", port);
    EXPECT_EQ(rdma_bind_addr(id, as_sockaddr(address)), 0) << std::strerror(errno);
    EXPECT_EQ(rdma_listen(id, 0), 0) << std::strerror(errno);
    return id;
  }
  [[nodiscard]] bool has_event(int patience_ms) const {
    pollfd readable{.fd = channel_->fd, .events = POLLIN, .revents = 0};
    return poll(&readable, 1, patience_ms) == 1;
  }
  [[nodiscard]] SeenEvent next() const {
    SeenEvent seen;
    seen.kind = RDMA_CM_EVENT_DEVICE_REMOVAL;  // no event: none of these tests removes a device
    rdma_cm_event* event = nullptr;
    if (!has_event(kCmPatienceMs) || rdma_get_cm_event(channel_, &event) != 0) return seen;
    seen.kind = event->event;
    seen.status = event->status;
    seen.id = event->id;
    seen.listener = event->listen_id;
    seen.conn = event->param.conn;
    seen.ud = event->param.ud;
    const bool is_datagram = event->id->qp_type == IBV_QPT_UD;
    const void* data = is_datagram ? seen.ud.private_data : seen.conn.private_data;
    const std::size_t octets = is_datagram ? seen.ud.private_data_len : seen.conn.private_data_len;
    if (data != nullptr) seen.private_data.assign(static_cast<const char*>(data), octets);
    EXPECT_EQ(rdma_ack_cm_event(event), 0);
    return seen;
  }
  /// Expects that the next event is of this kind and has status 0.
  SeenEvent expect(rdma_cm_event_type kind) const {
    const SeenEvent seen = next();
    EXPECT_EQ(seen.kind, kind) << rdma_event_str(seen.kind) << ", status " << seen.status;
    EXPECT_EQ(seen.status, 0);
    return seen;
  }
  /// Brings an id to where it can ask for a connection to a port of this host.
  void resolve(rdma_cm_id* id, std::uint16_t port) const {
    sockaddr_in address = ipv4("127.0.0.1", port);
    ASSERT_EQ(rdma_resolve_addr(id, nullptr, as_sockaddr(address), 2000), 0);
    (void)expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(rdma_resolve_route(id, 2000), 0);
    (void)expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  }

 private:
  rdma_event_channel* channel_;
};

inline void create_qp(rdma_cm_id* id) {
  ibv_qp_init_attr init{};
  init.qp_type = id->qp_type;
  init.cap = qp_capacity(1, 1);
  ASSERT_EQ(rdma_create_qp(id, nullptr, &init), 0) << std::strerror(errno);
}

inline ibv_qp_state state_of(ibv_qp* qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  return attr.qp_state;
}

inline void destroy(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

inline std::size_t entries_of(const char* folder) {
  std::size_t count = 0;
  DIR* list = opendir(folder);
  while (list != nullptr && readdir(list) != nullptr) ++count;
  if (list != nullptr) closedir(list);
  return count;
}
inline std::size_t descriptor_count() { return entries_of("/proc/self/fd"); }
inline std::size_t thread_count() { return entries_of("/proc/self/task"); }

}  // namespace verbatim::testing
