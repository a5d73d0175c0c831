// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Which lock guards what, in words that clang checks (-Wthread-safety, an error where the project
/// is compiled with clang: `make check`). Other compilers see nothing.
///
/// A member that a lock guards says VB_GUARDED_BY(mutex_); a function that its caller must lock for
/// says VB_REQUIRES(mutex_). The locks are Mutex and ForkMutex, the guard is LockGuard
/// (base/mutex.h). std::mutex is not known to the analysis. The lock of an adapter has the name
/// adapter_role (base/adapter_role.h).
///
/// The lock of the connections is named by the function that returns it: connections_mutex()
/// (connect/lock.h).
///
/// Not covered:
/// - what a BiasedLock guards: the machine of a queue pair, which one of two locks guards, by its
///   data path (device::QueuePair::Posting), and the lanes of a device::CompletionQueue;
/// - members that a thread reads with either of two locks, and changes with both: the data path of
///   a queue pair, the port of an adapter (device::Adapter::port_);
/// - members that the thread that changes them reads without the lock: the ends of a connect::Id;
/// - locks that one exported function takes and another releases (ibv_start_poll, ibv_wr_start);
/// - device::BlockPool, whose lock is known in one file only, and the order of forks
///   (device/process.cc).
#if defined(__clang__)
#define VB_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define VB_THREAD_SAFETY(attribute)
#endif

#define VB_CAPABILITY(name) VB_THREAD_SAFETY(capability(name))
#define VB_SCOPED_CAPABILITY VB_THREAD_SAFETY(scoped_lockable)
#define VB_GUARDED_BY(lock) VB_THREAD_SAFETY(guarded_by(lock))
#define VB_REQUIRES(...) VB_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define VB_EXCLUDES(...) VB_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define VB_ACQUIRE(...) VB_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define VB_TRY_ACQUIRE(...) VB_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define VB_RELEASE(...) VB_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define VB_ASSERTS(...) VB_THREAD_SAFETY(assert_capability(__VA_ARGS__))
#define VB_RETURNS_LOCK(lock) VB_THREAD_SAFETY(lock_returned(lock))
/// The function's locking cannot be expressed, and a comment says what it is: handlers of fork(2),
/// of which one locks and another unlocks, and constructors of an object that no thread knows yet.
#define VB_UNCHECKED_LOCKING VB_THREAD_SAFETY(no_thread_safety_analysis)
