// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "fabric/fabric.h"

namespace verbatim::fabric::test {

/// A program on each host port that answers the datagrams of a vendor class, as `ibping -S` does,
/// and one that sends them.
class Pings {
 public:
  static constexpr ClientId kServer{2};
  static constexpr ClientId kAsker{3};

  Pings(Fabric& fabric, std::vector<PortEnd> ports);

  /// Sends one from each port to each other port that has a LID.
  void start(Instant now, std::chrono::milliseconds timeout, std::uint32_t retries);
  void handle(Instant now, PortEnd port, ClientId client, const UserMad& mad);
  /// All have been answered or have come back.
  [[nodiscard]] bool are_done() const noexcept { return outstanding_ == 0; }
  /// The first one that was not answered, or answered by another port; empty: there is none.
  [[nodiscard]] const std::string& complaint() const noexcept { return complaint_; }
  [[nodiscard]] std::size_t answered_count() const noexcept { return answered_; }

 private:
  [[nodiscard]] std::size_t index_of(PortEnd port) const noexcept;
  void answer(Instant now, PortEnd port, const UserMad& request);

  Fabric& fabric_;
  std::vector<PortEnd> ports_;
  std::vector<AgentId> servers_{};
  std::vector<AgentId> askers_{};
  std::size_t outstanding_ = 0;
  std::size_t answered_ = 0;
  std::string complaint_{};
};

}  // namespace verbatim::fabric::test
