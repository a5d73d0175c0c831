// SPDX-License-Identifier: Apache-2.0
#include "memory_actor.h"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>

#include "qp_capacity.h"

namespace verbatim::testing {

namespace {

std::uint64_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace

bool is_in_arena(const void* address) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return false;
  const std::uintptr_t at = number_of(address);
  char line[512];
  bool is_there = false;
  while (!is_there && std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long first = 0;
    unsigned long last = 0;
    is_there = std::sscanf(line, "%lx-%lx ", &first, &last) == 2 && first <= at && at < last &&
               std::strstr(line, "verbatim-regions") != nullptr;
  }
  std::fclose(maps);
  return is_there;
}

// ---- Choices ----

MemoryActor::Buffer* MemoryActor::any_registered_buffer() {
  const std::size_t start = prng_.below(buffers_.size());
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    Buffer& buffer = *buffers_[(start + i) % buffers_.size()];
    if (!buffer.regions.empty()) return &buffer;
  }
  return nullptr;
}

Blocks MemoryActor::any_part(const Buffer& buffer) {
  const std::size_t count = buffer.memory.whole().count;
  if (prng_.one_in(3)) return buffer.memory.whole();
  const std::size_t first = prng_.below(count);
  return {.first = first, .count = 1 + prng_.below(count - first)};
}

Blocks MemoryActor::any_pages(const Buffer& buffer) {
  const std::size_t per_page = page_octets() / kBlockOctets;
  const std::size_t pages = buffer.memory.whole().count / per_page;
  const std::size_t first = prng_.below(pages);
  return {.first = first * per_page, .count = (1 + prng_.below(pages - first)) * per_page};
}

Blocks MemoryActor::any_file_part(Blocks part) {
  return {.first = prng_.below(Stage::kFileBlocks - part.count), .count = part.count};
}

std::vector<Stamp> MemoryActor::new_stamps(std::size_t count) {
  std::vector<Stamp> stamps(count);
  for (Stamp& stamp : stamps) stamp = (Stamp{number_ + 1} << 48) + ++next_stamp_;
  return stamps;
}

std::vector<Stamp> MemoryActor::file_stamps(Blocks of_file) {
  std::vector<Stamp> stamps(of_file.count);
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    stamps[i] = Stage::stamp_of_file(of_file.first + i);
  }
  return stamps;
}

// ---- Beginning and end ----

void MemoryActor::open() {
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets_) != 0 ||
      !staging_.map(kPagesMax * page_octets())) {
    board_.fail("actor %u: no sockets or memory", number_);
    return;
  }
  staging_mr_ = ibv_reg_mr(stage_.end->pd, staging_.data(), staging_.octets(), End::kAllAccess);
  for (int i = 0; i < 2; ++i) {
    map_one(true);
    register_part(*buffers_.back(), any_part(*buffers_.back()), false);
  }
  if (staging_mr_ == nullptr || !join(line_)) board_.fail("actor %u: no connection", number_);
  map_one(true);
  show();
}

void MemoryActor::close() {
  for (auto& buffer : buffers_) {
    deregister_all(*buffer);
    if (!buffer->memory.unmap()) board_.fail("actor %u: munmap", number_);
  }
  buffers_.clear();
  part(line_);
  if (ibv_dereg_mr(staging_mr_) != 0 || !staging_.unmap()) {
    board_.fail("actor %u: its staging memory does not go", number_);
  }
  for (const int socket : sockets_) ::close(socket);
}

bool MemoryActor::join(Line& line) {
  const End& end = *stage_.end;
  line.cq = ibv_create_cq(end.context, 16, nullptr, nullptr, 0);
  if (line.cq == nullptr) return false;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = line.cq;
  init.cap = qp_capacity(4, 4);
  init.qp_type = IBV_QPT_RC;
  line.near = ibv_create_qp(end.pd, &init);
  line.far = ibv_create_qp(end.pd, &init);
  return line.near != nullptr && line.far != nullptr && End::to_init(line.near) &&
         End::to_init(line.far) && end.connect(line.near, line.far->qp_num, {}) &&
         end.connect(line.far, line.near->qp_num, {});
}

