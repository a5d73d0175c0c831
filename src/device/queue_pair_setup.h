// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "memory/domain.h"
#include "transport/qp_type.h"

namespace verbatim::device {

class CompletionQueue;
class EventPipe;
class SharedReceiveQueue;

/// What a queue pair is created with. The queues and the pipe outlive the queue pair.
struct QueuePairSetup {
  transport::QpType type = transport::QpType::kRc;
  memory::DomainId domain = memory::DomainId::kNone;
  std::uint32_t send_depth = 0;
  std::uint32_t receive_depth = 0;
  std::uint32_t send_sges = 0;
  std::uint32_t receive_sges = 0;
  std::uint32_t inline_octets = 0;
  bool signal_all = false;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  SharedReceiveQueue* shared = nullptr;  // null: it has a receive queue of its own
  EventPipe* async = nullptr;
  std::uint64_t user_tag = 0;  // subject of its events
};

}  // namespace verbatim::device
