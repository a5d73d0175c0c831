// SPDX-License-Identifier: Apache-2.0
#include "memory/key_table.h"

namespace verbatim::memory {
namespace {

Refusal check_rights(const KeyEntry& entry, Access need) noexcept {
  if (allows(entry.access, need)) return Refusal::kNone;
  const Access missing =
      Access(static_cast<std::uint32_t>(need) & ~static_cast<std::uint32_t>(entry.access));
  if (allows(missing, Access::kLocalWrite)) return Refusal::kNoLocalWrite;
  if (allows(missing, Access::kRemoteWrite)) return Refusal::kNoRemoteWrite;
  if (allows(missing, Access::kRemoteRead)) return Refusal::kNoRemoteRead;
  if (allows(missing, Access::kRemoteAtomic)) return Refusal::kNoRemoteAtomic;
  return Refusal::kNoFlush;
}

Refusal check_range(const KeyEntry& entry, std::uint64_t address, std::uint64_t octets) noexcept {
  if (address < entry.base) return Refusal::kBelowRange;
  const std::uint64_t offset = address - entry.base;
  if (offset > entry.octets || octets > entry.octets - offset) return Refusal::kBeyondRange;
  return Refusal::kNone;
}

/// Regions and type 1 windows belong to a domain, type 2A windows to a queue pair, 2B to both.
Refusal check_scope(const KeyEntry& entry, DomainId domain, wire::QpNumber qp) noexcept {
  const bool checks_domain = entry.kind != KeyKind::kWindowType2A;
  if (checks_domain && entry.domain != domain) return Refusal::kOtherDomain;
  const bool checks_qp =
      entry.kind == KeyKind::kWindowType2A || entry.kind == KeyKind::kWindowType2B;
  if (checks_qp && entry.qp != static_cast<std::uint32_t>(qp)) return Refusal::kOtherQueuePair;
  return Refusal::kNone;
}

}  // namespace

Expected<KeyEntry*, Refusal> KeyTable::find_live(wire::MemoryKey key) const noexcept {
  KeyEntry* entry = find(key);
  const auto raw = static_cast<std::uint32_t>(key);
  if (entry == nullptr) return Refusal::kNoSuchKey;
  if (load_live(*entry) == raw && raw != 0) return entry;
  if (entry->kind == KeyKind::kNone) return Refusal::kNoSuchKey;
  return entry->key == raw ? Refusal::kInvalidated : Refusal::kStaleKey;
}

Expected<Grant, Refusal> KeyTable::check_local(const Want& want) const noexcept {
  if (want.octets == 0) return Grant{};
  auto found = find_live(want.key);
  if (!found) return found.error();
  const KeyEntry& entry = **found;
  if (entry.kind != KeyKind::kRegion) return Refusal::kWindowAsLocal;
  if (entry.domain != want.domain) return Refusal::kOtherDomain;
  if (const auto refused = check_rights(entry, want.need); refused != Refusal::kNone)
    return refused;
  const auto refused = check_range(entry, want.address, want.octets);
  if (refused != Refusal::kNone) return refused;
  return Grant{.entry = &entry, .offset = want.address - entry.base};
}

Expected<Grant, Refusal> KeyTable::check_remote(const Want& want) const noexcept {
  if (want.octets == 0) return Grant{};
  auto whole = check_whole(want);
  if (!whole) return whole.error();
  const KeyEntry& entry = *whole->entry;
  const auto refused = check_range(entry, want.address, want.octets);
  if (refused != Refusal::kNone) return refused;
  return Grant{.entry = &entry, .offset = want.address - entry.base};
}

Expected<Grant, Refusal> KeyTable::check_whole(const Want& want) const noexcept {
  auto found = find_live(want.key);
  if (!found) return found.error();
  const KeyEntry& entry = **found;
  const auto refused = check_scope(entry, want.domain, want.qp);
  if (refused != Refusal::kNone) return refused;
  if (const auto denied = check_rights(entry, want.need); denied != Refusal::kNone) return denied;
  return Grant{.entry = &entry, .offset = 0};
}

}  // namespace verbatim::memory
