// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "host/sealed_file.h"
#include "host/unix_name.h"

namespace verbatim::host {
namespace {

constexpr int kBacklog = 1024;
constexpr int kEventsPerTurn = 64;
constexpr int kMessagesPerTurn = 64;  // of one program
constexpr std::size_t kRoomOctets = kInlineOctetsMax;

epoll_event event_of(std::uint32_t events, std::uint32_t source, std::uint32_t which) noexcept {
  return {.events = events, .data = {.u64 = (std::uint64_t{source} << 32) | which}};
}

/// Removes what a killed process has left.
void remove_leftovers(const std::string& folder) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name == "socket" || name.starts_with("issm-")) (void)::unlink(entry.path().c_str());
  }
}

template <typename Value>
bool read_value(std::span<const std::byte> octets, Value& value) noexcept {
  if (octets.size() != sizeof value) return false;
  std::memcpy(static_cast<void*>(&value), octets.data(), sizeof value);
  return value.magic == Value::kMagic;
}

bool is_call(std::span<const std::byte> octets) noexcept {
  FabricCall call;
  return octets.size() >= sizeof call && read_value(octets.first(sizeof call), call);
}

/// A datagram, of which a memory file may hold more; false: it is none.
bool read_datagram(std::span<const std::byte> octets, FabricEvent::Sent& sent) {
  if (octets.size() < sizeof sent.header + kMadHeaderOctets) return false;
  std::memcpy(static_cast<void*>(&sent.header), octets.data(), sizeof sent.header);
  octets = octets.subspan(sizeof sent.header);
  sent.message.assign(octets.begin(), octets.end());
  return true;
}

/// Every connection takes a descriptor. The usual limit is for programs that use select(2).
std::size_t raise_descriptor_limit() noexcept {
  constexpr rlim_t kWanted = 65'536;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min(limit.rlim_max, kWanted);
  if (limit.rlim_cur <= before || ::setrlimit(RLIMIT_NOFILE, &limit) != 0) return before;
  return limit.rlim_cur;
}

FabricAnswer refusal(int error, std::string_view why) noexcept {
  FabricAnswer answer;
  answer.error = error;
  std::copy_n(why.begin(), std::min(why.size(), answer.why.size() - 1), answer.why.begin());
  return answer;
}

/// The program reads the answer although the connection is closed at once.
void refuse_for_want_of_room(int socket) noexcept {
  if (socket < 0) return;
  const FabricAnswer answer =
      refusal(EMFILE,
              "the fabric's process has no descriptor left for this program; end others, or start "
              "the fabric with a higher `ulimit -n`");
  (void)send_parts(socket, octets_of(answer), {}, -1);
}

}  // namespace

Status FabricServer::open(const FabricPlace& place, std::string& message) {
  if (auto taken = take_folder(place, message); !taken) return taken;
  folder_ = place.folder();
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  spare_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  room_.resize(kRoomOctets);
  connections_of_one_ = std::max<std::size_t>(raise_descriptor_limit() / 4, 8);
  if (epoll_.is_open() && sm_files_.open(place, epoll_.number(), kSmFile) && listen(place))
    return Ok{};
  message = "the socket of fabric " + place.name() + " cannot be opened in " + place.folder() +
            ": " + std::strerror(errno) + "; check `ulimit -n` and fs.inotify.max_user_instances";
  close();
  return Errc::kNoMemory;
}

Status FabricServer::take_folder(const FabricPlace& place, std::string& message) {
  if (auto made = place.make(message); !made) return made;
  lock_ = Descriptor(::open(place.folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_.is_open()) {
    const int error = errno;
    message = place.folder() + " cannot be opened: " + std::strerror(error);
    if (error == EMFILE || error == ENFILE) message += "; raise `ulimit -n`";
    return Errc::kNoMemory;
  }
  if (::flock(lock_.number(), LOCK_EX | LOCK_NB) != 0) {
    lock_.close();
    message = "fabric " + place.name() + " is running already; end it, or choose another name";
    return Errc::kAddressInUse;
  }
  remove_leftovers(place.folder());
  return Ok{};
}

bool FabricServer::listen(const FabricPlace& place) {
  union {
    sockaddr base;
    sockaddr_un un;
  } address{};
  address.un.sun_family = AF_UNIX;
  const std::string path = place.socket_path();
  std::copy_n(path.begin(), std::min(path.size(), sizeof address.un.sun_path - 1),
              address.un.sun_path);
  listener_ = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  epoll_event readable = event_of(EPOLLIN, kListener, 0);
  return listener_.is_open() && ::bind(listener_.number(), &address.base, sizeof address.un) == 0 &&
         ::listen(listener_.number(), kBacklog) == 0 &&
         ::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, listener_.number(), &readable) == 0;
}

