// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/byte_order.h"
#include "wire/headers/guid.h"
#include "wire/management/attribute_data.h"

namespace verbatim::wire {

enum class NodeType : std::uint8_t { kChannelAdapter = 1, kSwitch = 2, kRouter = 3 };

/// What a node is, as seen through one of its ports (IBA Vol 1, 14.2.5.3).
///
///     0 base version | 1 class version | 2 node type | 3 ports | 4..11 system image GUID
///     12..19 node GUID | 20..27 port GUID | 28..29 P_Keys per port | 30..31 device
///     32..35 revision | 36 local port | 37..39 vendor
struct NodeInfo {
  static constexpr std::size_t kSize = 64;
  static constexpr std::uint32_t kVendorMask = 0x00ff'ffff;
  std::uint8_t base_version = 1;
  std::uint8_t class_version = 1;
  NodeType type = NodeType::kChannelAdapter;
  std::uint8_t port_count = 1;  // without port 0 of a switch
  Guid system_guid{};
  Guid node_guid{};
  Guid port_guid{};  // of the local port; of port 0 in a switch
  std::uint16_t pkey_limit = 0;
  std::uint16_t device_id = 0;
  std::uint32_t revision = 0;
  std::uint8_t local_port = 0;  // through which the request arrived
  std::uint32_t vendor_id = 0;  // 24 bits
  friend bool operator==(const NodeInfo&, const NodeInfo&) noexcept = default;

  void emit(AttributeData to) const noexcept {
    std::ranges::fill(to, std::byte{0});
    store_be<std::uint8_t, 0>(to, base_version);
    store_be<std::uint8_t, 1>(to, class_version);
    store_be<std::uint8_t, 2>(to, static_cast<std::uint8_t>(type));
    store_be<std::uint8_t, 3>(to, port_count);
    store_be<std::uint64_t, 4>(to, static_cast<std::uint64_t>(system_guid));
    store_be<std::uint64_t, 12>(to, static_cast<std::uint64_t>(node_guid));
    store_be<std::uint64_t, 20>(to, static_cast<std::uint64_t>(port_guid));
    store_be<std::uint16_t, 28>(to, pkey_limit);
    store_be<std::uint16_t, 30>(to, device_id);
    store_be<std::uint32_t, 32>(to, revision);
    store_be<std::uint32_t, 36>(to, (std::uint32_t{local_port} << 24) | (vendor_id & kVendorMask));
  }
  static NodeInfo from(ConstAttributeData octets) noexcept {
    return {.base_version = load_be<std::uint8_t, 0>(octets),
            .class_version = load_be<std::uint8_t, 1>(octets),
            .type = NodeType{load_be<std::uint8_t, 2>(octets)},
            .port_count = load_be<std::uint8_t, 3>(octets),
            .system_guid = Guid{load_be<std::uint64_t, 4>(octets)},
            .node_guid = Guid{load_be<std::uint64_t, 12>(octets)},
            .port_guid = Guid{load_be<std::uint64_t, 20>(octets)},
            .pkey_limit = load_be<std::uint16_t, 28>(octets),
            .device_id = load_be<std::uint16_t, 30>(octets),
            .revision = load_be<std::uint32_t, 32>(octets),
            .local_port = load_be<std::uint8_t, 36>(octets),
            .vendor_id = load_be<std::uint32_t, 36>(octets) & kVendorMask};
  }
};

}  // namespace verbatim::wire
