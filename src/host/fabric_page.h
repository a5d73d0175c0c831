// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace verbatim::host {

/// What programs call the one adapter that they have in a fabric: that of their node.
inline constexpr const char* kFabricAdapterName = "vib0";

/// The state of one port as programs see it. Numbers are in host byte order.
struct FabricPortState {
  static constexpr std::size_t kGidsMax = 16;
  static constexpr std::size_t kPkeysMax = 128;

  std::uint64_t guid = 0;        // 0: there is no such port
  std::uint64_t gid_prefix = 0;  // of GID 0
  std::uint32_t capabilities = 0;
  std::uint16_t capabilities_2 = 0;
  std::uint16_t speed = 0;      // of a lane, as the verbs have it: 1 for SDR, ... 32 for EDR
  std::uint32_t rate_mbps = 0;  // of the link: 2500, 10000, ... 400000
  std::uint16_t lid = 0;
  std::uint16_t sm_lid = 0;
  std::uint8_t lmc = 0;
  std::uint8_t sm_sl = 0;
  std::uint8_t state = 0;           // 1 Down .. 4 Active
  std::uint8_t physical_state = 0;  // 5 LinkUp
  std::uint8_t width = 0;           // LinkWidthActive
  std::uint8_t mtu = 0;             // NeighborMTU
  std::uint8_t mtu_max = 0;
  std::uint8_t gid_count = 0;
  std::uint16_t pkey_count = 0;
  std::uint16_t reregister_requests = 0;                // so far, by the subnet manager
  std::uint16_t outages = 0;                            // how often it was Active and is not then
  std::uint16_t pkey_violations = 0;                    // by packets that reached the port
  std::uint16_t qkey_violations = 0;                    // likewise
  std::uint8_t subnet_timeout = 0;                      // 4.096 us * 2^this
  std::uint8_t init_reply = 0;                          // InitTypeReply
  std::uint8_t lane_limit = 0;                          // VLCap: 1 to 5 for 1, 2, 4, 8, 15 lanes
  std::array<std::uint64_t, kGidsMax> interface_ids{};  // the lower halves of the GIDs
  std::array<std::uint16_t, kPkeysMax> pkeys{};
};

/// A node as programs see it: an adapter with ports from 1 on, or a switch with port 0 alone.
struct FabricNodeState {
  static constexpr std::size_t kPortsMax = 10;  // as in umad.h
  enum class Kind : std::uint32_t { kAdapter = 1, kSwitch = 2, kRouter = 3 };

  Kind kind = Kind::kAdapter;
  std::uint32_t vendor = 0;
  std::uint32_t device = 0;
  std::uint32_t revision = 0;
  std::uint32_t address = 0;  // IPv4, by which connections name the node; 0: none
  std::uint64_t node_guid = 0;
  std::uint64_t system_guid = 0;
  std::array<char, 64> description{};  // not necessarily terminated
  std::array<FabricPortState, kPortsMax> ports{};
};

/// The memory file with the state of one node. The process of the fabric writes it, and programs
/// map it for reading. A sequence counter is odd while it is written; a reader copies the state and
/// repeats that when the counter has changed meanwhile.
///
/// The writer is one thread. It can be stopped or killed while it writes: read() gives up then.
class FabricPage {
 public:
  static constexpr std::uint32_t kMagic = 0x5642'4670;
  static constexpr std::uint32_t kVersion = 2;
  static constexpr std::size_t kOctets = 16 * 1024;

  void initialise() noexcept {
    magic_ = kMagic;
    version_ = kVersion;
  }
  void write(const FabricNodeState& state) noexcept;
  /// Nothing when the page has another version, or its writer was stopped in the middle.
  [[nodiscard]] std::optional<FabricNodeState> read() const noexcept;

 private:
  static constexpr std::size_t kWords = (sizeof(FabricNodeState) + 7) / 8;

  std::uint32_t magic_ = 0;
  std::uint32_t version_ = 0;
  std::atomic<std::uint64_t> sequence_{0};
  std::array<std::atomic<std::uint64_t>, kWords> words_{};
};
static_assert(sizeof(FabricPage) <= FabricPage::kOctets);

}  // namespace verbatim::host
