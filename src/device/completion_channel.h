// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/event_pipe.h"

namespace verbatim::device {

/// The channel on which completion queues announce completions (IBA Vol 1, 11.4.2.2). The subject
/// of each event is the user_tag of the queue.
using CompletionChannel = EventPipe;

}  // namespace verbatim::device
