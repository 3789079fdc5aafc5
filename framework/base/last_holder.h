#ifndef TUTTI_FRAMEWORK_BASE_LAST_HOLDER_H_
#define TUTTI_FRAMEWORK_BASE_LAST_HOLDER_H_

#include <memory>
#include <utility>

#include "tutti/environment.h"

namespace tutti {

// Runs work when its last holder is destroyed, on that thread. Never destroy a
// holder with a lock held.
class LastHolder {
 public:
  explicit LastHolder(Work work) : work_(std::move(work)) {}
  ~LastHolder() { std::move(work_)(); }
  LastHolder(const LastHolder&) = delete;
  LastHolder& operator=(const LastHolder&) = delete;

 private:
  Work work_;
};
using LastHolderPtr = std::shared_ptr<LastHolder>;

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_LAST_HOLDER_H_
