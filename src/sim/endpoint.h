// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory/key_registry.h"
#include "sim/frame.h"
#include "sim/memory_source.h"
#include "transport/queue_pair_machine.h"
#include "wire/headers/wire_error.h"

namespace verbatim::sim {

/// An adapter inside the simulator: memory, keys, completion queues and queue pairs of one host at
/// one address, without threads, sockets or a clock. Its objects exist as long as the endpoint.
///
/// Each registered buffer lies between guard zones, so that a write next to it is detected.
class Endpoint {
 public:
  struct Config {
    wire::Gid address{};
    std::uint32_t first_key_index = 0x100;
    std::uint32_t first_qp_number = 0x11;
    std::uint64_t seed = 1;
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

  struct Drops {
    std::array<std::uint64_t, wire::kWireErrorCount> malformed{};
    std::uint64_t unknown_qp = 0;
  };

  explicit Endpoint(const Config& config);

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
  [[nodiscard]] transport::QueuePairMachine& qp(std::size_t index) noexcept { return *qps_[index]; }
  [[nodiscard]] std::size_t qp_count() const noexcept { return qps_.size(); }
  [[nodiscard]] wire::QpNumber number_of(std::size_t qp) const noexcept;

  /// The path from here to `peer` for a connection of these queue pairs.
  [[nodiscard]] transport::Path path_to(const wire::Gid& peer, wire::QpNumber ours,
                                        wire::QpNumber theirs) const noexcept;

  void handle_frame(Instant now, const Frame& frame);
  /// Handles the frames that arrived at one instant, in order. Packets of one flow are handled as
  /// trains.
  void handle_frames(Instant now, std::span<const Frame> frames);
  void handle_timeouts(Instant now);
  [[nodiscard]] Instant next_timeout() const noexcept;
  /// The next frame that any queue pair wants to send; false when there is none.
  [[nodiscard]] bool poll_transmit(Instant now, Frame& frame);

  [[nodiscard]] const Drops& drops() const noexcept { return drops_; }

 private:
  static constexpr std::size_t kGuardOctets = 64;
  static constexpr std::uint32_t kTrainPackets = 8;
  [[nodiscard]] std::span<std::byte> take_shared(std::size_t octets);
  [[nodiscard]] std::size_t handle_train(std::span<const Frame> frames);
  [[nodiscard]] bool poll_train(Instant now);

  Config config_;
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
  std::vector<std::unique_ptr<transport::QueuePairMachine>> qps_;
  std::size_t turn_ = 0;                           // which queue pair sends next
  std::vector<std::byte> scratch_;                 // the packets that a queue pair wrote last
  transport::QueuePairMachine::Transmit train_{};  // how many they are and how long
  std::uint32_t written_ = 0;                      // how many of them have left
  Frame addressed_{};                              // their addresses
  std::size_t train_octets_ = 0;  // packet length of the open train that is simulated
  Drops drops_;
};

}  // namespace verbatim::sim
