// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/prng.h"
#include "sim/cluster.h"

namespace verbatim::sim {

/// An endpoint that sends anything at all: packets with right checksums and nonsense inside, aimed
/// at queue pairs it has no business with, and requests of every shape on a connection that it does
/// have. It can only send from its own address, as on any network that does not allow spoofing.
/// The victim must neither be harmed outside what it allowed, nor serve others worse for it.
class Hostile {
 public:
  Hostile(Cluster& cluster, Endpoint& victim, std::uint64_t seed);

  /// A few frames now and then.
  void act();

 private:
  void send_one();

  Cluster& cluster_;
  Endpoint& victim_;
  Prng prng_;
  wire::Gid address_;
  std::size_t own_qp_;            // at the victim: the queue pair that is connected with us
  std::span<std::byte> allowed_;  // at the victim: what we may write
  wire::MemoryKey allowed_key_{};
  std::vector<std::byte> payload_;
};

}  // namespace verbatim::sim
