// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/prng.h"
#include "sim/cluster.h"

namespace verbatim::sim {

/// An endpoint that sends arbitrary packets: packets with right checksums and wrong contents to
/// queue pairs that it is not connected to, and requests of every form on a connection of its own.
/// It can send only from its own address, as on any network that does not allow spoofing. The
/// victim's memory must change only where it allowed it, and the victim must serve other peers as
/// well as without the attack.
class Hostile {
 public:
  Hostile(Cluster& cluster, Endpoint& victim, std::uint64_t seed);

  /// Sends a few frames, but not at every call.
  void act();

 private:
  void send_one();

  Cluster& cluster_;
  Endpoint& victim_;
  Prng prng_;
  wire::Gid address_;
  std::size_t own_qp_;            // at the victim: the queue pair of the attacker's connection
  std::span<std::byte> allowed_;  // at the victim: memory that the attacker may write
  wire::MemoryKey allowed_key_{};
  std::vector<std::byte> payload_;
};

}  // namespace verbatim::sim
