// SPDX-License-Identifier: Apache-2.0
#include "capture/capture.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "base/mutex.h"
#include "base/process_wide.h"
#include "base/uncancelled.h"
#include "link/native_headers.h"
#include "wire/capture/erf.h"
#include "wire/crc/icrc.h"
#include "wire/crc/vcrc.h"
#include "wire/headers/ethernet.h"
#include "wire/headers/roce_datagram.h"

namespace verbatim::link {
namespace {

constexpr std::size_t kInterfaceBlockMax = 256;
constexpr std::size_t kInterfaceNameMax = 64;
// A packet with hop limit 0 gets the hop limit of the socket.
constexpr std::uint8_t kDefaultHopLimit = 64;

Instant now() noexcept {
  return Instant::at(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

std::uint64_t unix_nanoseconds() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

/// The one capture of this process. Never destroyed: programs exit with threads running.
struct OfProcess {
  Mutex mutex;
  Capture* capture VB_GUARDED_BY(mutex) = nullptr;
  pid_t owner VB_GUARDED_BY(mutex) = 0;
  std::vector<Capture*> of_parents
      VB_GUARDED_BY(mutex);  // the parent's capture, in a forked child, which does not touch it
};
OfProcess& of_process() {
  return process_wide([] { return new OfProcess; });
}

}  // namespace

struct Capture::Frame {
  wire::RoceEnvelope envelope{};
  wire::CapturedFrame::Direction direction{};
  std::span<const std::byte> packet{};
};

Capture::Capture(CaptureFile file)
    : owner_(::getpid()), file_(std::move(file)), buffer_(kBufferOctets) {
  used_ = wire::write_pcapng_section(buffer_, "Verbatim");
  write_out();
}

Capture::~Capture() { flush(); }

Expected<Capture*> Capture::for_process(std::string_view pattern, std::string& message) {
  OfProcess& all = of_process();
  const LockGuard lock(all.mutex);
  if (all.capture != nullptr && all.owner == ::getpid()) return all.capture;
  auto file = CaptureFile::open(pattern, message);
  if (!file) return file.error();
  if (all.capture != nullptr) all.of_parents.push_back(all.capture);
  all.capture = new Capture(std::move(*file));
  all.owner = ::getpid();
  return all.capture;
}

void Capture::flush_at_exit() noexcept {
  const OfProcess& all = of_process();
  // A thread that does not exist in the child may have held the lock.
  if (all.capture != nullptr && all.owner == ::getpid()) all.capture->flush();
}

std::uint32_t Capture::add_interface(std::string_view name, wire::CaptureLinkType link_type) {
  const LockGuard lock(mutex_);
  const auto known = std::find(interfaces_.begin(), interfaces_.end(), name);
  const auto index = static_cast<std::uint32_t>(known - interfaces_.begin());
  if (known != interfaces_.end()) return index;
  interfaces_.emplace_back(name);
  if (used_ + kInterfaceBlockMax > buffer_.size()) write_out();
  used_ += wire::write_pcapng_interface(std::span(buffer_).subspan(used_),
                                        name.substr(0, kInterfaceNameMax), link_type);
  write_out();
  return index;
}

void Capture::record_sent(std::uint32_t interface, const Outgoing& to,
                          std::span<const std::byte> packet,
                          std::uint16_t identification) noexcept {
  if (to.local.exists()) {
    return record_native(interface, wire::CapturedFrame::Direction::kOutbound, to, packet);
  }
  record(interface, {.envelope = {.source = to.source,
                                  .destination = to.destination,
                                  .source_port = to.source_port,
                                  .ipv4_identification = identification,
                                  .traffic_class = to.traffic_class,
                                  .hop_limit = to.hop_limit != 0 ? to.hop_limit : kDefaultHopLimit},
                     .direction = wire::CapturedFrame::Direction::kOutbound,
                     .packet = packet});
}

void Capture::record_received(std::uint32_t interface, const Incoming& incoming) noexcept {
  if (incoming.local.exists()) {
    const Outgoing headers{.source = incoming.source,
                           .destination = incoming.destination,
                           .traffic_class = incoming.traffic_class,
                           .hop_limit = incoming.hop_limit,
                           .local = incoming.local,
                           .flow_label = incoming.flow_label};
    return incoming.for_each_packet([&](std::span<const std::byte> packet) {
      record_native(interface, wire::CapturedFrame::Direction::kInbound, headers, packet);
    });
  }
  const auto seed =
      wire::IcrcSeed::roce_v2(incoming.source, incoming.destination, incoming.source_port);
  incoming.for_each_packet([&](std::span<const std::byte> packet) {
    record(interface, {.envelope = {.source = incoming.source,
                                    .destination = incoming.destination,
                                    .source_port = incoming.source_port,
                                    .ipv4_identification =
                                        wire::verify_icrc(seed, packet).value_or(std::uint16_t{0}),
                                    .traffic_class = incoming.traffic_class,
                                    .hop_limit = incoming.hop_limit},
                       .direction = wire::CapturedFrame::Direction::kInbound,
                       .packet = packet});
  });
}

void Capture::record(std::uint32_t interface, const Frame& frame) noexcept {
  std::array<std::byte, wire::Ethernet::kSize + wire::RoceEnvelope::kMaxOctets> headers;
  wire::Ethernet ethernet;
  ethernet.destination = wire::synthetic_mac_of(frame.envelope.destination);
  ethernet.source = wire::synthetic_mac_of(frame.envelope.source);
  ethernet.type = frame.envelope.is_ipv4() ? wire::EtherType::kIpv4 : wire::EtherType::kIpv6;
  ethernet.emit(std::span(headers).first<wire::Ethernet::kSize>());
  const std::size_t octets =
      frame.envelope.emit(std::span(headers).subspan(wire::Ethernet::kSize), frame.packet.size());
  const std::array<std::span<const std::byte>, 2> pieces = {
      std::span(headers).first(wire::Ethernet::kSize + octets), frame.packet};
  write({.pieces = pieces, .direction = frame.direction, .interface_index = interface});
}

void Capture::record_native(std::uint32_t interface, wire::CapturedFrame::Direction direction,
                            const Outgoing& headers, std::span<const std::byte> packet) noexcept {
  std::array<std::byte, kNativeHeadersMax> room;
  const auto front = std::span(room).first(write_native_headers(headers, packet.size(), room));
  const auto vcrc =
      wire::finished_vcrc(wire::vcrc_update(wire::vcrc_update(wire::kVcrcPreset, front), packet));
  std::array<std::byte, wire::ErfHeader::kSize> record;
  wire::ErfHeader{
      .unix_nanoseconds = unix_nanoseconds(),
      .interface = direction == wire::CapturedFrame::Direction::kOutbound ? std::uint8_t{1}
                                                                          : std::uint8_t{0},
      .packet_octets = static_cast<std::uint16_t>(front.size() + packet.size() + vcrc.size())}
      .emit(record);
  const std::array<std::span<const std::byte>, 4> pieces = {record, front, packet, vcrc};
  write({.pieces = pieces, .direction = direction, .interface_index = interface});
}

void Capture::write(wire::CapturedFrame frame) noexcept {
  const LockGuard lock(mutex_);
  if (has_ended_) return;
  frame.unix_nanoseconds = unix_nanoseconds();
  std::size_t written = wire::write_pcapng_frame(std::span(buffer_).subspan(used_), frame);
  if (written == 0) {
    write_out();
    if (has_ended_) return;
    written = wire::write_pcapng_frame(buffer_, frame);
  }
  if (used_ == 0) due_ = now() + kFlushInterval;
  used_ += written;
}

Instant Capture::next_flush() const noexcept {
  const LockGuard lock(mutex_);
  return due_;
}

void Capture::flush_if_due() noexcept {
  const LockGuard lock(mutex_);
  if (used_ != 0 && now() >= due_) write_out();
}

void Capture::flush() noexcept {
  // A thread that never runs again during exit() may hold the lock, so this does not wait for ever.
  constexpr int kTries = 1000;
  for (int tries = 0; tries < kTries; ++tries) {
    if (mutex_.try_lock()) {
      write_out();
      mutex_.unlock();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Capture::write_out() noexcept {
  const auto blocks = std::span(buffer_).first(used_);
  used_ = 0;
  due_ = Instant::never();
  if (has_ended_ || blocks.empty() || ::getpid() != owner_) return;
  const Uncancelled uncancelled;
  const int error = file_.append(blocks);
  if (error == 0) return;
  has_ended_ = true;
  std::fprintf(stderr,
               "verbatim: the capture '%s' ends here, the program goes on: %s (make room, or "
               "capture elsewhere)\n",
               file_.name().c_str(), std::strerror(error));
}

}  // namespace verbatim::link
