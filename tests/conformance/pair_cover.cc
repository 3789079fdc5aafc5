#include "tests/conformance/pair_cover.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace tutti::conformance {
namespace {

constexpr int kOpen = -1;  // A choice of a row that is not made yet.

// Pairs of choices that are in no row yet.
class OpenPairs {
 public:
  explicit OpenPairs(const std::vector<int>& sizes) : sizes_(sizes) {
    for (const int size : sizes) {
      begin_.push_back(num_choices_);
      num_choices_ += size;
    }
    is_open_.assign(num_choices_ * num_choices_, true);
    num_rows_.assign(num_choices_, 0);
  }

  // Row with the first open pair alone; nullopt if no pair is open.
  std::optional<std::vector<int>> BeginRow() const {
    for (size_t a = 0; a < sizes_.size(); ++a) {
      for (size_t b = a + 1; b < sizes_.size(); ++b) {
        for (int i = 0; i < sizes_[a]; ++i) {
          for (int j = 0; j < sizes_[b]; ++j) {
            if (!is_open_[Index(a, i, b, j)]) continue;
            std::vector<int> row(sizes_.size(), kOpen);
            row[a] = i;
            row[b] = j;
            return row;
          }
        }
      }
    }
    return std::nullopt;
  }

  // The choice with most open pairs. Among equals the choice in fewest rows
  // wins.
  int BestChoice(const std::vector<int>& row, size_t dimension) const {
    int best = 0;
    std::pair<int, int> best_score = {-1, 0};
    for (int i = 0; i < sizes_[dimension]; ++i) {
      const std::pair<int, int> score = {NumOpen(row, dimension, i),
                                         -num_rows_[begin_[dimension] + i]};
      if (score > best_score) {
        best = i;
        best_score = score;
      }
    }
    return best;
  }

  void Close(const std::vector<int>& row) {
    for (size_t a = 0; a < row.size(); ++a) {
      ++num_rows_[begin_[a] + row[a]];
      for (size_t b = a + 1; b < row.size(); ++b) {
        is_open_[Index(a, row[a], b, row[b])] = false;
      }
    }
  }

 private:
  // REQUIRES: a < b.
  size_t Index(size_t a, int i, size_t b, int j) const {
    return (begin_[a] + i) * num_choices_ + begin_[b] + j;
  }

  int NumOpen(const std::vector<int>& row, size_t dimension, int choice) const {
    int num_open = 0;
    for (size_t other = 0; other < row.size(); ++other) {
      if (row[other] == kOpen) continue;
      num_open += other < dimension
                      ? is_open_[Index(other, row[other], dimension, choice)]
                      : is_open_[Index(dimension, choice, other, row[other])];
    }
    return num_open;
  }

  const std::vector<int> sizes_;
  std::vector<size_t>
      begin_;  // By dimension: its first choice among all choices.
  size_t num_choices_ = 0;
  std::vector<bool> is_open_;
  std::vector<int> num_rows_;  // By choice.
};

}  // namespace

std::vector<std::vector<int>> PairCover(const std::vector<int>& sizes) {
  // A last dimension with one choice makes each choice a part of a pair.
  std::vector<int> all_sizes = sizes;
  all_sizes.push_back(1);
  OpenPairs open(all_sizes);
  std::vector<std::vector<int>> rows;
  while (auto row = open.BeginRow()) {
    for (size_t dimension = 0; dimension < row->size(); ++dimension) {
      if ((*row)[dimension] != kOpen) continue;
      (*row)[dimension] = open.BestChoice(*row, dimension);
    }
    open.Close(*row);
    row->pop_back();
    rows.push_back(*std::move(row));
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<std::vector<int>> AllRows(const std::vector<int>& sizes) {
  std::vector<std::vector<int>> rows = {{}};
  for (const int size : sizes) {
    std::vector<std::vector<int>> longer_rows;
    for (const auto& row : rows) {
      for (int choice = 0; choice < size; ++choice) {
        longer_rows.push_back(row);
        longer_rows.back().push_back(choice);
      }
    }
    rows = std::move(longer_rows);
  }
  return rows;
}

}  // namespace tutti::conformance
