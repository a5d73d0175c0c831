// SPDX-License-Identifier: Apache-2.0
#include "tools/fabric/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace verbatim::tools {
namespace {

// As env(1) and shells have it.
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

void redirect(const std::string& output) noexcept {
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) (void)::dup2(nothing, STDIN_FILENO);
  if (file < 0) return;
  (void)::dup2(file, STDOUT_FILENO);
  (void)::dup2(file, STDERR_FILENO);
}

/// The new process from here on.
[[noreturn]] void become(const ChildProcess::Settings& settings, pid_t parent) {
  sigset_t none;
  ::sigemptyset(&none);
  (void)::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  for (const int ignored : {SIGPIPE, SIGTTIN}) (void)std::signal(ignored, SIG_DFL);
  if (settings.has_own_group) (void)::setpgid(0, 0);
  (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kCannotExecute);  // it has ended before the prctl
  if (!settings.output.empty()) redirect(settings.output);
  if (!settings.folder.empty() && ::chdir(settings.folder.c_str()) != 0) ::_exit(kCannotExecute);
  if (settings.before_start) settings.before_start();
  std::vector<char*> words;
  for (const std::string& word : settings.command) {
    words.push_back(const_cast<char*>(word.c_str()));  // execvp does not change it
  }
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  const int why = errno;
  std::fprintf(stderr, "verbatim fabric: %s: %s\n", words[0], std::strerror(why));
  ::_exit(why == ENOENT ? kNotFound : kCannotExecute);
}

}  // namespace

Expected<ChildProcess> ChildProcess::start(const Settings& settings, std::string& message) {
  (void)std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(settings, parent);
  if (pid < 0) {
    message = settings.command[0] + ": the system starts no process: " + std::strerror(errno);
    return Errc::kNoMemory;
  }
  ChildProcess child;
  child.pid_ = pid;
  return child;
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(status_, other.status_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (!runs()) return;
  signal(SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

void ChildProcess::signal(int number) noexcept {
  if (runs()) (void)::kill(pid_, number);
}

void ChildProcess::reap() noexcept {
  int status = 0;
  if (!runs() || ::waitpid(pid_, &status, WNOHANG) != pid_) return;
  pid_ = 0;
  status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace verbatim::tools
