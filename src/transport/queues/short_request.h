// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "memory/scatter_gather.h"
#include "transport/queues/send_queue.h"
#include "transport/queues/work.h"

namespace verbatim::transport {

/// A SEND, WRITE or READ of one piece that is executed at once and never queued, with the members
/// that this needs.
struct ShortRequest {
  std::uint64_t wr_id = 0;
  SendOpcode opcode{};
  SendFlags flags{};
  memory::Sge piece{};
  std::uint64_t remote_address = 0;  // WRITE and READ
  wire::MemoryKey rkey{};            // WRITE and READ

  /// Its entry in a send queue, without the gather list.
  [[nodiscard]] SendEntry entry() const noexcept {
    SendEntry entry;
    entry.wr_id = wr_id;
    entry.opcode = opcode;
    entry.flags = flags;
    entry.octets = piece.octets;
    entry.remote_address = remote_address;
    entry.rkey = rkey;
    return entry;
  }
};

}  // namespace verbatim::transport
