// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/expected.h"
#include "base/time.h"
#include "capture/link_capture.h"
#include "fabric/fabric.h"
#include "host/descriptor.h"
#include "tools/fabric/capture_limits.h"
#include "tools/fabric/packet_tap.h"
#include "tools/json.h"

namespace verbatim::tools {

/// The captures of a fabric, at most one of each port: what leaves the port over its link, and what
/// arrives at it there (docs/CAPTURE.md).
///
/// The owner
///   1. watches descriptor() and calls handle_ends() when it is readable;
///   2. calls turn() no later than next_due();
///   3. then takes from poll_ended() what there is.
/// Thread: that of the fabric.
class FabricCaptures final : public PacketTap {
 public:
  explicit FabricCaptures(fabric::Fabric& fabric);
  ~FabricCaptures() override { close(); }

  struct Wanted {
    fabric::PortEnd port{};
    std::string port_name;
    std::string file;
    CaptureLimits limits{};
  };
  /// On failure `message` says why.
  [[nodiscard]] Status start(Instant now, const Wanted& wanted, std::string& message);
  /// Ends the capture of a port. False: there is none, or it is ending.
  bool stop(fabric::PortEnd port) noexcept;
  /// Ends all of them. What they have recorded is in the files then, unless their readers have
  /// stopped.
  void close() noexcept;

  /// Negative: the system gives none, and no capture can start.
  [[nodiscard]] int descriptor() const noexcept { return epoll_.number(); }
  void handle_ends();
  void turn(Instant now) noexcept;
  [[nodiscard]] Instant next_due() const noexcept;

  struct State {
    fabric::PortEnd port{};
    std::string port_name;
    std::string file;
    link::LinkCapture::Progress progress{};
  };
  /// A capture that has ended, each once.
  [[nodiscard]] std::optional<State> poll_ended();
  /// Those that have not ended.
  [[nodiscard]] std::vector<State> running() const;

  void take(const fabric::TappedPacket& packet,
            std::span<const std::byte> octets) noexcept override;

 private:
  struct Running {
    Wanted about;
    std::unique_ptr<link::LinkCapture> capture;
    std::uint64_t unix_nanoseconds = 0;  // at the beginning of the fabric's time
    std::uint64_t left = 0;              // packets, if the number is limited
    Instant ends = Instant::never();
    bool is_ending = false;
  };
  [[nodiscard]] Running* find(fabric::PortEnd port) noexcept;
  void finish(Running& running) noexcept;
  [[nodiscard]] static State state_of(const Running& running);

  fabric::Fabric& fabric_;
  host::Descriptor epoll_;  // of the captures' descriptors
  std::vector<Running> running_;
  std::vector<State> ended_;
};

/// What to tell the user about a capture that has ended, one line.
[[nodiscard]] std::string ending_of(const FabricCaptures::State& state);
[[nodiscard]] std::string captures_text(const std::vector<FabricCaptures::State>& states);
[[nodiscard]] Json captures_json(const std::vector<FabricCaptures::State>& states);

}  // namespace verbatim::tools
