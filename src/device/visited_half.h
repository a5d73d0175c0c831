// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

#include "base/adapter_role.h"
#include "direct/half.h"
#include "memory/domain.h"

namespace verbatim::device {

/// A receiving half as Visitors sees it.
class VisitedHalf {
 public:
  VisitedHalf() noexcept = default;
  VisitedHalf(const VisitedHalf&) = delete;
  VisitedHalf& operator=(const VisitedHalf&) = delete;

  [[nodiscard]] virtual direct::Half& half() noexcept = 0;
  /// The domains of the memory that a requester reaches through this half.
  [[nodiscard]] virtual std::set<memory::DomainId> domains() const VB_REQUIRES(adapter_role) = 0;
  /// The owner of the half no longer waits for the present visit: what the visitor may touch goes
  /// into quarantine.
  virtual void note_stray() VB_REQUIRES(adapter_role) = 0;
  /// The visitor keeps the parts of the half that it has, and the half goes on with others.
  virtual void leave_requester_behind() VB_REQUIRES(adapter_role) = 0;

 protected:
  ~VisitedHalf() = default;
};

}  // namespace verbatim::device
