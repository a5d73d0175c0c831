// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/expected.h"
#include "host/unix_name.h"

namespace verbatim::host {

/// A name of this process, and the datagram socket behind it, through which the other processes of
/// this user hand over what reached them instead of us. The kernel releases the name when the
/// process ends, however it ends.
class Mailbox {
 public:
  Mailbox() noexcept = default;
  Mailbox(Mailbox&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Mailbox& operator=(Mailbox&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox();

  /// kAddressInUse when a process, this one included, has the name.
  [[nodiscard]] static Expected<Mailbox> open(const UnixName& name) noexcept;

  /// Readable when there is a message.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Takes one message of this user's; 0 when there is none. What strangers sent, and what is
  /// longer than `into`, is thrown away.
  [[nodiscard]] std::size_t take(std::span<std::byte> into) const noexcept;

  /// Sends octets to whoever has a name, through any UNIX datagram socket of ours; false when
  /// nobody has it or it cannot take more.
  [[nodiscard]] static bool send(int through, const UnixName& to,
                                 std::span<const std::byte> octets) noexcept;

 private:
  int descriptor_ = -1;
};

}  // namespace verbatim::host
