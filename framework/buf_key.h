#ifndef TUTTI_FRAMEWORK_BUF_KEY_H_
#define TUTTI_FRAMEWORK_BUF_KEY_H_

#include <cstdint>
#include <string>
#include <utility>

namespace tutti {

// One execution of one collective, among all there ever are.
struct ExecKey {
  uint64_t generation = 0;  // Of the group.
  int64_t step = 0;
  int64_t group = 0;
  int64_t instance = 0;
  uint64_t execution = 0;

  friend bool operator==(const ExecKey&, const ExecKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ExecKey& key) {
    return H::combine(std::move(h), key.generation, key.step, key.group,
                      key.instance, key.execution);
  }
};

// One transfer of it. `from` and `to` are ranks.
struct BufKey {
  ExecKey exec;
  int32_t tag = 0;
  int32_t from = 0;
  int32_t to = 0;

  friend bool operator==(const BufKey&, const BufKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const BufKey& key) {
    return H::combine(std::move(h), key.exec, key.tag, key.from, key.to);
  }
};

// "step 1, group 2 (generation 3), instance 4, execution 5".
std::string ToString(const ExecKey& key);

// The same and ", rank 0 to rank 1, tag 2".
std::string ToString(const BufKey& key);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BUF_KEY_H_
