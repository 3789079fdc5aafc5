#ifndef TUTTI_FRAMEWORK_NUMBER_SET_H_
#define TUTTI_FRAMEWORK_NUMBER_SET_H_

#include <cstddef>
#include <cstdint>
#include <map>

namespace tutti {

// A set of numbers of which most follow one another: takes memory for each run
// of consecutive numbers, not for each number.
class NumberSet {
 public:
  void Insert(uint64_t number);
  bool Contains(uint64_t number) const;

  size_t num_runs() const { return runs_.size(); }

 private:
  // First and last number of each run. A number that is in none lies between
  // any two.
  std::map<uint64_t, uint64_t> runs_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_NUMBER_SET_H_