/// The place is free before programs see that the fabric is gone.
void FabricServer::close() noexcept {
  sm_files_.close();
  listener_.close();
  if (lock_.is_open()) {
    remove_leftovers(folder_);
    (void)::rmdir(folder_.c_str());
    lock_.close();
  }
  connections_.clear();
  connections_of_.clear();
  events_.clear();
  for (auto& [node, page] : pages_) ::munmap(page.mapped, FabricPage::kOctets);
  pages_.clear();
  spare_.close();
  epoll_.close();
}

void FabricServer::handle_ready() {
  std::array<epoll_event, kEventsPerTurn> ready;
  const int count = ::epoll_wait(epoll_.number(), ready.data(), kEventsPerTurn, 0);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = ready[static_cast<std::size_t>(i)];
    const auto which = static_cast<std::uint32_t>(event.data.u64);
    switch (static_cast<Source>(event.data.u64 >> 32)) {
      case kListener:
        accept_programs();
        break;
      case kSmFile:
        sm_files_.handle(which);
        break;
      case kClient:
        handle_client(which, event.events);
        break;
    }
  }
  while (const auto change = sm_files_.poll_change()) {
    push_event(0, FabricEvent::SmChanged{
                      .node = change->node, .port = change->port, .is_sm = change->is_sm});
  }
}

std::optional<FabricEvent> FabricServer::poll_event() {
  while (!events_.empty()) {
    Arrived arrived = std::move(events_.front());
    events_.pop_front();
    if (!arrived.file.is_open() || read_rest(arrived)) return std::move(arrived.event);
  }
  return std::nullopt;
}

/// False: the memory file is not what the header says; the kernel's umad refuses such a message.
bool FabricServer::read_rest(Arrived& arrived) {
  auto& sent = std::get<FabricEvent::Sent>(arrived.event.what);
  const std::size_t octets = sent.header.octets;
  if (octets > kUserMadOctetsMax || !is_in_memory_file(octets)) return false;
  if (octets_of_sealed(arrived.file.number()) != octets - sizeof sent.header) return false;
  sent.message.resize(octets - sizeof sent.header);
  return read_memory_file(arrived.file.number(), sent.message);
}

void FabricServer::accept_programs() {
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    Descriptor socket(
        ::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      if (errno == EMFILE || errno == ENFILE) refuse_one();
      return;
    }
    const ucred peer = peer_of(socket.number());
    if (peer.uid == ::geteuid()) add_program(std::move(socket), peer.pid);
  }
}

/// Without a free descriptor a connection would stay in the queue and keep waking the process.
void FabricServer::refuse_one() noexcept {
  spare_.close();
  Descriptor socket(::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
  refuse_for_want_of_room(socket.number());
  socket.close();
  spare_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void FabricServer::add_program(Descriptor socket, pid_t process) {
  const auto known = connections_of_.find(process);
  if (known != connections_of_.end() && known->second >= connections_of_one_) {
    return refuse_for_want_of_room(socket.number());
  }
  const FabricClientId client = next_client_++;
  epoll_event readable = event_of(EPOLLIN, kClient, client);
  if (::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket.number(), &readable) != 0) return;
  FabricConnection connection(std::move(socket), process, waiting_octets_);
  connection.epoll_events = EPOLLIN;
  connections_.emplace(client, std::move(connection));
  if (process != 0) ++connections_of_[process];  // 0: of another PID namespace, not known
}

FabricConnection* FabricServer::connection_of(FabricClientId client) noexcept {
  const auto found = connections_.find(client);
  return found != connections_.end() ? &found->second : nullptr;
}

void FabricServer::handle_client(FabricClientId client, std::uint32_t events) {
  FabricConnection* connection = connection_of(client);
  if (connection == nullptr) return;
  if ((events & EPOLLOUT) != 0) connection->flush();
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    if (!read_one(client, *connection)) break;
  }
  if (connection->phase == FabricConnection::Phase::kEnded) {
    end(client);
  } else {
    watch(client, *connection);
  }
}

