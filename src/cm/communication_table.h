// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "cm/communication.h"
#include "cm/peer_index.h"
#include "wire/cm/cm_ids.h"

namespace verbatim::cm {

/// The numbers besides its own ID by which a communication is found.
[[nodiscard]] inline std::uint32_t peer_id_of(const Communication& communication) noexcept {
  return static_cast<std::uint32_t>(communication.remote_id.value_or(wire::CommId{}));
}
[[nodiscard]] inline std::uint32_t peer_qp_of(const Communication& communication) noexcept {
  return static_cast<std::uint32_t>(communication.settings.remote_qpn);
}

/// The communications of one Agent by ID. An ID is
///
///     31..24 slot | 23..14 generation | 13..0 index
///
/// so that a look-up is one access, and an ID is reused only after its index was used 1023 times.
/// Generations begin at a random value and are never zero: so no ID is zero, which means "none". An
/// index is not reused while fewer than kRestingIndices are free and the table may grow, so an ID
/// is not reused soon.
class CommunicationTable {
 public:
  static constexpr std::uint32_t kIndexBits = 14;
  static constexpr std::uint32_t kGenerationBits = 10;
  static constexpr std::size_t kRestingIndices = 64;

  struct Config {
    std::uint8_t slot = 0;
    std::uint32_t capacity = 0;  // at most 1 << kIndexBits
    std::uint64_t seed = 0;
  };
  explicit CommunicationTable(const Config& config);

  /// Adds a communication; null when there is no room. Its address does not change until remove().
  [[nodiscard]] Communication* add();
  void remove(wire::CommId id) noexcept;

  [[nodiscard]] Communication* find(wire::CommId id) noexcept;
  [[nodiscard]] const Communication* find(wire::CommId id) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// To be called when the peer's ID (remote_id) is known, which then does not change: from now on
  /// the communication can be found by it. The other function does the same for the peer's queue
  /// pair (settings.remote_qpn).
  void index_by_peer_id(Communication& communication) { by_id_.add(communication); }
  void index_by_peer_qp(Communication& communication) { by_qp_.add(communication); }
  /// The first of these for which `matches(const Communication&)` holds; null if there is none.
  template <typename Predicate>
  [[nodiscard]] Communication* find_by_peer_id(wire::CommId id,
                                               Predicate&& matches) const noexcept {
    return by_id_.find(static_cast<std::uint32_t>(id), matches);
  }
  template <typename Predicate>
  [[nodiscard]] Communication* find_by_peer_qp(wire::QpNumber qpn,
                                               Predicate&& matches) const noexcept {
    return by_qp_.find(static_cast<std::uint32_t>(qpn), matches);
  }

  /// The first for which `matches(const Communication&)` holds; null if there is none.
  template <typename Predicate>
  [[nodiscard]] Communication* find_if(Predicate&& matches) const noexcept {
    for (const Entry& entry : entries_) {
      if (entry.communication && matches(*entry.communication)) return entry.communication.get();
    }
    return nullptr;
  }
  /// `visit(Communication&)` may remove its argument, and must not add any.
  template <typename Visit>
  void for_each(Visit&& visit) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].communication) visit(*entries_[i].communication);
    }
  }
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const Entry& entry : entries_) {
      if (entry.communication) visit(std::as_const(*entry.communication));
    }
  }

 private:
  struct Entry {
    std::unique_ptr<Communication> communication{};
    std::uint32_t generation = 1;  // of the present communication, or of the next one; never zero
  };
  [[nodiscard]] std::uint32_t take_index();
  [[nodiscard]] wire::CommId id_of(std::uint32_t index) const noexcept;

  Config config_;
  Prng prng_;
  std::vector<Entry> entries_;      // by index
  std::deque<std::uint32_t> free_;  // free indices, the longest unused one first
  std::size_t size_ = 0;
  PeerIndex<&Communication::next_by_id, &peer_id_of> by_id_;
  PeerIndex<&Communication::next_by_qp, &peer_qp_of> by_qp_;
};

}  // namespace verbatim::cm
