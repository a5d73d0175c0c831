// SPDX-License-Identifier: Apache-2.0
#include "abi/rdmacm/library/core.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

#include "base/process_wide.h"

namespace verbatim::abi {
namespace {

constexpr const char* kVerbsLibrary = "libibverbs.so.1";

/// The libibverbs of this process: the one it has, else the one beside this library, else any.
void* open_verbs() noexcept {
  if (void* loaded = ::dlopen(kVerbsLibrary, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  Dl_info self{};
  char path[4096];
  if (::dladdr(reinterpret_cast<void*>(&cm_core), &self) != 0 && self.dli_fname != nullptr) {
    const char* slash = std::strrchr(self.dli_fname, '/');
    const int folder = slash == nullptr ? 0 : static_cast<int>(slash - self.dli_fname) + 1;
    const int length =
        std::snprintf(path, sizeof path, "%.*s%s", folder, self.dli_fname, kVerbsLibrary);
    const bool fits = folder != 0 && length > 0 && static_cast<std::size_t>(length) < sizeof path;
    if (void* beside = fits ? ::dlopen(path, RTLD_NOW | RTLD_GLOBAL) : nullptr) return beside;
  }
  return ::dlopen(kVerbsLibrary, RTLD_NOW | RTLD_GLOBAL);
}

/// The path that a library was loaded from.
const char* path_of(void* library) noexcept {
  void* symbol = ::dlsym(library, "ibv_get_device_list");
  Dl_info info{};
  const bool known = symbol != nullptr && ::dladdr(symbol, &info) != 0;
  return known && info.dli_fname != nullptr ? info.dli_fname : kVerbsLibrary;
}

const CmTable* find_core() noexcept {
  void* library = open_verbs();
  if (library == nullptr) {
    std::fprintf(stderr,
                 "verbatim: librdmacm.so.1 cannot load libibverbs.so.1 (%s); start the program "
                 "with `verbatim run`\n",
                 ::dlerror());
    return nullptr;
  }
  using Find = const CmTable* (*)();
  const auto find = reinterpret_cast<Find>(::dlvsym(library, kCmTableSymbol, kCmTableVersion));
  const CmTable* table = find == nullptr ? nullptr : find();
  if (table == nullptr || table->octets != sizeof(CmTable)) {
    std::fprintf(stderr,
                 "verbatim: librdmacm.so.1 works only with the libibverbs.so.1 it was built with, "
                 "and this process has loaded %s; start the program with `verbatim run`\n",
                 path_of(library));
    return nullptr;
  }
  return table;
}

}  // namespace

const CmTable* cm_core() noexcept {
  struct Found {
    const CmTable* table;
  };
  return process_wide([] { return new Found{find_core()}; }).table;
}

}  // namespace verbatim::abi
