// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "transport/qp_attributes.h"
#include "transport/traffic.h"
#include "wire/headers/ids.h"

namespace verbatim::direct {

/// How the requests of a queue pair reach the other end; see docs/ARCHITECTURE.md, section 2.
enum class DataPath : std::uint8_t {
  kPackets,
  kUndecided,  // the other end is on this host, but the two have not met yet
  kDirect,
};

/// What a queue pair shows of itself, at its number in the owner's segment, beside its HalfRecord.
///
/// Plain data, written by the owner alone: the first cache line under the adapter's lock, the
/// second by the thread that runs the queue pair. No decision depends on it. A viewer (`verbatim
/// stat`) may read it in the middle of a change.
struct alignas(64) QueuePairRecord {
  wire::QpNumber number{};        // zero: none
  std::uint32_t incarnation = 0;  // counts the queue pairs that have had this number
  wire::QpNumber dest_qp{};
  transport::QpType type{};
  transport::QpState state{};
  DataPath data_path{};
  wire::Gid local{};   // the owner's end of the path
  wire::Gid remote{};  // the peer's end

  transport::Traffic traffic{};
};
static_assert(std::is_trivially_copyable_v<QueuePairRecord>);
static_assert(sizeof(QueuePairRecord) == 128);

}  // namespace verbatim::direct
