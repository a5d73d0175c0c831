// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cm/communication.h"

namespace verbatim::cm {

/// Communications by one number that their peers chose; several may have the same. A hash table
/// chained through the communications themselves: it allocates only when it doubles. Peers choose
/// the numbers, but do not know the seed, so they cannot put all into one chain.
///
/// `kLink` is the member for the chain, `kKey` returns the number. The number must not change while
/// the communication is in the index.
template <auto kLink, auto kKey>
class PeerIndex {
 public:
  explicit PeerIndex(std::uint64_t seed) : seed_(seed), buckets_(kFirstBuckets, nullptr) {}

  void add(Communication& communication) {
    if (size_ >= buckets_.size()) grow();
    link(communication);
    ++size_;
  }
  /// Does nothing when it is not in the index.
  void remove(Communication& communication) noexcept {
    for (Communication** at = &bucket_of(kKey(communication)); *at != nullptr;
         at = &((*at)->*kLink)) {
      if (*at != &communication) continue;
      *at = communication.*kLink;
      communication.*kLink = nullptr;
      --size_;
      return;
    }
  }
  /// The first with this number for which `matches(const Communication&)` holds; null if there is
  /// none.
  template <typename Predicate>
  [[nodiscard]] Communication* find(std::uint32_t number, Predicate&& matches) const noexcept {
    for (Communication* at = buckets_[place_of(number)]; at != nullptr; at = at->*kLink) {
      if (kKey(*at) == number && matches(*at)) return at;
    }
    return nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::size_t kFirstBuckets = 64;  // the number of buckets is a power of two

  /// The last step of MurmurHash3: every bit of the number affects every bit of the result.
  [[nodiscard]] std::size_t place_of(std::uint32_t number) const noexcept {
    std::uint64_t mixed = number ^ seed_;
    mixed = (mixed ^ (mixed >> 33)) * 0xff51'afd7'ed55'8ccdU;
    mixed = (mixed ^ (mixed >> 33)) * 0xc4ce'b9fe'1a85'ec53U;
    return static_cast<std::size_t>(mixed ^ (mixed >> 33)) & (buckets_.size() - 1);
  }
  [[nodiscard]] Communication*& bucket_of(std::uint32_t number) noexcept {
    return buckets_[place_of(number)];
  }
  void link(Communication& communication) noexcept {
    Communication*& bucket = bucket_of(kKey(communication));
    communication.*kLink = bucket;
    bucket = &communication;
  }
  void grow() {
    std::vector<Communication*> old(buckets_.size() * 2, nullptr);
    old.swap(buckets_);
    for (Communication* first : old) {
      while (first != nullptr) {
        Communication* next = first->*kLink;
        link(*first);
        first = next;
      }
    }
  }

  std::uint64_t seed_;
  std::vector<Communication*> buckets_;
  std::size_t size_ = 0;
};

}  // namespace verbatim::cm
