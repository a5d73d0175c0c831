// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "connect/error.h"
#include "connect/pair_control.h"
#include "wire/headers/ids.h"

namespace verbatim::connect {

/// The multicast groups that an id has joined. The queue pair is attached to a group when the
/// program takes the event of the join.
class Memberships {
 public:
  void join(const wire::Gid& group) { all_.push_back({.group = group}); }
  /// Attaches the queue pair, if there is one and the group was not left meanwhile.
  [[nodiscard]] Outcome attach(const wire::Gid& group, PairControl& pair);
  /// kAddressNotAvailable when the group was not joined.
  [[nodiscard]] Outcome leave(const wire::Gid& group, PairControl* pair);
  void leave_all(PairControl* pair) noexcept;

 private:
  struct Membership {
    wire::Gid group{};
    bool is_attached = false;
  };
  static void detach(Membership& membership, PairControl* pair) noexcept;

  std::vector<Membership> all_;  // a group may be joined twice
};

}  // namespace verbatim::connect
