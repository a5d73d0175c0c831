// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/event_pipe.h"

namespace verbatim::device {

/// Where completion queues announce that something is in them (IBA Vol 1, 11.4.2.2): each event's
/// subject is the queue's user_tag.
using CompletionChannel = EventPipe;

}  // namespace verbatim::device
