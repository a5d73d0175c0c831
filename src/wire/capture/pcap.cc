// SPDX-License-Identifier: Apache-2.0
#include "wire/capture/pcap.h"

#include <algorithm>
#include <array>

#include "base/byte_order.h"

namespace verbatim::wire {
namespace {

constexpr std::uint32_t kPcapNanosecondMagic = 0xa1b2'3c4d;

/// The block types, option codes and values of pcapng that are written here.
enum BlockType : std::uint32_t {
  kInterface = 1,
  kStatistics = 5,
  kEnhancedPacket = 6,
  kSection = 0x0a0d'0d0a
};
constexpr std::uint32_t kByteOrderMagic = 0x1a2b'3c4d;
enum OptionCode : std::uint16_t {
  kEndOfOptions = 0,
  kComment = 1,
  kInterfaceName = 2,    // in an interface block
  kPacketFlags = 2,      // in a packet block
  kReceived = 4,         // in a statistics block
  kUserApplication = 4,  // in a section block
  kDropped = 5,          // in a statistics block
  kTimeResolution = 9,   // in an interface block
};
constexpr std::byte kNanoseconds{9};  // the resolution's negative power of ten
constexpr std::size_t kLongestText = 0xffff;

/// Appends numbers and text to a buffer. Once something did not fit, nothing more is written and
/// finish() is 0.
class Appender {
 public:
  explicit Appender(std::span<std::byte> to) noexcept : to_(to) {}

  template <typename T>
  void number(T value) noexcept {
    if (std::byte* at = reserve(sizeof value)) store_be_at<T>(at, value);
  }
  void octets(std::span<const std::byte> from) noexcept {
    if (std::byte* at = reserve(from.size())) std::copy(from.begin(), from.end(), at);
  }
  /// Zeroes up to the next multiple of four.
  void align() noexcept {
    while (!failed_ && at_ % 4 != 0) number<std::uint8_t>(0);
  }
  void frame(const CapturedFrame& frame) noexcept {
    for (const auto piece : frame.pieces) octets(piece);
  }
  void option(OptionCode code, std::span<const std::byte> value) noexcept {
    number<std::uint16_t>(code);
    number(static_cast<std::uint16_t>(value.size()));
    octets(value);
    align();
  }
  /// Left out when empty; truncated to the longest that an option can have.
  void text_option(OptionCode code, std::string_view text) noexcept {
    if (!text.empty()) option(code, std::as_bytes(std::span(text.substr(0, kLongestText))));
  }
  void count_option(OptionCode code, std::uint64_t count) noexcept {
    std::array<std::byte, sizeof count> octets;
    store_be_at(octets.data(), count);
    option(code, octets);
  }
  void end_of_options() noexcept { number<std::uint32_t>(kEndOfOptions); }

  [[nodiscard]] std::size_t finish() const noexcept { return failed_ ? 0 : at_; }

 protected:
  /// Room for `count` more octets; null when there is none.
  std::byte* reserve(std::size_t count) noexcept {
    failed_ = failed_ || to_.size() - at_ < count;
    if (failed_) return nullptr;
    std::byte* const at = to_.data() + at_;
    at_ += count;
    return at;
  }
  std::span<std::byte> to_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

/// A pcapng block: its type, its length, what is appended, and its length once more.
class Block : public Appender {
 public:
  Block(std::span<std::byte> to, BlockType type) noexcept : Appender(to) {
    number<std::uint32_t>(type);
    number<std::uint32_t>(0);
  }
  [[nodiscard]] std::size_t close() noexcept {
    const auto total = static_cast<std::uint32_t>(at_ + sizeof(std::uint32_t));
    number(total);
    if (!failed_) store_be_at<std::uint32_t>(to_.data() + 4, total);
    return finish();
  }
};

}  // namespace

std::size_t CapturedFrame::octet_count() const noexcept {
  std::size_t count = 0;
  for (const auto piece : pieces) count += piece.size();
  return count;
}

std::size_t write_pcap_file_header(std::span<std::byte> to) noexcept {
  Appender header(to);
  header.number(kPcapNanosecondMagic);
  header.number<std::uint16_t>(2);  // version 2.4
  header.number<std::uint16_t>(4);
  header.number<std::uint32_t>(0);  // times are UTC
  header.number<std::uint32_t>(0);  // their accuracy is not stated
  header.number(static_cast<std::uint32_t>(kCaptureSnapOctets));
  header.number(std::uint32_t{static_cast<std::uint16_t>(CaptureLinkType::kEthernet)});
  return header.finish();
}

std::size_t write_pcap_record(std::span<std::byte> to, const CapturedFrame& frame) noexcept {
  const std::size_t octets = frame.octet_count();
  if (octets > kCaptureSnapOctets) return 0;
  constexpr std::uint64_t kSecond = 1'000'000'000;
  Appender record(to);
  record.number(static_cast<std::uint32_t>(frame.unix_nanoseconds / kSecond));
  record.number(static_cast<std::uint32_t>(frame.unix_nanoseconds % kSecond));
  record.number(static_cast<std::uint32_t>(octets));  // captured
  record.number(static_cast<std::uint32_t>(octets));  // on the wire
  record.frame(frame);
  return record.finish();
}

std::size_t write_pcapng_section(std::span<std::byte> to, std::string_view application) noexcept {
  Block block(to, kSection);
  block.number(kByteOrderMagic);
  block.number<std::uint16_t>(1);  // version 1.0
  block.number<std::uint16_t>(0);
  block.number(~std::uint64_t{0});  // the section's length is not known in advance
  block.text_option(kUserApplication, application);
  block.end_of_options();
  return block.close();
}

std::size_t write_pcapng_interface(std::span<std::byte> to, std::string_view name,
                                   CaptureLinkType link_type) noexcept {
  Block block(to, kInterface);
  block.number(static_cast<std::uint16_t>(link_type));
  block.number<std::uint16_t>(0);
  block.number(static_cast<std::uint32_t>(kCaptureSnapOctets));
  block.text_option(kInterfaceName, name);
  block.option(kTimeResolution, std::span(&kNanoseconds, 1));
  block.end_of_options();
  return block.close();
}

std::size_t write_pcapng_frame(std::span<std::byte> to, const CapturedFrame& frame) noexcept {
  const std::size_t octets = frame.octet_count();
  if (octets > kCaptureSnapOctets) return 0;
  Block block(to, kEnhancedPacket);
  block.number(frame.interface_index);
  block.number(frame.unix_nanoseconds);  // two words, the upper first: one number in network order
  block.number(static_cast<std::uint32_t>(octets));  // captured
  block.number(static_cast<std::uint32_t>(octets));  // on the wire
  block.frame(frame);
  block.align();
  if (frame.direction != CapturedFrame::Direction::kUnknown) {
    std::byte flags[4];
    store_be_at<std::uint32_t>(flags, static_cast<std::uint32_t>(frame.direction));
    block.option(kPacketFlags, flags);
  }
  block.text_option(kComment, frame.comment);
  block.end_of_options();
  return block.close();
}

std::size_t write_pcapng_statistics(std::span<std::byte> to,
                                    const CaptureStatistics& statistics) noexcept {
  Block block(to, kStatistics);
  block.number(statistics.interface_index);
  block.number(statistics.unix_nanoseconds);
  block.count_option(kReceived, statistics.received);
  block.count_option(kDropped, statistics.dropped);
  block.end_of_options();
  return block.close();
}

}  // namespace verbatim::wire
