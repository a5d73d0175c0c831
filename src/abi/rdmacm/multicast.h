// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi/rdmacm/id.h"

namespace verbatim::abi {

/// Attaches the id's queue pair to the group whose join an event reports; the event becomes one of
/// failure where that is not possible.
void present_join(IdHandle& id, EventHandle& event);
void leave_all_groups(IdHandle& id);

}  // namespace verbatim::abi
