// SPDX-License-Identifier: Apache-2.0
#include "capture/link_capture.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "base/byte_order.h"
#include "host/descriptor.h"
#include "wire/capture/erf.h"
#include "wire/crc/vcrc.h"
#include "wire/headers/native_packet.h"

namespace verbatim::link {
namespace {

/// How much is written at once, if packets come fast.
constexpr std::size_t kWriteAtOnce = std::size_t{1} << 20;
constexpr std::size_t kInterfaceNameMax = 64;
constexpr std::size_t kLengthAt = 4;           // in a block
constexpr std::size_t kCapturedLengthAt = 20;  // in a packet block

std::uint64_t unix_nanoseconds() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

/// Blocks of packets, one behind the other, with memory only as far as they need it.
struct Blocks {
  std::unique_ptr<std::byte[]> room{new (std::nothrow) std::byte[LinkCapture::kRoomOctets]};
  std::size_t used = 0;
  std::uint64_t packets = 0;

  [[nodiscard]] std::span<std::byte> left() noexcept {
    return {room.get() + used, LinkCapture::kRoomOctets - used};
  }
  [[nodiscard]] std::span<std::byte> written() noexcept { return {room.get(), used}; }
};

/// The VCRC of each packet takes the place of the two octets at its end, which say what to change
/// in it.
void fill_in_vcrcs(std::span<std::byte> blocks) noexcept {
  while (!blocks.empty()) {
    const auto length = load_be_at<std::uint32_t>(blocks.data() + kLengthAt);
    const auto octets = load_be_at<std::uint32_t>(blocks.data() + kCapturedLengthAt);
    const auto packet =
        blocks.subspan(wire::kPcapngFrameAt, octets).subspan(wire::ErfHeader::kSize);
    const auto covered = packet.first(packet.size() - wire::kVcrcSize);
    const auto vcrc = wire::vcrc_of(covered);
    packet[covered.size()] ^= vcrc[0];
    packet[covered.size() + 1] ^= vcrc[1];
    blocks = blocks.subspan(length);
  }
}

}  // namespace

struct LinkCapture::Shared {
  explicit Shared(CaptureFile to) : file(std::move(to)) {}

