// SPDX-License-Identifier: Apache-2.0
#include "wire/management/sa_message.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "wire/management/multicast_record.h"
#include "wire/management/path_record.h"

namespace {

using verbatim::wire::Mad;
using verbatim::wire::MadView;

/// A record that is read, written and read again must not change.
template <typename Record>
void check(const MadView& view) {
  const auto record = verbatim::wire::record_in<Record>(view);
  if (!record) return;
  std::array<std::byte, Mad::kSize> octets;
  verbatim::wire::SaMessage{.method = view.method(), .transaction = view.transaction()}.emit(
      *record, octets);
  const auto again = MadView::parse(octets);
  VB_ASSERT(again && again->method() == view.method());
  VB_ASSERT(verbatim::wire::record_in<Record>(*again) == record);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto view = MadView::parse(std::as_bytes(std::span(data, size)));
  if (!view) return 0;
  check<verbatim::wire::PathRecord>(*view);
  check<verbatim::wire::MulticastRecord>(*view);
  return 0;
}
