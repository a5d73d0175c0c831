// SPDX-License-Identifier: Apache-2.0
#include "host/vain_polls.h"

#include "host/yielding.h"

namespace verbatim::host {

void VainPolls::give_way() noexcept {
  const bool is_crowded = yield_processor(1);
  limit_.store(is_crowded ? kWhileInACrowd : kWhileAlone, std::memory_order_relaxed);
  note_success();
}

}  // namespace verbatim::host