void MemoryActor::part(Line& line) {
  if (ibv_destroy_qp(line.near) != 0 || ibv_destroy_qp(line.far) != 0 ||
      ibv_destroy_cq(line.cq) != 0) {
    board_.fail("actor %u: its queue pairs do not go", number_);
  }
}

void MemoryActor::show() {
  const Buffer& buffer = any_buffer();
  shown_.store(number_of(buffer.memory.at(any_pages(buffer))));
}

void MemoryActor::check(Buffer& buffer, Blocks part, Deed deed) {
  const auto wrong = buffer.memory.first_wrong(part);
  if (!wrong) return;
  board_.fail("actor %u: after %s, block %zu of %zu at %p (%s) is %lx instead of %lx", number_,
              kDeedNames[static_cast<std::size_t>(deed)], *wrong, buffer.memory.whole().count,
              static_cast<void*>(buffer.memory.data()),
              is_in_arena(buffer.memory.at({.first = *wrong, .count = 1})) ? "moved" : "not moved",
              static_cast<unsigned long>(buffer.memory.found(*wrong)),
              static_cast<unsigned long>(buffer.memory.wanted(*wrong)));
}

void MemoryActor::check_all() {
  for (auto& buffer : buffers_) check(*buffer, buffer->memory.whole(), Deed::kStore);
}

// ---- Deeds ----

void MemoryActor::act(bool is_alone) {
  const auto deed = static_cast<Deed>(prng_.below(kDeedCount));
  switch (deed) {
    case Deed::kStore:
      store();
      break;
    case Deed::kMap:
      if (buffers_.size() < kBuffersMax) map_one(prng_.one_in(2));
      break;
    case Deed::kUnmap:
      if (buffers_.size() > 1) unmap_one();
      if (buffers_.size() < 3) map_one(true);
      break;
    case Deed::kEmpty:
      empty_one();
      break;
    case Deed::kRelocate:
      relocate_one();
      break;
    case Deed::kRegister: {
      Buffer& buffer = any_buffer();
      if (buffer.regions.size() >= kRegionsMax) deregister_one(buffer);
      register_part(buffer, any_part(buffer), is_alone);
      break;
    }
    case Deed::kDeregister:
      if (Buffer* buffer = any_registered_buffer()) deregister_one(*buffer);
      break;
    case Deed::kWrite:
    case Deed::kRead:
      transfer(deed);
      break;
    case Deed::kStaleKey:
      use_stale_key();
      break;
    case Deed::kFileRead:
    case Deed::kDirectRead:
      read_file(deed);
      break;
    case Deed::kRingRead:
      read_with_ring();
      break;
    case Deed::kFlyingRead:
      read_while_registering();
      break;
    case Deed::kFixedRead:
      read_into_fixed();
      break;
    case Deed::kReceive:
      receive();
      break;
    case Deed::kFork:
      if (prng_.one_in(2)) fork_and_compare();
      break;
    case Deed::kOtherWrites:
    case Deed::kOtherWritesAtOnce:
      if (prng_.one_in(2)) let_other_write(deed == Deed::kOtherWritesAtOnce);
      break;
  }
  show();
}

void MemoryActor::store() {
  Buffer& buffer = any_buffer();
  const Blocks part = any_part(buffer);
  check(buffer, part, Deed::kStore);
  buffer.memory.store(part, new_stamps(part.count));
  board_.note(Deed::kStore);
}

/// Some of its pages stay untouched.
void MemoryActor::map_one(bool is_fresh) {
  const std::size_t octets = (1 + prng_.below(kPagesMax)) * page_octets();
  auto buffer = std::make_unique<Buffer>();
  std::byte* const wished =
      is_fresh ? stage_.fresh.take(octets + prng_.below(2) * page_octets()) : nullptr;
  if (!buffer->memory.map(octets, wished)) {
    board_.fail("actor %u: mmap", number_);
    return;
  }
  check(*buffer, buffer->memory.whole(), Deed::kMap);
  const Blocks part = any_part(*buffer);
  buffer->memory.store(part, new_stamps(part.count));
  buffers_.push_back(std::move(buffer));
  board_.note(Deed::kMap);
}

