// SPDX-License-Identifier: Apache-2.0
// Stores of the kernel, or of another process, into an actor's memory.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>

#include "memory_actor.h"
#include "raw_ring.h"

namespace verbatim::testing {

namespace {

/// The file of the stage, open while a deed lasts: an open descriptor with O_DIRECT changes what
/// the adapter does.
struct File {
  int number = -1;
  explicit File(const char* path, int flags = 0)
      : number(::open(path, O_RDONLY | flags | O_CLOEXEC)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

// ---- System calls ----

void MemoryActor::read_file(Deed deed) {
  const bool is_direct = deed == Deed::kDirectRead;
  const File file(stage_.file, is_direct ? O_DIRECT : 0);
  if (file.number < 0) return board_.note_refusal(deed);
  Buffer& buffer = any_buffer();
  const Blocks part = is_direct ? any_pages(buffer) : any_part(buffer);
  Blocks from = any_file_part(part);
  if (is_direct) from.first -= from.first % (page_octets() / kBlockOctets);
  const ssize_t got = ::pread(file.number, buffer.memory.at(part), part.octets(),
                              static_cast<off_t>(from.first * kBlockOctets));
  if (got != static_cast<ssize_t>(part.octets())) {
    board_.fail("actor %u: %s of %zu octets: %zd", number_,
                kDeedNames[static_cast<std::size_t>(deed)], part.octets(), got);
  }
  buffer.memory.expect(part, file_stamps(from));
  check(buffer, buffer.memory.whole(), deed);
  board_.note(deed);
}

void MemoryActor::read_with_ring() {
  RawRing ring;
  const File file(stage_.file);
  if (!ring.open() || file.number < 0) return board_.note_refusal(Deed::kRingRead);
  Buffer& buffer = any_buffer();
  const Blocks part = any_part(buffer);
  const Blocks from = any_file_part(part);
  const bool is_submitted = ring.submit({.file = file.number,
                                         .to = buffer.memory.at(part),
                                         .octets = part.octets(),
                                         .offset = from.first * kBlockOctets});
  const int got = is_submitted ? ring.reap() : -errno;
  if (got != static_cast<int>(part.octets())) {
    board_.fail("actor %u: io_uring read of %zu octets: %d", number_, part.octets(), got);
  }
  buffer.memory.expect(part, file_stamps(from));
  check(buffer, buffer.memory.whole(), Deed::kRingRead);
  board_.note(Deed::kRingRead);
}

/// The kernel has pinned the pages for the time of the read, and the program registers them.
void MemoryActor::read_while_registering() {
  RawRing ring;
  const File file(stage_.file, O_DIRECT);
  if (!ring.open() || file.number < 0) return board_.note_refusal(Deed::kFlyingRead);
  if (buffers_.size() < kBuffersMax) map_one(true);
  Buffer& buffer = *buffers_.back();
  const Blocks part = any_pages(buffer);
  Blocks from = any_file_part(part);
  from.first -= from.first % (page_octets() / kBlockOctets);
  if (!ring.submit({.file = file.number,
                    .to = buffer.memory.at(part),
                    .octets = part.octets(),
                    .offset = from.first * kBlockOctets})) {
    return board_.note_refusal(Deed::kFlyingRead);
  }
  ibv_mr* mr =
      ibv_reg_mr(stage_.end->pd, buffer.memory.data(), buffer.memory.octets(), End::kAllAccess);
  if (mr == nullptr) board_.fail("actor %u: ibv_reg_mr", number_);
  const bool is_kept = prng_.one_in(2) && mr != nullptr;
  if (!is_kept && mr != nullptr && ibv_dereg_mr(mr) != 0) {
    board_.fail("actor %u: ibv_dereg_mr", number_);
  }
  const int got = ring.reap();
  if (got != static_cast<int>(part.octets())) {
    board_.fail("actor %u: io_uring read with O_DIRECT of %zu octets: %d", number_, part.octets(),
                got);
  }
  buffer.memory.expect(part, file_stamps(from));
  if (is_kept) buffer.regions.push_back({.mr = mr, .part = buffer.memory.whole()});
  check(buffer, buffer.memory.whole(), Deed::kFlyingRead);
  board_.note(Deed::kFlyingRead);
}

/// The kernel has pinned the pages for long: registered before, after, or meanwhile.
void MemoryActor::read_into_fixed() {
  RawRing ring;
  const File file(stage_.file, prng_.one_in(2) ? O_DIRECT : 0);
  if (!ring.open() || file.number < 0) return board_.note_refusal(Deed::kFixedRead);
  Buffer& buffer = any_buffer();
  const int error = ring.fix(buffer.memory.data(), buffer.memory.octets());
  if (error == EFAULT) board_.fail("actor %u: io_uring does not fix the buffer: EFAULT", number_);
  if (error != 0) return board_.note_refusal(Deed::kFixedRead);
  for (std::uint64_t reads = 1 + prng_.below(3); reads > 0 && !board_.is_over(); --reads) {
    const Blocks part = any_pages(buffer);
    Blocks from = any_file_part(part);
    from.first -= from.first % (page_octets() / kBlockOctets);
    const bool is_submitted = ring.submit({.file = file.number,
                                           .to = buffer.memory.at(part),
                                           .octets = part.octets(),
                                           .offset = from.first * kBlockOctets,
                                           .is_fixed = true});
    const bool is_first = prng_.one_in(2);
    int got = is_submitted && is_first ? ring.reap() : 0;
    if (prng_.one_in(2) && buffer.regions.size() < kRegionsMax) {
      ibv_mr* mr =
          ibv_reg_mr(stage_.end->pd, buffer.memory.data(), buffer.memory.octets(), End::kAllAccess);
      if (mr == nullptr) board_.fail("actor %u: ibv_reg_mr", number_);
      if (mr != nullptr) buffer.regions.push_back({.mr = mr, .part = buffer.memory.whole()});
    } else if (!buffer.regions.empty()) {
      if (ibv_dereg_mr(buffer.regions.back().mr) != 0) board_.fail("ibv_dereg_mr");
      buffer.regions.pop_back();
    }
    if (is_submitted && !is_first) got = ring.reap();
    if (got != static_cast<int>(part.octets())) {
      board_.fail("actor %u: io_uring fixed read of %zu octets: %d", number_, part.octets(), got);
    }
    buffer.memory.expect(part, file_stamps(from));
    check(buffer, buffer.memory.whole(), Deed::kFixedRead);
    if (prng_.one_in(4)) fork_and_compare();
    store();
    transfer(Deed::kWrite);
  }
  if (!ring.unfix()) board_.fail("actor %u: io_uring does not give up the buffer", number_);
  board_.note(Deed::kFixedRead);
}

void MemoryActor::receive() {
  Buffer& buffer = any_buffer();
  Blocks part = any_part(buffer);
  part.count = std::min<std::size_t>(part.count, 32);
  const std::vector<Stamp> stamps = new_stamps(part.count);
  std::vector<std::byte> message(part.octets());
  store_blocks(message.data(), stamps);
  const ssize_t sent = ::send(sockets_[1], message.data(), message.size(), 0);
  const ssize_t got = ::recv(sockets_[0], buffer.memory.at(part), part.octets(), MSG_WAITALL);
  if (sent != static_cast<ssize_t>(part.octets()) || got != sent) {
    board_.fail("actor %u: recv of %zu octets: %zd", number_, part.octets(), got);
  }
  buffer.memory.expect(part, stamps);
  check(buffer, buffer.memory.whole(), Deed::kReceive);
  board_.note(Deed::kReceive);
}

void MemoryActor::receive_or_die() {
  Buffer& buffer = any_buffer();
  const Blocks part{.first = prng_.below(buffer.memory.whole().count), .count = 1};
  awaited_ = new_stamps(1);
  ++waits_;
  ::pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
  const ssize_t got = ::recv(sockets_[0], buffer.memory.at(part), part.octets(), MSG_WAITALL);
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  ++waits_;
  if (got != static_cast<ssize_t>(part.octets())) {
    board_.fail("actor %u: recv that waits: %zd", number_, got);
  }
  buffer.memory.expect(part, awaited_);
  check(buffer, buffer.memory.whole(), Deed::kReceive);
}

void MemoryActor::send_what_is_awaited() {
  const std::uint64_t wait = waits_.load();
  std::array<std::byte, kBlockOctets> message;
  store_block(message.data(), awaited_[0]);
  if (::send(sockets_[1], message.data(), message.size(), 0) != ssize_t{kBlockOctets}) {
    board_.fail("send");
  }
  while (waits_.load() == wait && !board_.is_over()) ::sched_yield();
}

// ---- Other processes ----

/// The child's memory is what the parent's was at the fork, and remains its own.
int MemoryActor::run_child(int go) {
  char none = 0;
  if (::read(go, &none, 1) != 1) return 2;
  for (auto& buffer : buffers_) {
    if (const auto wrong = buffer->memory.first_wrong(buffer->memory.whole())) {
      board_.fail("actor %u: in a forked child, block %zu at %p is %lx instead of %lx", number_,
                  *wrong, static_cast<void*>(buffer->memory.data()),
                  static_cast<unsigned long>(buffer->memory.found(*wrong)),
                  static_cast<unsigned long>(buffer->memory.wanted(*wrong)));
      return 1;
    }
  }
  for (auto& buffer : buffers_) {
    std::memset(buffer->memory.data(), 0xcd, buffer->memory.octets());
    if (::madvise(buffer->memory.data(), page_octets(), MADV_DONTNEED) != 0 ||
        !is_block(buffer->memory.data(), 0)) {
      board_.fail("actor %u: MADV_DONTNEED in a forked child gives no zeroes", number_);
      return 1;
    }
  }
  return 0;
}

void MemoryActor::fork_and_compare() {
  const bool has_moved = std::any_of(buffers_.begin(), buffers_.end(), [](const auto& buffer) {
    return is_in_arena(buffer->memory.data());
  });
  int go[2];
  if (::pipe2(go, O_CLOEXEC) != 0) return board_.fail("pipe");
  const pid_t child = ::fork();
  if (child < 0) return board_.fail("fork");
  if (child == 0) {
    ::close(go[1]);  // else the read would not end when the parent ends
    ::_exit(run_child(go[0]));
  }
  // The child must not see what happens from now on.
  store();
  transfer(Deed::kWrite);
  if (::write(go[1], "", 1) != 1) board_.fail("write");
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    board_.fail("actor %u: a forked child ended with status %x", number_,
                static_cast<unsigned>(status));
  }
  for (const int end : go) ::close(end);
  for (auto& buffer : buffers_) check(*buffer, buffer->memory.whole(), Deed::kFork);
  if (has_moved) ++board_.forked_moved;
  board_.note(Deed::kFork);
}

/// As libraries do that copy messages between processes of a host. `at_once`: the program registers
/// the memory meanwhile.
void MemoryActor::let_other_write(bool at_once) {
  const Deed deed = at_once ? Deed::kOtherWritesAtOnce : Deed::kOtherWrites;
  if (at_once && buffers_.size() < kBuffersMax) map_one(true);
  Buffer& buffer = at_once ? *buffers_.back() : any_buffer();
  const Blocks part = any_part(buffer);
  const std::vector<Stamp> stamps = new_stamps(part.count);
  std::vector<std::byte> message(part.octets());
  store_blocks(message.data(), stamps);
  const iovec from{.iov_base = message.data(), .iov_len = message.size()};
  const iovec to{.iov_base = buffer.memory.at(part), .iov_len = part.octets()};
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return board_.fail("fork");
  if (child == 0) {
    // While a page moves, the access of another process fails, but no store is lost.
    bool is_written = false;
    for (int times = at_once ? 300 : 1; times > 0 || (at_once && !is_written); --times) {
      const ssize_t written = ::process_vm_writev(parent, &from, 1, &to, 1, 0);
      is_written = written == static_cast<ssize_t>(from.iov_len);
      if (!is_written && !(at_once && (written >= 0 || errno == EFAULT))) {
        ::_exit(written < 0 ? errno : 255);
      }
    }
    ::_exit(0);
  }
  for (int times = at_once ? 3 : 0; times > 0; --times) {
    ibv_mr* mr = ibv_reg_mr(stage_.end->pd, to.iov_base, to.iov_len, End::kAllAccess);
    if (mr == nullptr || ibv_dereg_mr(mr) != 0) board_.fail("actor %u: ibv_reg_mr", number_);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) {
    return board_.fail("actor %u: a child ended with status %x", number_,
                       static_cast<unsigned>(status));
  }
  const int error = WEXITSTATUS(status);
  if (error == EPERM) return board_.note_refusal(deed);
  if (error != 0) {
    board_.fail("actor %u: %s: %s", number_, kDeedNames[static_cast<std::size_t>(deed)],
                std::strerror(error));
  }
  buffer.memory.expect(part, stamps);
  check(buffer, buffer.memory.whole(), deed);
  board_.note(deed);
}

}  // namespace verbatim::testing
