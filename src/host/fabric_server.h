// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/expected.h"
#include "base/octet_budget.h"
#include "host/descriptor.h"
#include "host/fabric_connection.h"
#include "host/fabric_data_server_port.h"
#include "host/fabric_message.h"
#include "host/fabric_page.h"
#include "host/fabric_place.h"
#include "host/fabric_sm_files.h"

namespace verbatim::host {

/// A connection of a program. Numbers are not used again.
using FabricClientId = std::uint32_t;

/// What programs do, in the order in which it happened. The owner of a FabricServer takes these.
struct FabricEvent {
  /// A program names its node (and port). The owner calls accept(), accept_data() or refuse().
  struct Attached {
    FabricHello::Purpose purpose{};  // kLook, kPort or kData
    std::string node;
    std::uint32_t port = 0;
    std::uint32_t slot = 0;  // of kData
  };
  struct Sent {
    UserMadHeader header;
    std::vector<std::byte> message;
  };
  /// The owner calls reply() with the number of the call.
  struct Called {
    std::uint32_t call = 0;
    FabricCall request;
    Sent about;  // of kMaySend; the message is the first part of it
  };
  /// A program with a data port listens for a service, or does so no more.
  struct Claimed {
    std::uint32_t service = 0;
    bool listens = false;
  };
  /// A line of text from a connection for commands. The owner calls answer().
  struct Commanded {
    std::string text;
  };
  /// The program has closed the port or has ended. For every client that was accepted, once.
  struct Left {};
  /// A program has opened the issm file of a port, or no program has it open any more. The client
  /// is 0.
  struct SmChanged {
    std::uint32_t node = 0;
    std::uint32_t port = 0;
    bool is_sm = false;
  };

  FabricClientId client = 0;
  std::variant<Attached, Called, Sent, Claimed, Commanded, Left, SmChanged> what;
};

/// All connections to programs, as the process of the fabric has them: the socket in the fabric's
/// folder, messages in both directions, the pages with the states of nodes, the issm files.
///
/// It knows nothing about subnets. Its owner
///   1. watches descriptor(), an epoll, and calls handle_ready() when it is readable;
///   2. takes events from poll_event() until there is none;
///   3. answers Attached, Called and Commanded, now or later;
///   4. calls deliver() for datagrams and publish() for changed states at any time.
/// Nothing waits for a program: what one does not read is kept up to a limit, and dropped then. One
/// process has at most a quarter of the descriptors for its connections.
/// Thread: one.
class FabricServer {
 public:
  FabricServer() = default;
  FabricServer(const FabricServer&) = delete;
  FabricServer& operator=(const FabricServer&) = delete;
  ~FabricServer() { close(); }

  /// Takes the place: kAddressInUse when another process has it. `message` says what to do.
  [[nodiscard]] Status open(const FabricPlace& place, std::string& message);
  /// Ends all connections and removes what is in the folder.
  void close() noexcept;

  [[nodiscard]] int descriptor() const noexcept { return epoll_.number(); }
  /// Reads what has arrived, a bounded burst of it, and sends what had to wait.
  void handle_ready();
  [[nodiscard]] std::optional<FabricEvent> poll_event();

  /// Lets a program that has Attached look at the node, or open the port. `node` is its number.
  /// False: the program has gone meanwhile, or it was refused for want of memory. Left will not
  /// tell of it.
  [[nodiscard]] bool accept(FabricClientId client, std::uint32_t node,
                            const FabricNodeState& state);
  /// The same for kData: the program gets the descriptors of its data port, and is told when the
  /// state of the node changes.
  [[nodiscard]] bool accept_data(FabricClientId client, std::uint32_t node,
                                 const FabricNodeState& state, const FabricDataServerPort& port);
  /// `error` is an errno value (ENODEV: no such node, EINVAL: no such port, EADDRINUSE: another
  /// process has the place), `why` a sentence for the user.
  void refuse(FabricClientId client, int error, std::string_view why);
  /// The answer to a call.
  void reply(FabricClientId client, std::uint32_t call, const FabricReply& reply);
  /// Sends a datagram to a program. False: the program does not read, and the datagram was dropped.
  bool deliver(FabricClientId client, const UserMadHeader& header,
               std::span<const std::byte> message);
  /// Tells a program with a port that a process has ended.
  void tell(FabricClientId client, const FabricDeparture& departure);
  /// A part of the answer to a command; the last part ends it.
  void answer(FabricClientId client, std::string_view text, bool is_last);

  /// The state of a node has changed. Costs nothing while no program has looked at the node.
  void publish(std::uint32_t node, const FabricNodeState& state);
  [[nodiscard]] bool has_page(std::uint32_t node) const noexcept { return pages_.contains(node); }

 private:
  /// What an event of the epoll is about, in the upper half of its data.
  enum Source : std::uint32_t { kListener, kSmFile, kClient };
  struct Page {
    Descriptor file;
    FabricPage* mapped = nullptr;
    std::vector<FabricClientId> told;  // of changes
  };
  /// An event, and the memory file with the rest of its message, which is read when it is polled:
  /// so one long message takes memory at a time.
  struct Arrived {
    FabricEvent event;
    Descriptor file{};
  };
  // What all programs together do not read, beyond what each may leave unread.
  static constexpr std::size_t kWaitingOctetsMax = std::size_t{512} << 20;

  [[nodiscard]] Status take_folder(const FabricPlace& place, std::string& message);
  [[nodiscard]] bool listen(const FabricPlace& place);
  [[nodiscard]] Page make_page(const FabricNodeState& state);
  /// Makes what a program that is accepted looks at. Null: it cannot be accepted.
  [[nodiscard]] FabricConnection* prepare(FabricClientId client, std::uint32_t node,
                                          const FabricNodeState& state);
  void accept_programs();
  void refuse_one() noexcept;
  void add_program(Descriptor socket, pid_t process);
  void handle_client(FabricClientId client, std::uint32_t events);
  [[nodiscard]] bool read_one(FabricClientId client, FabricConnection& connection);
  void handle_message(FabricClientId client, FabricConnection& connection,
                      std::span<const std::byte> octets, Descriptor descriptor);
  void handle_hello(FabricClientId client, FabricConnection& connection,
                    std::span<const std::byte> octets);
  void handle_call(FabricClientId client, FabricConnection& connection,
                   std::span<const std::byte> octets, Descriptor reply_to);
  void handle_datagram(FabricClientId client, std::span<const std::byte> octets, Descriptor file);
  [[nodiscard]] static bool read_rest(Arrived& arrived);
  template <typename What>
  void push_event(FabricClientId client, What what) {
    events_.push_back({.event = {.client = client, .what = std::move(what)}});
  }
  void watch(FabricClientId client, FabricConnection& connection);
  void end(FabricClientId client);
  [[nodiscard]] FabricConnection* connection_of(FabricClientId client) noexcept;

  std::string folder_;
  Descriptor lock_;  // the folder, locked: no other process serves this fabric
  Descriptor epoll_;
  Descriptor listener_;
  Descriptor spare_;  // closed when the process has no other descriptor
  FabricSmFiles sm_files_;
  std::unordered_map<std::uint32_t, Page> pages_;  // by node
  OctetBudget waiting_octets_{kWaitingOctetsMax};
  std::unordered_map<FabricClientId, FabricConnection> connections_;
  std::unordered_map<pid_t, std::size_t> connections_of_;  // by process; those above 0
  std::size_t connections_of_one_ = 0;                     // at most
  FabricClientId next_client_ = 1;
  std::deque<Arrived> events_;
  std::vector<std::byte> room_;  // for one message
};

}  // namespace verbatim::host
