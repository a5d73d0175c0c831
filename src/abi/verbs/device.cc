// SPDX-License-Identifier: Apache-2.0
// ibv_get_device_list(3), ibv_open_device(3), ibv_query_device(3), ibv_query_port(3),
// ibv_query_gid(3).
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "abi/border.h"
#include "abi/verbs/handles.h"
#include "abi/verbs/operations.h"
#include "base/byte_order.h"
#include "base/environment.h"
#include "base/process_wide.h"
#include "base/uncancelled.h"
#include "connect/general_services.h"
#include "device/adapter_registry.h"
#include "device/clock.h"
#include "device/limits.h"
#include "device/process.h"
#include "transport/rc/responder_state.h"

namespace verbatim::abi {
namespace {

/// The devices that the program has seen. Their pointers stay the same as long as the process runs.
/// Each ibv_get_device_list writes their ports again, so the ports are read with the lock held,
/// too.
struct Devices {
  ForkMutex mutex;
  std::map<std::string, std::unique_ptr<DeviceHandle>> by_name VB_GUARDED_BY(mutex);
};
Devices& devices() {
  return process_wide([] { return new Devices; });
}
const device::TakesPartInForks kInForks(
    {.rank = device::ForkRank::kDevices,
     .prepare = [] { devices().mutex.lock_for_fork(); },
     .parent = [] { devices().mutex.unlock_after_fork(); },
     .child = [] { devices().mutex.unlock_after_fork(); },
     .forget = [] { device::renew_unless_held(devices(), devices().mutex); }});

device::PortInfo port_of(ibv_device* device) {
  const LockGuard lock(devices().mutex);
  return handle_of<DeviceHandle>(device).port;
}

/// For programs that do not call ibv_fork_init(3) themselves.
bool asks_for_fork_init() noexcept {
  return environment_variable("RDMAV_FORK_SAFE") != nullptr ||
         environment_variable("IBV_FORK_SAFE") != nullptr;
}

void set_text(char* to, std::size_t room, const std::string& text) noexcept {
  std::snprintf(to, room, "%s", text.c_str());
}

DeviceHandle& remember(const device::PortInfo& port) VB_REQUIRES(devices().mutex) {
  auto& known = devices().by_name[port.name];
  if (known == nullptr) {
    known = std::make_unique<DeviceHandle>();
    ibv_device& device = known->device;
    const auto index = std::to_string(devices().by_name.size() - 1);
    device.node_type = IBV_NODE_CA;
    device.transport_type = IBV_TRANSPORT_IB;
    set_text(device.name, sizeof device.name, port.name);
    set_text(device.dev_name, sizeof device.dev_name, "uverbs" + index);
    set_text(device.dev_path, sizeof device.dev_path, "/sys/class/infiniband_verbs/uverbs" + index);
    set_text(device.ibdev_path, sizeof device.ibdev_path, "/sys/class/infiniband/" + port.name);
  }
  known->port = port;
  return *known;
}

ibv_device_attr attributes_of(const device::PortInfo& port) noexcept {
  ibv_device_attr attr{};
  std::memcpy(&attr.node_guid, port.guid.data(), sizeof attr.node_guid);
  attr.sys_image_guid = port.fabric ? big_endian(port.fabric->system_guid) : attr.node_guid;
  std::snprintf(attr.fw_ver, sizeof attr.fw_ver, "%s", device::kFirmwareVersion);
  attr.max_mr_size = ~std::uint64_t{0};
  attr.page_size_cap = 0xffff'f000;
  attr.vendor_id = 0x00ff'ffff;
  attr.vendor_part_id = 0;
  attr.hw_ver = 0;
  attr.max_qp = static_cast<int>(device::kMaxQueuePairs);
  attr.max_qp_wr = static_cast<int>(device::kMaxQueueDepth);
  attr.device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                          IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  if (port.fabric) attr.device_cap_flags |= IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR;
  attr.device_cap_flags |= IBV_DEVICE_PORT_ACTIVE_EVENT;
  attr.max_sge = static_cast<int>(device::kMaxSges);
  attr.max_sge_rd = static_cast<int>(device::kMaxSges);
  attr.max_cq = static_cast<int>(device::kMaxCompletionQueues);
  attr.max_cqe = static_cast<int>(device::kMaxCompletions);
  attr.max_mr = static_cast<int>(device::kMaxKeys);
  attr.max_pd = static_cast<int>(device::kMaxDomains);
  attr.max_qp_rd_atom = static_cast<int>(transport::kMaxReadAtomic);
  attr.max_qp_init_rd_atom = static_cast<int>(transport::kMaxReadAtomic);
  attr.max_res_rd_atom = attr.max_qp_rd_atom * attr.max_qp;
  attr.atomic_cap = IBV_ATOMIC_GLOB;
  attr.max_mw = static_cast<int>(device::kMaxKeys);
  attr.max_ah = static_cast<int>(device::kMaxAddressHandles);
  attr.max_mcast_grp = static_cast<int>(device::kMaxGroups);
  attr.max_mcast_qp_attach = static_cast<int>(device::kMaxGroupMembers);
  attr.max_total_mcast_qp_attach = attr.max_mcast_grp * attr.max_mcast_qp_attach;
  attr.max_srq = static_cast<int>(device::kMaxSharedQueues);
  attr.max_srq_wr = static_cast<int>(device::kMaxQueueDepth);
  attr.max_srq_sge = static_cast<int>(device::kMaxSges);
  attr.max_pkeys = static_cast<std::uint16_t>(port.pkeys().size());
  attr.local_ca_ack_delay = 15;
  attr.phys_port_cnt = 1;
  return attr;
}

/// The clock of completion timestamps, in nanoseconds.
int query_clock(ibv_context*, ibv_values_ex* values) noexcept {
  if ((values->comp_mask & ~unsigned{IBV_VALUES_MASK_RAW_CLOCK}) != 0)
    return as_errno_value(EINVAL);
  values->raw_clock.tv_sec = 0;
  values->raw_clock.tv_nsec = device::now().since_start().count();
  return 0;
}

void fill_operations(ContextHandle& handle) noexcept {
  verbs_context& verbs = handle.verbs;
  verbs.sz = sizeof(verbs_context);
  verbs.query_port = query_port;
  verbs.query_device_ex = query_device_ex;
  verbs.query_rt_values = query_clock;
  verbs.create_cq_ex = create_cq_ex;
  verbs.modify_cq = modify_cq;
  verbs.create_qp_ex = create_qp_ex;
  verbs.create_srq_ex = create_srq_ex;
  verbs.get_srq_num = get_srq_num;
  ibv_context_ops& ops = verbs.context.ops;
  ops._compat_query_device = ibv_query_device;
  ops._compat_query_port = [](ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr) {
    return (ibv_query_port)(context, port, attr);
  };
  ops.alloc_mw = alloc_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.bind_mw = bind_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_send = post_send;
  ops.post_recv = post_recv;
  ops.post_srq_recv = post_srq_recv;
}

ibv_gid_entry entry_of(const device::GidEntry& gid, std::uint32_t index) noexcept {
  ibv_gid_entry entry{};
  std::memcpy(entry.gid.raw, gid.gid.octets.data(), sizeof entry.gid.raw);
  entry.gid_index = index;
  entry.port_num = 1;
  entry.gid_type = gid.interface_index == 0 ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
  entry.ndev_ifindex = gid.interface_index;
  return entry;
}

device::PortInfo port_of(ibv_context* context) { return handle_of(context).adapter->port(); }

}  // namespace

namespace {

void show_interface(const device::PortInfo& info, ibv_port_attr& attr) noexcept {
  const device::LinkRate rate = device::link_rate_of(info.speed_mbps);
  attr.state = info.is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  static_assert(device::kPortCapabilities == (IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS));
  attr.port_cap_flags = device::kPortCapabilities;
  attr.active_width = rate.width;
  attr.active_speed = rate.speed;
  attr.phys_state = info.is_up ? 5 : 3;  // link up, disabled
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  attr.flags = IBV_QPF_GRH_REQUIRED;
}

/// ibv_port_attr of rdma-core 59 and later, which has one member more: the speed of a lane, of
/// which active_speed has too few bits for XDR.
struct LongerPortAttr {
  ibv_port_attr known{};
  std::uint32_t active_speed_ex = 0;
};
constexpr unsigned kFastestSpeed = 128;  // that active_speed can tell: NDR
static_assert(offsetof(LongerPortAttr, active_speed_ex) == 52);

/// The encodings of a subnet manager are those of the verbs.
void show_fabric(const device::PortInfo& info, LongerPortAttr& longer) noexcept {
  const device::FabricPort& fabric = *info.fabric;
  ibv_port_attr& attr = longer.known;
  attr.state = static_cast<ibv_port_state>(fabric.state);
  attr.max_mtu = static_cast<ibv_mtu>(fabric.mtu_limit);
  attr.port_cap_flags = fabric.capabilities;
  attr.lid = static_cast<std::uint16_t>(fabric.lid);
  attr.sm_lid = static_cast<std::uint16_t>(fabric.sm_lid);
  attr.lmc = fabric.lmc;
  attr.sm_sl = static_cast<std::uint8_t>(fabric.sm_level);
  attr.bad_pkey_cntr = fabric.pkey_violations;
  attr.qkey_viol_cntr = fabric.qkey_violations;
  attr.max_vl_num = fabric.lane_limit;
  attr.subnet_timeout = fabric.subnet_timeout;
  attr.init_type_reply = fabric.init_reply;
  attr.active_width = fabric.width;
  attr.active_speed = static_cast<std::uint8_t>(std::min<unsigned>(fabric.speed, kFastestSpeed));
  longer.active_speed_ex = fabric.speed;
  attr.phys_state = fabric.physical_state;
  attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  if ((fabric.capabilities & IBV_PORT_CAP_MASK2_SUP) != 0) {
    attr.port_cap_flags2 = fabric.capabilities_2;
  }
}

}  // namespace

int query_port(ibv_context* context, uint8_t port, ibv_port_attr* attributes, size_t size) {
  if (port != 1) return as_errno_value(EINVAL);
  const device::PortInfo info = port_of(context);
  LongerPortAttr longer;
  ibv_port_attr& attr = longer.known;
  info.fabric ? show_fabric(info, longer) : show_interface(info, attr);
  attr.active_mtu = static_cast<ibv_mtu>(info.active_mtu);
  attr.gid_tbl_len = static_cast<int>(info.gids.size());
  attr.max_msg_sz = 1U << 31;
  attr.pkey_tbl_len = static_cast<std::uint16_t>(info.pkeys().size());
  if (!info.fabric) longer.active_speed_ex = attr.active_speed;
  // Callers built against other releases have a shorter or a longer struct.
  std::memset(attributes, 0, size);
  std::memcpy(attributes, &longer, std::min(size, sizeof longer));
  return 0;
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, size_t size) {
  if (input != nullptr && input->comp_mask != 0) return as_errno_value(EINVAL);
  ibv_device_attr_ex attr{};
  attr.orig_attr = attributes_of(port_of(context));
  attr.completion_timestamp_mask = ~std::uint64_t{0};
  attr.hca_core_clock = 1'000'000;  // kHz: timestamps are nanoseconds
  attr.phys_port_cnt_ex = 1;
  std::memset(attributes, 0, size);
  std::memcpy(attributes, &attr, std::min(size, sizeof attr));
  return 0;
}

}  // namespace verbatim::abi

