// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "loop/agenda.h"
#include "loop/dispatch.h"
#include "loop/multicast_table.h"
#include "loop/packet_counters.h"
#include "loop/progress.h"
#include "loop/queue_pair_table.h"
#include "memory/key_registry.h"
#include "sim/endpoint_queue_pair.h"
#include "sim/lossy_network.h"
#include "sim/mailboxes.h"
#include "sim/memory_source.h"
#include "sim/network_link.h"
#include "sim/surroundings.h"
#include "transport/queue_pair_machine.h"

namespace verbatim::sim {

/// An adapter inside the simulator: the memory, keys, completion queues and queue pairs of one
/// process, its link, and the loop that a device has (docs/decisions/0030). It has no threads,
/// sockets or clock. Its objects exist as long as the endpoint.
///
/// Each registered buffer lies between guard zones, so that a write next to it is detected.
class Endpoint {
 public:
  struct Config {
    wire::Gid address{};
    std::uint32_t slot = 0;  // of its queue pair numbers; endpoints of one address differ in it
    std::uint32_t first_key_index = 0x100;
    std::uint64_t seed = 1;
    bool polls = false;  // a thread of the program makes progress, else the engine
    wire::PathMtu port_mtu = wire::PathMtu::k4096;
    MemorySource* shared = nullptr;  // for memory that a peer process may touch; null: private
  };

  struct QpSetup {
    transport::QpType type = transport::QpType::kRc;
    memory::DomainId domain = memory::DomainId::kNone;  // kNone: the endpoint's first
    std::uint32_t send_depth = 64;
    std::uint32_t receive_depth = 64;
    std::uint32_t sge_limit = 4;
    std::uint32_t inline_limit = 128;
    std::size_t send_cq = 0;
    std::size_t receive_cq = 0;
    int shared_queue = -1;  // index of a shared receive queue, or none
    bool signal_all = false;
    std::uint32_t window_packets = 64;
    std::uint32_t read_chunk_packets = 16;
  };

  /// The network and the mailboxes outlive the endpoint.
  Endpoint(const Config& config, LossyNetwork& network, Mailboxes& mailboxes);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] const wire::Gid& address() const noexcept { return config_.address; }
  [[nodiscard]] memory::DomainId domain() const noexcept { return domain_; }
  [[nodiscard]] memory::DomainId open_domain();
  [[nodiscard]] memory::KeyRegistry& keys() noexcept { return *registry_; }
  [[nodiscard]] memory::KeyTable key_table() const noexcept { return registry_->table(); }

  /// A zeroed buffer with guard zones around it.
  [[nodiscard]] std::span<std::byte> allocate(std::size_t octets);
  [[nodiscard]] wire::MemoryKey register_memory(std::span<std::byte> buffer, memory::Access access);
  /// The address that keys use for the first octet of a buffer, or of a part of one. It depends
  /// only on the order of allocations, so that equal histories have equal packets. Inline data uses
  /// real addresses, because it needs no key.
  [[nodiscard]] std::uint64_t address_of(std::span<const std::byte> buffer) const noexcept;
  [[nodiscard]] bool guards_are_intact() const noexcept;

  [[nodiscard]] std::size_t create_cq(std::uint32_t capacity, std::uint32_t lane_limit = 64);
  [[nodiscard]] std::size_t create_shared_queue(std::uint32_t depth, std::uint32_t sge_limit);
  [[nodiscard]] std::size_t create_qp(const QpSetup& setup);
  [[nodiscard]] transport::CompletionLanes& cq(std::size_t index) noexcept { return *cqs_[index]; }
  [[nodiscard]] transport::SharedReceiveRing& shared_queue(std::size_t index) noexcept {
    return shared_[index];
  }
  [[nodiscard]] EndpointQueuePair& qp(std::size_t index) noexcept { return *qps_[index]; }
  [[nodiscard]] std::size_t qp_count() const noexcept { return qps_.size(); }
  [[nodiscard]] wire::QpNumber number_of(std::size_t qp) const noexcept;

  /// The path from here to `peer` for a connection of these queue pairs.
  [[nodiscard]] transport::Path path_to(const wire::Gid& peer, wire::QpNumber ours,
                                        wire::QpNumber theirs) const noexcept;

  /// A datagram queue pair gets a copy of the packets to a multicast group, or no longer.
  void join(const wire::Gid& group, std::size_t qp);
  void leave(const wire::Gid& group, std::size_t qp);

  /// Handles the packets that have arrived until now, and the timers that are due. If the program
  /// polls, answers may be sent, or kept for its next request.
  void receive(Instant now);
  /// Sends all packets that queue pairs have to send. If the program polls, it does so when the
  /// program has posted something: then the answers leave, too.
  void transmit(Instant now);
  /// When receive() has something to do next.
  [[nodiscard]] Instant next_event() const noexcept;
  [[nodiscard]] bool polls() const noexcept { return config_.polls; }

  /// The packets that reached no queue pair.
  [[nodiscard]] const loop::PacketCounters& counters() noexcept { return outside_.counters(); }
  [[nodiscard]] const link::LinkCounters& link_counters() const noexcept {
    return link_.counters();
  }

 private:
  using Dispatch = loop::Dispatch<EndpointQueuePair, Surroundings>;
  using Progress = loop::Progress<EndpointQueuePair, Dispatch, Surroundings>;

  static constexpr std::size_t kGuardOctets = 64;
  [[nodiscard]] std::span<std::byte> take_shared(std::size_t octets);
  [[nodiscard]] bool take_posted() noexcept;

  Config config_;
  LossyNetwork& network_;
  MemorySource private_;
  std::vector<memory::DomainTable::Entry> domain_entries_;
  memory::DomainTable domains_;
  memory::DomainId domain_{};
  std::vector<std::uint32_t> free_keys_;
  std::unique_ptr<memory::KeyRegistry> registry_;
  std::vector<std::span<std::byte>> guards_;
  struct Placement {
    std::span<const std::byte> buffer;
    std::uint64_t address;
  };
  std::vector<Placement> placements_;
  std::uint64_t next_address_ = 0x1000'0000;
  std::vector<std::vector<transport::CompletionLane>> lane_lists_;
  std::vector<transport::CompletionBoard> boards_;
  std::vector<std::unique_ptr<transport::CompletionLanes>> cqs_;
  std::vector<transport::SharedReceiveRing> shared_;
  std::vector<std::unique_ptr<EndpointQueuePair>> qps_;

  Surroundings outside_;
  NetworkLink link_;
  loop::QueuePairTable<EndpointQueuePair> table_;
  loop::MulticastTable<EndpointQueuePair> groups_;
  loop::Agenda<EndpointQueuePair> agenda_;
  Dispatch dispatch_;
  Progress progress_;
};

}  // namespace verbatim::sim
