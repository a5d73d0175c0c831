// SPDX-License-Identifier: Apache-2.0
// Random histories of regions and windows, against a model that is written for clarity: a list of
// objects, and one octet at a time where the code under test compares ranges.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/pointer.h"
#include "base/prng.h"
#include "memory/test_memory.h"

namespace verbatim::memory {
namespace {

constexpr std::uint32_t kEntries = 6;
constexpr std::uint32_t kFirstIndex = 0x31;

/// A region or window as the rules of docs/PROTOCOL.md, section 5, describe it.
struct Thing {
  KeyKind kind = KeyKind::kNone;
  std::uint32_t key = 0;
  std::uint32_t domain = 0;
  bool usable = false;                              // a region, or a bound window
  std::map<std::uint64_t, std::uint64_t> places{};  // address as the key names it -> real address
  std::uint32_t rights = 0;
  std::uint32_t qp = 0;
  std::uint32_t region = 0;  // index of a bound window's region
  std::uint64_t first = 0;   // the lowest address, also where `places` is empty
};

class Model {
 public:
  std::map<std::uint32_t, Thing> things;  // by the upper key bits

  [[nodiscard]] Thing* named(std::uint32_t key) {
    const auto found = things.find(key / 256);
    return found == things.end() ? nullptr : &found->second;
  }
  [[nodiscard]] static bool is_window(const Thing& thing) { return thing.kind > KeyKind::kRegion; }
  [[nodiscard]] static bool is_type2(const Thing& thing) {
    return thing.kind == KeyKind::kWindowType2A || thing.kind == KeyKind::kWindowType2B;
  }
  [[nodiscard]] std::uint32_t windows_on(std::uint32_t index) const {
    std::uint32_t count = 0;
    for (const auto& [ours, thing] : things) {
      if (is_window(thing) && thing.usable && thing.region == index) ++count;
    }
    return count;
  }

  [[nodiscard]] Refusal judge_key(std::uint32_t key) {
    const auto in_table = key / 256 >= kFirstIndex && key / 256 < kFirstIndex + kEntries;
    const Thing* thing = named(key);
    if (!in_table || thing == nullptr) return Refusal::kNoSuchKey;
    if (thing->key != key) return Refusal::kStaleKey;
    return thing->usable ? Refusal::kNone : Refusal::kInvalidated;
  }

  [[nodiscard]] static Refusal judge_rights(const Thing& thing, std::uint32_t need) {
    const auto lacks = [&](std::uint32_t right) {
      return (need & right) != 0 && (thing.rights & right) == 0;
    };
    if (lacks(0x1)) return Refusal::kNoLocalWrite;
    if (lacks(0x2)) return Refusal::kNoRemoteWrite;
    if (lacks(0x4)) return Refusal::kNoRemoteRead;
    if (lacks(0x8)) return Refusal::kNoRemoteAtomic;
    if (lacks(0x100) || lacks(0x200)) return Refusal::kNoFlush;
    return Refusal::kNone;
  }

  [[nodiscard]] static Refusal judge_range(const Thing& thing, std::uint64_t address,
                                           std::uint64_t octets) {
    if (address < thing.first) return Refusal::kBelowRange;
    for (std::uint64_t i = 0; i < octets; ++i) {
      if (address + i < address || thing.places.count(address + i) == 0) {
        return Refusal::kBeyondRange;
      }
    }
    return Refusal::kNone;
  }

  [[nodiscard]] Refusal judge_remote(const KeyTable::Want& want, bool ranged) {
    if (ranged && want.octets == 0) return Refusal::kNone;
    const auto key = static_cast<std::uint32_t>(want.key);
    if (const auto no = judge_key(key); no != Refusal::kNone) return no;
    const Thing& thing = *named(key);
    const bool same_domain = thing.domain == static_cast<std::uint32_t>(want.domain);
    const bool same_qp = thing.qp == static_cast<std::uint32_t>(want.qp);
    if (thing.kind != KeyKind::kWindowType2A && !same_domain) return Refusal::kOtherDomain;
    if (is_type2(thing) && !same_qp) return Refusal::kOtherQueuePair;
    const auto rights = judge_rights(thing, static_cast<std::uint32_t>(want.need));
    if (rights != Refusal::kNone || !ranged) return rights;
    return judge_range(thing, want.address, want.octets);
  }

