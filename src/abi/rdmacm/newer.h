// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>

/// Additions to librdmacm after the release whose header the build uses (RDMACM_1.4, of v60).
extern "C" {
int rdma_resolve_addrinfo(rdma_cm_id* id, const char* node, const char* service,
                          const rdma_addrinfo* hints);
int rdma_query_addrinfo(rdma_cm_id* id, rdma_addrinfo** info);
int rdma_write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status, std::uint64_t arg);
}

namespace verbatim::abi {

/// The events that came with them.
inline constexpr int kEventAddrinfoResolved = 16;
inline constexpr int kEventAddrinfoError = 17;
inline constexpr int kEventUser = 18;
inline constexpr int kEventInternal = 19;

}  // namespace verbatim::abi
