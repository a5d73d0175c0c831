// SPDX-License-Identifier: Apache-2.0
#include "device/address_handle.h"

#include <mutex>

namespace verbatim::device {

Expected<AddressHandle> AddressHandle::create(Adapter& adapter, memory::DomainId domain,
                                              const Adapter::Destination& to) {
  const host::AdapterGuard lock(adapter.mutex());
  auto path = adapter.path_to(to);
  if (!path) return path.error();
  if (auto taken = adapter.quotas().address_handles.take(); !taken) return taken.error();
  (void)adapter.domains().add_user(domain);  // cannot fail: the domain is open
  return AddressHandle(adapter, domain, *path);
}

void AddressHandle::destroy() {
  const host::AdapterGuard lock(adapter_->mutex());
  adapter_->domains().drop_user(domain_);
  adapter_->quotas().address_handles.give_back();
}

}  // namespace verbatim::device