  [[nodiscard]] Refusal judge_local(const KeyTable::Want& want) {
    if (want.octets == 0) return Refusal::kNone;
    const auto key = static_cast<std::uint32_t>(want.key);
    if (const auto no = judge_key(key); no != Refusal::kNone) return no;
    const Thing& thing = *named(key);
    if (thing.kind != KeyKind::kRegion) return Refusal::kWindowAsLocal;
    if (thing.domain != static_cast<std::uint32_t>(want.domain)) return Refusal::kOtherDomain;
    const auto rights = judge_rights(thing, static_cast<std::uint32_t>(want.need));
    if (rights != Refusal::kNone) return rights;
    return judge_range(thing, want.address, want.octets);
  }

  /// Binds if it may. `type` is the request's, 1 or 2.
  [[nodiscard]] BindRefusal bind(int type, const Binder& binder, const BindRequest& request) {
    const auto window_key = static_cast<std::uint32_t>(request.window_key);
    const auto new_key = static_cast<std::uint32_t>(request.new_key);
    const auto rights = static_cast<std::uint32_t>(request.access);
    Thing* window = named(window_key);
    if (window == nullptr || !is_window(*window)) return BindRefusal::kNoSuchWindow;
    if (new_key / 256 != window_key / 256) return BindRefusal::kWrongWindowKey;
    if (window->domain != static_cast<std::uint32_t>(binder.domain)) {
      return BindRefusal::kOtherDomain;
    }
    if ((type == 2) != is_type2(*window)) return BindRefusal::kWrongWindowType;
    if (type == 2 && window->usable) return BindRefusal::kAlreadyBound;
    if (type == 2 && request.octets == 0) return BindRefusal::kEmptyRange;
    if ((rights & ~(type == 2 ? 0x2eU : 0x0eU)) != 0) return BindRefusal::kBadAccess;
    if (request.octets == 0) {
      window->usable = false;
      window->key = new_key;
      return BindRefusal::kNone;
    }
    const auto region_key = static_cast<std::uint32_t>(request.region_key);
    const Thing* region = named(region_key);
    if (region == nullptr || region->kind != KeyKind::kRegion || region->key != region_key) {
      return BindRefusal::kNoSuchRegion;
    }
    if (region->domain != static_cast<std::uint32_t>(binder.domain)) {
      return BindRefusal::kOtherDomain;
    }
    if ((region->rights & 0x20) != 0) return BindRefusal::kZeroBasedRegion;
    if ((region->rights & 0x10) == 0) return BindRefusal::kRegionDeniesBind;
    if ((rights & 0x0a) != 0 && (region->rights & 0x1) == 0) {
      return BindRefusal::kRegionDeniesWrite;
    }
    if (judge_range(*region, request.address, request.octets) != Refusal::kNone) {
      return BindRefusal::kOutsideRegion;
    }
    window->usable = true;
    window->key = new_key;
    window->rights = rights;
    window->qp = static_cast<std::uint32_t>(binder.qp);
    window->region = region_key / 256;
    window->first = (rights & 0x20) != 0 ? 0 : request.address;
    window->places.clear();
    for (std::uint64_t i = 0; i < request.octets; ++i) {
      window->places[window->first + i] = region->places.at(request.address + i);
    }
    return BindRefusal::kNone;
  }

  [[nodiscard]] BindRefusal invalidate(const Binder& binder, std::uint32_t key) {
    Thing* thing = named(key);
    if (thing == nullptr) return BindRefusal::kNoSuchWindow;
    if (!is_type2(*thing)) return BindRefusal::kNotInvalidatable;
    if (thing->key != key) return BindRefusal::kWrongWindowKey;
    if (!thing->usable) return BindRefusal::kNotInvalidatable;
    const bool same_domain = thing->domain == static_cast<std::uint32_t>(binder.domain);
    if (thing->kind == KeyKind::kWindowType2B && !same_domain) return BindRefusal::kOtherDomain;
    if (thing->qp != static_cast<std::uint32_t>(binder.qp)) return BindRefusal::kOtherQueuePair;
    thing->usable = false;
    return BindRefusal::kNone;
  }
};

/// How often each verdict was given: a rule that no history used has not been tested.
struct Tally {
  std::multiset<Refusal> checks{};
  std::multiset<BindRefusal> binds{};
  std::uint64_t recalls = 0;
};

/// One history: the same random steps for the table and for the model.
class History {
 public:
  History(std::uint64_t seed, Tally& tally)
      : prng_(seed), memory_(kEntries, kFirstIndex, prng_.next()), tally_(tally) {}

