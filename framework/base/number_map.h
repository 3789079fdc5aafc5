#ifndef TUTTI_FRAMEWORK_BASE_NUMBER_MAP_H_
#define TUTTI_FRAMEWORK_BASE_NUMBER_MAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti {

// Values by number, for numbers that mostly come in ascending order and go in
// about the same: what is new is appended, and a look-up is a binary search
// among few. Memory that was once needed is kept, so that coming and going in
// turn allocates nothing.
//
// A null value stands for none.
template <typename T>
class NumberMap {
 public:
  struct Entry {
    uint64_t number = 0;
    T value = nullptr;
  };

  // The value of `number`, null if it had none; valid until the next call.
  T& operator[](uint64_t number) {
    const size_t at = LowerBound(number);
    if (!IsAt(at, number)) {
      entries_.insert(entries_.begin() + static_cast<ptrdiff_t>(at),
                      Entry{number});
    }
    return entries_[at].value;
  }

  // Null if there is none.
  const T* Find(uint64_t number) const {
    const size_t at = LowerBound(number);
    if (!IsAt(at, number) || entries_[at].value == nullptr) return nullptr;
    return &entries_[at].value;
  }

  // The value that is gone; null if there was none.
  T Take(uint64_t number) {
    const size_t at = LowerBound(number);
    if (!IsAt(at, number)) return nullptr;
    T value = std::exchange(entries_[at].value, nullptr);
    // As many are dropped as are moved.
    if (++num_null_ > entries_.size() / 2 + kFewNull) DropNull();
    return value;
  }

  // All of them, in ascending order.
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

  // Index of the first entry with that number or a higher one.
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

  std::vector<Entry> entries_;  // In ascending order.
  size_t num_null_ = 0;         // At most so many are null.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_NUMBER_MAP_H_