void MemoryActor::unmap_one() {
  const std::size_t index = prng_.below(buffers_.size());
  const auto buffer = std::move(buffers_[index]);
  buffers_.erase(buffers_.begin() + static_cast<std::ptrdiff_t>(index));
  check(*buffer, buffer->memory.whole(), Deed::kUnmap);
  const bool is_late = prng_.one_in(2);
  if (!is_late) deregister_all(*buffer);
  if (!buffer->memory.unmap()) board_.fail("actor %u: munmap", number_);
  if (is_late) deregister_all(*buffer);
  board_.note(Deed::kUnmap);
}

void MemoryActor::empty_one() {
  Buffer& buffer = any_buffer();
  const Blocks pages = any_pages(buffer);
  if (is_in_arena(buffer.memory.at(pages))) ++board_.emptied_moved;
  if (::madvise(buffer.memory.at(pages), pages.octets(), MADV_DONTNEED) != 0) {
    board_.fail("actor %u: MADV_DONTNEED", number_);
  }
  buffer.memory.expect_zeroes(pages);
  check(buffer, buffer.memory.whole(), Deed::kEmpty);
  board_.note(Deed::kEmpty);
}

/// Regions stay behind: their keys name the old addresses. Page by page, because moved memory
/// has several mappings, and the kernel does not move several at once where they are watched.
void MemoryActor::relocate_one() {
  Buffer& buffer = any_buffer();
  ModelledMemory& memory = buffer.memory;
  const bool is_late = prng_.one_in(2);
  if (!is_late) deregister_all(buffer);
  std::byte* const to = stage_.fresh.take(memory.octets());
  if (to == nullptr) return;
  const std::size_t page = page_octets();
  for (std::size_t offset = 0; offset < memory.octets(); offset += page) {
    if (::mremap(memory.data() + offset, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, to + offset) !=
        to + offset) {
      return board_.fail("actor %u: mremap", number_);
    }
  }
  memory.note_moved_to(to);
  check(buffer, memory.whole(), Deed::kRelocate);
  deregister_all(buffer);
  board_.note(Deed::kRelocate);
}

void MemoryActor::register_part(Buffer& buffer, Blocks part, bool is_alone) {
  ibv_mr* mr = ibv_reg_mr(stage_.end->pd, buffer.memory.at(part), part.octets(), End::kAllAccess);
  if (mr == nullptr) {
    board_.fail("actor %u: ibv_reg_mr", number_);
    return;
  }
  buffer.regions.push_back({.mr = mr, .part = part});
  if (is_alone) {
    const std::size_t middle = part.first + part.count / 2;
    ++(is_in_arena(buffer.memory.at({.first = middle, .count = 1})) ? board_.moved : board_.stayed);
  }
  check(buffer, buffer.memory.whole(), Deed::kRegister);
  board_.note(Deed::kRegister);
}

void MemoryActor::deregister_one(Buffer& buffer) {
  if (buffer.regions.empty()) return;
  const auto at =
      buffer.regions.begin() + static_cast<std::ptrdiff_t>(prng_.below(buffer.regions.size()));
  if (ibv_dereg_mr(at->mr) != 0) board_.fail("actor %u: ibv_dereg_mr", number_);
  buffer.regions.erase(at);
  check(buffer, buffer.memory.whole(), Deed::kDeregister);
  board_.note(Deed::kDeregister);
}

void MemoryActor::deregister_all(Buffer& buffer) {
  for (const Region& region : buffer.regions) {
    if (ibv_dereg_mr(region.mr) != 0) board_.fail("actor %u: ibv_dereg_mr", number_);
  }
  buffer.regions.clear();
}

// ---- Transfers ----

ibv_sge MemoryActor::stage_sge(std::size_t octets) const {
  return {.addr = number_of(staging_.data()),
          .length = static_cast<std::uint32_t>(octets),
          .lkey = staging_mr_->lkey};
}

ibv_wc_status MemoryActor::run(const Line& line, ibv_wr_opcode opcode, ibv_sge local,
                               std::uint64_t remote, std::uint32_t rkey) {
  EndNotes to;
  to.address = remote;
  to.rkey = rkey;
  ibv_wc wc{};
  wc.status = IBV_WC_GENERAL_ERR;
  if (!End::post(line.near, 0, opcode, local, to)) return wc.status;
  const auto end = std::chrono::steady_clock::now() + kEndPatience;
  while (std::chrono::steady_clock::now() < end) {
    if (ibv_poll_cq(line.cq, 1, &wc) == 1) break;
    ::sched_yield();
  }
  return wc.status;
}

