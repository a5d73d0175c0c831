// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "base/assert.h"
#include "wire/cm/cm_message.h"
#include "wire/cm/ip_cm_header.h"
#include "wire/headers/mad.h"
#include "wire/print/cm_print.h"

namespace {

using namespace verbatim::wire;
using MadOctets = std::array<std::byte, Mad::kSize>;

/// A message that is parsed, emitted and parsed again must not change.
void check_message(const CmMessage& message) {
  MadOctets first;
  emit(message, first);
  const auto mad = MadView::parse(first);
  VB_ASSERT(mad);
  const auto again = parse_cm_message(*mad);
  VB_ASSERT(again && *again == message);
  MadOctets second;
  emit(*again, second);
  VB_ASSERT(first == second);
}

void check_addresses(std::span<const std::byte> private_data) {
  const auto header = IpCmHeader::parse(private_data);
  if (!header) return;
  std::array<std::byte, IpCmHeader::kSize> octets;
  header->emit(octets);
  const auto again = IpCmHeader::parse(octets);
  VB_ASSERT(again && *again == *header);
}

/// Calls the functions of a message, for the sanitizers.
struct Look {
  template <typename Message>
  void operator()(const Message& message) const {
    if constexpr (requires { message.info(); }) {
      VB_ASSERT(message.info().size() <= Message::kInfoOctetsMax);
    }
    check_addresses(message.private_data);
  }
};

void check(const MadView& mad) {
  const auto message = parse_cm_message(mad);
  if (!message) return;
  check_message(*message);
  std::visit(Look{}, *message);
  std::array<char, kPrintedMadMax + 1> line;
  VB_ASSERT(print(*message, line).size() <= kPrintedMadMax);
}

}  // namespace

/// The input is a whole datagram. An input of another length becomes the body of a message with a
/// right header; its first octet selects which message. So the fuzzer need not guess the header.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  if (const auto mad = MadView::parse(input)) {
    check(*mad);
    return 0;
  }
  if (input.empty()) return 0;
  Mad mad{.header = {.mgmt_class = MgmtClass::kCommunication,
                     .class_version = kCmClassVersion,
                     .method = MadMethod::kSend,
                     .attribute_id = static_cast<std::uint16_t>(0x10 + data[0] % 11)}};
  const auto body = input.subspan(1);
  std::ranges::copy(body.first(std::min(body.size(), mad.data.size())), mad.data.begin());
  MadOctets octets;
  mad.emit(octets);
  const auto view = MadView::parse(octets);
  VB_ASSERT(view && parse_cm_message(*view));
  check(*view);
  return 0;
}