  void step() {
    switch (prng_.below(8)) {
      case 0:
        return register_region();
      case 1:
        return prng_.one_in(3) ? deregister_region() : allocate_window();
      case 2:
        return prng_.one_in(3) ? free_window() : invalidate_window();
      case 3:
      case 4:
        return bind_window();
      default:
        return check();
    }
  }

 private:
  std::uint32_t any_domain() { return static_cast<std::uint32_t>(prng_.one_in(5) ? 2 : 1); }
  wire::QpNumber any_qp() { return wire::QpNumber(prng_.one_in(5) ? 8U : 7U); }

  /// Mostly a key that works now, sometimes an earlier one, sometimes nonsense.
  wire::MemoryKey any_key() {
    if (prng_.one_in(30)) return wire::MemoryKey(static_cast<std::uint32_t>(prng_.next()));
    if (prng_.one_in(20)) {
      return wire::MemoryKey(static_cast<std::uint32_t>(
          prng_.below(kEntries + 2) * 256 + (kFirstIndex - 1) * 256 + prng_.below(256)));
    }
    if (!past_keys_.empty() && prng_.one_in(10)) {
      return wire::MemoryKey{past_keys_[prng_.below(past_keys_.size())]};
    }
    return any_key_of([](const Thing&) { return true; });
  }
  template <typename Fits>
  wire::MemoryKey any_key_of(Fits&& fits) {
    std::vector<std::uint32_t> keys;
    for (const auto& [index, thing] : model_.things) {
      if (fits(thing)) keys.push_back(thing.key);
    }
    return wire::MemoryKey{keys.empty() ? 0U : keys[prng_.below(keys.size())]};
  }

  /// Mostly within what the key names, else anywhere near.
  std::uint64_t any_address(wire::MemoryKey key) {
    const Thing* thing = model_.named(static_cast<std::uint32_t>(key));
    if (thing == nullptr || prng_.one_in(4)) return prng_.below(48);
    return thing->first + prng_.below(thing->places.size() + 2);
  }

  Access any_rights() {
    std::uint32_t rights = static_cast<std::uint32_t>(prng_.below(32)) | 0x11U;
    if (prng_.one_in(4)) rights = static_cast<std::uint32_t>(prng_.below(0x400)) & ~0xc0U;
    return Access{rights};
  }

  void register_region() {
    const KeyRegistry::Region region{.domain = DomainId{any_domain()},
                                     .address = 1000 + prng_.below(40),
                                     .octets = prng_.below(24),
                                     .base = prng_.below(40),
                                     .access = any_rights()};
    const auto rights = static_cast<std::uint32_t>(region.access);
    const auto key = memory_.registry().register_region(region);
    if ((rights & 0xa) != 0 && (rights & 0x1) == 0) {
      ASSERT_EQ(key.error(), Errc::kInvalidArgument);
      return;
    }
    if (model_.things.size() == kEntries) {
      ASSERT_EQ(key.error(), Errc::kNoMemory);
      return;
    }
    ASSERT_TRUE(key);
    Thing thing{.kind = KeyKind::kRegion,
                .key = static_cast<std::uint32_t>(*key),
                .domain = static_cast<std::uint32_t>(region.domain),
                .usable = true,
                .places = {},
                .rights = rights,
                .first = (rights & 0x20) != 0 ? 0 : region.base};
    for (std::uint64_t i = 0; i < region.octets; ++i) {
      thing.places[thing.first + i] = region.address + i;
    }
    remember(thing);
  }

