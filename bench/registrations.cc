// SPDX-License-Identifier: Apache-2.0
// What does it cost to register and deregister 4 KiB where the domain has a peer on this host?
//
// Usage: registrations GID_INDEX again|first plain|descriptors|mappings|regions COUNT
//   again: the same page each time; first: another page each time, which moves to where peers map
//   it descriptors, mappings, regions: the process has many of them
// Prints microseconds for one registration and deregistration.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "queue_pairs.h"

namespace {

using namespace verbatim::bench;

constexpr std::size_t kPage = 4096;
constexpr int kDescriptors = 10'000;
constexpr int kMappings = 32'000;
constexpr int kRegions = 10'000;

/// Pages that no two of are one mapping.
std::byte* map_pages(int count) {
  const std::size_t octets = 2 * kPage * static_cast<std::size_t>(count);
  void* const at = ::mmap(nullptr, octets, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) stop("no memory");
  auto* const pages = static_cast<std::byte*>(at);
  for (int i = 0; i < count; ++i) {
    std::byte* const page = pages + 2 * kPage * static_cast<std::size_t>(i);
    if (::mprotect(page, kPage, PROT_READ | PROT_WRITE) != 0) stop("no more mappings");
    *page = std::byte{1};
  }
  return pages;
}

void make_scene(std::string_view scene, ibv_pd* domain) {
  if (scene == "descriptors") {
    const rlimit wanted{.rlim_cur = kDescriptors + 1000, .rlim_max = kDescriptors + 1000};
    if (::setrlimit(RLIMIT_NOFILE, &wanted) != 0) stop("no more descriptors");
    for (int i = 0; i < kDescriptors; ++i) {
      if (::open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) stop("no more descriptors");
    }
  } else if (scene == "mappings") {
    (void)map_pages(kMappings / 2);
  } else if (scene == "regions") {
    void* const at = ::mmap(nullptr, kRegions * kPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) stop("no memory");
    for (int i = 0; i < kRegions; ++i) {
      std::byte* const page = static_cast<std::byte*>(at) + kPage * static_cast<std::size_t>(i);
      if (ibv_reg_mr(domain, page, kPage, kAccess) == nullptr) stop("ibv_reg_mr failed");
    }
  } else if (scene != "plain") {
    stop("no such scene");
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) stop("usage: registrations GID_INDEX again|first SCENE COUNT");
  const auto gid_index = static_cast<std::uint8_t>(std::atoi(words[1]));
  const bool is_first = std::string_view(words[2]) == "first";
  const int rounds = std::atoi(words[4]);
  ibv_pd* const domain = open_domain_with_peer(gid_index);
  make_scene(words[3], domain);
  std::byte* const pages = map_pages(is_first ? rounds : 1);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < rounds; ++i) {
    std::byte* const page = pages + (is_first ? 2 * kPage * static_cast<std::size_t>(i) : 0);
    ibv_mr* const region = ibv_reg_mr(domain, page, kPage, kAccess);
    if (region == nullptr || ibv_dereg_mr(region) != 0) stop("a registration failed");
  }
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  std::printf("%.3f\n", time.count() / rounds);
  return 0;
}
