// SPDX-License-Identifier: Apache-2.0
// ibv_wc_status_str(3), ibv_event_type_str(3), ibv_node_type_str(3), ibv_port_state_str(3), and the
// rates of ibv_rate_to_mbps(3) and ibv_rate_to_mult(3).
#include <infiniband/verbs.h>

#include <algorithm>
#include <span>

#include "abi/border.h"

namespace verbatim::abi {
namespace {

/// A static rate: its enumerator, megabits per second, and multiples of 2.5 Gb/s (0: none).
struct Rate {
  ibv_rate rate;
  int mbps;
  int multiple;
};
constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 2500, 1},     {IBV_RATE_5_GBPS, 5000, 2},
    {IBV_RATE_10_GBPS, 10000, 4},     {IBV_RATE_14_GBPS, 14062, 0},
    {IBV_RATE_20_GBPS, 20000, 8},     {IBV_RATE_25_GBPS, 25781, 0},
    {IBV_RATE_28_GBPS, 28125, 0},     {IBV_RATE_30_GBPS, 30000, 12},
    {IBV_RATE_40_GBPS, 40000, 16},    {IBV_RATE_50_GBPS, 53125, 0},
    {IBV_RATE_56_GBPS, 56250, 0},     {IBV_RATE_60_GBPS, 60000, 24},
    {IBV_RATE_80_GBPS, 80000, 32},    {IBV_RATE_100_GBPS, 103125, 0},
    {IBV_RATE_112_GBPS, 112500, 0},   {IBV_RATE_120_GBPS, 120000, 48},
    {IBV_RATE_168_GBPS, 168750, 0},   {IBV_RATE_200_GBPS, 206250, 0},
    {IBV_RATE_300_GBPS, 309375, 0},   {IBV_RATE_400_GBPS, 425000, 0},
    {IBV_RATE_600_GBPS, 637500, 0},   {IBV_RATE_800_GBPS, 850000, 0},
    {IBV_RATE_1200_GBPS, 1275000, 0},
};

/// The text at `index`, or `unknown` beyond the list.
const char* text_at(std::span<const char* const> texts, int index, const char* unknown) noexcept {
  const auto place = static_cast<std::size_t>(index);
  return index >= 0 && place < texts.size() && texts[place] != nullptr ? texts[place] : unknown;
}

}  // namespace
}  // namespace verbatim::abi

using namespace verbatim::abi;

extern "C" {

VB_EXPORT const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr const char* kTexts[] = {"success",
                                           "local length error",
                                           "local QP operation error",
                                           "local EE context operation error",
                                           "local protection error",
                                           "Work Request Flushed Error",
                                           "memory management operation error",
                                           "bad response error",
                                           "local access error",
                                           "remote invalid request error",
                                           "remote access error",
                                           "remote operation error",
                                           "transport retry counter exceeded",
                                           "RNR retry counter exceeded",
                                           "local RDD violation error",
                                           "remote invalid RD request",
                                           "aborted error",
                                           "invalid EE context number",
                                           "invalid EE context state",
                                           "fatal error",
                                           "response timeout error",
                                           "general error",
                                           "TM error",
                                           "TM software rendezvous"};
  return text_at(kTexts, status, "unknown");
}

VB_EXPORT const char* ibv_event_type_str(ibv_event_type event) {
  static constexpr const char* kTexts[] = {"CQ error",
                                           "local work queue catastrophic error",
                                           "invalid request local work queue error",
                                           "local access violation work queue error",
                                           "communication established",
                                           "send queue drained",
                                           "path migrated",
                                           "path migration request error",
                                           "local catastrophic error",
                                           "port active",
                                           "port error",
                                           "LID change",
                                           "P_Key change",
                                           "SM change",
                                           "SRQ catastrophic error",
                                           "SRQ limit reached",
                                           "last WQE reached",
                                           "client reregistration",
                                           "GID table change",
                                           "WQ fatal"};
  return text_at(kTexts, event, "unknown");
}

VB_EXPORT const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr const char* kTexts[] = {nullptr,
                                           "InfiniBand channel adapter",
                                           "InfiniBand switch",
                                           "InfiniBand router",
                                           "iWARP NIC",
                                           "usNIC",
                                           "usNIC UDP",
                                           "unspecified"};
  return text_at(kTexts, type, "unknown");
}

VB_EXPORT const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr const char* kTexts[] = {
      "no state change (NOP)", "down", "init", "armed", "active", "active defer"};
  return text_at(kTexts, state, "invalid state");
}

VB_EXPORT int ibv_rate_to_mult(ibv_rate rate) {
  const auto* found = std::ranges::find(kRates, rate, &Rate::rate);
  return found == std::end(kRates) || found->multiple == 0 ? -1 : found->multiple;
}

VB_EXPORT ibv_rate mult_to_ibv_rate(int multiple) {
  const auto* found = std::ranges::find(kRates, multiple, &Rate::multiple);
  return multiple == 0 || found == std::end(kRates) ? IBV_RATE_MAX : found->rate;
}

VB_EXPORT int ibv_rate_to_mbps(ibv_rate rate) {
  const auto* found = std::ranges::find(kRates, rate, &Rate::rate);
  return found == std::end(kRates) ? -1 : found->mbps;
}

VB_EXPORT ibv_rate mbps_to_ibv_rate(int mbps) {
  const auto* found = std::ranges::find(kRates, mbps, &Rate::mbps);
  return found == std::end(kRates) ? IBV_RATE_MAX : found->rate;
}

}  // extern "C"
