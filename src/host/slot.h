// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/expected.h"
#include "base/slot_numbers.h"
#include "host/mailbox.h"

namespace verbatim::host {

using verbatim::kNumbersPerSlot;
using verbatim::kSlotCount;

/// The number of this process among the processes of its user on this host (docs/ARCHITECTURE.md,
/// section 6). Held by the UNIX name `<slot>`: exclusive, scoped to the network namespace, free
/// when the process ends, however it ends.
///
/// The name is a mailbox. A packet that reached the wrong process is forwarded through it.
class Slot {
 public:
  Slot() noexcept = default;
  Slot(Slot&& other) noexcept = default;
  Slot& operator=(Slot&& other) noexcept {
    std::swap(directory_, other.directory_);
    mailbox_ = std::move(other.mailbox_);
    std::swap(number_, other.number_);
    return *this;
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() = default;

  /// Claims the lowest free slot. kNoMemory when all are taken.
  [[nodiscard]] static Expected<Slot> claim() noexcept;
  /// Claims this one. kBusy when a process has it.
  [[nodiscard]] static Expected<Slot> claim(std::uint32_t number) noexcept;

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  /// Readable when a packet was forwarded to this process.
  [[nodiscard]] int descriptor() const noexcept { return mailbox_.descriptor(); }

  /// Sends octets to the process in slot `to`. The errors are those of Mailbox::send():
  /// kNoSuchObject when no process has the slot.
  [[nodiscard]] Status forward(std::uint32_t to, std::span<const std::byte> octets) const noexcept;
  /// Takes one forwarded message; 0 when there is none.
  [[nodiscard]] std::size_t take_forwarded(std::span<std::byte> into) const noexcept {
    return mailbox_.take(into);
  }

 private:
  /// kBusy when a process has it.
  [[nodiscard]] Status take(std::uint32_t number) noexcept;

  OwnDescriptor directory_;  // marks the directory as in use
  Mailbox mailbox_;
  std::uint32_t number_ = 0;
};

}  // namespace verbatim::host
