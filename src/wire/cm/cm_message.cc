// SPDX-License-Identifier: Apache-2.0
#include "wire/cm/cm_message.h"

#include <algorithm>
#include <optional>
#include <type_traits>

namespace verbatim::wire {
namespace {

std::optional<WireError> refusal_of(const MadView& mad) noexcept {
  if (mad.mgmt_class() != MgmtClass::kCommunication) return WireError::kBadClass;
  if (mad.class_version() != kCmClassVersion) return WireError::kBadVersion;
  if (mad.method() != MadMethod::kSend) return WireError::kBadAttribute;
  return std::nullopt;
}

CmAttribute attribute_of(const MadView& mad) noexcept { return CmAttribute{mad.attribute_id()}; }

template <typename Message>
Message read(const MadView& mad) noexcept {
  Message message;
  message.transaction = mad.transaction();
  if constexpr (requires { message.ece; }) message.ece.options = mad.attribute_modifier();
  CmReader reader(mad.data());
  Message::lay_out(reader, message);
  return message;
}

template <typename Message>
Expected<Message, WireError> parse_as(const MadView& mad) noexcept {
  if (const auto refusal = refusal_of(mad)) return *refusal;
  if (attribute_of(mad) != Message::kAttribute) return WireError::kBadAttribute;
  return read<Message>(mad);
}

template <typename Message>
void write(const Message& message, std::span<std::byte, Mad::kSize> to) noexcept {
  MadHeader header{.mgmt_class = MgmtClass::kCommunication,
                   .class_version = kCmClassVersion,
                   .method = MadMethod::kSend,
                   .transaction = message.transaction,
                   .attribute_id = static_cast<std::uint16_t>(Message::kAttribute)};
  if constexpr (requires { message.ece; }) header.attribute_modifier = message.ece.options;
  std::ranges::fill(to, std::byte{0});
  header.emit(to.first<MadHeader::kSize>());
  CmWriter writer(to.subspan<MadHeader::kSize>());
  Message::lay_out(writer, message);
}

}  // namespace

Expected<CmMessage, WireError> parse_cm_message(const MadView& mad) noexcept {
  if (const auto refusal = refusal_of(mad)) return *refusal;
  switch (attribute_of(mad)) {
    case CmAttribute::kReq:
      return CmMessage(read<CmReq>(mad));
    case CmAttribute::kMra:
      return CmMessage(read<CmMra>(mad));
    case CmAttribute::kRej:
      return CmMessage(read<CmRej>(mad));
    case CmAttribute::kRep:
      return CmMessage(read<CmRep>(mad));
    case CmAttribute::kRtu:
      return CmMessage(read<CmRtu>(mad));
    case CmAttribute::kDreq:
      return CmMessage(read<CmDreq>(mad));
    case CmAttribute::kDrep:
      return CmMessage(read<CmDrep>(mad));
    case CmAttribute::kSidrReq:
      return CmMessage(read<CmSidrReq>(mad));
    case CmAttribute::kSidrRep:
      return CmMessage(read<CmSidrRep>(mad));
    case CmAttribute::kLap:
      return CmMessage(read<CmLap>(mad));
    case CmAttribute::kApr:
      return CmMessage(read<CmApr>(mad));
  }
  return WireError::kBadAttribute;
}

void emit(const CmMessage& message, std::span<std::byte, Mad::kSize> to) noexcept {
  std::visit([&](const auto& which) { which.emit(to); }, message);
}

CmAttribute attribute_of(const CmMessage& message) noexcept {
  return std::visit(
      [](const auto& which) { return std::remove_cvref_t<decltype(which)>::kAttribute; }, message);
}

TransactionId transaction_of(const CmMessage& message) noexcept {
  return std::visit([](const auto& which) { return which.transaction; }, message);
}

Expected<CmReq, WireError> CmReq::parse(const MadView& mad) noexcept {
  return parse_as<CmReq>(mad);
}
void CmReq::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }
Expected<CmMra, WireError> CmMra::parse(const MadView& mad) noexcept {
  return parse_as<CmMra>(mad);
}
void CmMra::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }
Expected<CmRej, WireError> CmRej::parse(const MadView& mad) noexcept {
  return parse_as<CmRej>(mad);
}
void CmRej::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }
Expected<CmRep, WireError> CmRep::parse(const MadView& mad) noexcept {
  return parse_as<CmRep>(mad);
}
void CmRep::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }
Expected<CmRtu, WireError> CmRtu::parse(const MadView& mad) noexcept {
  return parse_as<CmRtu>(mad);
}
void CmRtu::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }
Expected<CmDreq, WireError> CmDreq::parse(const MadView& mad) noexcept {
  return parse_as<CmDreq>(mad);
}
void CmDreq::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }
Expected<CmDrep, WireError> CmDrep::parse(const MadView& mad) noexcept {
  return parse_as<CmDrep>(mad);
}
void CmDrep::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }
Expected<CmSidrReq, WireError> CmSidrReq::parse(const MadView& mad) noexcept {
  return parse_as<CmSidrReq>(mad);
}
void CmSidrReq::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }
Expected<CmSidrRep, WireError> CmSidrRep::parse(const MadView& mad) noexcept {
  return parse_as<CmSidrRep>(mad);
}
void CmSidrRep::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }
Expected<CmLap, WireError> CmLap::parse(const MadView& mad) noexcept {
  return parse_as<CmLap>(mad);
}
void CmLap::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }
Expected<CmApr, WireError> CmApr::parse(const MadView& mad) noexcept {
  return parse_as<CmApr>(mad);
}
void CmApr::emit(std::span<std::byte, kSize> to) const noexcept { write(*this, to); }

}  // namespace verbatim::wire
