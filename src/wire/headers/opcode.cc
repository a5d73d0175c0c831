// SPDX-License-Identifier: Apache-2.0
#include "wire/headers/opcode.h"

#include "wire/headers/bth.h"
#include "wire/headers/extension_headers.h"

namespace verbatim::wire {
namespace {

using H = OpcodeInfo::Header;

/// One operation as RC has it; the other transports are derived from it.
struct Row {
  Operation operation;
  const char* rc;  // its name on each transport, null where it does not exist
  const char* uc;
  const char* ud;
  const char* xrc;
  std::uint16_t headers;
  PayloadRule payload;
  bool is_response;
  bool starts;
  bool ends;
};

#define VB_RC_ONLY(name) "RC " name, nullptr, nullptr, "XRC " name
#define VB_RC_UC(name) "RC " name, "UC " name, nullptr, "XRC " name
#define VB_ALL(name) "RC " name, "UC " name, "UD " name, "XRC " name

constexpr Row kRows[] = {
    {Operation::kSendFirst, VB_RC_UC("SEND First"), 0, PayloadRule::kExactlyMtu, false, true,
     false},
    {Operation::kSendMiddle, VB_RC_UC("SEND Middle"), 0, PayloadRule::kExactlyMtu, false, false,
     false},
    {Operation::kSendLast, VB_RC_UC("SEND Last"), 0, PayloadRule::kOneToMtu, false, false, true},
    {Operation::kSendLastImm, VB_RC_UC("SEND Last with Immediate"), H::kImmDt,
     PayloadRule::kOneToMtu, false, false, true},
    {Operation::kSendOnly, VB_ALL("SEND Only"), 0, PayloadRule::kUpToMtu, false, true, true},
    {Operation::kSendOnlyImm, VB_ALL("SEND Only with Immediate"), H::kImmDt, PayloadRule::kUpToMtu,
     false, true, true},
    {Operation::kWriteFirst, VB_RC_UC("RDMA WRITE First"), H::kReth, PayloadRule::kExactlyMtu,
     false, true, false},
    {Operation::kWriteMiddle, VB_RC_UC("RDMA WRITE Middle"), 0, PayloadRule::kExactlyMtu, false,
     false, false},
    {Operation::kWriteLast, VB_RC_UC("RDMA WRITE Last"), 0, PayloadRule::kOneToMtu, false, false,
     true},
    {Operation::kWriteLastImm, VB_RC_UC("RDMA WRITE Last with Immediate"), H::kImmDt,
     PayloadRule::kOneToMtu, false, false, true},
    {Operation::kWriteOnly, VB_RC_UC("RDMA WRITE Only"), H::kReth, PayloadRule::kUpToMtu, false,
     true, true},
    {Operation::kWriteOnlyImm, VB_RC_UC("RDMA WRITE Only with Immediate"), H::kReth | H::kImmDt,
     PayloadRule::kUpToMtu, false, true, true},
    {Operation::kReadRequest, VB_RC_ONLY("RDMA READ Request"), H::kReth, PayloadRule::kNone, false,
     true, true},
    {Operation::kReadResponseFirst, VB_RC_ONLY("RDMA READ Response First"), H::kAeth,
     PayloadRule::kExactlyMtu, true, true, false},
    {Operation::kReadResponseMiddle, VB_RC_ONLY("RDMA READ Response Middle"), 0,
     PayloadRule::kExactlyMtu, true, false, false},
    {Operation::kReadResponseLast, VB_RC_ONLY("RDMA READ Response Last"), H::kAeth,
     PayloadRule::kOneToMtu, true, false, true},
    {Operation::kReadResponseOnly, VB_RC_ONLY("RDMA READ Response Only"), H::kAeth,
     PayloadRule::kUpToMtu, true, true, true},
    {Operation::kAcknowledge, VB_RC_ONLY("Acknowledge"), H::kAeth, PayloadRule::kNone, true, true,
     true},
    {Operation::kAtomicAcknowledge, VB_RC_ONLY("ATOMIC Acknowledge"), H::kAeth | H::kAtomicAckEth,
     PayloadRule::kNone, true, true, true},
    {Operation::kCompareSwap, VB_RC_ONLY("CmpSwap"), H::kAtomicEth, PayloadRule::kNone, false, true,
     true},
    {Operation::kFetchAdd, VB_RC_ONLY("FetchAdd"), H::kAtomicEth, PayloadRule::kNone, false, true,
     true},
    {Operation::kSendLastInvalidate, VB_RC_ONLY("SEND Last with Invalidate"), H::kIeth,
     PayloadRule::kOneToMtu, false, false, true},
    {Operation::kSendOnlyInvalidate, VB_RC_ONLY("SEND Only with Invalidate"), H::kIeth,
     PayloadRule::kUpToMtu, false, true, true},
    {Operation::kFlush, VB_RC_ONLY("FLUSH"), H::kFeth | H::kReth, PayloadRule::kNone, false, true,
     true},
    {Operation::kAtomicWrite, VB_RC_ONLY("ATOMIC WRITE"), H::kReth, PayloadRule::kEight, false,
     true, true},
};

#undef VB_RC_ONLY
#undef VB_RC_UC
#undef VB_ALL

/// Sizes by header bit; the order of the bits is the order on the wire.
constexpr std::array<std::uint8_t, 10> kHeaderOctets = {
    Deth::kSize, XrcEth::kSize,       Feth::kSize,  Reth::kSize, AtomicEth::kSize,
    Aeth::kSize, AtomicAckEth::kSize, ImmDt::kSize, Ieth::kSize, kCnpReservedOctets};

constexpr OpcodeInfo info(const Row& row, const char* name, std::uint16_t more_headers) noexcept {
  OpcodeInfo info{.name = name,
                  .headers = static_cast<std::uint16_t>(row.headers | more_headers),
                  .header_octets = 0,
                  .payload = row.payload,
                  .is_response = row.is_response,
                  .starts_message = row.starts,
                  .ends_message = row.ends,
                  .offsets = {}};
  for (std::size_t bit = 0; bit < kHeaderOctets.size(); ++bit) {
    if ((info.headers & (1U << bit)) == 0) continue;
    info.offsets[bit] = static_cast<std::uint8_t>(Bth::kSize + info.header_octets);
    info.header_octets = static_cast<std::uint8_t>(info.header_octets + kHeaderOctets[bit]);
  }
  return info;
}

constexpr std::array<OpcodeInfo, 256> make_table() noexcept {
  std::array<OpcodeInfo, 256> table{};
  const auto put = [&](Transport transport, const Row& row, const char* name, std::uint16_t more) {
    if (name == nullptr) return;
    table[static_cast<std::size_t>(opcode_of(transport, row.operation))] = info(row, name, more);
  };
  for (const Row& row : kRows) {
    put(Transport::kRc, row, row.rc, 0);
    put(Transport::kUc, row, row.uc, 0);
    put(Transport::kUd, row, row.ud, H::kDeth);
    put(Transport::kXrc, row, row.xrc,
        row.is_response ? 0 : static_cast<std::uint16_t>(H::kXrcEth));
  }
  constexpr Row kCnpRow{
      operation_of(Opcode::kCnp), nullptr, nullptr, nullptr, nullptr, H::kCnpReserved,
      PayloadRule::kNone,         false,   true,    true};
  table[static_cast<std::size_t>(Opcode::kCnp)] = info(kCnpRow, "CNP", 0);
  return table;
}

}  // namespace

namespace detail {
constinit const std::array<OpcodeInfo, 256> kOpcodeTable = make_table();
}  // namespace detail

}  // namespace verbatim::wire
