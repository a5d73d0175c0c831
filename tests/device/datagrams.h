// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "qp_capacity.h"

namespace verbatim::testing {

/// Datagrams of random lengths to random peers, one at a time, and a check of every octet of those
/// that arrive. They may be lost, duplicated or late, but never wrong.
class Datagrams {
 public:
  Datagrams() = default;
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  bool open(ibv_pd* pd, std::uint32_t self, std::uint64_t seed) {
    self_ = self;
    random_.seed(seed);
    cq_ = ibv_create_cq(pd->context, 2 * kReceives, nullptr, nullptr, 0);
    incoming_.resize(kReceives * kRoomOctets);
    outgoing_.resize(kLongest);
    constexpr int kLocalWrite = IBV_ACCESS_LOCAL_WRITE;
    in_mr_ = ibv_reg_mr(pd, incoming_.data(), incoming_.size(), kLocalWrite);
    out_mr_ = ibv_reg_mr(pd, outgoing_.data(), outgoing_.size(), 0);
    if (cq_ == nullptr || in_mr_ == nullptr || out_mr_ == nullptr) return false;
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = qp_capacity(1, kReceives);
    init.qp_type = IBV_QPT_UD;
    init.sq_sig_all = 1;
    qp_ = ibv_create_qp(pd, &init);
    if (qp_ == nullptr) return false;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQKey;
    const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    if (ibv_modify_qp(qp_, &attr, mask) != 0) return false;
    for (std::uint32_t i = 0; i < kReceives; ++i) {
      if (!post_receive(i)) return false;
    }
    attr.qp_state = IBV_QPS_RTR;
    if (ibv_modify_qp(qp_, &attr, IBV_QP_STATE) != 0) return false;
    attr.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0;
  }

  [[nodiscard]] std::uint32_t number() const { return qp_->qp_num; }
  [[nodiscard]] std::uint64_t received() const { return received_; }

  /// Where all peers are: they share an address.
  bool aim(ibv_pd* pd, const ibv_gid_entry& gid) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.dgid = gid.gid;
    attr.grh.sgid_index = static_cast<std::uint8_t>(gid.gid_index);
    attr.grh.hop_limit = 1;
    ah_ = ibv_create_ah(pd, &attr);
    return ah_ != nullptr;
  }

  /// Takes the datagrams that have arrived. Returns what is wrong with them, or nothing.
  std::string check() {
    std::array<ibv_wc, 16> found{};
    const int count = ibv_poll_cq(cq_, static_cast<int>(found.size()), found.data());
    if (count < 0) return "cannot poll datagrams";
    for (int i = 0; i < count; ++i) {
      const ibv_wc& wc = found[static_cast<std::size_t>(i)];
      if (wc.status != IBV_WC_SUCCESS)
        return std::string("datagram: ") + ibv_wc_status_str(wc.status);
      if (wc.opcode == IBV_WC_SEND) {
        is_sending_ = false;
        continue;
      }
      if (!is_right(wc)) return "a wrong datagram";
      ++received_;
      if (!post_receive(static_cast<std::uint32_t>(wc.wr_id))) return "cannot post a receive";
    }
    return {};
  }

  /// Sends one to `peer`, whose queue pair has `number`, unless the last is still on its way.
  bool send_to(std::uint32_t peer, std::uint32_t number) {
    if (is_sending_ || ah_ == nullptr) return true;
    Header header{.from = self_, .to = peer, .octets = 0, .number = ++sent_};
    header.octets = std::uniform_int_distribution<std::uint32_t>(sizeof header, kLongest)(random_);
    std::memcpy(outgoing_.data(), &header, sizeof header);
    for (std::uint32_t i = sizeof header; i < header.octets; ++i) outgoing_[i] = octet(header, i);
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(outgoing_.data()),
                .length = header.octets,
                .lkey = out_mr_->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = ah_;
    wr.wr.ud.remote_qpn = number;
    wr.wr.ud.remote_qkey = kQKey;
    ibv_send_wr* bad = nullptr;
    is_sending_ = true;
    return ibv_post_send(qp_, &wr, &bad) == 0;
  }

  bool close() {
    bool went_well = true;
    if (qp_ != nullptr) went_well = ibv_destroy_qp(qp_) == 0 && went_well;
    if (ah_ != nullptr) went_well = ibv_destroy_ah(ah_) == 0 && went_well;
    for (ibv_mr* mr : {in_mr_, out_mr_}) {
      if (mr != nullptr) went_well = ibv_dereg_mr(mr) == 0 && went_well;
    }
    if (cq_ != nullptr) went_well = ibv_destroy_cq(cq_) == 0 && went_well;
    return went_well;
  }

 private:
  struct Header {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::uint32_t octets = 0;  // of all of it
    std::uint32_t number = 0;  // the sender's count
  };
  static constexpr std::uint32_t kReceives = 32;
  static constexpr std::uint32_t kLongest = 1000;
  static constexpr std::uint32_t kNetworkHeader = 40;  // in front of every datagram
  static constexpr std::uint32_t kRoomOctets = kNetworkHeader + kLongest;
  static constexpr std::uint32_t kQKey = 0x1234'5678;

  static std::uint8_t octet(const Header& header, std::uint32_t at) {
    return static_cast<std::uint8_t>(header.from * 71 + header.to * 5 + header.number * 13 +
                                     at * 3);
  }
  [[nodiscard]] bool is_right(const ibv_wc& wc) const {
    if (wc.byte_len < kNetworkHeader + sizeof(Header)) return false;
    const std::uint8_t* from = incoming_.data() + wc.wr_id * kRoomOctets + kNetworkHeader;
    Header header;
    std::memcpy(&header, from, sizeof header);
    if (header.to != self_ || header.octets != wc.byte_len - kNetworkHeader) return false;
    for (std::uint32_t i = sizeof header; i < header.octets; ++i) {
      if (from[i] != octet(header, i)) return false;
    }
    return true;
  }
  bool post_receive(std::uint32_t place) {
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(incoming_.data()) + place * kRoomOctets,
                .length = kRoomOctets,
                .lkey = in_mr_->lkey};
    ibv_recv_wr wr{.wr_id = place, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_recv(qp_, &wr, &bad) == 0;
  }

  std::uint32_t self_ = 0;
  std::mt19937_64 random_;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_ah* ah_ = nullptr;
  ibv_mr* in_mr_ = nullptr;
  ibv_mr* out_mr_ = nullptr;
  std::vector<std::uint8_t> incoming_;
  std::vector<std::uint8_t> outgoing_;
  std::uint32_t sent_ = 0;
  std::uint64_t received_ = 0;
  bool is_sending_ = false;
};

}  // namespace verbatim::testing
