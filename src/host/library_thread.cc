// SPDX-License-Identifier: Apache-2.0
#include "host/library_thread.h"

#include <signal.h>

#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/own_threads.h"

namespace verbatim::host {

namespace {

void* run(void* body) {
  const OwnThread mine;
  (*std::unique_ptr<std::function<void()>>(static_cast<std::function<void()>*>(body)))();
  return nullptr;
}

}  // namespace

LibraryThread::LibraryThread(LibraryThread&& other) noexcept
    : thread_(other.thread_), exists_(std::exchange(other.exists_, false)) {}

LibraryThread& LibraryThread::operator=(LibraryThread&& other) noexcept {
  VB_ASSERT(!exists_);
  thread_ = other.thread_;
  exists_ = std::exchange(other.exists_, false);
  return *this;
}

LibraryThread::~LibraryThread() { VB_ASSERT(!exists_); }

Status LibraryThread::start(const char* name, std::function<void()> body, Faults faults) {
  VB_ASSERT(!exists_);
  auto kept = std::make_unique<std::function<void()>>(std::move(body));
  sigset_t blocked;
  sigset_t before;
  ::sigfillset(&blocked);
  if (faults == Faults::kOpen) {
    for (const int fault : {SIGSEGV, SIGBUS}) ::sigdelset(&blocked, fault);
  }
  ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
  OwnThread::announce();
  exists_ = ::pthread_create(&thread_, nullptr, &run, kept.get()) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!exists_) return Errc::kNoMemory;
  (void)kept.release();  // the thread has it
  ::pthread_setname_np(thread_, name);
  return Ok{};
}

bool LibraryThread::is_this_thread() const noexcept {
  return exists_ && ::pthread_equal(thread_, ::pthread_self()) != 0;
}

void LibraryThread::join() noexcept {
  (void)::pthread_join(thread_, nullptr);
  exists_ = false;
}

void LibraryThread::detach() noexcept {
  (void)::pthread_detach(thread_);
  exists_ = false;
}

}  // namespace verbatim::host
