// SPDX-License-Identifier: Apache-2.0
#include "agreement_program.h"

#include <cstdio>

#include "agreement_generator.h"

namespace verbatim::testing {

namespace {

template <typename... Values>
std::string print(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

const char* name_of(ibv_wr_opcode opcode) noexcept {
  switch (opcode) {
    case IBV_WR_SEND:
      return "SEND";
    case IBV_WR_SEND_WITH_IMM:
      return "SEND with immediate";
    case IBV_WR_SEND_WITH_INV:
      return "SEND with invalidate";
    case IBV_WR_RDMA_WRITE:
      return "WRITE";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return "WRITE with immediate";
    case IBV_WR_RDMA_READ:
      return "READ";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return "compare and swap";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return "fetch and add";
    case IBV_WR_ATOMIC_WRITE:
      return "ATOMIC WRITE";
    case IBV_WR_LOCAL_INV:
      return "local invalidate";
    default:
      return "?";
  }
}

std::string text_of(const std::vector<Program::Slice>& list) {
  std::string text = " {";
  for (const Program::Slice& slice : list) {
    text += print(" %d[%u+%u]%s", slice.region, slice.offset, slice.octets,
                  slice.has_wrong_key ? "!" : "");
  }
  return text + " }";
}

std::string text_of(const Program::Request& request) {
  std::string text = print("%s of %u", name_of(request.opcode), request.octets);
  if (!request.begins_call) text += ", chained";
  if ((request.flags & IBV_SEND_SIGNALED) != 0) text += ", signaled";
  if ((request.flags & IBV_SEND_FENCE) != 0) text += ", fenced";
  if ((request.flags & IBV_SEND_SOLICITED) != 0) text += ", solicited";
  if ((request.flags & IBV_SEND_INLINE) != 0) text += ", inline";
  if (is_rdma(request.opcode)) {
    text += print(", at %d[%lld]%s", request.target.region,
                  static_cast<long long>(request.target.offset),
                  request.target.has_wrong_key ? "!" : "");
    if (request.target.window >= 0) text += print(" by window %d", request.target.window);
  }
  if (request.opcode == IBV_WR_SEND_WITH_INV) text += print(" of %d", request.invalidates);
  return text + text_of(request.local);
}

std::string text_of(const Program::Turn& turn) {
  std::string text;
  for (const Program::Bind& bind : turn.binds) {
    text +=
        print("      %s window %d %d[%u+%u] access %#x\n", bind.invalidates ? "invalidate" : "bind",
              bind.window, bind.slice.region, bind.slice.offset, bind.slice.octets, bind.access);
  }
  for (const auto& receive : turn.early) text += "      receive" + text_of(receive.list) + "\n";
  for (const auto& request : turn.requests) text += "      " + text_of(request) + "\n";
  for (const auto& receive : turn.late) text += "      late receive" + text_of(receive.list) + "\n";
  if (turn.limit != 0) text += print("      limit %u\n", turn.limit);
  if (turn.arms != Program::Arm::kNo) {
    text += turn.arms == Program::Arm::kAny ? "      armed\n" : "      armed for solicited\n";
  }
  return text;
}

}  // namespace

std::uint64_t Program::Receive::octets() const noexcept {
  std::uint64_t sum = 0;
  for (const Slice& slice : list) sum += slice.octets;
  return sum;
}

Program make_program(std::uint64_t seed) { return Generator(seed).make(); }

std::string to_text(const Program& program) {
  std::string text =
      print("program %llu: %s, %s, MTU %u, read depth %u%s\n",
            static_cast<unsigned long long>(program.seed), program.is_reliable() ? "RC" : "UC",
            program.is_in_one_process ? "in one process" : "in two processes",
            128U << static_cast<unsigned>(program.mtu), unsigned{program.read_depth},
            program.is_late ? ", side 1 is late" : "");
  for (int i = 0; i < Program::kSides; ++i) {
    const Program::Side& side = program.sides[i];
    text += print("  side %d: access %#x%s%s%s%s\n", i, side.access,
                  side.has_shared_receives ? ", shared receives" : "",
                  side.has_one_completion_queue ? ", one completion queue" : "",
                  side.signals_all ? ", signals all" : "", side.has_builder ? ", builder" : "");
    for (std::size_t r = 0; r < side.regions.size(); ++r) {
      constexpr const char* kHomes[] = {"heap", "pages", "shared"};
      text += print("    region %zu: %u octets, %s, access %#x%s\n", r, side.regions[r].octets,
                    kHomes[static_cast<int>(side.regions[r].home)], side.regions[r].access,
                    side.regions[r].is_foreign ? ", foreign" : "");
    }
    for (std::size_t w = 0; w < side.windows.size(); ++w) {
      text += print("    window %zu: type %d\n", w, static_cast<int>(side.windows[w]));
    }
  }
  for (std::size_t r = 0; r < program.rounds.size(); ++r) {
    text += print("  round %zu\n", r);
    for (int i = 0; i < Program::kSides; ++i) {
      text += print("    side %d\n", i) + text_of(program.rounds[r].turns[i]);
    }
  }
  if (!program.failure.empty()) {
    text += print("  and side %d fails: %s\n", program.failing, program.failure.c_str());
  }
  return text;
}

}  // namespace verbatim::testing
