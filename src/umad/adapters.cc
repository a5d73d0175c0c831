// SPDX-License-Identifier: Apache-2.0
// What adapters and ports there are: umad_get_cas_names, umad_get_ca, umad_get_port and their like.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/byte_order.h"
#include "base/version.h"
#include "umad/adapter.h"
#include "umad/border.h"

namespace verbatim::umad {
namespace {

using host::FabricNodeState;
using host::FabricPortState;

template <std::size_t kOctets>
void copy_text(char (&to)[kOctets], std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), kOctets - 1);
  std::memset(to, 0, kOctets);
  std::memcpy(to, text.data(), length);
}

/// False: no memory.
bool fill_port(umad_port_t& to, int number, const FabricPortState& state) noexcept {
  to = {};
  copy_text(to.ca_name, host::kFabricAdapterName);
  copy_text(to.link_layer, "InfiniBand");
  to.portnum = number;
  to.base_lid = state.lid;
  to.lmc = state.lmc;
  to.sm_lid = state.sm_lid;
  to.sm_sl = state.sm_sl;
  to.state = state.state;
  to.phys_state = state.physical_state;
  to.rate = state.rate_mbps / 1000;
  to.capmask = big_endian(state.capabilities);
  to.gid_prefix = big_endian(state.gid_prefix);
  to.port_guid = big_endian(state.guid);
  const std::size_t pkeys = std::min<std::size_t>(state.pkey_count, state.pkeys.size());
  to.pkeys = static_cast<std::uint16_t*>(std::calloc(std::max<std::size_t>(pkeys, 1), 2));
  if (to.pkeys == nullptr) return false;
  std::copy_n(state.pkeys.begin(), pkeys, to.pkeys);
  to.pkeys_size = static_cast<unsigned>(pkeys);
  return true;
}

void release_ports(umad_ca_t& adapter) noexcept {
  for (umad_port_t*& port : adapter.ports) {
    if (port != nullptr) std::free(port->pkeys);
    std::free(port);
    port = nullptr;
  }
}

/// False: no memory.
bool fill_adapter(umad_ca_t& to, const Adapter& adapter) noexcept {
  const FabricNodeState& state = adapter.view.state;
  to = {};
  copy_text(to.ca_name, host::kFabricAdapterName);
  to.node_type = static_cast<unsigned>(state.kind);
  to.numports = adapter.last_port();
  copy_text(to.fw_ver, kVersionText);
  copy_text(to.ca_type, "Verbatim");
  std::snprintf(to.hw_ver, sizeof to.hw_ver, "%x", static_cast<unsigned>(state.revision));
  to.node_guid = big_endian(state.node_guid);
  to.system_guid = big_endian(state.system_guid);
  for (int number = 0; number <= to.numports; ++number) {
    const FabricPortState* port = adapter.port(number);
    if (port == nullptr) continue;
    auto* made = static_cast<umad_port_t*>(std::calloc(1, sizeof(umad_port_t)));
    to.ports[number] = made;
    if (made != nullptr && fill_port(*made, number, *port)) continue;
    release_ports(to);
    return false;
  }
  return true;
}

/// `struct umad_ca_pair`, which headers before libibumad 1.4 do not have.
struct AdapterPair {
  char smi_name[UMAD_CA_NAME_LEN];
  std::uint32_t smi_port;
  char gsi_name[UMAD_CA_NAME_LEN];
  std::uint32_t gsi_port;
};
static_assert(sizeof(AdapterPair) == 48);

/// One adapter serves both queue pair 0 and queue pair 1.
void fill_pair(void* to, std::uint32_t port) noexcept {
  AdapterPair pair{};
  copy_text(pair.smi_name, host::kFabricAdapterName);
  copy_text(pair.gsi_name, host::kFabricAdapterName);
  pair.smi_port = port;
  pair.gsi_port = port;
  std::memcpy(to, &pair, sizeof pair);
}

}  // namespace
}  // namespace verbatim::umad

using verbatim::umad::Adapter;
using verbatim::umad::ChosenPort;

VB_EXPORT int umad_init() { return 0; }

VB_EXPORT int umad_done() { return 0; }

/// Returns the number of names.
VB_EXPORT int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max) {
  if (cas == nullptr || max < 1 || !Adapter::find()) return 0;
  verbatim::umad::copy_text(cas[0], verbatim::host::kFabricAdapterName);
  return 1;
}

/// Returns the number of GUIDs.
VB_EXPORT int umad_get_ca_portguids(const char* ca_name, __be64* portguids, int max) {
  const auto adapter = Adapter::find();
  if (!adapter || !adapter->is_called(ca_name)) return -ENODEV;
  if (portguids == nullptr) return 0;
  const int count = adapter->last_port() + 1;
  if (count > max) return -ENOMEM;
  for (int number = 0; number < count; ++number) {
    const auto* port = adapter->port(number);
    portguids[number] = port != nullptr ? verbatim::big_endian(port->guid) : 0;
  }
  return count;
}

