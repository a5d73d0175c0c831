// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/prng.h"
#include "wire/cm/cm_layout.h"
#include "wire/cm/cm_message.h"
#include "wire/headers/test_octets.h"

/// Helpers of the tests of CM messages. Nothing but tests includes this.
namespace verbatim::wire::test {

/// A datagram whose first octets are given and whose last is 0xbb: the end of the private data,
/// which is the end of every message.
inline Octets cm_octets(std::string_view head) {
  Octets octets = hex(head);
  octets.resize(Mad::kSize);
  octets.back() = std::byte{0xbb};
  return octets;
}

/// The private data in cm_octets() after a head that ends in "aa".
template <std::size_t kCount>
std::array<std::byte, kCount> private_data() {
  std::array<std::byte, kCount> octets{};
  octets.front() = std::byte{0xaa};
  octets.back() = std::byte{0xbb};
  return octets;
}

template <typename Message>
Expected<Message, WireError> parsed(const Octets& octets) {
  const auto mad = MadView::parse(octets);
  if (!mad) return mad.error();
  return Message::parse(*mad);
}

/// The 232 octets after the header of a message that was parsed from octets with all bits set and
/// emitted again: bits that are not part of a field are zero.
template <typename Message>
Octets ones_that_survive() {
  Octets octets = emitted(Message{});
  std::fill(octets.begin() + MadHeader::kSize, octets.end(), std::byte{0xff});
  const auto message = parsed<Message>(octets);
  if (!message) return {};
  octets = emitted(*message);
  return Octets(octets.begin() + MadHeader::kSize, octets.end());
}

/// `head`, then ones to the end of the datagram.
inline Octets then_ones(std::string_view head) {
  Octets octets = hex(head);
  octets.resize(Mad::kDataSize, std::byte{0xff});
  return octets;
}

/// Walks a message's table and gives every field a random value that fits.
class RandomFields {
 public:
  explicit RandomFields(Prng& prng) : prng_(prng) {}

  template <typename Field, typename Number>
  requires(std::is_enum_v<Number> || std::is_unsigned_v<Number>) void operator()(Field,
                                                                                 Number& number) {
    const auto others = static_cast<std::uint64_t>(number) & ~Field::kNumberMask;
    number = static_cast<Number>(others | (prng_.next() & Field::kNumberMask));
  }
  template <typename Field>
  void operator()(Field, Psn& psn) {
    psn = Psn(random<std::uint32_t>(prng_));
  }
  template <typename Field, std::size_t kCount>
  void operator()(Field, std::array<std::byte, kCount>& octets) {
    for (auto& octet : octets) octet = random<std::byte>(prng_);
  }
  template <typename Field>
  void operator()(Field, Gid& gid) {
    gid = random_gid(prng_);
  }

 private:
  Prng& prng_;
};

template <typename Message>
Message random_message(Prng& prng) {
  Message message;
  RandomFields fields(prng);
  Message::lay_out(fields, message);
  message.transaction = TransactionId{prng.next()};
  if constexpr (requires { message.ece; }) message.ece.options = random<std::uint32_t>(prng);
  return message;
}

}  // namespace verbatim::wire::test