/// False when there is nothing more to read now.
bool FabricServer::read_one(FabricClientId client, FabricConnection& connection) {
  if (connection.phase == FabricConnection::Phase::kEnded) return false;
  bool is_gone = false;
  auto arrived = receive_message(connection.socket(), room_, is_gone);
  if (is_gone) {
    const auto phase = std::exchange(connection.phase, FabricConnection::Phase::kEnded);
    const bool was_accepted = phase == FabricConnection::Phase::kPort ||
                              phase == FabricConnection::Phase::kCommands ||
                              phase == FabricConnection::Phase::kData;
    if (was_accepted) push_event(client, FabricEvent::Left{});
  }
  if (!arrived) return false;
  const bool has_file = arrived->descriptor.is_open();
  if (arrived->octets <= room_.size()) {
    handle_message(client, connection, std::span(room_).first(arrived->octets),
                   std::move(arrived->descriptor));
  }
  return !has_file;  // the descriptors of many would be too many
}

void FabricServer::handle_message(FabricClientId client, FabricConnection& connection,
                                  std::span<const std::byte> octets, Descriptor descriptor) {
  switch (connection.phase) {
    case FabricConnection::Phase::kGreeting:
      handle_hello(client, connection, octets);
      return;
    case FabricConnection::Phase::kPort:
      if (is_call(octets)) {
        handle_call(client, connection, octets, std::move(descriptor));
      } else {
        handle_datagram(client, octets, std::move(descriptor));
      }
      return;
    case FabricConnection::Phase::kCommands: {
      const auto* text = reinterpret_cast<const char*>(octets.data());
      push_event(client, FabricEvent::Commanded{.text = {text, octets.size()}});
      return;
    }
    case FabricConnection::Phase::kData: {
      FabricClaim claim;
      if (!read_value(octets, claim)) return;
      push_event(client,
                 FabricEvent::Claimed{.service = claim.service, .listens = claim.listens != 0});
      return;
    }
    case FabricConnection::Phase::kDecision:
    case FabricConnection::Phase::kEnded:
      return;
  }
}

void FabricServer::handle_hello(FabricClientId client, FabricConnection& connection,
                                std::span<const std::byte> octets) {
  FabricHello hello;
  if (!read_value(octets, hello) || hello.version != FabricHello::kVersion) {
    const FabricAnswer answer = refusal(
        EPROTO,
        "the fabric's process is of another version of Verbatim than this program's library");
    (void)connection.send(octets_of(answer), {});
    connection.phase = FabricConnection::Phase::kEnded;
    return;
  }
  if (hello.purpose == FabricHello::Purpose::kCommands) {
    connection.phase = FabricConnection::Phase::kCommands;
    (void)connection.send(octets_of(FabricAnswer{}), {});
    return;
  }
  connection.phase = FabricConnection::Phase::kDecision;
  const std::string node(hello.node.data(), ::strnlen(hello.node.data(), hello.node.size()));
  push_event(client,
             FabricEvent::Attached{
                 .purpose = hello.purpose, .node = node, .port = hello.port, .slot = hello.slot});
}

void FabricServer::handle_call(FabricClientId client, FabricConnection& connection,
                               std::span<const std::byte> octets, Descriptor reply_to) {
  FabricEvent::Called called;
  if (!reply_to.is_open() || !read_value(octets.first(sizeof called.request), called.request)) {
    return;
  }
  const bool asks = called.request.kind == FabricCall::Kind::kMaySend;
  if (asks && !read_datagram(octets.subspan(sizeof called.request), called.about)) return;
  called.call = connection.add_call(std::move(reply_to));
  push_event(client, std::move(called));
}

/// A malformed message is dropped; the kernel's umad refuses it.
void FabricServer::handle_datagram(FabricClientId client, std::span<const std::byte> octets,
                                   Descriptor file) {
  FabricEvent::Sent sent;
  if (!read_datagram(octets, sent)) return;
  events_.push_back(
      {.event = {.client = client, .what = std::move(sent)}, .file = std::move(file)});
}

/// The epoll waits for room in the socket only while something waits for it.
void FabricServer::watch(FabricClientId client, FabricConnection& connection) {
  const std::uint32_t wanted = connection.has_waiting() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (wanted == connection.epoll_events) return;
  connection.epoll_events = wanted;
  epoll_event event = event_of(wanted, kClient, client);
  (void)::epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, connection.socket(), &event);
}

void FabricServer::end(FabricClientId client) {
  const auto ended = connections_.find(client);
  if (ended == connections_.end()) return;
  const auto process = connections_of_.find(ended->second.process());
  if (process != connections_of_.end() && --process->second == 0) connections_of_.erase(process);
  const auto page = pages_.find(ended->second.node);
  if (page != pages_.end()) std::erase(page->second.told, client);
  connections_.erase(ended);
}

