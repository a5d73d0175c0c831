// SPDX-License-Identifier: Apache-2.0
// Features of the kernel, and its limits.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "base/pointer.h"
#include "host/runtime_directory.h"
#include "tools/doctor.h"
#include "tools/memory_group.h"

namespace verbatim::tools {
namespace {

/// Closes its descriptor.
class Descriptor {
 public:
  explicit Descriptor(long descriptor) noexcept : descriptor_(static_cast<int>(descriptor)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (is_open()) ::close(descriptor_);
  }
  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

bool udp_takes(int level, int option, const void* value, std::size_t octets) {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return ::setsockopt(socket.get(), level, option, value, static_cast<socklen_t>(octets)) == 0;
}

bool has_gso() {
  const int octets = 1024;
  return udp_takes(IPPROTO_UDP, UDP_SEGMENT, &octets, sizeof octets);
}

bool has_gro() {
  const int on = 1;
  return udp_takes(IPPROTO_UDP, UDP_GRO, &on, sizeof on);
}

/// Classic BPF programs that choose among the sockets of a port.
bool has_steering() {
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  sock_filter first[] = {{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0}};
  const sock_fprog program{.len = 1, .filter = first};
  return ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0 &&
         ::setsockopt(socket.get(), SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program,
                      sizeof program) == 0;
}

/// With seals, which keep a peer from making the file shorter.
bool has_memfd() {
  const Descriptor file(::memfd_create("verbatim-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return file.is_open() && ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0;
}

bool has_short_waits() {
  const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  const timespec none{};
  return ::epoll_pwait2(epoll.get(), &event, 1, &none, nullptr) == 0;
}

bool has_membarrier() {
  const long commands = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  return commands > 0 && (commands & MEMBARRIER_CMD_GLOBAL_EXPEDITED) != 0;
}

bool has_lent_memory() {
  volatile char to = 0;
  const char from = 'x';
  const Descriptor memory(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  const auto at = static_cast<off_t>(numeric_address(&to));
  return memory.is_open() && ::pwrite(memory.get(), &from, 1, at) == 1 && to == 'x';
}

bool has_userfaultfd() {
  return Descriptor(::syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY)).is_open();
}

struct Feature {
  const char* name;
  bool (*is_there)();
  Finding::Grade without;
  const char* what_for;
  const char* advice;
};

constexpr const char* kNewer = "use a newer kernel";
constexpr const char* kAllow =
    "use a newer kernel, or allow it where the container or sandbox forbids it (seccomp)";

constexpr Feature kFeatures[] = {
    {"memfd_create", has_memfd, Finding::Grade::kProblem,
     "memory that processes share; without it devices cannot be opened", kAllow},
    {"epoll_pwait2", has_short_waits, Finding::Grade::kWarning,
     "timers of microseconds; without it they are rounded up to milliseconds",
     "use Linux 5.11 or newer, or allow it where the container or sandbox forbids it (seccomp)"},
    {"UDP GSO", has_gso, Finding::Grade::kWarning,
     "many packets per system call out; without it large transfers are several times slower",
     kNewer},
    {"UDP GRO", has_gro, Finding::Grade::kWarning,
     "many packets per system call in; without it large transfers are slower", kNewer},
    {"SO_REUSEPORT programs", has_steering, Finding::Grade::kWarning,
     "packets straight to their process; without it they take a detour through another", kNewer},
    {"membarrier", has_membarrier, Finding::Grade::kWarning,
     "requests between processes of one host without fences; with them small ones are slower",
     kAllow},
    {"/proc/self/mem", has_lent_memory, Finding::Grade::kWarning,
     "memory that peers on this host cannot map; without it the process that owns it copies",
     "mount /proc, and allow its use where the container or sandbox forbids it"},
    {"userfaultfd", has_userfaultfd, Finding::Grade::kWarning,
     "moving registered memory to where peers of this host can map it; without it they reach it by "
     "system calls, which is several times slower",
     "use Linux 5.19 (on Arm 6.10) or newer, or allow it where the container or sandbox forbids it "
     "(seccomp)"},
};

unsigned long number_in(const std::string& path, unsigned long otherwise) {
  const std::string text = content_of(path);
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 10);
  return text.empty() || *end != 0 ? otherwise : value;
}

std::string mebibytes(unsigned long octets) {
  return octets >= 1UL << 20 ? std::to_string(octets >> 20) + " MiB"
                             : std::to_string(octets >> 10) + " KiB";
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

rlimit limit_of(int resource) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  return limit;
}

void look_at_open_files(Findings& findings) {
  constexpr rlim_t kTooFew = 64;
  constexpr rlim_t kEnough = 1024;  // a socket per process and address, of all processes
  const rlimit limit = limit_of(RLIMIT_NOFILE);
  const std::string what = "a process may have " + limit_text(limit.rlim_cur) + " files open";
  if (limit.rlim_cur >= kEnough) return add_ok(findings, "open files", what);
  (limit.rlim_cur < kTooFew ? add_problem : add_warning)(
      findings, "open files",
      what + "; each process holds a socket for every process of this user, per address",
      "raise it: ulimit -n 1024 (the hard limit is " + limit_text(limit.rlim_max) + ")");
}

void look_at_address_space(Findings& findings) {
  constexpr rlim_t kNeeded = rlim_t{64} << 20;
  struct Limit {
    int resource;
    const char* what;
    const char* option;
  };
  for (const Limit& one :
       {Limit{RLIMIT_AS, "the address space", "-v"},
        Limit{RLIMIT_FSIZE, "the length of files, of which shared memory is one,", "-f"}}) {
    const rlimit limit = limit_of(one.resource);
    if (limit.rlim_cur == RLIM_INFINITY) continue;
    const std::string what = std::string(one.what) + " is limited to " + mebibytes(limit.rlim_cur);
    const std::string advice = std::string("lift it: ulimit ") + one.option + " unlimited";
    if (limit.rlim_cur < kNeeded) {
      add_problem(findings, "memory", what + "; devices cannot be opened", advice);
    } else {
      add_warning(findings, "memory", what + "; devices have less room for shared memory", advice);
    }
  }
  add_ok(findings, "locked memory",
         "not needed: nothing is locked, whatever `ulimit -l` says (" +
             limit_text(limit_of(RLIMIT_MEMLOCK).rlim_cur) + ")");
}

/// How much memory the kernel gives the group of this process (a container) before it ends one of
/// its processes.
void look_at_memory_group(Findings& findings) {
  const auto group = tightest_memory_group("/sys/fs/cgroup", content_of("/proc/self/cgroup"));
  if (!group) return;
  const std::string what = "the group of this process has " + mebibytes(group->used_octets) +
                           " of " + mebibytes(group->limit_octets);
  if (group->used_octets < group->limit_octets / 10 * 9) {
    return add_ok(findings, "memory group", what);
  }
  add_warning(findings, "memory group",
              what + "; at the limit the kernel ends a process of the group",
              "raise the limit of the container or service");
}

void look_at_socket_buffers(Findings& findings) {
  struct Buffer {
    const char* name;
    unsigned long wanted;
    const char* without;
  };
  for (const Buffer& buffer :
       {Buffer{"rmem_max", 4UL << 20, "a receiver that is busy for a moment loses packets"},
        Buffer{"wmem_max", 1UL << 20, "large transfers leave in smaller pieces"}}) {
    const std::string subject = std::string("net.core.") + buffer.name;
    const unsigned long value = number_in(std::string("/proc/sys/net/core/") + buffer.name, ~0UL);
    if (value == ~0UL) continue;  // visible only in the initial network namespace
    const std::string what = "sockets may buffer " + mebibytes(value);
    if (value >= buffer.wanted) {
      add_ok(findings, subject, what);
    } else {
      add_warning(findings, subject, what + ": " + buffer.without,
                  "as root: sysctl -w " + subject + "=" + std::to_string(buffer.wanted * 4));
    }
  }
  constexpr unsigned long kForwarded = 64;
  const unsigned long queue = number_in("/proc/sys/net/unix/max_dgram_qlen", ~0UL);
  if (queue == ~0UL) return;
  const std::string what = "a process has a queue of " + std::to_string(queue) +
                           " packets that first reached another process";
  if (queue >= kForwarded) return add_ok(findings, "net.unix.max_dgram_qlen", what);
  add_warning(findings, "net.unix.max_dgram_qlen",
              what + "; more are lost and sent again (only with many processes on one address)",
              "as root: sysctl -w net.unix.max_dgram_qlen=512");
}

/// Yama's rule for access to other processes (ptrace(2)).
void look_at_ptrace_scope(Findings& findings) {
  const unsigned long scope = number_in("/proc/sys/kernel/yama/ptrace_scope", 0);
  const std::string subject = "ptrace scope";
  if (scope == 0) return add_ok(findings, subject, "processes of one user may reach each other");
  if (scope == 1) {
    return add_ok(findings, subject,
                  "1: processes may reach memory that its owner lends them, as Verbatim does");
  }
  add_warning(findings, subject,
              std::to_string(scope) +
                  ": no process may reach another one's memory; what peers on this host cannot map "
                  "is copied by the process that owns it, which is slower",
              "as root: sysctl -w kernel.yama.ptrace_scope=1" +
                  std::string(scope >= 3 ? " in /etc/sysctl.d, then restart" : ""));
}

/// Where the processes of this user find each other.
void look_at_directory(Findings& findings) {
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const std::string subject = "directory";
  const std::string problem = host::RuntimeDirectory::explain();
  const auto* found = host::RuntimeDirectory::of(socket.get());
  if (!problem.empty() || found == nullptr) {
    findings.push_back({Finding::Grade::kProblem, subject, problem,
                        "see VERBATIM_DIR in verbatim-environment(7)"});
    return;
  }
  add_ok(findings, subject,
         "processes of this user that can open " + found->path() +
             " find each other; those in other containers need VERBATIM_DIR, a directory that is "
             "mounted in all of them");
}

}  // namespace

void look_at_kernel(Findings& findings) {
  utsname system{};
  ::uname(&system);
  std::string there;
  for (const Feature& feature : kFeatures) {
    if (feature.is_there()) {
      there += (there.empty() ? "" : ", ") + std::string(feature.name);
      continue;
    }
    findings.push_back({feature.without, feature.name,
                        std::string("not available; it is for ") + feature.what_for,
                        feature.advice});
  }
  add_ok(findings, "kernel", std::string("Linux ") + system.release + " has " + there);
}

void look_at_limits(Findings& findings) {
  look_at_open_files(findings);
  look_at_address_space(findings);
  look_at_memory_group(findings);
  look_at_socket_buffers(findings);
  look_at_ptrace_scope(findings);
  look_at_directory(findings);
}

}  // namespace verbatim::tools
