// SPDX-License-Identifier: Apache-2.0
#include "device/memory_window.h"

#include <mutex>

namespace verbatim::device {

Expected<MemoryWindow> MemoryWindow::create(const MemoryParts& parts, memory::DomainId domain,
                                            memory::KeyKind kind) {
  const host::AdapterGuard lock(parts.lock);
  auto key = parts.keys.allocate_window(domain, kind);
  if (!key) return key.error();
  (void)parts.domains.add_user(domain);  // cannot fail: the domain is open
  return MemoryWindow(parts, domain, *key);
}

Status MemoryWindow::destroy() {
  const host::AdapterGuard lock(parts_.lock);
  const memory::KeyEntry* entry = parts_.keys.table().find(first_key_);
  auto freed = parts_.keys.free_window(wire::MemoryKey{entry->key});  // the present key
  if (!freed) return freed;
  (void)parts_.peers.await();
  parts_.domains.drop_user(domain_);
  return Ok{};
}

}  // namespace verbatim::device
