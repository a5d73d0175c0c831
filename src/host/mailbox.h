// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/expected.h"
#include "host/own_descriptor.h"
#include "host/unix_name.h"

namespace verbatim::host {

/// A named datagram socket of this process. Other processes of this user send it messages that
/// reached them but belong to this process. Other users cannot send to it, because the name is in a
/// directory that is closed to them. The name is free when the process ends, however it ends.
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

  /// kAddressInUse when a process, this one included, has the name. With a `named_socket` the
  /// mailbox is in the directory of that socket's name; kAccessDenied when this process has changed
  /// its user since and may not use that directory.
  [[nodiscard]] static Expected<Mailbox> open(const UnixName& name, int named_socket = -1) noexcept;

  /// Readable when there is a message.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  /// Takes one message; 0 when there is none. A message longer than `into` is discarded.
  [[nodiscard]] std::size_t take(std::span<std::byte> into) const noexcept;

  /// Sends octets to the process that has a name, through any UNIX datagram socket of this process.
  /// kNoSuchObject when no process has the name; kTryAgain when the octets were not sent for
  /// another reason, as when the queue of the process is full.
  [[nodiscard]] static Status send(int through, const UnixName& to,
                                   std::span<const std::byte> octets) noexcept;

 private:
  OwnDescriptor descriptor_;
  int process_ = 0;  // that has bound the name
};

}  // namespace verbatim::host
