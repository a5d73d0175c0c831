// SPDX-License-Identifier: Apache-2.0
#include "host/fabric_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
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

FabricAnswer refusal(int error, std::string_view why) noexcept {
  FabricAnswer answer;
  answer.error = error;
  std::copy_n(why.begin(), std::min(why.size(), answer.why.size() - 1), answer.why.begin());
  return answer;
}

}  // namespace

Status FabricServer::open(const FabricPlace& place, std::string& message) {
  if (auto taken = take_folder(place, message); !taken) return taken;
  folder_ = place.folder();
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  spare_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  room_.resize(kRoomOctets);
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
  if (!lock_.is_open() || ::flock(lock_.number(), LOCK_EX | LOCK_NB) != 0) {
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
    events_.push_back({.client = 0,
                       .what = FabricEvent::SmChanged{
                           .node = change->node, .port = change->port, .is_sm = change->is_sm}});
  }
}

std::optional<FabricEvent> FabricServer::poll_event() {
  if (events_.empty()) return std::nullopt;
  FabricEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void FabricServer::accept_programs() {
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    Descriptor socket(
        ::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      if (errno == EMFILE || errno == ENFILE) refuse_one();
      return;
    }
    if (peer_of(socket.number()).uid == ::geteuid()) add_program(std::move(socket));
  }
}

/// Without a free descriptor a connection would stay in the queue and keep waking the process.
void FabricServer::refuse_one() noexcept {
  spare_.close();
  Descriptor(::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC)).close();
  spare_ = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void FabricServer::add_program(Descriptor socket) {
  const FabricClientId client = next_client_++;
  epoll_event readable = event_of(EPOLLIN, kClient, client);
  if (::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, socket.number(), &readable) != 0) return;
  FabricConnection connection(std::move(socket));
  connection.epoll_events = EPOLLIN;
  connections_.emplace(client, std::move(connection));
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
    const bool was_accepted =
        phase == FabricConnection::Phase::kPort || phase == FabricConnection::Phase::kCommands;
    if (was_accepted) events_.push_back({.client = client, .what = FabricEvent::Left{}});
  }
  if (!arrived) return false;
  if (arrived->octets <= room_.size()) {
    handle_message(client, connection, std::span(room_).first(arrived->octets),
                   std::move(arrived->descriptor));
  }
  return true;
}

void FabricServer::handle_message(FabricClientId client, FabricConnection& connection,
                                  std::span<const std::byte> octets, Descriptor descriptor) {
  switch (connection.phase) {
    case FabricConnection::Phase::kGreeting:
      handle_hello(client, connection, octets);
      return;
    case FabricConnection::Phase::kPort:
      if (octets.size() == sizeof(FabricCall)) {
        handle_call(client, connection, octets, std::move(descriptor));
      } else {
        handle_datagram(client, octets, descriptor);
      }
      return;
    case FabricConnection::Phase::kCommands: {
      const auto* text = reinterpret_cast<const char*>(octets.data());
      events_.push_back(
          {.client = client, .what = FabricEvent::Commanded{.text = {text, octets.size()}}});
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
  events_.push_back(
      {.client = client,
       .what = FabricEvent::Attached{.purpose = hello.purpose, .node = node, .port = hello.port}});
}

void FabricServer::handle_call(FabricClientId client, FabricConnection& connection,
                               std::span<const std::byte> octets, Descriptor reply_to) {
  FabricEvent::Called called;
  if (!read_value(octets, called.request) || !reply_to.is_open()) return;
  called.call = connection.add_call(std::move(reply_to));
  events_.push_back({.client = client, .what = called});
}

/// A malformed message is dropped; the kernel's umad refuses it.
void FabricServer::handle_datagram(FabricClientId client, std::span<const std::byte> octets,
                                   const Descriptor& file) {
  FabricEvent::Sent sent;
  if (octets.size() < sizeof sent.header + kMadHeaderOctets) return;
  std::memcpy(static_cast<void*>(&sent.header), octets.data(), sizeof sent.header);
  octets = octets.subspan(sizeof sent.header);
  if (!file.is_open()) {
    sent.message.assign(octets.begin(), octets.end());
  } else {
    if (sent.header.octets > kUserMadOctetsMax || !is_in_memory_file(sent.header.octets)) return;
    sent.message.resize(sent.header.octets - sizeof sent.header);
    if (!read_memory_file(file.number(), sent.message)) return;
  }
  events_.push_back({.client = client, .what = std::move(sent)});
}

/// The epoll waits for room in the socket only while something waits for it.
void FabricServer::watch(FabricClientId client, FabricConnection& connection) {
  const std::uint32_t wanted = connection.has_waiting() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (wanted == connection.epoll_events) return;
  connection.epoll_events = wanted;
  epoll_event event = event_of(wanted, kClient, client);
  (void)::epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, connection.socket(), &event);
}

void FabricServer::end(FabricClientId client) { connections_.erase(client); }

auto FabricServer::make_page(const FabricNodeState& state) -> Page {
  Page page{.file = Descriptor(::memfd_create("verbatim-node", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
            .mapped = nullptr};
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

void FabricServer::accept(FabricClientId client, std::uint32_t node, const FabricNodeState& state) {
  FabricConnection* connection = connection_of(client);
  if (connection == nullptr || connection->phase != FabricConnection::Phase::kDecision) return;
  if (!pages_.contains(node)) {
    Page page = make_page(state);
    if (page.mapped == nullptr) {
      refuse(client, ENOMEM, "the fabric's process has no memory or no descriptor left");
      return;
    }
    pages_.emplace(node, std::move(page));
  }
  for (std::uint32_t port = 0; port < state.ports.size(); ++port) {
    if (state.ports[port].guid != 0) (void)sm_files_.add(node, port);  // opening it says why not
  }
  FabricAnswer answer;
  answer.node = node;
  (void)connection->send(octets_of(answer), {}, pages_.at(node).file.number());
  connection->phase = FabricConnection::Phase::kPort;
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
  if (const auto found = pages_.find(node); found != pages_.end())
    found->second.mapped->write(state);
}

}  // namespace verbatim::host