  void deregister_region() {
    const wire::MemoryKey key = any_key();
    const auto raw = static_cast<std::uint32_t>(key);
    const Thing* thing = model_.named(raw);
    const Status done = memory_.registry().deregister_region(key);
    if (thing == nullptr || thing->kind != KeyKind::kRegion || thing->key != raw) {
      ASSERT_EQ(done.error(), Errc::kInvalidArgument);
    } else if (model_.windows_on(raw / 256) != 0) {
      ASSERT_EQ(done.error(), Errc::kBusy);
    } else {
      ASSERT_TRUE(done.ok());
      forget(raw);
    }
  }

  void allocate_window() {
    const auto kind = KeyKind(static_cast<std::uint8_t>(prng_.between(2, 4)));
    const DomainId domain{any_domain()};
    const auto key = memory_.registry().allocate_window(domain, kind);
    if (model_.things.size() == kEntries) {
      ASSERT_EQ(key.error(), Errc::kNoMemory);
      return;
    }
    ASSERT_TRUE(key);
    remember({.kind = kind,
              .key = static_cast<std::uint32_t>(*key),
              .domain = static_cast<std::uint32_t>(domain)});
  }

  void free_window() {
    const wire::MemoryKey key = any_key();
    const auto raw = static_cast<std::uint32_t>(key);
    const Thing* thing = model_.named(raw);
    const Status done = memory_.registry().free_window(key);
    if (thing == nullptr || !Model::is_window(*thing) || thing->key != raw) {
      ASSERT_EQ(done.error(), Errc::kInvalidArgument);
    } else {
      ASSERT_TRUE(done.ok());
      forget(raw);
    }
  }

  void bind_window() {
    const auto window =
        prng_.one_in(10) ? any_key()
                         : any_key_of([](const Thing& thing) { return Model::is_window(thing); });
    const Thing* thing = model_.named(static_cast<std::uint32_t>(window));
    BindRequest request{.window_key = window,
                        .new_key = with_octet(window, static_cast<std::uint32_t>(prng_.next())),
                        .region_key = prng_.one_in(10) ? any_key() : any_key_of([](const Thing& t) {
                          return t.kind == KeyKind::kRegion;
                        }),
                        .octets = prng_.one_in(8) ? 0 : prng_.below(16),
                        .access = Access{static_cast<std::uint32_t>(prng_.below(8)) * 2}};
    request.address = any_address(request.region_key);
    if (prng_.one_in(6)) request.access = any_rights();
    if (prng_.one_in(20)) request.new_key = any_key();
    if (prng_.one_in(20)) request.octets = ~prng_.below(60);
    const Binder binder{.domain = DomainId{any_domain()}, .qp = any_qp()};
    const bool is_type1 = thing != nullptr && thing->kind == KeyKind::kWindowType1;
    const int type = is_type1 != prng_.one_in(12) ? 1 : 2;
    // The model counts octets one by one.
    if (request.octets > 1000 && request.address + 1000 > request.address) {
      request.octets = 1000;
    }
    const auto bind = type == 1 ? bind_type1 : bind_type2;
    const auto verdict = bind(memory_.table(), binder, request);
    if (verdict == BindRefusal::kNone) past_keys_.push_back(static_cast<std::uint32_t>(window));
    ASSERT_EQ(verdict, model_.bind(type, binder, request)) << name_of(verdict);
    tally_.binds.insert(verdict);
    compare_bound_counts();
  }

  void invalidate_window() {
    const wire::MemoryKey key = any_key();
    const Binder binder{.domain = DomainId{any_domain()}, .qp = any_qp()};
    const auto verdict = invalidate(memory_.table(), binder, key);
    ASSERT_EQ(verdict, model_.invalidate(binder, static_cast<std::uint32_t>(key)));
    tally_.binds.insert(verdict);
    compare_bound_counts();
  }

  void check() {
    KeyTable::Want want{.key = any_key(),
                        .domain = DomainId{any_domain()},
                        .qp = any_qp(),
                        .octets = prng_.below(8),
                        .need = Access{1U << prng_.below(4)}};
    want.address = any_address(want.key);
    if (prng_.one_in(8)) want.need = any_rights() & Access{0x30f};
    if (prng_.one_in(3)) want.need = Access::kNone;
    if (prng_.one_in(30)) want.address = ~prng_.below(12);
    const KeyTable& table = memory_.table();
    expect_verdict(table.check_remote(want), model_.judge_remote(want, true), want);
    expect_verdict(table.check_local(want), model_.judge_local(want), want);
    const auto whole = refusal_of(table.check_whole(want));
    ASSERT_EQ(whole, model_.judge_remote(want, false)) << name_of(whole);
    expect_memory_agrees(want);
  }

