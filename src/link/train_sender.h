// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "link/capture.h"
#include "link/packet_burst.h"
#include "link/packet_control.h"
#include "link/socket_address.h"
#include "link/udp_socket.h"

namespace verbatim::link {

/// Packets on their way out. They are written into one buffer, one behind the other; packets of one
/// flow and one length that follow each other make a train, which goes through the kernel as one
/// message and is cut again where it leaves the host (UDP GSO). The last packet of a train may be
/// shorter. All packets of a train go to one slot of the peer's host, which its sockets are chosen
/// by.
///
/// Over IPv4 the kernel numbers the packets of a train from 0, and the ICRC covers the number: see
/// Frame. A packet that does not continue the train after all is changed accordingly.
class TrainSender {
 public:
  static constexpr std::size_t kTrains = 32;    // messages per system call
  static constexpr std::size_t kSegments = 64;  // packets of one train, older kernels' limit
  static constexpr std::size_t kTrainOctets = 65000;
  // A train and a packet of any length. More would not be in the nearest cache any more when the
  // kernel copies it.
  static constexpr std::size_t kBufferOctets = std::size_t{70} << 10;

  /// The socket that a packet leaves from, what it does by itself, and what the address means on
  /// it.
  struct Exit {
    int socket = -1;
    std::uint32_t scope = 0;
    UdpSocket::Manner manner{};
  };

  [[nodiscard]] static UdpSocket::Manner manner_of(const Outgoing& to) noexcept {
    const std::uint8_t hop_limit = to.hop_limit != 0 ? to.hop_limit : UdpSocket::Manner{}.hop_limit;
    return {.traffic_class = to.traffic_class, .hop_limit = hop_limit};
  }

  /// Without trains every packet is a message of its own.
  void use_trains(bool use) noexcept { use_trains_ = use; }

  /// What leaves is recorded there.
  void record_to(Capture* capture, std::uint32_t interface) noexcept {
    capture_ = capture;
    interface_ = interface;
  }

  [[nodiscard]] Frame next_frame() noexcept;
  /// Whether what is in next_frame() goes where the open train goes, and fits into it.
  [[nodiscard]] bool continues_train(const Outgoing& to, const Written& written) const noexcept;
  /// Takes what is in next_frame() into the open train.
  void join_train(const Written& written) noexcept;
  /// Begins a train with what is in next_frame().
  void start_train(const Outgoing& to, Exit exit, const Written& written) noexcept;
  [[nodiscard]] bool is_empty() const noexcept { return count_ == 0; }
  /// What waits for flush().
  [[nodiscard]] Load load() const noexcept;
  /// No train begins that the rest of the buffer would cut short.
  [[nodiscard]] bool is_full() const noexcept {
    const bool begins_anew = count_ > 0 && !trains_[count_ - 1].is_open;
    return count_ == kTrains || used_ + (begins_anew ? kTrainOctets : kFrameOctets) > kBufferOctets;
  }

  /// Packets that leave from one socket keep their order; different sockets are different flows.
  void flush(LinkCounters& counters) noexcept;

 private:
  struct Train {
    Outgoing to{};
    int socket = -1;  // -1: sent
    UdpSocket::Manner of_socket{};
    bool is_ipv4 = false;
    bool is_open = false;  // nothing shorter has joined yet, and it takes more
    std::byte slot{};      // of the destination queue pair number
    std::size_t at = 0;    // in the buffer
    std::size_t octets = 0;
    std::size_t segment_octets = 0;
    std::size_t segments = 0;
    std::uint32_t packets_left = 0;  // that it still takes
    socklen_t name_octets = 0;
    SocketAddress name;
  };

  void address(msghdr& message, const Train& train, Control& room) noexcept;
  void send(int socket, LinkCounters& counters) noexcept;
  [[nodiscard]] bool wait_writable(int socket) noexcept;
  void record(const Train& train) noexcept;
  void send_apart(int socket, const Train& train, LinkCounters& counters) noexcept;

  std::array<Train, kTrains> trains_;
  std::size_t count_ = 0;
  std::size_t used_ = 0;  // octets of the buffer
  bool use_trains_ = true;
  bool waited_ = false;  // this flush has used up its patience
  Capture* capture_ = nullptr;
  std::uint32_t interface_ = 0;  // of ours, in the capture

  // The messages of a flush that leave from one socket.
  std::array<mmsghdr, kTrains> messages_{};
  std::array<iovec, kTrains> parts_{};
  std::array<Control, kTrains> controls_;
  std::array<Train*, kTrains> chosen_{};
  alignas(64) std::array<std::byte, kBufferOctets> buffer_;
};

}  // namespace verbatim::link
