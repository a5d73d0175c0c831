// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/expected.h"
#include "wire/headers/bth.h"
#include "wire/headers/extension_headers.h"
#include "wire/headers/opcode.h"

namespace verbatim::wire {

inline constexpr std::size_t kIcrcSize = 4;

/// The most octets between the first of the BTH and the last of the ICRC: BTH, the longest
/// combination of extension headers (XRC CmpSwap, 32), 4096 of payload, ICRC.
inline constexpr std::size_t kMaxTransportOctets = Bth::kSize + 32 + 4096 + kIcrcSize;

/// A transport packet that arrived, from the first octet of its BTH to the last of its ICRC (IBA
/// Vol 1, 9.1 to 9.3). parse() has checked that every header of its opcode and the padding are
/// present. It checks no field, and does not verify the ICRC (icrc.h), which covers more than this.
/// The view borrows the octets.
class PacketView {
 public:
  static Expected<PacketView, WireError> parse(std::span<const std::byte> octets) noexcept {
    auto bth = BthView::parse(octets);
    if (!bth) return bth.error();
    const OpcodeInfo& info = describe(bth->opcode());
    if (!info.known()) return WireError::kUnknownOpcode;
    const std::size_t headers = Bth::kSize + info.header_octets;
    const std::size_t pad = bth->pad_count();
    if (octets.size() < headers + pad + kIcrcSize) return WireError::kTruncated;
    if (octets.size() % 4 != 0) return WireError::kBadPadding;
    const std::size_t payload = octets.size() - headers - pad - kIcrcSize;
    if (info.payload == PayloadRule::kNone && payload + pad != 0) {
      return WireError::kUnexpectedPayload;
    }
    return PacketView(*bth, info, octets, octets.subspan(headers, payload));
  }

  [[nodiscard]] const BthView& bth() const noexcept { return bth_; }
  [[nodiscard]] Opcode opcode() const noexcept { return bth_.opcode(); }
  [[nodiscard]] Operation operation() const noexcept { return operation_of(opcode()); }
  [[nodiscard]] Transport transport() const noexcept { return transport_of(opcode()); }
  [[nodiscard]] Psn psn() const noexcept { return bth_.psn(); }
  [[nodiscard]] const OpcodeInfo& info() const noexcept { return *info_; }
  [[nodiscard]] std::span<const std::byte> octets() const noexcept { return octets_; }
  [[nodiscard]] std::span<const std::byte> payload() const noexcept { return payload_; }
  [[nodiscard]] std::span<const std::byte, kIcrcSize> icrc() const noexcept {
    return octets_.last<kIcrcSize>();
  }

  // Each of these only if info().has() is true for the header.
  [[nodiscard]] Deth deth() const noexcept { return header<Deth>(OpcodeInfo::kDeth); }
  [[nodiscard]] XrcEth xrceth() const noexcept { return header<XrcEth>(OpcodeInfo::kXrcEth); }
  [[nodiscard]] Feth feth() const noexcept { return header<Feth>(OpcodeInfo::kFeth); }
  [[nodiscard]] Reth reth() const noexcept { return header<Reth>(OpcodeInfo::kReth); }
  [[nodiscard]] AtomicEth atomic_eth() const noexcept {
    return header<AtomicEth>(OpcodeInfo::kAtomicEth);
  }
  [[nodiscard]] Aeth aeth() const noexcept { return header<Aeth>(OpcodeInfo::kAeth); }
  [[nodiscard]] AtomicAckEth atomic_ack_eth() const noexcept {
    return header<AtomicAckEth>(OpcodeInfo::kAtomicAckEth);
  }
  [[nodiscard]] ImmDt imm_dt() const noexcept { return header<ImmDt>(OpcodeInfo::kImmDt); }
  [[nodiscard]] Ieth ieth() const noexcept { return header<Ieth>(OpcodeInfo::kIeth); }

 private:
  PacketView(BthView bth, const OpcodeInfo& info, std::span<const std::byte> octets,
             std::span<const std::byte> payload) noexcept
      : bth_(bth), info_(&info), octets_(octets), payload_(payload) {}

  template <typename Header>
  [[nodiscard]] Header header(OpcodeInfo::Header which) const noexcept {
    VB_ASSERT(info_->has(which));
    return Header::from(std::span<const std::byte, Header::kSize>(
        octets_.data() + info_->offset_of(which), Header::kSize));
  }

  BthView bth_;
  const OpcodeInfo* info_;
  std::span<const std::byte> octets_;
  std::span<const std::byte> payload_;
};

/// The headers of a packet to be sent. bth.opcode determines which of them are sent; the others are
/// ignored.
struct PacketHeaders {
  Bth bth{};
  Deth deth{};
  XrcEth xrceth{};
  Feth feth{};
  Reth reth{};
  AtomicEth atomic_eth{};
  Aeth aeth{};
  AtomicAckEth atomic_ack_eth{};
  ImmDt imm_dt{};
  Ieth ieth{};

  [[nodiscard]] std::size_t octet_count() const noexcept {
    return Bth::kSize + describe(bth.opcode).header_octets;
  }
  /// Writes octet_count() octets; `to` must have room for them.
  void emit(std::span<std::byte> to) const noexcept;
};

}  // namespace verbatim::wire
