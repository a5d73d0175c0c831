// SPDX-License-Identifier: Apache-2.0
#include "wire/print/cm_print.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "wire/cm/ip_cm_header.h"
#include "wire/cm/test_cm.h"

namespace verbatim::wire {
namespace {

std::string printed(const CmMessage& message) {
  std::array<char, kPrintedMadMax> line;
  return std::string(print(message, line));
}

std::string printed_mad(const test::Octets& octets) {
  std::array<char, kPrintedMadMax> line;
  return std::string(print_mad(octets, line));
}

constexpr TransactionId kTid{0x1234};
constexpr CommId kOurs{0xb96d984};
constexpr CommId kTheirs{0x1c2d3e4f};

CmReq request() {
  CmReq req{.transaction = kTid,
            .local_comm_id = kOurs,
            .service_id = service_id_of({PortSpace::kTcp, 7174}),
            .local_qpn = QpNumber{0x11},
            .responder_resources = 4,
            .initiator_depth = 3,
            .starting_psn = Psn(0x877ae4),
            .retry_count = 7,
            .rnr_retry_count = 6,
            .path_mtu = PathMtu::k1024,
            .primary = {.local_gid = test::gid("00000000000000000000ffff0a000001"),
                        .remote_gid = test::gid("00000000000000000000ffff0a000002")}};
  IpCmHeader::between(req.primary.local_gid, req.primary.remote_gid, 48662)
      .emit(std::span(req.private_data).first<IpCmHeader::kSize>());
  return req;
}

TEST(CmPrint, ShowsARequestWithTheAddressesOfRdmaCm) {
  EXPECT_EQ(printed(request()),
            "CM REQ  comm 0x0b96d984 service 0x1061c06 (TCP port 7174)  RC qp 0x000011"
            " psn 0x877ae4 mtu 1024 resources 4 depth 3 retry 7 rnr 6"
            "  from 10.0.0.1 port 48662 to 10.0.0.2  tid 0x1234");
}

TEST(CmPrint, ShowsARequestWithoutThemByItsPath) {
  CmReq req = request();
  req.service_id = ServiceId{0x1000'0000'0000'0001};
  req.transport = CmTransport::kExtended;
  req.extended_transport = CmExtendedTransport::kXrc;
  req.uses_srq = true;
  req.pkey = PKey{0x8001};
  req.path_mtu = PathMtu{9};
  req.ece = {.vendor_id = 0x2c9, .options = 1};
  req.alternate.local_lid = Lid{1};
  EXPECT_EQ(printed(req),
            "CM REQ  comm 0x0b96d984 service 0x1000000000000001  XRC qp 0x000011"
            " psn 0x877ae4 mtu code 9 resources 4 depth 3 retry 7 rnr 6 srq pkey 0x8001"
            "  from 10.0.0.1 to 10.0.0.2 alternate path  ece vendor 0x0002c9 options 0x1"
            "  tid 0x1234");
  req.service_id = service_id_of({PortSpace::kTcp, 1});
  req.private_data[1] = std::byte{0x50};  // no such IP version
  EXPECT_NE(printed(req).find("  from 10.0.0.1 to 10.0.0.2"), std::string::npos);
}

TEST(CmPrint, NamesEveryTransport) {
  CmReq req = request();
  const auto transport = [&](CmTransport which, unsigned extended) {
    req.transport = which;
    req.extended_transport = CmExtendedTransport{static_cast<std::uint8_t>(extended)};
    const std::string line = printed(req);
    const auto at = line.find(")  ") + 3;
    return line.substr(at, line.find(' ', at) - at);
  };
  EXPECT_EQ(transport(CmTransport::kRc, 1), "RC");
  EXPECT_EQ(transport(CmTransport::kUc, 0), "UC");
  EXPECT_EQ(transport(CmTransport::kRd, 0), "RD");
  EXPECT_EQ(transport(CmTransport::kExtended, 1), "XRC");
  EXPECT_EQ(transport(CmTransport::kExtended, 7), "extended");
}

TEST(CmPrint, ShowsTheOtherMessagesOfAConnection) {
  EXPECT_EQ(printed(CmRep{.transaction = kTid,
                          .local_comm_id = kTheirs,
                          .remote_comm_id = kOurs,
                          .local_qpn = QpNumber{0x12},
                          .starting_psn = Psn(0x42),
                          .responder_resources = 1,
                          .initiator_depth = 2,
                          .rnr_retry_count = 7,
                          .uses_srq = true}),
            "CM REP  comm 0x1c2d3e4f peer 0x0b96d984  qp 0x000012 psn 0x000042 resources 1 depth 2"
            " rnr 7 srq  tid 0x1234");
  EXPECT_EQ(printed(CmRtu{.transaction = kTid, .local_comm_id = kOurs, .remote_comm_id = kTheirs}),
            "CM RTU  comm 0x0b96d984 peer 0x1c2d3e4f  tid 0x1234");
  EXPECT_EQ(printed(CmMra{.transaction = kTid,
                          .local_comm_id = kTheirs,
                          .remote_comm_id = kOurs,
                          .received = CmMra::Received::kRep,
                          .service_timeout = 24}),
            "CM MRA  comm 0x1c2d3e4f peer 0x0b96d984  of REP timeout code 24  tid 0x1234");
  EXPECT_EQ(printed(CmDreq{.transaction = kTid,
                           .local_comm_id = kOurs,
                           .remote_comm_id = kTheirs,
                           .remote_qpn = QpNumber{0x12}}),
            "CM DREQ  comm 0x0b96d984 peer 0x1c2d3e4f  qp 0x000012  tid 0x1234");
  EXPECT_EQ(printed(CmDrep{.transaction = kTid, .local_comm_id = kTheirs, .remote_comm_id = kOurs}),
            "CM DREP  comm 0x1c2d3e4f peer 0x0b96d984  tid 0x1234");
}

TEST(CmPrint, SaysWhySomethingWasRefused) {
  EXPECT_EQ(
      printed(CmRej{
          .transaction = kTid, .remote_comm_id = kOurs, .reason = RejectReason::kInvalidServiceId}),
      "CM REJ  comm 0x00000000 peer 0x0b96d984  of REQ reason 8 (invalid service ID)"
      "  tid 0x1234");
  EXPECT_EQ(printed(CmRej{.transaction = kTid,
                          .remote_comm_id = kOurs,
                          .rejected = CmRej::Rejected::kOther,
                          .reason = RejectReason{999},
                          .info_octets = 127}),
            "CM REJ  comm 0x00000000 peer 0x0b96d984  of other reason 999 (?) info 72 octets"
            "  tid 0x1234");
}

TEST(CmPrint, ShowsAlternatePaths) {
  EXPECT_EQ(
      printed(CmLap{.transaction = kTid,
                    .local_comm_id = kOurs,
                    .remote_comm_id = kTheirs,
                    .remote_qpn = QpNumber{0x12},
                    .alternate = {.local_gid = test::gid("fe80000000000000000000000000000a"),
                                  .remote_gid = test::gid("fe80000000000000000000000000000b")}}),
      "CM LAP  comm 0x0b96d984 peer 0x1c2d3e4f  qp 0x000012  from fe80::a to fe80::b"
      "  tid 0x1234");
  EXPECT_EQ(printed(CmApr{.transaction = kTid,
                          .local_comm_id = kTheirs,
                          .remote_comm_id = kOurs,
                          .status = AprStatus::kRejected}),
            "CM APR  comm 0x1c2d3e4f peer 0x0b96d984  status 3 (rejected)  tid 0x1234");
}

TEST(CmPrint, ShowsServiceResolution) {
  CmSidrReq req{
      .transaction = kTid, .request_id = kOurs, .service_id = service_id_of({PortSpace::kUdp, 7})};
  EXPECT_EQ(printed(req),
            "CM SIDR_REQ  request 0x0b96d984 service 0x1110007 (UDP port 7)  tid 0x1234");
  IpCmHeader::between(test::gid("fe80000000000000000000000000000a"),
                      test::gid("fe80000000000000000000000000000b"), 9)
      .emit(std::span(req.private_data).first<IpCmHeader::kSize>());
  EXPECT_EQ(printed(req),
            "CM SIDR_REQ  request 0x0b96d984 service 0x1110007 (UDP port 7)"
            "  from fe80::a port 9 to fe80::b  tid 0x1234");
  EXPECT_EQ(printed(CmSidrRep{.transaction = kTid,
                              .request_id = kOurs,
                              .qpn = QpNumber{0x12},
                              .service_id = req.service_id,
                              .qkey = QKey{0x01234567}}),
            "CM SIDR_REP  request 0x0b96d984 service 0x1110007 (UDP port 7)"
            "  status 0 (valid) qp 0x000012 qkey 0x1234567  tid 0x1234");
}

TEST(CmPrint, ShowsOtherDatagramsByTheirHeaders) {
  EXPECT_EQ(printed_mad(test::emitted(request())), printed(request()));
  EXPECT_EQ(printed_mad(test::emitted(Mad{.header = {.mgmt_class = MgmtClass::kSubnetDirectedRoute,
                                                     .class_version = 1,
                                                     .method = MadMethod::kGet,
                                                     .transaction = kTid,
                                                     .attribute_id = 0x11}})),
            "MAD  class 0x81 version 1 method 0x01 attribute 0x0011 modifier 0x0 status 0x0000"
            "  tid 0x1234");
  EXPECT_EQ(printed_mad(test::Octets(7)), "malformed (truncated), 7 octets");
  EXPECT_EQ(printed_mad(test::Octets(256)), "malformed (bad version), 256 octets");
}

template <typename Message>
void expect_the_line_to_fit(Prng& prng) {
  auto message = test::random_message<Message>(prng);
  if constexpr (requires { message.service_id; }) {
    if (prng.one_in(2)) {
      message.service_id = service_id_of({PortSpace::kIpoib, test::random<std::uint16_t>(prng)});
    }
  }
  if constexpr (requires {
                  message.service_id;
                  message.pkey;
                }) {
    IpCmHeader::between(test::random_gid(prng), test::random_gid(prng), 0xffff)
        .emit(std::span(message.private_data).template first<IpCmHeader::kSize>());
  }
  std::array<char, 2 * kPrintedMadMax> roomy;
  const auto whole = print(message, roomy);
  EXPECT_LE(whole.size(), kPrintedMadMax);
  for (std::size_t room = 0; room <= whole.size(); ++room) {
    std::vector<char> line(room);  // exactly this size, so that the sanitizer sees more
    EXPECT_EQ(print(message, line), whole.substr(0, room));
  }
}

TEST(CmPrint, NeverNeedsMoreThanItPromisesAndIsCutWhereTheBufferEnds) {
  Prng prng(65);
  for (int i = 0; i < 20; ++i) {
    expect_the_line_to_fit<CmReq>(prng);
    expect_the_line_to_fit<CmMra>(prng);
    expect_the_line_to_fit<CmRej>(prng);
    expect_the_line_to_fit<CmRep>(prng);
    expect_the_line_to_fit<CmRtu>(prng);
    expect_the_line_to_fit<CmDreq>(prng);
    expect_the_line_to_fit<CmDrep>(prng);
    expect_the_line_to_fit<CmSidrReq>(prng);
    expect_the_line_to_fit<CmSidrRep>(prng);
    expect_the_line_to_fit<CmLap>(prng);
    expect_the_line_to_fit<CmApr>(prng);
  }
}

}  // namespace
}  // namespace verbatim::wire
