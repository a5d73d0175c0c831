// SPDX-License-Identifier: Apache-2.0
#include "memory/key_table.h"

namespace verbatim::memory {
namespace {

Refusal check_rights(const LiveEntry& entry, Access need) noexcept {
  if (allows(entry.access, need)) return Refusal::kNone;
  const Access missing =
      Access(static_cast<std::uint32_t>(need) & ~static_cast<std::uint32_t>(entry.access));
  if (allows(missing, Access::kLocalWrite)) return Refusal::kNoLocalWrite;
  if (allows(missing, Access::kRemoteWrite)) return Refusal::kNoRemoteWrite;
  if (allows(missing, Access::kRemoteRead)) return Refusal::kNoRemoteRead;
  if (allows(missing, Access::kRemoteAtomic)) return Refusal::kNoRemoteAtomic;
  return Refusal::kNoFlush;
}

Refusal check_range(const LiveEntry& entry, std::uint64_t address, std::uint64_t octets) noexcept {
  if (address < entry.base) return Refusal::kBelowRange;
  const std::uint64_t offset = address - entry.base;
  if (offset > entry.octets || octets > entry.octets - offset) return Refusal::kBeyondRange;
  return Refusal::kNone;
}

/// Regions and type 1 windows belong to a domain, type 2A windows to a queue pair, 2B to both.
Refusal check_scope(const LiveEntry& entry, DomainId domain, wire::QpNumber qp) noexcept {
  const bool checks_domain = entry.status.kind != KeyKind::kWindowType2A;
  if (checks_domain && entry.domain != domain) return Refusal::kOtherDomain;
  const bool checks_qp =
      entry.status.kind == KeyKind::kWindowType2A || entry.status.kind == KeyKind::kWindowType2B;
  if (checks_qp && entry.qp != static_cast<std::uint32_t>(qp)) return Refusal::kOtherQueuePair;
  return Refusal::kNone;
}

/// Why a key that names an entry of the table is not valid.
Refusal refusal_of(const KeyEntry& entry, std::uint32_t key) noexcept {
  if (load_field(entry.status.kind) == KeyKind::kNone) return Refusal::kNoSuchKey;
  return load_field(entry.key) == key ? Refusal::kInvalidated : Refusal::kStaleKey;
}

}  // namespace

Refusal KeyTable::read_entry(wire::MemoryKey key, LiveEntry& copy) const noexcept {
  const auto raw = static_cast<std::uint32_t>(key);
  const KeyEntry* entry = find(key);
  if (entry == nullptr) return Refusal::kNoSuchKey;
  return read_live(*entry, raw, copy) ? Refusal::kNone : refusal_of(*entry, raw);
}

bool KeyTable::learn(wire::MemoryKey key, KnownRegion& known) const noexcept {
  const bool is_region =
      read_entry(key, known.copy) == Refusal::kNone && known.copy.status.kind == KeyKind::kRegion;
  known.map(nullptr, 0, 0);
  if (!is_region) known.copy.entry = nullptr;
  return is_region;
}

Expected<Grant, Refusal> KeyTable::check_local(const Want& want) const noexcept {
  if (want.octets == 0) return Grant{};
  LiveEntry entry;
  if (const auto no = read_entry(want.key, entry); no != Refusal::kNone) return no;
  if (entry.status.kind != KeyKind::kRegion) return Refusal::kWindowAsLocal;
  if (entry.domain != want.domain) return Refusal::kOtherDomain;
  if (const auto no = check_rights(entry, want.need); no != Refusal::kNone) return no;
  if (const auto no = check_range(entry, want.address, want.octets); no != Refusal::kNone) {
    return no;
  }
  return Grant::at(entry, want.address - entry.base, want.octets);
}

Expected<Grant, Refusal> KeyTable::check_remote(const Want& want) const noexcept {
  if (want.octets == 0) return Grant{};
  LiveEntry entry;
  if (const auto no = read_entry(want.key, entry); no != Refusal::kNone) return no;
  if (const auto no = check_scope(entry, want.domain, want.qp); no != Refusal::kNone) return no;
  if (const auto no = check_rights(entry, want.need); no != Refusal::kNone) return no;
  if (const auto no = check_range(entry, want.address, want.octets); no != Refusal::kNone) {
    return no;
  }
  return Grant::at(entry, want.address - entry.base, want.octets);
}

Expected<Grant, Refusal> KeyTable::check_whole(const Want& want) const noexcept {
  LiveEntry entry;
  if (const auto no = read_entry(want.key, entry); no != Refusal::kNone) return no;
  if (const auto no = check_scope(entry, want.domain, want.qp); no != Refusal::kNone) return no;
  if (const auto no = check_rights(entry, want.need); no != Refusal::kNone) return no;
  return Grant::at(entry, 0, 0);
}

}  // namespace verbatim::memory
