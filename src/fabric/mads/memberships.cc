// SPDX-License-Identifier: Apache-2.0
#include "fabric/mads/memberships.h"

#include <algorithm>

#include "base/byte_order.h"
#include "wire/management/sa_message.h"

namespace verbatim::fabric {
namespace {

using wire::MadMethod;
using wire::MadView;
using wire::MulticastRecord;

/// A port replaces the upper half of a transaction by the number of the agent.
std::uint32_t transaction_of(std::span<const std::byte, wire::MadHeader::kSize> header) noexcept {
  return load_be<std::uint32_t, 12>(header);
}

}  // namespace

bool Memberships::has_members(const wire::Gid& group) const noexcept {
  return std::ranges::any_of(all_, [&](const Membership& membership) {
    return !membership.is_leaving && membership.record.group == group;
  });
}

bool Memberships::handle_request(ClientId client, std::span<std::byte, wire::Mad::kSize> octets) {
  const auto mad = MadView::parse(octets);
  const auto record = mad ? wire::record_in<MulticastRecord>(*mad) : std::nullopt;
  if (!record) return false;
  if (mad->method() == MadMethod::kSet && all_.size() < kMembershipsMax) {
    all_.push_back({.client = client,
                    .record = *record,
                    .transaction = transaction_of(octets.first<wire::MadHeader::kSize>())});
  }
  if (mad->method() != MadMethod::kDelete) return false;
  const auto own = std::ranges::find_if(all_, [&](const Membership& membership) {
    return membership.client == client && !membership.is_leaving &&
           membership.record.group == record->group;
  });
  if (own != all_.end()) {
    own->is_asking = own->is_leaving = true;
    own->transaction = transaction_of(octets.first<wire::MadHeader::kSize>());
  }
  if (!has_members(record->group)) return false;
  if (own != all_.end()) all_.erase(own);
  store_be<std::uint8_t, 3>(octets, static_cast<std::uint8_t>(MadMethod::kDeleteResp));
  return true;
}

void Memberships::handle_answer(ClientId client, std::span<const std::byte> octets) {
  if (octets.size() < wire::MadHeader::kSize) return;
  const auto header = octets.first<wire::MadHeader::kSize>();
  const auto asked = std::ranges::find_if(all_, [&](const Membership& membership) {
    return membership.client == client && membership.is_asking &&
           membership.transaction == transaction_of(header);
  });
  if (asked == all_.end()) return;
  asked->is_asking = false;
  const bool has_joined = MadMethod{load_be<std::uint8_t, 3>(header)} == MadMethod::kGetResp &&
                          load_be<std::uint16_t, 4>(header) == 0;
  if (!has_joined || asked->is_leaving) all_.erase(asked);
}

std::vector<MulticastRecord> Memberships::close(ClientId client) {
  std::vector<MulticastRecord> left;
  for (const Membership& membership : all_) {
    if (membership.client == client) left.push_back(membership.record);
  }
  std::erase_if(all_, [&](const Membership& membership) { return membership.client == client; });
  std::erase_if(left, [&](const MulticastRecord& record) { return has_members(record.group); });
  return left;
}

}  // namespace verbatim::fabric
