// SPDX-License-Identifier: Apache-2.0
#include "connect/event.h"

#include "connect/id.h"

namespace verbatim::connect {

Event::Event() noexcept = default;
Event::Event(EventKind of_kind, Id& about) noexcept : kind(of_kind), id(&about), counted(&about) {}
Event::~Event() = default;

}  // namespace verbatim::connect
