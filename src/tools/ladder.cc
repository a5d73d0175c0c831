// SPDX-License-Identifier: Apache-2.0
#include "tools/ladder.h"

#include <array>

#include "wire/print/print.h"

namespace verbatim::tools {
namespace {

struct Style {
  const char* arrow_right;
  const char* arrow_left;
  const char* colour;
  const char* note;
};

Style style_of(sim::Fate fate) noexcept {
  switch (fate) {
    case sim::Fate::kDelivered:
      return {"------>", "<------", "", ""};
    case sim::Fate::kDuplicated:
      return {"=====>>", "<<=====", "\033[36m", "  (arrives twice)"};
    case sim::Fate::kCorrupted:
      return {"---~-->", "<--~---", "\033[33m", "  (corrupted: dropped)"};
    case sim::Fate::kLost:
      return {"---x   ", "   x---", "\033[31m", "  (lost)"};
    case sim::Fate::kOverflowed:
      return {"---x   ", "   x---", "\033[31m", "  (no buffer: lost)"};
    case sim::Fate::kCut:
      return {"---x   ", "   x---", "\033[31m", "  (no way through)"};
  }
  return {"?", "?", "", ""};
}

}  // namespace

void Ladder::handle_frame(Instant now, const sim::NetworkFrame& frame, sim::Fate fate) {
  ++frames_;
  const bool arrives = fate == sim::Fate::kDelivered || fate == sim::Fate::kDuplicated;
  if (!arrives) ++lost_;
  std::array<char, wire::kPrintedPacketMax> buffer;
  const auto text = wire::print_transport(frame.octets, buffer);
  const bool rightwards = frame.source == left_;
  const Style style = style_of(fate);
  const auto micros = static_cast<double>(now.since_start().count()) / 1000.0;
  std::fprintf(out_, "%11.1f us   %s%s%s  %.*s%s\n", micros, colour_ ? style.colour : "",
               rightwards ? style.arrow_right : style.arrow_left,
               colour_ && *style.colour != '\0' ? "\033[0m" : "", static_cast<int>(text.size()),
               text.data(), style.note);
}

}  // namespace verbatim::tools
