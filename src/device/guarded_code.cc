// SPDX-License-Identifier: Apache-2.0
#include "device/guarded_code.h"

#include <link.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/pointer.h"

namespace verbatim::device {
namespace {

struct Code {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] bool holds(std::uintptr_t address) const noexcept {
    return begin <= address && address < end;
  }
};

constexpr std::size_t kCodeMax = 16;  // segments: each of the few libraries has one, or two
constinit std::array<Code, kCodeMax> g_code{};
constinit std::size_t g_count = 0;

/// One function of each library that the work calls.
bool is_called_by_work(const Code& code) noexcept {
  const std::array functions = {numeric_address(&learn_guarded_code), numeric_address(&std::memcpy),
                                numeric_address(&std::memmove), numeric_address(&std::memset),
                                numeric_address(&::getpid)};
  return std::ranges::any_of(functions,
                             [&](std::uintptr_t function) { return code.holds(function); });
}

int note(dl_phdr_info* library, std::size_t, void*) noexcept {
  for (std::size_t i = 0; i < library->dlpi_phnum; ++i) {
    const auto& segment = library->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const std::uintptr_t begin = library->dlpi_addr + segment.p_vaddr;
    const Code code{.begin = begin, .end = begin + segment.p_memsz};
    if (is_called_by_work(code) && g_count < kCodeMax) g_code[g_count++] = code;
  }
  return 0;
}

}  // namespace

void learn_guarded_code() noexcept { (void)::dl_iterate_phdr(note, nullptr); }

bool is_fault_of_guarded_code(const void* context) noexcept {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__aarch64__)
  const auto at = static_cast<std::uintptr_t>(machine.pc);
#elif defined(__x86_64__)
  const auto at = static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#else
  (void)machine;
  return true;
#endif
  const auto end = g_code.begin() + g_count;
  return g_count == 0 ||
         std::any_of(g_code.begin(), end, [&](const Code& code) { return code.holds(at); });
}

}  // namespace verbatim::device
