// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.h"
#include "wire/headers/mad.h"
#include "wire/headers/smp.h"
#include "wire/print/cm_print.h"

namespace {

using verbatim::wire::Mad;
using verbatim::wire::MadView;
using verbatim::wire::SmpView;
using MadOctets = std::array<std::byte, Mad::kSize>;

/// A value that is parsed, emitted and parsed again must not change.
void check_datagram(const MadView& view) {
  MadOctets octets;
  view.value().emit(octets);
  const auto again = MadView::parse(octets);
  VB_ASSERT(again && again->value() == view.value());
  VB_ASSERT(std::ranges::equal(again->octets().first<18>(), view.octets().first<18>()));
  VB_ASSERT(std::ranges::equal(again->octets().subspan<20>(), view.octets().subspan<20>()));
}

void check_subnet_management(const MadView& view) {
  const auto smp = SmpView::parse(view);
  if (!smp) return;
  MadOctets octets;
  smp->value().emit(octets);
  const auto mad = MadView::parse(octets);
  VB_ASSERT(mad);
  const auto again = SmpView::parse(*mad);
  VB_ASSERT(again && again->value() == smp->value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  std::array<char, verbatim::wire::kPrintedMadMax> line;
  (void)verbatim::wire::print_mad(input, line);  // any text is right
  const auto view = MadView::parse(input);
  if (!view) return 0;
  check_datagram(*view);
  check_subnet_management(*view);
  return 0;
}