auto FabricServer::make_page(const FabricNodeState& state) -> Page {
  Page page{.file = Descriptor(::memfd_create("verbatim-node", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
            .mapped = nullptr,
            .told = {}};
  const int file = page.file.number();
  if (file < 0 || ::ftruncate(file, FabricPage::kOctets) != 0) return {};
  void* mapped = ::mmap(nullptr, FabricPage::kOctets, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) return {};
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  (void)::fcntl(file, F_ADD_SEALS, kSeals | F_SEAL_FUTURE_WRITE);  // since Linux 5.1
  (void)::fcntl(file, F_ADD_SEALS, kSeals);
  page.mapped = new (mapped) FabricPage;
  page.mapped->initialise();
  page.mapped->write(state);
  return page;
}

FabricConnection* FabricServer::prepare(FabricClientId client, std::uint32_t node,
                                        const FabricNodeState& state) {
  FabricConnection* connection = connection_of(client);
  if (connection == nullptr || connection->phase != FabricConnection::Phase::kDecision)
    return nullptr;
  if (!pages_.contains(node)) {
    Page page = make_page(state);
    if (page.mapped == nullptr) {
      refuse(client, ENOMEM, "the fabric's process has no memory or no descriptor left");
      return nullptr;
    }
    pages_.emplace(node, std::move(page));
  }
  for (std::uint32_t port = 0; port < state.ports.size(); ++port) {
    if (state.ports[port].guid != 0) (void)sm_files_.add(node, port);  // opening it says why not
  }
  return connection;
}

bool FabricServer::accept(FabricClientId client, std::uint32_t node, const FabricNodeState& state) {
  FabricConnection* connection = prepare(client, node, state);
  if (connection == nullptr) return false;
  FabricAnswer answer;
  answer.node = node;
  (void)connection->send(octets_of(answer), {}, pages_.at(node).file.number());
  connection->phase = FabricConnection::Phase::kPort;
  return true;
}

bool FabricServer::accept_data(FabricClientId client, std::uint32_t node,
                               const FabricNodeState& state, const FabricDataServerPort& port) {
  FabricConnection* connection = prepare(client, node, state);
  if (connection == nullptr) return false;
  Page& page = pages_.at(node);
  const auto [area, bell, fabric_bell] = port.descriptors();
  const std::array<int, 4> descriptors{page.file.number(), area, bell, fabric_bell};
  FabricAnswer answer;
  answer.node = node;
  if (send_descriptors(connection->socket(), octets_of(answer), descriptors) != Transfer::kDone) {
    refuse(client, ENOMEM,
           "the fabric's process cannot send descriptors; its system has no memory");
    return false;
  }
  connection->phase = FabricConnection::Phase::kData;
  connection->node = node;
  page.told.push_back(client);
  return true;
}

void FabricServer::refuse(FabricClientId client, int error, std::string_view why) {
  FabricConnection* connection = connection_of(client);
  if (connection == nullptr || connection->phase != FabricConnection::Phase::kDecision) return;
  (void)connection->send(octets_of(refusal(error, why)), {});
  end(client);
}

void FabricServer::reply(FabricClientId client, std::uint32_t call, const FabricReply& reply) {
  if (FabricConnection* connection = connection_of(client)) connection->reply(call, reply);
}

bool FabricServer::deliver(FabricClientId client, const UserMadHeader& header,
                           std::span<const std::byte> message) {
  FabricConnection* connection = connection_of(client);
  if (connection == nullptr || connection->phase != FabricConnection::Phase::kPort) return false;
  const bool is_sent = connection->send(header, message);
  watch(client, *connection);
  return is_sent;
}

void FabricServer::tell(FabricClientId client, const FabricDeparture& departure) {
  FabricConnection* connection = connection_of(client);
  if (connection == nullptr || connection->phase != FabricConnection::Phase::kPort) return;
  (void)connection->send(octets_of(departure), {});  // one that does not read loses it
  watch(client, *connection);
}

void FabricServer::answer(FabricClientId client, std::string_view text, bool is_last) {
  FabricConnection* connection = connection_of(client);
  if (connection == nullptr || connection->phase != FabricConnection::Phase::kCommands) return;
  do {
    const std::string_view part = text.substr(0, kCommandOctetsMax);
    text.remove_prefix(part.size());
    const std::byte mark{static_cast<std::uint8_t>(is_last && text.empty() ? 1 : 0)};
    (void)connection->send(std::span(&mark, 1), std::as_bytes(std::span(part)));
  } while (!text.empty());
  watch(client, *connection);
}

void FabricServer::publish(std::uint32_t node, const FabricNodeState& state) {
  const auto found = pages_.find(node);
  if (found == pages_.end()) return;
  found->second.mapped->write(state);
  for (const FabricClientId client : found->second.told) {
    if (FabricConnection* connection = connection_of(client)) connection->tell_news();
  }
}

}  // namespace verbatim::host
