// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/expected.h"
#include "host/own_descriptor.h"
#include "host/unix_name.h"

namespace verbatim::host {

/// A name of this process, and the datagram socket behind it, through which the other processes of
/// this user hand over what reached them instead of us. Other users cannot send to it, because the
/// name is in a directory that is closed to them. The name is free when the process ends, however
/// it ends.
class Mailbox {
 public:
  Mailbox() noexcept = default;
  Mailbox(Mailbox&& other) noexcept = default;
  Mailbox& operator=(Mailbox&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(process_, other.process_);
    return *this;
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox();

  /// kAddressInUse when a process, this one included, has the name. With a `neighbour`, a socket
  /// that has a name: in its directory, and kAccessDenied when this process is another user since
  /// and may not use that.
  [[nodiscard]] static Expected<Mailbox> open(const UnixName& name, int neighbour = -1) noexcept;

  /// Readable when there is a message.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  /// Takes one message; 0 when there is none. What is longer than `into` is thrown away.
  [[nodiscard]] std::size_t take(std::span<std::byte> into) const noexcept;

  /// Sends octets to the process that has a name, through any UNIX datagram socket of ours; false,
  /// with errno, when no process has it or that process cannot take more.
  [[nodiscard]] static bool send(int through, const UnixName& to,
                                 std::span<const std::byte> octets) noexcept;

 private:
  OwnDescriptor descriptor_;
  int process_ = 0;  // which has bound the name
};

}  // namespace verbatim::host
