// SPDX-License-Identifier: Apache-2.0
#include "host/slot.h"

#include <unistd.h>

#include "host/runtime_directory.h"

namespace verbatim::host {

Slot::~Slot() {
  if (directory_ >= 0) ::close(directory_);
}

Expected<Slot> Slot::claim() noexcept {
  for (std::uint32_t number = 0; number < kSlotCount; ++number) {
    auto slot = claim(number);
    if (slot || slot.error() != Errc::kBusy) return slot;
  }
  return Errc::kNoMemory;
}

Expected<Slot> Slot::claim(std::uint32_t number) noexcept {
  if (number >= kSlotCount) return Errc::kInvalidArgument;
  auto mailbox = Mailbox::open(UnixName::of_slot(number));
  if (!mailbox) {
    return mailbox.error() == Errc::kAddressInUse ? Errc::kBusy : mailbox.error();
  }
  Slot slot;
  const RuntimeDirectory* directory = RuntimeDirectory::of(mailbox->descriptor());
  slot.directory_ = directory != nullptr ? directory->hold() : -1;
  if (slot.directory_ < 0) return Errc::kAccessDenied;
  slot.mailbox_ = std::move(*mailbox);
  slot.number_ = number;
  return slot;
}

bool Slot::forward(std::uint32_t to, std::span<const std::byte> octets) const noexcept {
  return to < kSlotCount && Mailbox::send(descriptor(), UnixName::of_slot(to), octets);
}

}  // namespace verbatim::host
