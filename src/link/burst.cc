// SPDX-License-Identifier: Apache-2.0
#include "link/burst.h"

#include "base/assert.h"
#include "wire/crc/icrc.h"

namespace verbatim::link {

namespace {

constexpr std::size_t kSlotOctetAt = 5;      // the upper one of BTH.DestQP
constexpr std::size_t kShortestPacket = 16;  // BTH and ICRC

}  // namespace

Frame Burst::next_frame() noexcept {
  VB_ASSERT(!is_full());
  Frame frame{.octets = std::span(buffer_).subspan(used_)};
  if (!use_trains_) return frame;
  frame.packets_max = kTrainPackets;
  frame.octets_max = kTrainOctets;
  if (count_ == 0 || !trains_[count_ - 1].is_open) return frame;
  const Train& train = trains_[count_ - 1];
  if (train.is_ipv4) frame.identification = static_cast<std::uint16_t>(train.packets);
  frame.packet_octets = train.packet_octets;
  frame.packets_left = train.packets_left;
  return frame;
}

void Burst::commit(const Outgoing& to, const Written& written) noexcept {
  VB_ASSERT(!is_full() && written.packets > 0 && written.octets <= written.packets * kFrameOctets);
  if (continues_train(to, written)) {
    join_train(written);
  } else {
    start_train(to, written);
  }
}

bool Burst::continues_train(const Outgoing& to, const Written& written) const noexcept {
  if (count_ == 0) return false;
  const Train& train = trains_[count_ - 1];
  const std::size_t of_equal_length = written.packets * train.packet_octets;
  const bool is_alike =
      written.packets == 1 ? written.octets <= of_equal_length : written.octets == of_equal_length;
  return train.is_open && is_alike && written.octets >= kShortestPacket &&
         written.packets <= train.packets_left &&
         written.identification == (train.is_ipv4 ? train.packets : 0) &&
         buffer_[used_ + kSlotOctetAt] == train.slot && to == train.to;
}

void Burst::join_train(const Written& written) noexcept {
  Train& train = trains_[count_ - 1];
  train.octets += written.octets;
  train.packets += written.packets;
  train.packets_left -= written.packets;
  train.is_open = written.octets == written.packets * train.packet_octets && train.packets_left > 0;
  used_ += written.octets;
}

void Burst::start_train(const Outgoing& to, const Written& written) noexcept {
  const std::size_t each = written.packets == 1 ? written.octets : written.octets / written.packets;
  const bool is_ipv4 = to.destination.is_ipv4_mapped();
  if (written.identification != 0 && is_ipv4 && each >= kShortestPacket) {
    for (std::size_t number = 0; number < written.packets; ++number) {
      wire::change_identification(std::span(buffer_).subspan(used_ + number * each, each),
                                  static_cast<std::uint16_t>(written.identification + number),
                                  static_cast<std::uint16_t>(number));
    }
  }
  Train& train = trains_[count_++];
  train.to = to;
  train.at = used_;
  train.octets = written.octets;
  train.packet_octets = each;
  train.packets = written.packets;
  const std::size_t longest =
      std::min(kTrainPackets, kTrainOctets / std::max(each, kShortestPacket));
  train.packets_left = static_cast<std::uint32_t>(longest) - written.packets;
  train.slot = each > kSlotOctetAt ? buffer_[used_ + kSlotOctetAt] : std::byte{0};
  train.is_ipv4 = is_ipv4;
  train.is_open = use_trains_ && each >= kShortestPacket && train.packets_left > 0;
  train.sent_bits = 0;
  train.went_apart = false;
  used_ += written.octets;
}

Load Burst::load() const noexcept {
  Load load{.octets = used_};
  for (std::size_t i = 0; i < count_; ++i) load.packets += trains_[i].packets;
  return load;
}

}  // namespace verbatim::link