VB_EXPORT int umad_get_ca(const char* ca_name, umad_ca_t* ca) {
  if (ca == nullptr) return -EINVAL;
  const auto adapter = Adapter::find();
  if (!adapter || !adapter->is_called(ca_name)) return -ENODEV;
  return verbatim::umad::fill_adapter(*ca, *adapter) ? 0 : -ENOMEM;
}

VB_EXPORT int umad_release_ca(umad_ca_t* ca) {
  if (ca == nullptr) return -ENODEV;
  verbatim::umad::release_ports(*ca);
  return 0;
}

VB_EXPORT int umad_get_port(const char* ca_name, int portnum, umad_port_t* port) {
  if (port == nullptr) return -EINVAL;
  const auto chosen = ChosenPort::find(ca_name, portnum);
  if (!chosen) return chosen.error() == verbatim::Errc::kNoDevice ? -ENODEV : -EIO;
  const auto& state = *chosen->adapter.port(chosen->number);
  return verbatim::umad::fill_port(*port, chosen->number, state) ? 0 : -ENOMEM;
}

VB_EXPORT int umad_release_port(umad_port_t* port) {
  if (port == nullptr) return -ENODEV;
  std::free(port->pkeys);
  port->pkeys = nullptr;
  port->pkeys_size = 0;
  return 0;
}

/// `path` cannot be longer than programs have room for; libosmvendor has 256 octets.
VB_EXPORT int umad_get_issm_path(const char* ca_name, int portnum, char path[], int max) {
  if (path == nullptr || max < 1) return -EINVAL;
  const auto chosen = ChosenPort::find(ca_name, portnum);
  if (!chosen) return -verbatim::umad::to_errno(chosen.error());
  const Adapter& adapter = chosen->adapter;
  const std::string name =
      adapter.place.sm_path(adapter.view.node, static_cast<unsigned>(chosen->number));
  std::snprintf(path, static_cast<std::size_t>(max), "%s", name.c_str());
  return 0;
}

/// NULL: there is none; errno is 0 then, or says why the list could not be made.
VB_EXPORT umad_device_node* umad_get_ca_device_list() {
  errno = 0;
  if (!Adapter::find()) {
    errno = 0;
    return nullptr;
  }
  constexpr std::size_t kNameOctets = UMAD_CA_NAME_LEN;
  auto* node =
      static_cast<umad_device_node*>(std::calloc(1, sizeof(umad_device_node) + kNameOctets));
  if (node == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* name = reinterpret_cast<char*>(node + 1);  // freed with the node
  std::snprintf(name, kNameOctets, "%s", verbatim::host::kFabricAdapterName);
  node->ca_name = name;
  return node;
}

VB_EXPORT void umad_free_ca_device_list(umad_device_node* head) {
  while (head != nullptr) {
    umad_device_node* next = head->next;
    std::free(head);
    head = next;
  }
}

/// Returns 0 or an errno value. `size` 0: all.
VB_EXPORT int umad_sort_ca_device_list(umad_device_node** head, std::size_t size) {
  if (head == nullptr) return EINVAL;
  std::vector<umad_device_node*> nodes;
  for (umad_device_node* node = *head; node != nullptr; node = node->next) nodes.push_back(node);
  if (size > 1 && size != nodes.size()) return EINVAL;
  if (nodes.size() < 2 || size == 1) return 0;
  std::ranges::sort(nodes, [](const umad_device_node* a, const umad_device_node* b) {
    return std::strcmp(a->ca_name, b->ca_name) < 0;
  });
  for (std::size_t i = 0; i + 1 < nodes.size(); ++i) nodes[i]->next = nodes[i + 1];
  nodes.back()->next = nullptr;
  *head = nodes.front();
  return 0;
}

/// Returns the number of pairs.
VB_EXPORT int umad_get_smi_gsi_pairs(struct umad_ca_pair cas[], std::size_t max) {
  if (cas == nullptr || max < 1 || !Adapter::find()) return 0;
  verbatim::umad::fill_pair(cas, 0);
  return 1;
}

VB_EXPORT int umad_get_smi_gsi_pair_by_ca_name(const char* devname, std::uint8_t portnum,
                                               struct umad_ca_pair* ca, unsigned enforce_smi) {
  (void)enforce_smi;  // the adapter has both
  if (ca == nullptr) return -1;
  const auto chosen = ChosenPort::find(devname, portnum);
  if (!chosen) {
    errno = ENODEV;
    return -ENODEV;
  }
  verbatim::umad::fill_pair(ca, static_cast<std::uint32_t>(chosen->number));
  return 0;
}
