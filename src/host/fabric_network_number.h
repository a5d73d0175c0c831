// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "host/descriptor.h"

namespace verbatim::host {

/// Which of the networks 127.FIRST.0.0/16 to 127.LAST.0.0/16 a fabric has: the lowest one that no
/// running fabric of this user has. A fabric keeps its network while its process runs, by a lock on
/// the file `.network-<number>` in the folder of the user's fabrics, and removes the file at its
/// end. The file of a killed fabric stays, without a lock.
///
/// Where the user has no such folder, or all networks are taken, it is the first one, and other
/// fabrics may have it as well.
class FabricNetworkNumber {
 public:
  struct Range {
    unsigned first = 0;
    unsigned last = 0;
  };
  FabricNetworkNumber() noexcept = default;
  FabricNetworkNumber(const FabricNetworkNumber&) = delete;
  FabricNetworkNumber& operator=(const FabricNetworkNumber&) = delete;
  ~FabricNetworkNumber();

  /// Takes a number of the range, and keeps it as long as this object exists. A child that was
  /// forked and executes nothing keeps it, too.
  void take(Range range);
  [[nodiscard]] unsigned number() const noexcept { return number_; }

 private:
  Descriptor lock_;
  std::string path_;  // of the locked file
  unsigned number_ = 0;
};

}  // namespace verbatim::host
