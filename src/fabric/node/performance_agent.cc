// SPDX-License-Identifier: Apache-2.0
#include "fabric/node/performance_agent.h"

#include <algorithm>

#include "base/byte_order.h"
#include "wire/headers/smp.h"
#include "wire/management/port_counters.h"

namespace verbatim::fabric {
namespace {

using wire::CounterField;
using wire::PerformanceAttribute;
using wire::PerformanceMad;
using wire::SmpStatus;  // the codes are those of all classes

using Mad = std::span<std::byte, wire::Mad::kSize>;
using Data = std::span<std::byte, PerformanceMad::kDataSize>;

// ClassPortInfo.CapabilityMask (16.1.3.1): bit 8 a port number for all ports, bit 9 counters of 64
// bits, bit 12 the counter PortXmitWait.
constexpr std::uint16_t kCapabilityMask = (1U << 8) | (1U << 9) | (1U << 12);
constexpr std::uint8_t kResponseTime = 8;    // 4.096 us * 2^this
constexpr std::size_t kCounterSelect2 = 18;  // its octet in PortCounters
constexpr unsigned kSelect2Shift = 16;

/// Which counters an attribute has.
struct CounterTable {
  std::span<const CounterField> fields;
  PortCounts::Reader reader{};
  bool has_select2 = false;
};

/// The ports that a request is about.
struct PortRange {
  std::uint8_t first = 0;
  std::uint8_t last = 0;
};

std::optional<CounterTable> table_of(PerformanceAttribute attribute) noexcept {
  switch (attribute) {
    case PerformanceAttribute::kPortCounters:
      return CounterTable{.fields = wire::kPortCounterFields, .has_select2 = true};
    case PerformanceAttribute::kPortReceiveErrorDetails:
      return CounterTable{.fields = wire::kReceiveErrorFields};
    case PerformanceAttribute::kPortTransmitDiscardDetails:
      return CounterTable{.fields = wire::kTransmitDiscardFields};
    case PerformanceAttribute::kPortCountersExtended:
      return CounterTable{.fields = wire::kExtendedCounterFields,
                          .reader = PortCounts::Reader::kExtended};
    case PerformanceAttribute::kClassPortInfo:
      break;
  }
  return std::nullopt;
}

std::optional<PortRange> ports_of(const Node& node, std::uint8_t select) noexcept {
  const std::uint8_t lowest = node.is_switch() ? 0 : 1;
  if (select == PerformanceMad::kAllPorts) return PortRange{1, node.port_count()};
  if (select < lowest || select > node.port_count()) return std::nullopt;
  return PortRange{select, select};
}

void reset(Node& node, PortRange ports, const CounterTable& table, Data data) {
  std::uint32_t selected = load_be_at<std::uint16_t>(data.data() + 2);
  if (table.has_select2) {
    selected |= std::to_integer<std::uint32_t>(data[kCounterSelect2]) << kSelect2Shift;
  }
  for (const CounterField& field : table.fields) {
    if ((selected >> field.select_bit & 1) == 0) continue;
    for (unsigned port = ports.first; port <= ports.last; ++port) {
      node.port(static_cast<std::uint8_t>(port))
          .counts.set(table.reader, field.counter, field.from(data));
    }
  }
}

std::uint64_t sum(const Node& node, PortRange ports, const CounterTable& table,
                  const CounterField& field) noexcept {
  std::uint64_t total = 0;
  for (unsigned port = ports.first; port <= ports.last; ++port) {
    const auto value =
        node.port(static_cast<std::uint8_t>(port)).counts.value(table.reader, field.counter);
    total = std::min(total + std::min(value, field.limit()), field.limit());
  }
  return total;
}

SmpStatus access_counters(Node& node, bool is_set, const CounterTable& table, Data data) {
  const auto select = std::to_integer<std::uint8_t>(data[1]);
  const auto ports = ports_of(node, select);
  if (!ports) return SmpStatus::kInvalidField;
  if (is_set) reset(node, *ports, table, data);
  for (const CounterField& field : table.fields) {
    field.emit(sum(node, *ports, table, field), data);
  }
  return SmpStatus::kOk;
}

/// 0 base version | 1 class version | 2..3 capability mask | 7 reserved:3 response time:5. This
/// agent sends no traps and redirects nothing, so the rest is zero.
SmpStatus read_class_port_info(bool is_set, Data data) {
  if (is_set) return SmpStatus::kUnsupportedMethodOrAttribute;
  std::ranges::fill(data, std::byte{0});
  store_be<std::uint8_t, 0>(data, wire::MadHeader::kBaseVersion);
  store_be<std::uint8_t, 1>(data, PerformanceMad::kClassVersion);
  store_be<std::uint16_t, 2>(data, kCapabilityMask);
  store_be<std::uint8_t, 7>(data, kResponseTime);
  return SmpStatus::kOk;
}

SmpStatus carry_out(Node& node, const wire::MadView& request, Data data) {
  if (request.class_version() != PerformanceMad::kClassVersion) return SmpStatus::kBadVersion;
  const bool is_set = request.method() == wire::MadMethod::kSet;
  const PerformanceAttribute attribute{request.attribute_id()};
  if (attribute == PerformanceAttribute::kClassPortInfo) return read_class_port_info(is_set, data);
  const auto table = table_of(attribute);
  if (!table) return SmpStatus::kUnsupportedMethodOrAttribute;
  return access_counters(node, is_set, *table, data);
}

}  // namespace

void answer_performance(Node& node, Mad mad) {
  const auto request = wire::MadView::parse(mad);
  const auto data = mad.subspan<PerformanceMad::kDataOffset, PerformanceMad::kDataSize>();
  const SmpStatus status = carry_out(node, *request, data);
  store_be<std::uint8_t, 3>(mad, static_cast<std::uint8_t>(wire::MadMethod::kGetResp));
  store_be<std::uint16_t, 4>(mad, static_cast<std::uint16_t>(status));
}

}  // namespace verbatim::fabric
