// SPDX-License-Identifier: Apache-2.0
// What does it cost to register and deregister 4 KiB where the domain has a peer on this host?
//
// Usage: registrations GID_INDEX again|first plain|descriptors|mappings|regions COUNT
//   again: the same page each time; first: another page each time, which moves to where peers map
//   it descriptors, mappings, regions: the process has many of them
// Prints microseconds for one registration and deregistration.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "halves.h"

namespace {

using namespace verbatim::bench;

constexpr std::size_t kPage = 4096;
constexpr int kDescriptors = 10'000;
constexpr int kMappings = 32'000;
constexpr int kRegions = 10'000;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

void modify(ibv_qp* pair, ibv_qp_attr wanted, int which) {
  if (ibv_modify_qp(pair, &wanted, which) != 0) stop("ibv_modify_qp failed");
}

ibv_qp* make_pair(ibv_pd* domain, ibv_cq* completions) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  ibv_qp* const pair = ibv_create_qp(domain, &wanted);
  if (pair == nullptr) stop("ibv_create_qp failed");
  ibv_qp_attr first{};
  first.qp_state = IBV_QPS_INIT;
  first.port_num = 1;
  first.qp_access_flags = kAccess;
  modify(pair, first, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return pair;
}

/// Two queue pairs of one domain that are each other's peers.
void connect(ibv_context* context, ibv_pd* domain, std::uint8_t gid_index) {
  ibv_cq* const completions = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  ibv_gid gid{};
  if (completions == nullptr || ibv_query_gid(context, 1, gid_index, &gid) != 0) stop("no queue");
  ibv_qp* const pairs[2] = {make_pair(domain, completions), make_pair(domain, completions)};
  for (int i = 0; i < 2; ++i) {
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_RTR;
    wanted.path_mtu = IBV_MTU_1024;
    wanted.dest_qp_num = pairs[1 - i]->qp_num;
    wanted.max_dest_rd_atomic = 1;
    wanted.min_rnr_timer = 12;
    wanted.ah_attr.is_global = 1;
    wanted.ah_attr.port_num = 1;
    wanted.ah_attr.grh.dgid = gid;
    wanted.ah_attr.grh.sgid_index = gid_index;
    wanted.ah_attr.grh.hop_limit = 64;
    modify(pairs[i], wanted,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
}

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
  ibv_device** const devices = ibv_get_device_list(nullptr);
  if (devices == nullptr || devices[0] == nullptr) stop("there is no device");
  ibv_context* const context = ibv_open_device(devices[0]);
  if (context == nullptr) stop("no adapter");
  ibv_pd* const domain = ibv_alloc_pd(context);
  connect(context, domain, gid_index);
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
