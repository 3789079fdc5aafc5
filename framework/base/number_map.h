#ifndef TUTTI_FRAMEWORK_BASE_NUMBER_MAP_H_
#define TUTTI_FRAMEWORK_BASE_NUMBER_MAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace tutti {

// Maps numbers to values. Fast if numbers arrive in ascending order and leave
// in about the same order. New numbers are appended; a look-up is a binary
// search among few entries. Keeps its memory, so alternating inserts and
// removals allocate nothing.
//
// A null value means no value.
template <typename T>
class NumberMap {
 public:
  struct Entry {
    uint64_t number = 0;
    T value = nullptr;
  };

  // Value of `number`, null at first; valid until the next call.
  T& operator[](uint64_t number) {
    const size_t at = LowerBound(number);
    if (!IsAt(at, number)) {
      entries_.insert(entries_.begin() + static_cast<ptrdiff_t>(at),
                      Entry{number});
    }
    return entries_[at].value;
  }

  // Value of `number`; null if there is none.
  const T* Find(uint64_t number) const {
    const size_t at = LowerBound(number);
    if (!IsAt(at, number) || entries_[at].value == nullptr) return nullptr;
    return &entries_[at].value;
  }

  // Removes and returns the value; null if there was none.
  T Take(uint64_t number) {
    const size_t at = LowerBound(number);
    if (!IsAt(at, number)) return nullptr;
    T value = std::exchange(entries_[at].value, nullptr);
    // Drops as many entries as it moves.
    if (++num_null_ > entries_.size() / 2 + kFewNull) DropNull();
    return value;
  }

  // All values, in ascending order of their numbers.
  std::vector<T> Values() const {
    std::vector<T> values;
    for (const Entry& entry : entries_) {
      if (entry.value != nullptr) values.push_back(entry.value);
    }
    return values;
  }

  bool empty() const {
    return std::all_of(
        entries_.begin(), entries_.end(),
        [](const Entry& entry) { return entry.value == nullptr; });
  }

 private:
  static constexpr size_t kFewNull = 8;

  // Index of the first entry with `number` or a higher one.
  size_t LowerBound(uint64_t number) const {
    if (entries_.empty() || entries_.back().number < number) {
      return entries_.size();
    }
    const auto at = std::partition_point(
        entries_.begin(), entries_.end(),
        [number](const Entry& entry) { return entry.number < number; });
    return static_cast<size_t>(at - entries_.begin());
  }

  bool IsAt(size_t index, uint64_t number) const {
    return index < entries_.size() && entries_[index].number == number;
  }

  void DropNull() {
    std::erase_if(entries_,
                  [](const Entry& entry) { return entry.value == nullptr; });
    num_null_ = 0;
  }

  std::vector<Entry> entries_;  // In ascending order of numbers.
  size_t num_null_ = 0;         // Upper bound on null values.
};

// A set of mostly consecutive numbers. Uses memory for each run of consecutive
// numbers, not for each number.
class NumberSet {
 public:
  void Insert(uint64_t number) {
    if (Contains(number)) return;
    auto next = runs_.upper_bound(number);
    auto run = next == runs_.begin() ? runs_.end() : std::prev(next);
    if (run != runs_.end() && run->second + 1 == number) {
      run->second = number;
    } else {
      run = runs_.emplace_hint(next, number, number);
    }
    if (next != runs_.end() && next->first == number + 1) {
      run->second = next->second;
      runs_.erase(next);
    }
  }

  bool Contains(uint64_t number) const {
    const auto next = runs_.upper_bound(number);
    return next != runs_.begin() && number <= std::prev(next)->second;
  }

  // First number >= `from` that is not in the set. REQUIRES: there is one.
  uint64_t FirstMissing(uint64_t from) const {
    return Contains(from) ? std::prev(runs_.upper_bound(from))->second + 1
                          : from;
  }

  size_t num_runs() const { return runs_.size(); }

 private:
  // First and last number of each run. Between two runs, at least one number is
  // missing.
  std::map<uint64_t, uint64_t> runs_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_NUMBER_MAP_H_
