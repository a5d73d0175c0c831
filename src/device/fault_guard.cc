// SPDX-License-Identifier: Apache-2.0
#include "device/fault_guard.h"

#include <signal.h>

#include <mutex>

#include "base/careful_copy.h"
#include "base/own_threads.h"
#include "device/guarded_code.h"

namespace verbatim::device {

namespace detail {
thread_local constinit FaultFrame* innermost_fault_frame = nullptr;
thread_local constinit FaultSignals fault_signals;
}  // namespace detail

namespace {

struct sigaction g_previous_segv;
struct sigaction g_previous_bus;

void handle_fault(int number, siginfo_t* info, void* context) {
  const bool was_sent = info->si_code <= 0;  // by a process, as with kill(2): it is no fault
  if (!was_sent && resume_careful_copy(context)) return;
  const bool is_in_work =
      detail::innermost_fault_frame != nullptr && is_fault_of_guarded_code(context);
  if (!was_sent && is_in_work) {
    detail::innermost_fault_frame->fault_at = info->si_addr;
    siglongjmp(detail::innermost_fault_frame->back, 1);
  }
  const struct sigaction& previous = number == SIGBUS ? g_previous_bus : g_previous_segv;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(number, info, context);
    return;
  }
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
    return;
  }
  if (previous.sa_handler == SIG_IGN && was_sent) return;
  // There is no other handler: the fault happens again, with the default action.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(number, &standard, nullptr);
  if (was_sent) (void)::raise(number);
}

}  // namespace

namespace detail {
namespace {

/// True if one of the two signals was blocked.
bool unblock_fault_signals() noexcept {
  sigset_t faults;
  ::sigemptyset(&faults);
  ::sigaddset(&faults, SIGSEGV);
  ::sigaddset(&faults, SIGBUS);
  sigset_t before;
  if (::pthread_sigmask(SIG_UNBLOCK, &faults, &before) != 0) return false;
  return ::sigismember(&before, SIGSEGV) == 1 || ::sigismember(&before, SIGBUS) == 1;
}

}  // namespace

std::uint32_t look_at_fault_signals(std::uint32_t usual) noexcept {
  constexpr std::uint32_t kCloseLooks = 16;
  if (OwnThread::is_mine()) return usual;
  FaultSignals& known = fault_signals;
  if (unblock_fault_signals()) {
    known.are_blocked_time_and_again = known.were_blocked;
    known.were_blocked = true;
    known.close_looks = kCloseLooks;
  }
  if (known.are_blocked_time_and_again) return 1;
  if (known.close_looks == 0) return usual;
  --known.close_looks;
  return 1;
}

}  // namespace detail

void install_fault_guard() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    learn_guarded_code();
    struct sigaction action {};
    action.sa_sigaction = handle_fault;
    // No mask is changed by the jump back, so the signal must not have been blocked for the
    // handler.
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    ::sigaction(SIGSEGV, &action, &g_previous_segv);
    ::sigaction(SIGBUS, &action, &g_previous_bus);
  });
}

}  // namespace verbatim::device
