// SPDX-License-Identifier: Apache-2.0
// rdma_get_devices(3), and how the devices of rdma_cm are opened.
#include "abi/rdmacm/device.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "abi/border.h"
#include "abi/rdmacm/functions.h"
#include "abi/verbs/handles.h"
#include "connect/adapter_services.h"
#include "connect/device_list.h"

namespace verbatim::abi {
namespace {

/// Null when it cannot be opened.
connect::Device* open(ibv_device* device) {
  ibv_context* const context = ibv_open_device(device);
  if (context == nullptr) return nullptr;
  ibv_pd* const domain = ibv_alloc_pd(context);
  if (domain == nullptr) {
    ibv_close_device(context);
    return nullptr;
  }
  return new connect::Device(std::make_unique<connect::AdapterServices>(handle_of(context).adapter),
                             new CmDevice{.verbs = context, .pd = domain});
}

std::vector<connect::Device*> open_new(const std::vector<std::uint32_t>& known) {
  std::vector<connect::Device*> opened;
  ibv_device** list = ibv_get_device_list(nullptr);
  for (ibv_device** device = list; device != nullptr && *device != nullptr; ++device) {
    const auto interface = static_cast<std::uint32_t>(ibv_get_device_index(*device));
    if (std::find(known.begin(), known.end(), interface) != known.end()) continue;
    if (connect::Device* usable = open(*device)) opened.push_back(usable);
  }
  if (list != nullptr) ibv_free_device_list(list);
  return opened;
}

[[maybe_unused]] const bool kHasOpener = [] {
  connect::DeviceList::of_process().set_opener(open_new);
  return true;
}();

}  // namespace

namespace cm_functions {

ibv_context** get_devices(int* count) {
  const auto devices = connect::DeviceList::of_process().all();
  if (count != nullptr) *count = 0;
  if (devices.empty()) return as_null<ibv_context*>(Errc::kNoDevice);
  auto* list = static_cast<ibv_context**>(std::calloc(devices.size() + 1, sizeof(ibv_context*)));
  if (list == nullptr) return as_null<ibv_context*>(Errc::kNoMemory);
  for (std::size_t i = 0; i < devices.size(); ++i) list[i] = handle_of(*devices[i]).verbs;
  if (count != nullptr) *count = static_cast<int>(devices.size());
  return list;
}

void free_devices(ibv_context** list) { std::free(list); }

}  // namespace cm_functions
}  // namespace verbatim::abi
