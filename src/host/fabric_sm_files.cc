// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_sm_files.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace verbatim::host {
namespace {

constexpr std::uint32_t kInotify = 0xffff'ffff;

epoll_event event_of(std::uint32_t events, std::uint32_t tag, std::uint32_t which) noexcept {
  return {.events = events, .data = {.u64 = (std::uint64_t{tag} << 32) | which}};
}

}  // namespace

bool FabricSmFiles::open(const FabricPlace& place, int epoll, std::uint32_t tag) {
  place_ = place;
  epoll_ = epoll;
  tag_ = tag;
  watch_ = Descriptor(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!watch_.is_open()) return false;
  epoll_event readable = event_of(EPOLLIN, tag_, kInotify);
  return ::inotify_add_watch(watch_.number(), place.folder().c_str(), IN_OPEN) >= 0 &&
         ::epoll_ctl(epoll_, EPOLL_CTL_ADD, watch_.number(), &readable) == 0;
}

bool FabricSmFiles::add(std::uint32_t node, std::uint32_t port) {
  if (files_.contains({node, port})) return true;
  File file{.name = place_->sm_path(node, port), .writer = Descriptor(), .is_reported = false};
  if (::mkfifo(file.name.c_str(), 0600) != 0) return false;
  files_.emplace(Key{node, port}, std::move(file));
  return true;
}

void FabricSmFiles::close() noexcept {
  for (const auto& [key, file] : files_) (void)::unlink(file.name.c_str());
  files_.clear();
  watch_.close();
}

/// Which file was opened does not matter: there are few, and events may have been lost.
void FabricSmFiles::read_openings() {
  alignas(inotify_event) std::array<std::byte, 4096> events;
  bool any = false;
  while (::read(watch_.number(), events.data(), events.size()) > 0) any = true;
  if (!any) return;
  for (auto& [key, file] : files_) look(file);
}

/// Opens the writing end, which succeeds while a process has the reading end.
void FabricSmFiles::look(File& file) {
  if (file.writer.is_open()) return;
  file.writer = Descriptor(::open(file.name.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.writer.is_open()) return;
  epoll_event broken = event_of(0, tag_, static_cast<std::uint32_t>(file.writer.number()));
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, file.writer.number(), &broken) != 0) file.writer.close();
}

void FabricSmFiles::handle(std::uint32_t which) {
  if (which == kInotify) {
    read_openings();
    return;
  }
  for (auto& [key, file] : files_) {
    if (!file.writer.is_open() || static_cast<std::uint32_t>(file.writer.number()) != which)
      continue;
    file.writer.close();
    look(file);  // another process may have opened it meanwhile
    return;
  }
}

auto FabricSmFiles::poll_change() -> std::optional<Change> {
  for (auto& [key, file] : files_) {
    if (file.is_reported == file.writer.is_open()) continue;
    file.is_reported = file.writer.is_open();
    return Change{.node = key.first, .port = key.second, .is_sm = file.is_reported};
  }
  return std::nullopt;
}

}  // namespace verbatim::host
