// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbatim::memory {

/// Why an access to memory was refused; one name per check of IBA Vol 1, 10.6 and 10.7.
enum class Refusal : std::uint8_t {
  kNone,            // not refused
  kNoSuchKey,       // the index lies outside the table, or nothing is registered there
  kStaleKey,        // the index is in use, the low octet is that of an earlier key
  kInvalidated,     // the key is right, but the window is unbound or the key was invalidated
  kWindowAsLocal,   // a window's key in a local scatter/gather element
  kOtherDomain,     // region or window of another protection domain
  kOtherQueuePair,  // type 2 window bound to another queue pair
  kNoLocalWrite,    // the region does not allow its owner to write
  kNoRemoteWrite,
  kNoRemoteRead,
  kNoRemoteAtomic,
  kNoFlush,      // the region does not allow that kind of FLUSH
  kBelowRange,   // starts before the first octet
  kBeyondRange,  // ends after the last octet, or wraps around the address space
};
inline constexpr std::size_t kRefusalCount = 14;

[[nodiscard]] constexpr const char* name_of(Refusal refusal) noexcept {
  switch (refusal) {
    case Refusal::kNone:
      return "not refused";
    case Refusal::kNoSuchKey:
      return "no region or window has this key";
    case Refusal::kStaleKey:
      return "the key is of an earlier registration or binding";
    case Refusal::kInvalidated:
      return "the key was invalidated or its window is not bound";
    case Refusal::kWindowAsLocal:
      return "a window's key cannot be used locally";
    case Refusal::kOtherDomain:
      return "the memory is in another protection domain";
    case Refusal::kOtherQueuePair:
      return "the window is bound to another queue pair";
    case Refusal::kNoLocalWrite:
      return "the region does not allow local write";
    case Refusal::kNoRemoteWrite:
      return "the memory does not allow remote write";
    case Refusal::kNoRemoteRead:
      return "the memory does not allow remote read";
    case Refusal::kNoRemoteAtomic:
      return "the memory does not allow remote atomics";
    case Refusal::kNoFlush:
      return "the memory does not allow this kind of flush";
    case Refusal::kBelowRange:
      return "the address lies before the registered range";
    case Refusal::kBeyondRange:
      return "the range ends after the registered range";
  }
  return "?";
}

}  // namespace verbatim::memory