/// The adapter stores into the buffer, or reads from it; the buffer is at either end.
void MemoryActor::transfer(Deed deed) {
  Buffer* const buffer = any_registered_buffer();
  if (buffer == nullptr) return;
  const Region region = buffer->regions[prng_.below(buffer->regions.size())];
  const std::size_t skipped = prng_.below(region.part.count);
  const Blocks part{.first = region.part.first + skipped,
                    .count = 1 + prng_.below(region.part.count - skipped)};
  const bool is_store = deed == Deed::kWrite;
  const bool is_remote = prng_.one_in(2);
  const std::vector<Stamp> stamps = new_stamps(part.count);
  if (is_store) store_blocks(staging_.data(), stamps);
  const ibv_sge local{.addr = number_of(buffer->memory.at(part)),
                      .length = static_cast<std::uint32_t>(part.octets()),
                      .lkey = region.mr->lkey};
  const ibv_wc_status status = is_remote
                                   ? run(line_, is_store ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
                                         stage_sge(part.octets()), local.addr, region.mr->rkey)
                                   : run(line_, is_store ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
                                         local, number_of(staging_.data()), staging_mr_->rkey);
  if (status != IBV_WC_SUCCESS) {
    board_.fail("actor %u: %s of %zu octets with the buffer as %s: %s", number_,
                kDeedNames[static_cast<std::size_t>(deed)], part.octets(),
                is_remote ? "target" : "source", ibv_wc_status_str(status));
  }
  if (is_store) buffer->memory.expect(part, stamps);
  for (std::size_t i = 0; i < part.count; ++i) {
    if (is_block(staging_.data() + i * kBlockOctets, buffer->memory.wanted(part.first + i))) {
      continue;
    }
    board_.fail("actor %u: %s: block %zu of the buffer, which is %s, did not arrive", number_,
                kDeedNames[static_cast<std::size_t>(deed)], part.first + i,
                is_in_arena(buffer->memory.at(part)) ? "moved" : "not moved");
    break;
  }
  check(*buffer, buffer->memory.whole(), deed);
  board_.note(deed);
}

/// A region whose memory is replaced, wholly or in part, by new memory.
void MemoryActor::use_stale_key() {
  Line line;
  if (!join(line)) {
    board_.fail("actor %u: no connection", number_);
    return;
  }
  map_one(prng_.one_in(2));
  Buffer& buffer = *buffers_.back();
  register_part(buffer, buffer.memory.whole(), false);
  if (board_.is_over()) return;
  const Region region = buffer.regions.back();
  const Blocks gone = any_pages(buffer);
  void* const at = buffer.memory.at(gone);
  // In one step: between munmap(2) and mmap(2) other threads may get the addresses.
  if (::mmap(at, gone.octets(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != at) {
    board_.fail("actor %u: mmap", number_);
  }
  buffer.memory.expect_zeroes(gone);
  if (prng_.one_in(2)) buffer.memory.store(gone, new_stamps(gone.count));
  const bool is_remote = prng_.one_in(2);
  const ibv_sge local{.addr = number_of(at),
                      .length = static_cast<std::uint32_t>(gone.octets()),
                      .lkey = region.mr->lkey};
  store_blocks(staging_.data(), new_stamps(gone.count));
  const ibv_wc_status status =
      is_remote
          ? run(line, IBV_WR_RDMA_WRITE, stage_sge(gone.octets()), local.addr, region.mr->rkey)
          : run(line, IBV_WR_RDMA_READ, local, number_of(staging_.data()), staging_mr_->rkey);
  const ibv_wc_status wanted = is_remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR;
  if (status != wanted) {
    board_.fail("actor %u: the %s key of memory that is gone: %s instead of %s", number_,
                is_remote ? "remote" : "local", ibv_wc_status_str(status),
                ibv_wc_status_str(wanted));
  }
  check(buffer, buffer.memory.whole(), Deed::kStaleKey);
  deregister_all(buffer);
  check(buffer, buffer.memory.whole(), Deed::kStaleKey);
  part(line);
  if (buffers_.size() > kBuffersMax) unmap_one();
  board_.note(Deed::kStaleKey);
}

}  // namespace verbatim::testing
