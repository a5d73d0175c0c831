// SPDX-License-Identifier: Apache-2.0
#include "rehome/survey.h"

#include <linux/mempolicy.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <optional>

#include "base/pointer.h"

namespace verbatim::rehome {

namespace {

Why unreadable(long answer) noexcept {
  return answer == -EMFILE || answer == -ENFILE ? Why::kNoDescriptor : Why::kNoProcess;
}

bool add(Survey& survey, const Stretch& stretch) noexcept {
  if (survey.count == Survey::kStretchesMax) return false;
  survey.stretches[survey.count++] = stretch;
  return true;
}

std::optional<Why> objection(const Mapping& mapping) noexcept {
  if (mapping.is_stack()) return Why::kStack;
  if (mapping.is_huge()) return Why::kHugePage;
  if (mapping.shared) return mapping.name.starts_with('/') ? Why::kFileBacked : Why::kShared;
  if (!mapping.is_private_anonymous()) return Why::kFileBacked;
  if (!mapping.readable) return Why::kNotThere;
  if (mapping.executable) return Why::kExecutable;
  return std::nullopt;
}

/// Whether the mapping has a memory policy of its own. The policy of the thread also holds for
/// pages of the arena.
bool is_bound(std::uintptr_t address) noexcept {
  int mode = MPOL_DEFAULT;
  return kernel::call(SYS_get_mempolicy, &mode, 0, 0, address, MPOL_F_ADDR) == 0 &&
         mode != MPOL_DEFAULT;
}

/// The stack of the main thread has a name in /proc/self/maps. The stack of the caller may be that
/// of another thread, one that the program switches to itself, or one for signals.
bool holds_our_stack(Range pages) noexcept {
  if (pages.contains(numeric_address(&errno))) return true;
  if (pages.contains(numeric_address(__builtin_frame_address(0)))) return true;
  stack_t alternate{};
  if (::sigaltstack(nullptr, &alternate) == 0 && (alternate.ss_flags & SS_DISABLE) == 0) {
    const auto first = numeric_address(alternate.ss_sp);
    if (pages.overlaps({.begin = first, .end = first + alternate.ss_size})) return true;
  }
  pthread_attr_t attributes;
  if (::getpid() == ::gettid() || ::pthread_getattr_np(::pthread_self(), &attributes) != 0) {
    return false;
  }
  void* lowest = nullptr;
  std::size_t octets = 0;
  const bool is_known = ::pthread_attr_getstack(&attributes, &lowest, &octets) == 0;
  (void)::pthread_attr_destroy(&attributes);  // a failure would have no consequence
  const auto begin = numeric_address(lowest);
  return is_known && pages.overlaps({.begin = begin, .end = begin + octets});
}

}  // namespace

/// The kernel accepts this advice only for memory that it may take away. The advice does no harm:
/// the page is about to be moved or emptied.
bool is_locked(std::uintptr_t address) noexcept {
  return kernel::advise(address, 1, MADV_COLD) == -EINVAL;
}

/// The kernel lets a mapping have a key only if the program has got the key, so this tries each key
/// with a page of its own. A program may have given back the lower ones. No processor has more than
/// 32 keys (x86: 16, Arm: 8).
bool has_protection_keys() noexcept {
  constexpr long kKeysMax = 32;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const long at = kernel::map(0, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (kernel::failed(at)) return true;  // unknown
  bool has_any = false;
  for (long key = 1; key < kKeysMax && !has_any; ++key) {  // every mapping may have key 0
    has_any = kernel::call(SYS_pkey_mprotect, at, page, PROT_NONE, key) == 0;
  }
  kernel::unmap(static_cast<std::uintptr_t>(at), page);
  return has_any;
}

/// The advice has no effect on memory files, but mappings with and without it do not merge.
void forbid_growth(Range pages, std::size_t page) noexcept {
  (void)kernel::advise(pages.end - page, page, MADV_RANDOM);
}

int protection_of(const Mapping& mapping) noexcept {
  return (mapping.readable ? PROT_READ : 0) | (mapping.writable ? PROT_WRITE : 0) |
         (mapping.executable ? PROT_EXEC : 0);
}

bool is_at_its_place(const Mapping& mapping, const Arena& arena) noexcept {
  return mapping.shared && arena.is_mapped_by(mapping) &&
         mapping.offset == arena.offset_of(mapping.range.begin);
}

Expected<Survey, Why> survey_pages(Range pages, const Arena& arena) noexcept {
  Survey survey;
  std::optional<Why> refusal;
  std::uintptr_t next = pages.begin;
  const long answer = for_each_mapping(next, [&](const Mapping& mapping) {
    if (mapping.range.begin > next) return false;  // a gap
    Stretch stretch{.range = common(mapping.range, pages), .protection = protection_of(mapping)};
    stretch.is_in_arena = is_at_its_place(mapping, arena);
    if (!stretch.is_in_arena) {
      refusal = arena.is_mapped_by(mapping) ? Why::kForked : objection(mapping);
    }
    if (!refusal && !add(survey, stretch)) refusal = Why::kManyMappings;
    next = stretch.range.end;
    return !refusal && next < pages.end;
  });
  if (answer != 0) return unreadable(answer);
  if (refusal) return *refusal;
  if (next < pages.end) return Why::kNotThere;
  if (holds_our_stack(pages)) return Why::kStack;
  for (const Stretch& stretch : survey) {
    if (stretch.is_in_arena) continue;
    if (is_locked(stretch.range.begin)) return Why::kLocked;
    if (is_bound(stretch.range.begin)) return Why::kBound;
  }
  return survey;
}

}  // namespace verbatim::rehome
