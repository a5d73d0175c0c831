// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/byte_order.h"
#include "wire/headers/mad.h"
#include "wire/management/rmpp.h"

namespace verbatim::wire {

/// The header of subnet administration, behind that of RMPP (IBA Vol 1, 15.2.1.1). The records of
/// a message follow it.
///
///     36..43 SM_Key | 44..45 size of a record in 8 octets | 46..47 reserved
///     48..55 component mask
struct SaHeader {
  static constexpr std::size_t kOffset = Rmpp::kEnd;
  static constexpr std::size_t kEnd = 56;
  static constexpr std::uint8_t kClassVersion = 2;
  std::uint64_t sm_key = 0;
  std::uint16_t record_words = 0;    // from the start of one record to the next; 8 octets each
  std::uint64_t component_mask = 0;  // of a request: which components of the record count
  friend bool operator==(const SaHeader&, const SaHeader&) noexcept = default;

  void emit(std::span<std::byte, Mad::kSize> to) const noexcept {
    store_be<std::uint64_t, 36>(to, sm_key);
    store_be<std::uint16_t, 44>(to, record_words);
    store_be<std::uint16_t, 46>(to, 0);
    store_be<std::uint64_t, 48>(to, component_mask);
  }
  static SaHeader from(std::span<const std::byte, Mad::kSize> octets) noexcept {
    return {.sm_key = load_be<std::uint64_t, 36>(octets),
            .record_words = load_be<std::uint16_t, 44>(octets),
            .component_mask = load_be<std::uint64_t, 48>(octets)};
  }
};

}  // namespace verbatim::wire
