// SPDX-License-Identifier: Apache-2.0
// ibv_create_ah(3), ibv_init_ah_from_wc(3), ibv_create_ah_from_wc(3).
#include <infiniband/verbs.h>

#include <cstring>

#include "abi/border.h"
#include "abi/verbs/address.h"
#include "abi/verbs/handles.h"
#include "base/byte_order.h"
#include "base/uncancelled.h"
#include "wire/headers/flow_entropy.h"
#include "wire/headers/ipv4.h"

namespace verbatim::abi {
namespace {

/// Where a datagram came from and how, from the 40 octets in front of its payload: an IPv4 header
/// in the last 20 of them, or an IPv6 header (annex A17.4.5). IPv4 has no flow label.
struct Addresses {
  wire::Gid source{};
  wire::Gid destination{};
  std::uint8_t traffic_class = 0;
  std::uint32_t flow_label = 0;
};

Addresses addresses_of(const ibv_grh* grh) noexcept {
  Addresses found;
  const auto* octets = reinterpret_cast<const std::byte*>(grh);
  if (std::to_integer<unsigned>(octets[0]) >> 4 == 6) {
    std::memcpy(found.source.octets.data(), grh->sgid.raw, 16);
    std::memcpy(found.destination.octets.data(), grh->dgid.raw, 16);
    const std::uint32_t first_word = load_be_at<std::uint32_t>(octets);
    found.traffic_class = static_cast<std::uint8_t>(first_word >> 20);
    found.flow_label = first_word & 0xf'ffff;
    return found;
  }
  wire::Ipv4Address source;
  wire::Ipv4Address destination;
  std::memcpy(source.octets.data(), octets + 20 + 12, 4);
  std::memcpy(destination.octets.data(), octets + 20 + 16, 4);
  found.source = gid_of(source);
  found.destination = gid_of(destination);
  found.traffic_class = std::to_integer<std::uint8_t>(octets[21]);
  return found;
}

}  // namespace
}  // namespace verbatim::abi

using namespace verbatim;
using namespace verbatim::abi;

extern "C" {

VB_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  const Uncancelled uncancelled;
  PdHandle& owner = handle_of<PdHandle>(pd);
  if (!is_intact(owner)) return as_null<ibv_ah>(Errc::kNoSuchObject);
  device::Destination to = destination_of(*attributes);
  if (attributes->port_num != 1) return as_null<ibv_ah>(Errc::kInvalidArgument);
  to.entropy = wire::source_port_of_datagrams(wire::QpNumber{owner.pd.handle});
  auto object = device::AddressHandle::create(*owner.owner->adapter, owner.object->id(), to);
  if (!object) return as_null<ibv_ah>(object.error());
  auto handle = std::make_unique<AhHandle>();
  handle->object = *object;
  handle->owner = &owner;
  handle->ah.context = pd->context;
  handle->ah.pd = pd;
  ++owner.owner->objects;
  LiveHandles::instance().add(handle.get());
  return &handle.release()->ah;
}

VB_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  const Uncancelled uncancelled;
  if (!LiveHandles::instance().contains(ah)) return as_errno_value(EINVAL);
  AhHandle& handle = handle_of<AhHandle>(ah);
  if (!is_intact(handle)) return as_errno_value(ENOENT);
  handle.object->destroy();
  discard(&handle, *handle.owner->owner);
  return 0;
}

VB_EXPORT int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                  ibv_ah_attr* attributes) {
  *attributes = ibv_ah_attr{};
  const device::PortInfo info = handle_of(context).adapter->port();
  const bool has_header = (wc->wc_flags & IBV_WC_GRH) != 0;
  if (port != 1 || (!has_header && !info.fabric)) {
    errno = EINVAL;
    return -1;
  }
  if (info.fabric) {
    attributes->dlid = wc->slid;
    attributes->sl = wc->sl;
    attributes->src_path_bits = wc->dlid_path_bits;
    attributes->port_num = port;
    if (!has_header) return 0;
  }
  const Addresses addresses = addresses_of(grh);
  const auto& gids = info.gids;
  for (std::size_t i = 0; i < gids.size(); ++i) {
    if (gids[i].gid != addresses.destination) continue;
    attributes->port_num = port;
    attributes->is_global = 1;
    attributes->grh.sgid_index = static_cast<std::uint8_t>(i);
    attributes->grh.hop_limit = 0xff;
    attributes->grh.traffic_class = addresses.traffic_class;
    attributes->grh.flow_label = addresses.flow_label;
    std::memcpy(attributes->grh.dgid.raw, addresses.source.octets.data(), 16);
    return 0;
  }
  errno = EINVAL;
  return -1;
}

VB_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  const Uncancelled uncancelled;
  ibv_ah_attr attributes;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attributes) != 0) return nullptr;
  return ibv_create_ah(pd, &attributes);
}

}  // extern "C"
