// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/adapter_record.h"
#include "direct/queue_pair_record.h"
#include "host/viewer.h"
#include "rehome/why.h"

/// The processes of this user on this host as `verbatim stat` shows them: a copy of the data in
/// their segments. The copy is checked only so far that it can be printed.
namespace verbatim::tools {

/// Per second.
struct Rates {
  double messages = 0;
  double octets = 0;
};

struct QueuePairView {
  wire::QpNumber number{};
  std::uint32_t incarnation = 0;
  wire::QpNumber dest_qp{};
  transport::QpType type{};
  transport::QpState state{};
  direct::DataPath sends{};     // the path of its own requests
  direct::DataPath receives{};  // the path of the peer's requests
  wire::Gid local{};
  wire::Gid remote{};
  bool has_peer_here = false;  // the peer is a process of this user on this host
  int peer_process = 0;        // its number; 0: not known
  transport::Traffic
      traffic{};  // served requests include those that a local peer executes directly
  Rates out{};    // of its own requests
  Rates in{};     // of the peer's requests

  [[nodiscard]] bool is_connected() const noexcept {
    return type == transport::QpType::kRc || type == transport::QpType::kUc;
  }
};

/// How peers reach registered memory.
struct MemoryView {
  std::uint32_t regions = 0;
  std::uint32_t windows = 0;
  std::uint64_t shared_octets = 0;   // through a mapping
  std::uint64_t cma_octets = 0;      // through a descriptor of the owner's address space
  std::uint64_t owner_octets = 0;    // by errands of the owner
  std::uint32_t closed_regions = 0;  // the program has unmapped their memory
  struct Unshared {
    std::uint32_t key = 0;
    std::uint64_t octets = 0;
    rehome::Why why{};
  };
  std::vector<Unshared> unshared{};  // the regions that peers do not map
};

struct ProcessView {
  std::uint32_t slot = 0;
  host::Viewer::Sight::Kind kind{};
  int process = 0;  // 0: not known
  std::string program{};
  bool is_stopped = false;
  // The rest is known only of a process that shows its segment.
  std::string device{};
  std::string interface_name{};
  double seconds = 0;  // since the device was opened
  device::DataPathPolicy path{};
  device::DataPathCause path_cause{};
  std::uint32_t completion_queues = 0;
  loop::PacketCounters counters{};
  MemoryView memory{};
  std::vector<wire::Gid> addresses{};
  std::vector<QueuePairView> queue_pairs{};  // by number
};

struct HostView {
  std::int64_t at = 0;                   // nanoseconds of the host's steady clock
  std::vector<ProcessView> processes{};  // by slot
};

/// Reads the segments of `sights`, and finds which queue pairs are connected. A process whose
/// segment makes no sense counts as hidden.
[[nodiscard]] HostView read_host(const std::vector<host::Viewer::Sight>& sights);
/// Computes the rates since `before`.
void compute_rates(const HostView& before, HostView& now);

/// One word for both directions, as far as they are decided.
[[nodiscard]] const char* path_of(const QueuePairView& qp) noexcept;
[[nodiscard]] const char* name_of(direct::DataPath data_path) noexcept;
[[nodiscard]] const char* name_of(transport::QpType type) noexcept;
[[nodiscard]] const char* name_of(transport::QpState state) noexcept;

/// The form of the output as text.
struct TextLayout {
  bool in_colour = false;
  bool shows_all = false;  // otherwise only the busiest queue pairs of each process
  std::size_t lines = 0;   // at most; 0: as many as there are
};
[[nodiscard]] std::string text_of(const HostView& host, const TextLayout& layout);
[[nodiscard]] std::string json_of(const HostView& host);

}  // namespace verbatim::tools
