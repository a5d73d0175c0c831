// SPDX-License-Identifier: Apache-2.0
#include "device/adapter.h"
#include "base/adapter_role.h"

#include <unistd.h>

#include <algorithm>

#include "capture/capturing_link.h"
#include "device/adapter_registry.h"
#include "device/async_event.h"
#include "device/clock.h"
#include "device/fault_guard.h"
#include "device/limits.h"
#include "device/port_watch.h"
#include "device/process.h"
#include "device/queue_pair.h"
#include "host/membarrier.h"
#include "link/faulty_link.h"

namespace verbatim::device {
namespace {

// Address space of the segment. A page exists only after it was touched. A smaller segment will do
// if limits (RLIMIT_AS, RLIMIT_FSIZE) forbid this one.
constexpr std::size_t kSegmentOctets = std::size_t{16} << 30;
constexpr std::size_t kSegmentOctetsMin = std::size_t{64} << 20;
constexpr std::uint64_t kPortNumber = 1;  // the verbs count from one
constexpr const char* kNoThread =
    "the system gives no thread, or no descriptor; check `ulimit -u`, `ulimit -v` and `ulimit -n`";

}  // namespace

// ---- Opening and closing ----

Adapter::Adapter(const PortInfo& port, ManagementPort::Maker make_management)
    : port_(port),
      network_(Network::make(port)),
      link_(&network_->link()),
      domain_entries_(kMaxDomains),
      domains_(domain_entries_),
      free_keys_(kMaxKeys),
      groups_({.lock = mutex_, .port = port_, .network = *network_, .engine = engine_}),
      visitors_(segment_, [this](Instant deadline) { engine_.note_deadline(deadline); }),
      management_(make_management({.lock = mutex_,
                                   .port = port_,
                                   .slot = slot_,
                                   .network = *network_,
                                   .link = link_,
                                   .dispatch = dispatch_,
                                   .engine = engine_})),
      surroundings_({.port = port_,
                     .slot = slot_,
                     .network = *network_,
                     .layout = layout_,
                     .visitors = visitors_,
                     .management = *management_,
                     .engine = engine_,
                     .memory_work = memory_work_}),
      dispatch_({.queue_pairs = queue_pairs_,
                 .groups = groups_.table(),
                 .agenda = agenda_,
                 .outside = surroundings_}),
      progress_(agenda_, dispatch_, surroundings_),
      peer_events_(queue_pairs_, progress_),
      peers_({.lock = mutex_,
              .slot = slot_,
              .segment = segment_,
              .layout = layout_,
              .events = peer_events_,
              .visitors = visitors_,
              .memory_work = memory_work_}),
      engine_({.lock = mutex_,
               .link = link_,
               .slot = slot_,
               .sockets = sockets_,
               .rest = rest_,
               .progress = progress_,
               .management = *management_,
               .peers = peers_,
               .homes = homes_,
               .network = *network_,
               .handle_notice = [this] { handle_notice(); },
               .handle_loss = [this] { handle_loss(); }}) {}

Adapter::~Adapter() {
  // Before the ForkPause: remove() may wait for the thread of the watch, which may wait for other
  // locks.
  if (!abandoned_) PortWatch::of_process().remove(*this);
  const ForkPause pause;
  engine_.stop();  // first: its thread uses all other parts
  homes_.reset();  // other threads may look for regions in all adapters
  if (!abandoned_) management_->leave();
  peers_.peers().close();
  link_->close();
  // The management port ends here, before the slot is free and before the fork pause ends. It
  // closes names that contain the slot, which the next process in the slot opens, and connections
  // that show that this process is alive, which a child of a later fork would keep.
  management_.reset();
  network_->leave();  // before the slot: the next process in the slot reads its sockets
  slot_ = host::Slot{};
  forget_adapter(*this);
}

void Adapter::abandon_in_child() noexcept {
  abandoned_ = true;
  progress_.abandon_in_child();
  groups_.abandon_in_child();
  sockets_.forget_in_child();
  engine_.abandon_in_child();
  rest_.close();
  peers_.peers().abandon_in_child();
  management_->abandon_in_child();
  link_->close();
  network_->abandon_in_child();
  slot_ = host::Slot{};
  segment_.privatize();
  visitors_.abandon_in_child();
  queue_pairs_.for_each([](QueuePair& qp) {
    assume_adapter_role();
    qp.abandon_in_child();
  });
  renew(port_mutex_);  // another thread may have been reading
}

void Adapter::forget_in_child() noexcept {
  abandoned_ = true;
  progress_.abandon_in_child();
  groups_.abandon_in_child();
  network_->forget_in_child();
  segment_.privatize();
  rest_.forget_in_child();
  sockets_.forget_in_child();
  queue_pairs_.for_each([](QueuePair& qp) { qp.forget_in_child(); });
  renew(port_mutex_);
  mutex_.reset();
}

Status Adapter::open(std::string& message) {
  host::Membarrier::enlist();  // before the first thread of the library
  install_fault_guard();
  auto link_config = read_link_config(message);
  if (!link_config) return link_config.error();
  auto slot = network_->open(port_, *link_config, message);
  if (!slot) return slot.error();
  slot_ = std::move(*slot);
  note_path_mask();
  if (port_.fabric) link_config->path = DataPathPolicy::kPackets;  // through its ports
  path_policy_ = link_config->path;
  gives_way_ = link_config->gives_way;
  if (auto opened = open_segment(*link_config, message); !opened) return opened;
  receive_buffer_octets_ = network_->receive_buffer_octets();
  if (auto fitted = fit_link(*link_config, message); !fitted) return fitted;
  progress_.use(*link_);
  dispatch_.open(slot_.number());
  if (auto opened = management_->open(); !opened) {
    message = kNoThread;
    return opened;
  }
  peers_.admit({.admits_peers = path_policy_ != DataPathPolicy::kPackets,
                .has_peer_calls = link_config->has_peer_calls});
  if (auto started = engine_.start(); !started) {
    message = kNoThread;
    return started;
  }
  if (gives_way_) rest_.open();
  if (!port_.fabric) PortWatch::of_process().add(*this);
  return Ok{};
}

Status Adapter::open_segment(const LinkConfig& config, std::string& message) {
  Status has_segment = Errc::kNoMemory;
  for (std::size_t octets = kSegmentOctets; !has_segment && octets >= kSegmentOctetsMin;) {
    has_segment = segment_.open(octets);
    octets /= 4;
  }
  if (!has_segment) {
    message =
        "the system gives no shared memory (memfd_create); check `ulimit -n`, `ulimit -v` and "
        "`ulimit -f`, and, if the program locks its memory (mlockall), `ulimit -l`";
    return has_segment;
  }
  auto laid_out = layout_.lay_out(segment_, {.slot = slot_.number(),
                                             .device = port_.name,
                                             .interface = port_.interface,
                                             .addresses = port_.gids,
                                             .path = config.path,
                                             .path_cause = config.path_cause,
                                             .opened_at = now()});
  if (!laid_out) return laid_out;
  const auto seed = static_cast<std::uint64_t>(now().since_start().count()) ^
                    (static_cast<std::uint64_t>(::getpid()) << 32);
  registry_ = std::make_unique<memory::KeyRegistry>(layout_.keys(), free_keys_, seed);
  homes_ = std::make_unique<RegionHomes>(*registry_, mutex_, visitors_);
  const SoleUser unknown;  // to other threads
  queue_pairs_.open(slot_.number(), seed);
  return Ok{};
}

/// Adds capture and faults if the environment asks for them. The capture lies between the faults
/// and the network.
Status Adapter::fit_link(const LinkConfig& config, std::string& message) {
  if (!config.capture.empty()) {
    auto capture = link::Capture::for_process(config.capture, message);
    if (!capture) return capture.error();
    const auto link_type =
        port_.fabric ? wire::CaptureLinkType::kErf : wire::CaptureLinkType::kEthernet;
    const std::uint32_t interface = (*capture)->add_interface(port_.name, link_type);
    wrap_link(std::make_unique<link::CapturingLink>(*link_, **capture, interface));
  }
  if (!config.faults.rules.empty()) {
    const link::FaultInjector::OwnNumbers own{.first = slot_.number() * host::kNumbersPerSlot,
                                              .count = host::kNumbersPerSlot};
    wrap_link(std::make_unique<link::FaultyLink>(*link_, config.faults, own));
  }
  return Ok{};
}

void Adapter::wrap_link(std::unique_ptr<link::Link> wrapper) {
  link_ = wrapper.get();
  wrappers_.push_back(std::move(wrapper));
}

// ---- Changes of the port ----

void Adapter::handle_interfaces(const std::vector<Interface>& interfaces) {
  PortChange change = change_of(port(), interfaces);
  if (removed_ || !change.is_any()) return;
  take_addresses(change);
  if (!change.is_any()) return;
  const host::AdapterGuard lock(mutex_);
  if (!abandoned_) apply(change, changed(port_, change, interfaces));
}

/// The network says that the port has changed, or that it is gone.
void Adapter::handle_notice() {
  const host::AdapterGuard lock(mutex_);
  if (abandoned_ || removed_) return;
  const auto now = network_->take_notice(port_);
  if (!now) return;
  const PortChange change = fabric_change_of(port_, *now);
  if (change.is_gone) {
    link_->close();
    apply({.is_gone = true, .went_down = port_.is_up}, changed(port_, change, {}));
  } else if (change.is_any()) {
    apply(change, *now);
  }
}

/// The program has closed descriptors of the adapter. Nothing is sent or received any more: the
/// numbers of the sockets may be those of the program's own files now.
void Adapter::handle_loss() {
  const host::AdapterGuard lock(mutex_);
  if (abandoned_ || removed_) return;
  link_->close();
  const PortChange gone{.is_gone = true};
  apply(gone, changed(port_, gone, {}));
}

/// Opens sockets for the new addresses. An address for which there is none is left out until the
/// next change: another user may have the port there.
void Adapter::take_addresses(PortChange& change) {
  std::vector<wire::Gid> wanted;
  {
    const host::AdapterGuard lock(mutex_);
    for (const wire::Gid& gid : change.gained) {
      if (!network_->has_address(gid)) wanted.push_back(gid);  // else it was there before
    }
  }
  for (const wire::Gid& address : wanted) {
    const ForkPause pause;  // a child must not keep the lock that processes take to open the port
    const bool is_added = network_->add_address(mutex_, port(), slot_.number(), address).ok();
    const host::AdapterGuard lock(mutex_);
    if (is_added) {
      engine_.watch_link();
      management_->handle_address(address);
    } else {
      std::erase(change.gained, address);
    }
  }
}

void Adapter::note_path_mask() noexcept {
  const unsigned lmc = port_.fabric ? port_.fabric->lmc : 0;
  path_mask_.store(static_cast<std::uint8_t>((1U << lmc) - 1), std::memory_order_relaxed);
}

void Adapter::apply(const PortChange& change, const PortInfo& now) {
  {
    const LockGuard lock(port_mutex_);
    port_ = now;
  }
  note_path_mask();
  const auto tell = [&](AsyncEvent event) VB_REQUIRES(adapter_role) {
    for (EventPipe* events : events_) report(events, event, kPortNumber);
  };
  if (change.went_down) tell(AsyncEvent::kPortError);
  if (change.is_gone) {
    removed_ = true;
    tell(AsyncEvent::kDeviceFatal);
    queue_pairs_.for_each([&](QueuePair& qp) {
      assume_adapter_role();
      {
        const auto held = qp.hold();
        qp.enter_error();
      }
      progress_.list(qp);
    });
    progress_.serve(device::now());
  }
  if (change.went_up) tell(AsyncEvent::kPortActive);
  if (change.has_new_lid) tell(AsyncEvent::kLidChange);
  if (change.has_new_sm) tell(AsyncEvent::kSmChange);
  if (change.has_new_pkeys) {
    const std::vector<wire::PKey> pkeys = now.pkeys();
    queue_pairs_.for_each([&](QueuePair& qp) {
      assume_adapter_role();
      qp.use_pkeys(pkeys);
    });
    tell(AsyncEvent::kPKeyChange);
  }
  if (change.wants_reregistration) tell(AsyncEvent::kClientReregister);
  if (change.has_new_gids()) tell(AsyncEvent::kGidChange);
  management_->handle_port_change(change);
}

}  // namespace verbatim::device
