// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "host/descriptor.h"
#include "host/fabric_message.h"

namespace verbatim::host {

/// What became of a message.
enum class Transfer : std::uint8_t {
  kDone,
  kFull,     // the other side does not read; try again when poll(2) says so
  kRefused,  // there is no memory, or the message is too long
  kGone,     // the other side has closed the connection
};

/// The two ends of a connection use these. None of them waits, and none is a point at which a
/// thread can be cancelled.
///
/// Sends a head and a rest as one message, with a descriptor if it is not negative.
[[nodiscard]] Transfer send_parts(int socket, std::span<const std::byte> head,
                                  std::span<const std::byte> rest, int descriptor) noexcept;
/// Sends a message with up to kDescriptorsMax descriptors.
inline constexpr std::size_t kDescriptorsMax = 4;
[[nodiscard]] Transfer send_descriptors(int socket, std::span<const std::byte> message,
                                        std::span<const int> descriptors) noexcept;
/// Sends a datagram; `header.octets` is set here.
[[nodiscard]] Transfer send_user_mad(int socket, UserMadHeader header,
                                     std::span<const std::byte> message) noexcept;

/// A message that has arrived.
struct ArrivedMessage {
  std::size_t octets = 0;  // of the message, which may be more than there was room for
  Descriptor descriptor;   // the first that came with it
  std::array<Descriptor, kDescriptorsMax - 1> other_descriptors{};
  bool lacks_descriptors = false;  // this process had no number left for all of them
};
/// Takes the next message. Nothing: none is there, or `is_gone` says that there will be none.
[[nodiscard]] std::optional<ArrivedMessage> receive_message(int socket, std::span<std::byte> room,
                                                            bool& is_gone) noexcept;

/// Whether a message of so many octets, header included, comes as its first segment and a memory
/// file.
[[nodiscard]] constexpr bool is_in_memory_file(std::size_t octets) noexcept {
  return octets > kInlineOctetsMax;
}
/// Reads what is in the memory file of a message; false when the file is not as large.
[[nodiscard]] bool read_memory_file(int file, std::span<std::byte> to) noexcept;

/// A value as the octets of a message.
template <typename Value>
[[nodiscard]] std::span<const std::byte> octets_of(const Value& value) noexcept {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace verbatim::host