  CaptureFile file;  // of the thread, but for its name
  host::Descriptor has_ended{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  mutable std::mutex mutex;  // guards all below
  std::condition_variable changed;
  Blocks filling;
  Progress progress;
  bool is_to_end = false;
  // Of the thread, without the mutex.
  Blocks writing;
};

Expected<std::unique_ptr<LinkCapture>> LinkCapture::start(CaptureFile file,
                                                          std::string_view interface,
                                                          std::string& message) {
  auto shared = std::make_shared<Shared>(std::move(file));
  if (!shared->has_ended.is_open() || !shared->filling.room || !shared->writing.room) {
    message = "the system gives no memory or descriptor for a capture; check `ulimit -n`";
    return Errc::kNoMemory;
  }
  Blocks& first = shared->filling;
  first.used = wire::write_pcapng_section(first.left(), "Verbatim");
  first.used += wire::write_pcapng_interface(first.left(), interface.substr(0, kInterfaceNameMax),
                                             wire::CaptureLinkType::kErf);
  const int error = shared->file.append(first.written());
  if (error != 0) {
    message = "cannot write the capture '" + shared->file.name() + "': " + std::strerror(error);
    return Errc::kInvalidArgument;
  }
  shared->progress.octets = std::exchange(first.used, 0);
  std::unique_ptr<LinkCapture> capture(new LinkCapture(shared));
  if (!capture->thread_.start("capture", [shared] { write_until_end(*shared); })) {
    message = "the system gives no thread for a capture; check `ulimit -u`";
    return Errc::kNoMemory;
  }
  return capture;
}

LinkCapture::~LinkCapture() {
  if (!thread_.exists()) return;
  finish();
  std::unique_lock lock(shared_->mutex);
  const bool has_ended =
      shared_->changed.wait_for(lock, kPatience, [&] { return shared_->progress.has_ended; });
  lock.unlock();
  has_ended ? thread_.join() : thread_.detach();  // a pipe whose reader has stopped
}

void LinkCapture::record(const About& about, std::span<const std::byte> packet) noexcept {
  if (packet.size() < wire::Lrh::kSize) return;
  const auto lane = static_cast<std::byte>(static_cast<unsigned>(about.lane) << 4);
  const std::array<std::byte, 1> first{(packet[0] & std::byte{0x0f}) | lane};
  const std::array<std::byte, 2> change{std::byte{about.has_bad_vcrc}, std::byte{0}};
  std::array<std::byte, wire::ErfHeader::kSize> head;
  wire::ErfHeader{.unix_nanoseconds = about.unix_nanoseconds,
                  .interface = about.direction == wire::CapturedFrame::Direction::kOutbound
                                   ? std::uint8_t{1}
                                   : std::uint8_t{0},
                  .has_error = about.has_bad_vcrc,
                  .packet_octets = static_cast<std::uint16_t>(packet.size() + change.size())}
      .emit(head);
  const std::array<std::span<const std::byte>, 4> pieces{head, first, packet.subspan(1), change};
  const wire::CapturedFrame frame{
      .unix_nanoseconds = about.unix_nanoseconds, .pieces = pieces, .direction = about.direction};
  const std::unique_lock lock(shared_->mutex);
  Progress& progress = shared_->progress;
  if (shared_->is_to_end || progress.error != 0) return;
  Blocks& blocks = shared_->filling;
  const std::size_t octets = wire::write_pcapng_frame(blocks.left(), frame);
  if (octets == 0) {
    ++progress.missing;
    return;
  }
  const std::size_t before = std::exchange(blocks.used, blocks.used + octets);
  ++blocks.packets;
  ++progress.packets;
  const bool is_enough = before < kWriteAtOnce && blocks.used >= kWriteAtOnce;
  if (before == 0 || is_enough) shared_->changed.notify_all();
}

void LinkCapture::finish() noexcept {
  const std::unique_lock lock(shared_->mutex);
  shared_->is_to_end = true;
  shared_->changed.notify_all();
}

int LinkCapture::descriptor() const noexcept { return shared_->has_ended.number(); }

auto LinkCapture::progress() const noexcept -> Progress {
  const std::unique_lock lock(shared_->mutex);
  return shared_->progress;
}

const std::string& LinkCapture::name() const noexcept { return shared_->file.name(); }

/// What has been recorded is written without the mutex. At the end the packets that were not
/// written are no longer counted.
void LinkCapture::write_until_end(Shared& shared) noexcept {
  Blocks& writing = shared.writing;
  Progress& progress = shared.progress;
  std::unique_lock lock(shared.mutex);
  std::uint64_t written = 0;
  bool is_last = false;
  while (!is_last && progress.error == 0) {
    shared.changed.wait(lock, [&] { return shared.is_to_end || shared.filling.used > 0; });
    shared.changed.wait_for(
        lock, kCompany, [&] { return shared.is_to_end || shared.filling.used >= kWriteAtOnce; });
    is_last = shared.is_to_end;
    std::swap(writing, shared.filling);
    const wire::CaptureStatistics statistics{.unix_nanoseconds = unix_nanoseconds(),
                                             .received = progress.packets + progress.missing,
                                             .dropped = progress.missing};
    lock.unlock();
    fill_in_vcrcs(writing.written());
    if (is_last) writing.used += wire::write_pcapng_statistics(writing.left(), statistics);
    const int error = shared.file.append(writing.written());
    lock.lock();
    progress.error = error;
    if (error == 0) written += writing.packets;
    if (error == 0) progress.octets += writing.used;
    writing.used = writing.packets = 0;
  }
  progress.packets = written;
  progress.has_ended = true;
  const std::uint64_t one = 1;
  (void)!::write(shared.has_ended.number(), &one, sizeof one);
  shared.changed.notify_all();
}

}  // namespace verbatim::link
