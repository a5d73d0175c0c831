// SPDX-License-Identifier: Apache-2.0
#include "direct/errand.h"

#include <sys/uio.h>

#include "direct/target.h"

namespace verbatim::direct {

namespace {

Answer execute_inside(Errand& errand, const Chunk& chunk, Target& target) noexcept {
  using transport::SendOpcode;
  const transport::SendEntry& entry = errand.entry;
  switch (entry.opcode) {
    case SendOpcode::kSend:
    case SendOpcode::kSendImm:
    case SendOpcode::kSendInvalidate:
      return target.send(entry, chunk);
    case SendOpcode::kWrite:
    case SendOpcode::kWriteImm:
      return target.write(entry, chunk);
    case SendOpcode::kRead:
      return target.read(entry, chunk);
    case SendOpcode::kCompareSwap:
    case SendOpcode::kFetchAdd:
      return target.atomic(entry, errand.original);
    case SendOpcode::kAtomicWrite:
      return target.atomic_write(entry, errand.original);
    case SendOpcode::kFlush:
    case SendOpcode::kLocalInvalidate:
    case SendOpcode::kBindWindow:
      break;
  }
  return Answer::kSilence;
}

}  // namespace

void execute(Errand& errand, std::span<std::byte> octets, Target& target) noexcept {
  const iovec piece{.iov_base = octets.data(), .iov_len = errand.octets};
  const Chunk chunk{.offset = errand.offset,
                    .octets = errand.octets,
                    .is_first = errand.is_first,
                    .is_last = errand.is_last,
                    .pieces = {&piece, errand.octets == 0 ? 0U : 1U}};
  errand.answer = Answer::kSilence;
  if (target.visit().enter()) errand.answer = execute_inside(errand, chunk, target);
  target.visit().leave();
}

}  // namespace verbatim::direct
