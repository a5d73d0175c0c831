// SPDX-License-Identifier: Apache-2.0
// The header of a datagram: umad_set_addr, umad_get_mad, umad_dump and their like. None of them
// fails.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "base/byte_order.h"
#include "umad/border.h"
#include "umad/dump.h"

using verbatim::big_endian;

namespace verbatim::umad {
namespace {

constinit std::atomic<int> g_debug_level{0};
constexpr int kDumpLevel = 2;

ib_user_mad& header_of(void* umad) noexcept { return *static_cast<ib_user_mad*>(umad); }

}  // namespace

void dump_if_wanted(ib_user_mad* mad) {
  if (g_debug_level.load(std::memory_order_relaxed) >= kDumpLevel) umad_dump(mad);
}

}  // namespace verbatim::umad

using verbatim::umad::header_of;

VB_EXPORT void* umad_get_mad(void* umad) { return header_of(umad).data; }

VB_EXPORT std::size_t umad_size() { return sizeof(ib_user_mad); }

VB_EXPORT int umad_status(void* umad) { return static_cast<int>(header_of(umad).status); }

VB_EXPORT ib_mad_addr_t* umad_get_mad_addr(void* umad) { return &header_of(umad).addr; }

/// The flow label is given in host byte order.
VB_EXPORT int umad_set_grh(void* umad, void* mad_addr) {
  ib_mad_addr_t& to = header_of(umad).addr;
  to.grh_present = mad_addr != nullptr ? 1 : 0;
  if (mad_addr == nullptr) return 0;
  const auto& from = *static_cast<const ib_mad_addr_t*>(mad_addr);
  std::memcpy(to.gid, from.gid, sizeof to.gid);
  to.flow_label = big_endian(static_cast<std::uint32_t>(from.flow_label));
  to.hop_limit = from.hop_limit;
  to.traffic_class = from.traffic_class;
  return 0;
}

VB_EXPORT int umad_set_addr_net(void* umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey) {
  ib_mad_addr_t& to = header_of(umad).addr;
  to.lid = dlid;
  to.qpn = dqp;
  to.sl = static_cast<std::uint8_t>(sl);
  to.qkey = qkey;
  return 0;
}

VB_EXPORT int umad_set_addr(void* umad, int dlid, int dqp, int sl, int qkey) {
  return umad_set_addr_net(umad, big_endian(static_cast<std::uint16_t>(dlid)),
                           big_endian(static_cast<std::uint32_t>(dqp)), sl,
                           big_endian(static_cast<std::uint32_t>(qkey)));
}

VB_EXPORT int umad_set_pkey(void* umad, int pkey_index) {
  header_of(umad).addr.pkey_index = static_cast<std::uint16_t>(pkey_index);
  return 0;
}

VB_EXPORT int umad_get_pkey(void* umad) { return header_of(umad).addr.pkey_index; }

/// Returns the level; a negative one asks only.
VB_EXPORT int umad_debug(int level) {
  if (level >= 0) verbatim::umad::g_debug_level.store(level, std::memory_order_relaxed);
  return verbatim::umad::g_debug_level.load(std::memory_order_relaxed);
}

VB_EXPORT void umad_addr_dump(ib_mad_addr_t* addr) {
  std::array<char, 2 * sizeof addr->gid + 1> gid{};
  for (std::size_t i = 0; i < sizeof addr->gid; ++i) {
    std::snprintf(&gid[2 * i], 3, "%02x", addr->gid[i]);
  }
  std::fprintf(stderr,
               "umad [%d]: qpn %u qkey 0x%x lid %u sl %u pkey_index %u\n"
               "umad [%d]: grh_present %u gid 0x%s gid_index %u hop_limit %u traffic_class %u "
               "flow_label 0x%x\n",
               static_cast<int>(::getpid()), big_endian(std::uint32_t{addr->qpn}),
               big_endian(std::uint32_t{addr->qkey}), big_endian(std::uint16_t{addr->lid}),
               addr->sl, addr->pkey_index, static_cast<int>(::getpid()), addr->grh_present,
               gid.data(), addr->gid_index, addr->hop_limit, addr->traffic_class,
               big_endian(std::uint32_t{addr->flow_label}));
}

VB_EXPORT void umad_dump(void* umad) {
  ib_user_mad& mad = header_of(umad);
  std::fprintf(stderr, "umad [%d]: agent %u status %u timeout_ms %u retries %u length %u\n",
               static_cast<int>(::getpid()), mad.agent_id, mad.status, mad.timeout_ms, mad.retries,
               mad.length);
  umad_addr_dump(&mad.addr);
}
