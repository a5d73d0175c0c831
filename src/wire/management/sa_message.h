// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/headers/mad.h"
#include "wire/management/rmpp.h"
#include "wire/management/sa_header.h"

namespace verbatim::wire {

/// A request to subnet administration, or an answer, with one record (IBA Vol 1, 15.4): a datagram
/// whose data are the header of RMPP, which is not active, the header of the class, and the record.
struct SaMessage {
  MadMethod method = MadMethod::kGet;
  std::uint16_t status = 0;
  TransactionId transaction{};
  std::uint64_t component_mask = 0;  // which components of the record a request means

  template <typename Record>
  void emit(const Record& record, std::span<std::byte, Mad::kSize> to) const noexcept {
    Mad{.header = {.mgmt_class = MgmtClass::kSubnetAdministration,
                   .class_version = SaHeader::kClassVersion,
                   .method = method,
                   .status = status,
                   .transaction = transaction,
                   .attribute_id = Record::kAttributeId}}
        .emit(to);
    SaHeader{.record_words = (Record::kSize + 7) / 8, .component_mask = component_mask}.emit(to);
    record.emit(to.template subspan<SaHeader::kEnd, Record::kSize>());
  }
};

/// The record in a datagram of subnet administration; nothing when it has records of another kind,
/// or is of another class or class version.
template <typename Record>
[[nodiscard]] std::optional<Record> record_in(const MadView& mad) noexcept {
  const bool is_of_kind = mad.mgmt_class() == MgmtClass::kSubnetAdministration &&
                          mad.class_version() == SaHeader::kClassVersion &&
                          mad.attribute_id() == Record::kAttributeId;
  if (!is_of_kind) return std::nullopt;
  return Record::from(mad.octets().subspan<SaHeader::kEnd, Record::kSize>());
}

/// The statuses of answers (15.4.2): the upper octet of the status of the datagram.
enum class SaStatus : std::uint8_t {
  kNone = 0,
  kNoResources = 1,
  kRequestInvalid = 2,
  kNoRecords = 3,
  kTooManyRecords = 4,
  kInvalidGid = 5,
  kInsufficientComponents = 6,
  kRequestDenied = 7,
};
[[nodiscard]] constexpr SaStatus sa_status_of(std::uint16_t status) noexcept {
  return SaStatus{static_cast<std::uint8_t>(status >> 8)};
}

}  // namespace verbatim::wire
