#ifndef TUTTI_FRAMEWORK_BLOCKING_COUNTER_H_
#define TUTTI_FRAMEWORK_BLOCKING_COUNTER_H_

#include <memory>

namespace tutti {

// Lets one thread, which may block, wait for a number of events. Thread-safe;
// may be destroyed as soon as Wait() returns.
class BlockingCounter {
 public:
  explicit BlockingCounter(int count);
  ~BlockingCounter();
  BlockingCounter(const BlockingCounter&) = delete;
  BlockingCounter& operator=(const BlockingCounter&) = delete;

  void DecrementCount();
  void Wait();

 private:
  class Count;

  const std::unique_ptr<Count> count_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BLOCKING_COUNTER_H_
