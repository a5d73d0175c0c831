// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// Capture files as octets: pcap, which every tool reads, and pcapng, which also knows directions,
/// names and comments. Nothing here opens a file: each function writes one header, record or block
/// to the start of the caller's buffer and returns how many octets that took, or 0 when the buffer
/// is too small. All of it is in network order, which both formats allow; times are nanoseconds.
namespace verbatim::wire {

/// The longest frame that a capture holds; the usual bound of capture tools.
inline constexpr std::size_t kCaptureSnapOctets = 262'144;

/// One frame of a capture. It may consist of several pieces (synthetic Ethernet header, IP and UDP
/// headers, transport packet), which the record joins.
struct CapturedFrame {
  enum class Direction : std::uint8_t { kUnknown = 0, kInbound = 1, kOutbound = 2 };
  std::uint64_t unix_nanoseconds = 0;  // since 1970
  std::span<const std::span<const std::byte>> pieces{};
  Direction direction = Direction::kUnknown;  // pcapng only
  std::uint32_t interface_index = 0;          // pcapng only: the n-th interface block written
  std::string_view comment{};                 // pcapng only

  [[nodiscard]] std::size_t octet_count() const noexcept;
};

inline constexpr std::size_t kPcapFileHeaderOctets = 24;
inline constexpr std::size_t kPcapRecordHeaderOctets = 16;

/// What the frames of an interface are: a number that all capture tools know.
enum class CaptureLinkType : std::uint16_t {
  kEthernet = 1,  // without the frame check sequence
  kErf = 197,     // an ErfHeader and what it says: a native packet, from the LRH to the VCRC
};

/// The header of a pcap file of Ethernet frames.
[[nodiscard]] std::size_t write_pcap_file_header(std::span<std::byte> to) noexcept;
/// One record, its header included.
[[nodiscard]] std::size_t write_pcap_record(std::span<std::byte> to,
                                            const CapturedFrame& frame) noexcept;

/// The first block of a pcapng file (Section Header Block). `application` is the program that
/// writes it.
[[nodiscard]] std::size_t write_pcapng_section(std::span<std::byte> to,
                                               std::string_view application) noexcept;
/// One per interface, before its first frame (Interface Description Block).
[[nodiscard]] std::size_t write_pcapng_interface(
    std::span<std::byte> to, std::string_view name,
    CaptureLinkType link_type = CaptureLinkType::kEthernet) noexcept;
/// One frame (Enhanced Packet Block).
[[nodiscard]] std::size_t write_pcapng_frame(std::span<std::byte> to,
                                             const CapturedFrame& frame) noexcept;
/// Where the first piece of a frame begins in its block.
inline constexpr std::size_t kPcapngFrameAt = 28;

/// What an interface has counted up to a time.
struct CaptureStatistics {
  std::uint64_t unix_nanoseconds = 0;
  std::uint32_t interface_index = 0;
  std::uint64_t received = 0;  // frames, those among them that the file does not have
  std::uint64_t dropped = 0;   // frames that the file does not have
};
/// At the end of a capture (Interface Statistics Block).
[[nodiscard]] std::size_t write_pcapng_statistics(std::span<std::byte> to,
                                                  const CaptureStatistics& statistics) noexcept;

}  // namespace verbatim::wire