using namespace verbatim;
using namespace verbatim::abi;

extern "C" {

VB_EXPORT ibv_device** ibv_get_device_list(int* count) {
  const Uncancelled uncancelled;
  if (count != nullptr) *count = 0;
  if (asks_for_fork_init()) (void)ibv_fork_init();  // it never fails
  std::string message;
  const auto ports = device::find_ports(message);
  if (!ports) {
    std::fprintf(stderr, "verbatim: %s\n", message.c_str());
    return as_null<ibv_device*>(ports.error());
  }
  auto* list = static_cast<ibv_device**>(std::calloc(ports->size() + 1, sizeof(ibv_device*)));
  if (list == nullptr) return as_null<ibv_device*>(Errc::kNoMemory);
  const LockGuard lock(devices().mutex);
  for (std::size_t i = 0; i < ports->size(); ++i) list[i] = &remember((*ports)[i]).device;
  if (count != nullptr) *count = static_cast<int>(ports->size());
  return list;
}

VB_EXPORT void ibv_free_device_list(ibv_device** list) { std::free(list); }

VB_EXPORT const char* ibv_get_device_name(ibv_device* device) { return device->name; }

VB_EXPORT int ibv_get_device_index(ibv_device* device) {
  return static_cast<int>(port_of(device).interface_index);
}

VB_EXPORT __be64 ibv_get_device_guid(ibv_device* device) {
  const auto octets = port_of(device).guid;
  __be64 guid;
  std::memcpy(&guid, octets.data(), sizeof guid);
  return guid;
}

VB_EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  const Uncancelled uncancelled;
  DeviceHandle& handle = handle_of<DeviceHandle>(device);
  std::string message;
  auto adapter = device::open_adapter(port_of(device), &connect::GeneralServices::make, message);
  if (!adapter) {
    std::fprintf(stderr, "verbatim: cannot open %s: %s\n", device->name, message.c_str());
    return as_null<ibv_context>(adapter.error());
  }
  auto context = std::make_unique<ContextHandle>();
  context->adapter = std::move(*adapter);
  context->device = &handle;
  if (auto opened = context->async.open(); !opened) {
    std::fprintf(stderr,
                 "verbatim: cannot open %s: no descriptor is left for its events; raise `ulimit "
                 "-n`\n",
                 device->name);
    return as_null<ibv_context>(opened.error());
  }
  fill_operations(*context);
  ibv_context* result = context->context();
  result->device = device;
  // Programs only duplicate and compare this descriptor. It must differ from all others.
  context->command = device::OwnDescriptor::in_place(::eventfd(0, EFD_CLOEXEC));
  result->cmd_fd = context->command.number();
  result->async_fd = context->async.descriptor();
  result->num_comp_vectors = 1;
  result->abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&result->mutex, nullptr);
  context->adapter->add_events(context->async);
  LiveHandles::instance().add(context.get());
  return context.release()->context();
}