  /// With a KnownRegion, the table grants what a look-up grants, and nothing more.
  void expect_memory_agrees(const KeyTable::Want& want) {
    if (want.octets == 0) return;  // no key is looked up
    const KeyTable& table = memory_.table();
    KnownRegion& known = known_[prng_.below(known_.size())];
    const std::byte* const at = table.recall(want, known, [](KnownRegion& region, std::uint64_t) {
      region.map(pointer_as<std::byte>(static_cast<std::uintptr_t>(region.copy.local)), 0,
                 region.copy.octets);
    });
    if (at == nullptr) return;
    ++tally_.recalls;
    for (const auto& verdict : {table.check_remote(want), table.check_local(want)}) {
      ASSERT_TRUE(verdict) << name_of(verdict.error());
      EXPECT_EQ(known.copy.entry, verdict->entry);
      EXPECT_EQ(at, verdict->local());
      EXPECT_EQ(known.copy.status.generation, verdict->generation);
    }
  }

  void expect_verdict(const Expected<Grant, Refusal>& verdict, Refusal expected,
                      const KeyTable::Want& want) {
    ASSERT_EQ(refusal_of(verdict), expected)
        << name_of(refusal_of(verdict)) << ", should be: " << name_of(expected);
    tally_.checks.insert(expected);
    if (!verdict || want.octets == 0) return;
    const Thing& thing = *model_.named(static_cast<std::uint32_t>(want.key));
    ASSERT_EQ(verdict->address, thing.places.at(want.address));
    ASSERT_EQ(verdict->offset, want.address - thing.first);
  }

  void compare_bound_counts() {
    for (const auto& [index, thing] : model_.things) {
      if (thing.kind != KeyKind::kRegion) continue;
      ASSERT_EQ(memory_.table().at(index - kFirstIndex).bound, model_.windows_on(index));
    }
  }

  void remember(const Thing& thing) {
    const bool is_new = model_.things.emplace(thing.key / 256, thing).second;
    ASSERT_TRUE(is_new) << "an entry that is in use was handed out";
    ASSERT_EQ(memory_.registry().used_count(), model_.things.size());
  }
  void forget(std::uint32_t key) {
    past_keys_.push_back(key);
    model_.things.erase(key / 256);
    ASSERT_EQ(memory_.registry().used_count(), model_.things.size());
    compare_bound_counts();
  }

  Prng prng_;
  TestMemory memory_;
  Model model_;
  std::array<KnownRegion, 3> known_{};
  std::vector<std::uint32_t> past_keys_;
  Tally& tally_;
};

void check_one_history(std::uint64_t seed, Tally& tally) {
  SCOPED_TRACE("VERBATIM_SEED=" + std::to_string(seed));
  History history(seed, tally);
  for (int step = 0; step < 4000; ++step) {
    history.step();
    if (testing::Test::HasFatalFailure()) FAIL() << "at step " << step;
  }
}

TEST(MemoryModel, RandomHistoriesOfRegionsAndWindowsEndAsTheModelSays) {
  Tally tally;
  if (const char* seed = std::getenv("VERBATIM_SEED"); seed != nullptr) {
    return check_one_history(std::strtoull(seed, nullptr, 0), tally);
  }
  for (std::uint64_t seed = 1; seed <= 50; ++seed) check_one_history(seed, tally);
  for (std::size_t i = 0; i < kRefusalCount; ++i) {
    const auto refusal = Refusal(static_cast<std::uint8_t>(i));
    EXPECT_GT(tally.checks.count(refusal), 10U) << name_of(refusal);
  }
  for (std::size_t i = 0; i < kBindRefusalCount; ++i) {
    const auto refusal = BindRefusal(static_cast<std::uint8_t>(i));
    EXPECT_GT(tally.binds.count(refusal), 10U) << name_of(refusal);
  }
  EXPECT_GT(tally.recalls, 1000U);
}

}  // namespace
}  // namespace verbatim::memory
