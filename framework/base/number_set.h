#ifndef TUTTI_FRAMEWORK_BASE_NUMBER_SET_H_
#define TUTTI_FRAMEWORK_BASE_NUMBER_SET_H_

#include <cstddef>
#include <cstdint>
#include <map>

namespace tutti {

// A set of mostly consecutive numbers. Uses memory for each run of consecutive
// numbers, not for each number.
class NumberSet {
 public:
  void Insert(uint64_t number);
  bool Contains(uint64_t number) const;

  // First number >= `from` that is not in the set. REQUIRES: there is one.
  uint64_t FirstMissing(uint64_t from) const;

  size_t num_runs() const { return runs_.size(); }

 private:
  // First and last number of each run. Between two runs, at least one number is
  // missing.
  std::map<uint64_t, uint64_t> runs_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_NUMBER_SET_H_