VB_EXPORT int ibv_close_device(ibv_context* context) {
  const Uncancelled uncancelled;
  ContextHandle& handle = handle_of(context);
  if (!LiveHandles::instance().remove(&handle)) return as_errno_value(EINVAL);
  handle.adapter->remove_events(handle.async);
  handle.command.close();
  drop(handle);  // objects that the program has not destroyed still use it
  return 0;
}

VB_EXPORT int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  *attributes = attributes_of(port_of(context));
  return 0;
}

VB_EXPORT int(ibv_query_port)(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr) {
  // The struct of this symbol ends before port_cap_flags2, also where the header declares a longer
  // one.
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

VB_EXPORT int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
  const auto gids = port_of(context).gids;
  if (port != 1 || index < 0 || static_cast<std::size_t>(index) >= gids.size()) {
    errno = EINVAL;
    return -1;
  }
  std::memcpy(gid->raw, gids[static_cast<std::size_t>(index)].gid.octets.data(), sizeof gid->raw);
  return 0;
}

VB_EXPORT int _ibv_query_gid_ex(ibv_context* context, uint32_t port, uint32_t index,
                                ibv_gid_entry* entry, uint32_t flags, size_t size) {
  const auto gids = port_of(context).gids;
  if (port != 1 || flags != 0) return as_errno_value(EINVAL);
  if (index >= gids.size()) return as_errno_value(EINVAL);
  if (gids[index].gid == wire::Gid{}) return as_errno_value(ENODATA);
  const ibv_gid_entry found = entry_of(gids[index], index);
  std::memset(entry, 0, size);
  std::memcpy(entry, &found, std::min(size, sizeof found));
  return 0;
}

