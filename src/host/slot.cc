// SPDX-License-Identifier: Apache-2.0
#include "host/slot.h"

#include <sys/socket.h>
#include <unistd.h>

#include "host/runtime_directory.h"

namespace verbatim::host {

namespace {

/// A descriptor of the directory of this process's names, which marks it as in use; -1 when there
/// is none.
int hold_directory() noexcept {
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const RuntimeDirectory* directory = RuntimeDirectory::of(socket);
  ::close(socket);
  return directory != nullptr ? directory->hold() : -1;
}

}  // namespace

Expected<Slot> Slot::claim() noexcept {
  Slot slot;
  slot.directory_ = OwnDescriptor(hold_directory());
  if (!slot.directory_.is_open()) return Errc::kAccessDenied;
  for (std::uint32_t number = 0; number < kSlotCount; ++number) {
    const Status taken = slot.take(number);
    if (taken) return slot;
    if (taken.error() != Errc::kBusy) return taken.error();
  }
  return Errc::kNoMemory;
}

Expected<Slot> Slot::claim(std::uint32_t number) noexcept {
  if (number >= kSlotCount) return Errc::kInvalidArgument;
  Slot slot;
  slot.directory_ = OwnDescriptor(hold_directory());
  if (!slot.directory_.is_open()) return Errc::kAccessDenied;
  if (const Status taken = slot.take(number); !taken) return taken.error();
  return slot;
}

Status Slot::take(std::uint32_t number) noexcept {
  auto mailbox = Mailbox::open(UnixName::of_slot(number));
  if (!mailbox) {
    return mailbox.error() == Errc::kAddressInUse ? Errc::kBusy : mailbox.error();
  }
  // A process whose name was removed by mistake still has the sockets of that slot.
  if (UnixName::of_share(number).is_held_beside(mailbox->descriptor())) return Errc::kBusy;
  mailbox_ = std::move(*mailbox);
  number_ = number;
  return Ok{};
}

Status Slot::forward(std::uint32_t to, std::span<const std::byte> octets) const noexcept {
  if (to >= kSlotCount) return Errc::kNoSuchObject;
  return Mailbox::send(descriptor(), UnixName::of_slot(to), octets);
}

}  // namespace verbatim::host
