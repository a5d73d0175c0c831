// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

namespace verbatim::abi {

/// Exists during a call of rdma_cm. The thread can be cancelled only where it waits for an event
/// (Waiting), as in rdma-core.
class CmEntry {
 public:
  CmEntry() noexcept;
  CmEntry(const CmEntry&) = delete;
  CmEntry& operator=(const CmEntry&) = delete;
  ~CmEntry();

  /// With no lock held and nothing half done: the thread can be cancelled if the program lets it.
  class Waiting {
   public:
    Waiting() noexcept;
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting();
  };

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
  bool is_outermost_ = false;
};

/// The form of a function in the table of functions: it runs within a CmEntry.
template <auto kFunction>
struct InCmEntry;
template <typename Result, typename... Arguments, Result (*kFunction)(Arguments...)>
struct InCmEntry<kFunction> {
  static Result call(Arguments... arguments) {
    const CmEntry entry;
    return kFunction(arguments...);
  }
};

}  // namespace verbatim::abi