VB_EXPORT ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t room,
                                       uint32_t flags, size_t size) {
  const auto gids = port_of(context).gids;
  const auto used = std::count_if(gids.begin(), gids.end(), [](const device::GidEntry& entry) {
    return entry.gid != wire::Gid{};
  });
  if (flags != 0 || room < static_cast<std::size_t>(used)) return -EINVAL;
  auto* to = reinterpret_cast<std::byte*>(entries);
  for (std::size_t i = 0; i < gids.size(); ++i) {
    if (gids[i].gid == wire::Gid{}) continue;
    const ibv_gid_entry found = entry_of(gids[i], static_cast<std::uint32_t>(i));
    std::memset(to, 0, size);
    std::memcpy(to, &found, std::min(size, sizeof found));
    to += size;
  }
  return used;
}

VB_EXPORT int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
  const auto pkeys = port_of(context).pkeys();
  if (port != 1 || index < 0 || static_cast<std::size_t>(index) >= pkeys.size()) {
    errno = EINVAL;
    return -1;
  }
  *pkey = big_endian(static_cast<std::uint16_t>(pkeys[static_cast<std::size_t>(index)]));
  return 0;
}

VB_EXPORT int ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
  const auto pkeys = port_of(context).pkeys();
  const auto found = std::ranges::find(pkeys, wire::PKey{big_endian(pkey)});
  if (port == 1 && found != pkeys.end()) return static_cast<int>(found - pkeys.begin());
  errno = EINVAL;
  return -1;
}

}  // extern "C"
