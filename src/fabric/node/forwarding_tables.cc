// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/forwarding_tables.h"

#include <algorithm>

#include "base/byte_order.h"

namespace verbatim::fabric {

ForwardingTables::ForwardingTables(std::uint8_t port_count)
    : mask_count_(port_count / kMaskPorts + 1U) {}

PortSet ForwardingTables::ports_of(wire::Lid multicast_lid) const noexcept {
  const std::size_t entry = static_cast<std::size_t>(multicast_lid) -
                            static_cast<std::size_t>(wire::Lid::kFirstMulticast);
  const std::size_t first_mask = entry / kMulticastBlock * mask_count_;
  PortSet ports;
  for (std::size_t mask = 0; mask < mask_count_; ++mask) {
    const std::size_t at = (first_mask + mask) * kMulticastBlock + entry % kMulticastBlock;
    if (at < multicast_.size()) ports.add_group(static_cast<std::uint8_t>(mask), multicast_[at]);
  }
  return ports;
}

bool ForwardingTables::read_linear(std::uint32_t modifier, wire::AttributeData to) const noexcept {
  if (modifier >= kLinearLimit / kLinearBlock) return false;
  std::ranges::fill(to, std::byte{kNoPort});
  const std::size_t start = modifier * kLinearBlock;
  if (start >= linear_.size()) return true;
  for (std::size_t i = 0; i < kLinearBlock; ++i) to[i] = std::byte{linear_[start + i]};
  return true;
}

bool ForwardingTables::write_linear(std::uint32_t modifier, wire::ConstAttributeData from) {
  if (modifier >= kLinearLimit / kLinearBlock) return false;
  const std::size_t start = modifier * kLinearBlock;
  if (linear_.size() < start + kLinearBlock) linear_.resize(start + kLinearBlock, kNoPort);
  for (std::size_t i = 0; i < kLinearBlock; ++i) {
    linear_[start + i] = std::to_integer<std::uint8_t>(from[i]);
  }
  return true;
}

std::optional<std::size_t> ForwardingTables::multicast_start(
    std::uint32_t modifier) const noexcept {
  const std::size_t mask = modifier >> 28;
  const std::size_t block = modifier & 0x0fff'ffff;
  if (mask >= mask_count_ || block >= kMulticastLimit / kMulticastBlock) return std::nullopt;
  return (block * mask_count_ + mask) * kMulticastBlock;
}

bool ForwardingTables::read_multicast(std::uint32_t modifier,
                                      wire::AttributeData to) const noexcept {
  const auto start = multicast_start(modifier);
  if (!start) return false;
  std::ranges::fill(to, std::byte{0});
  if (*start >= multicast_.size()) return true;
  for (std::size_t i = 0; i < kMulticastBlock; ++i) {
    store_be_at<std::uint16_t>(to.data() + 2 * i, multicast_[*start + i]);
  }
  return true;
}

bool ForwardingTables::write_multicast(std::uint32_t modifier, wire::ConstAttributeData from) {
  const auto start = multicast_start(modifier);
  if (!start) return false;
  if (multicast_.size() < *start + kMulticastBlock) multicast_.resize(*start + kMulticastBlock);
  for (std::size_t i = 0; i < kMulticastBlock; ++i) {
    multicast_[*start + i] = load_be_at<std::uint16_t>(from.data() + 2 * i);
  }
  return true;
}

}  // namespace verbatim::fabric
